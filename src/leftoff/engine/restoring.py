"""Bring files back to what they were at a version: with a rollback, or one by one.

A plan compares what the version says of each path, what the newest version says, and what is there. Making a plan
touches nothing. The order of the writes makes a restore safe:

1. The plan is made, and the user agrees to it.
2. Every new file is written near its place. An error up to here removes these files and changes nothing.
3. The present content of every file that will be touched becomes a version with the trigger `rollback_begin`. The
   record `run/restoring` in it names the target.
4. The new files are renamed to their places.
5. The records follow as a `rollback` version, which does not have `run/restoring`.

If the process is killed after step 3, that record is still there: the next verdict reports it with the command that
completes it (`find_half_restored`). The same command plans again, and does what is left. A file lock admits one process
at a time.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from leftoff.engine.commit import NO_GUARD, Guard, Seal, Terms, report
from leftoff.engine.continue_run import go_back
from leftoff.engine.file_state import (
    ABSENT,
    FILE,
    FOLDER,
    LINK,
    NOTHING_THERE,
    OTHER,
    FileState,
    hashed,
    link_to,
    present,
    recorded,
    written_at,
)
from leftoff.engine.file_versions import (
    as_text,
    blob_hash,
    complete_at,
    copy_of,
    manifest,
    present_diff,
    recorded_text,
)
from leftoff.engine.find import Target, need_run, need_unmoved, until_unmoved
from leftoff.engine.git import DIRTY, Repo, repository
from leftoff.engine.lease import refuse_driven
from leftoff.engine.project_files import (
    RESTORE_TEMP,
    ProjectFiles,
    check_path,
    is_behind_link,
    place,
    refuse_store,
    replace_at,
    write_new,
)
from leftoff.engine.redactor import Redactor
from leftoff.engine.run_reader import Reader, met, need_version
from leftoff.engine.tracking import (
    BEFORE,
    FileTracker,
    Found,
    Workspace,
    dirty_state,
    known_to,
    own_files,
)
from leftoff.errors import Conflict, Corrupt, NoCheckpoint, NotFound, StoreUnavailable, UnsafePath
from leftoff.files import lock_within, sync
from leftoff.model.changes import ChangeSet, Version, counts_of
from leftoff.model.codec import long_sha256 as sha256
from leftoff.model.ids import as_word
from leftoff.model.words import RESTORING, ROLLBACK_BEGIN
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import RunRow

RESTORE, DELETE, KEEP = "restore", "delete", "keep"
LOCK = "restore.lock"
_SLACK_MS = 20  # the clock that stamps files is late by up to a tick

Paths = Collection[str] | None


# -- the plan


@dataclass
class PlanEntry:
    """One path: what is done with it and why, what is there, what will be there, and where that comes from."""

    path: str
    action: str
    why: str
    want: FileState = NOTHING_THERE
    now: FileState = NOTHING_THERE
    commit: str = ""  # of git, that has the content; empty: a blob has it
    changed: bool = False  # what is there was never recorded
    lost: bool = False  # it should be as it was, and cannot be

    def kept(self, why: str) -> PlanEntry:
        self.action, self.why, self.lost = KEEP, why, True
        return self

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "why": self.why, "changed": self.changed}


class RestorePlan:
    """The entries of one rollback or restore, by path; paths that need nothing are not among them.

    ``only``: these paths, even if others differ. ``outputs``: for these files the records of their steps count, also if
    a later record says that they were changed or deleted.
    """

    def __init__(
        self,
        store: SqlStore,
        project: str,
        target: Target,
        redactor: Redactor,
        *,
        only: Paths = None,
        outputs: Paths = None,
    ) -> None:
        self.store, self.project, self.target, self.redactor = store, project, target, redactor
        self.only = only
        self.repo = repository(project)
        self.head = (self.repo.head or "") if self.repo is not None else None  # None outside of a repository
        store.read(lambda view: self._read(view, outputs or ()))
        self.entries = self._plan()
        refuse_store(project, store.folder, (entry.path for entry in self.touched))

    def of(self, action: str) -> list[PlanEntry]:
        return [entry for entry in self.entries if entry.action == action]

    @property
    def touched(self) -> list[PlanEntry]:
        return [entry for entry in self.entries if entry.action != KEEP]

    @property
    def changed(self) -> list[PlanEntry]:
        """Return what would be overwritten or deleted, and was changed since it was last recorded."""
        return [entry for entry in self.touched if entry.changed]

    @property
    def lost(self) -> list[PlanEntry]:
        """Return what should be as it was, and cannot be."""
        return [entry for entry in self.entries if entry.lost]

    @property
    def unseen(self) -> str:
        """Return a sentence about the files that the plan leaves out; empty if it has every file."""
        then = self.commit
        if self.only is not None or (then is not None and then == self.head):
            return ""
        if self.head is None:
            return "outside of git only tracked files are known: what else a command changed stays as it is."
        if then is None:
            return "that version did not look at git: what was not tracked then stays as it is."
        return f"git was at {then[:12] or 'no commit'} then: what was only changed by commits since is left to it."

    def to_json(self) -> dict[str, Any]:
        return {action: [entry.to_json() for entry in self.of(action)] for action in (RESTORE, DELETE, KEEP)}

    def difference(self, entry: PlanEntry) -> str:
        """Return what the user changed in a file that would be overwritten or deleted, as a diff: since it was last
        recorded, else against what would be restored."""
        path, want, about = entry.path, entry.want, self.newest.get(entry.path)
        what = "as recorded" if about is not None else "as it would be restored"
        if about is None and want.kind == ABSENT:
            old: str | None = ""
        elif about is None and entry.commit and want.kind == FILE:
            old = as_text(_committed(self.repo, entry))
        else:
            old = recorded_text(self.store, about or want.to_json())
        shown = None if self.redactor.secret_file(path) else present_diff(self.project, path, old, what)
        if shown is None:
            return (
                f"{path} has changed; it cannot be shown: it is no text, too long, secret, or was not kept."
            )
        return self.redactor.mask(shown)

    # -- what the records say

    def _read(self, view: View, outputs: Collection[str]) -> None:
        run, run_id, seq = self.target.row.run, self.target.row.run_id, self.target.seq
        old, new = Reader(self.store, view, run, run_id, seq), Reader(self.store, view, run, run_id)
        self.at = need_version(view, run, run_id, seq).at
        self.then, outside = manifest(old)
        self.then |= {path: about for path, about in manifest(old, "artifact")[0].items() if path in outputs}
        self.newest, more = manifest(new)
        self.outside = sorted({*outside, *more})
        self.first = {  # files as they were before the run first changed them, if a hook stored that
            check_path(key[len(BEFORE) :], f"context/{key}"): about
            for key, about in new.plain("context").items()
            if key.startswith(BEFORE) and isinstance(about, dict)
        }
        self.made = {about.get("path") for about in new.plain("artifact").values() if isinstance(about, dict)}
        dirty = old.plain("context").get(DIRTY)
        self.dirty = dirty if isinstance(dirty, list) else []
        self.commit = complete_at(old, seq)
        self.blobs = {  # hashes of the content that the store has
            about.get("hash")
            for path, about in (*self.then.items(), *self.first.items())
            if (self.only is None or path in self.only)
            and view.blob(blob_hash(about.get("hash"))) is not None
        }

    # -- what is done about each path

    def _plan(self) -> list[PlanEntry]:
        paths = {*self.then, *self.newest} if self.only is None else set(self.only)
        if self.only is None:
            if self.commit is not None and self.repo is not None:
                paths.update(one.path for one in self.repo.dirty())
            paths -= own_files(self.store)  # they follow the records by themselves
        wants, entries = self._wants(paths), []
        gone: set[str] = set()  # files and links that will be deleted
        for path in sorted(paths):  # a folder comes before what is in it
            entry = self._entry(path, wants[path], gone)
            if entry is not None:
                entries.append(entry)
            if entry is not None and entry.action == DELETE:
                gone.add(path)
        if self.only is None:
            entries += [PlanEntry(path, KEEP, "it is outside the project") for path in self.outside]
        # A folder in the place of a file stays, and a file in the place of a folder, unless it is deleted anyway.
        for entry in [entry for entry in entries if entry.action == RESTORE]:
            obstacle = _obstacle(self.project, entry.path)
            if obstacle and obstacle not in gone:
                entry.kept(f"{obstacle} is in the way, which is no folder")
            elif entry.now.kind == FOLDER:
                left = [path for path in _below(self.project, entry.path) if path not in gone]
                if left:
                    entry.kept(f"there is a folder in its place, with {left[0]}")
        # The user must agree to lose what is not as it was last recorded.
        doubtful = [e for e in entries if e.action != KEEP and e.now.kind in (FILE, LINK)]
        unsaid = {entry.path for entry in doubtful if entry.path not in self.newest}
        bases = self._based(self.head, unsaid) or {}
        for entry in doubtful:
            about, base = self.newest.get(entry.path), bases.get(entry.path)
            if about is not None:
                entry.changed = not entry.now.same(recorded(about))
            else:
                entry.changed = base is None or base.want.hash != entry.now.hash
        return entries

    def _wants(self, paths: set[str]) -> dict[str, PlanEntry | None]:
        """Return for each path what the version wants there; ``None``: it does not say."""
        out: dict[str, PlanEntry | None] = {}
        unsaid = {path for path in paths if path not in self.then}
        bases = self._based(self.commit, unsaid)
        ignored: set[str] = set()
        if self.repo is not None and bases is not None:  # git refuses paths that lead through a link
            asked = [path for path in unsaid - bases.keys() if not is_behind_link(self.project, path)]
            ignored = self.repo.ignored(asked)
        for path in paths:
            if path in self.then:
                out[path] = PlanEntry(path, RESTORE, "as it was then", recorded(self.then[path]))
            elif bases is not None and path in bases:
                entry, first = bases[path], recorded(self.first.get(path) or {})
                # A record with the same content also has the permissions.
                if entry.want.kind == FILE == first.kind and first.hash == entry.want.hash in self.blobs:
                    entry.want, entry.commit = first, ""
                out[path] = entry
            elif bases is not None and path not in ignored:
                # git had nothing there. An older file was ignored then.
                older = 0 < written_at(self.project, path) < self.at - _SLACK_MS
                out[path] = None if older else PlanEntry(path, DELETE, "it did not exist then")
            elif path in self.first:
                why = "as it was before its first change"
                out[path] = PlanEntry(path, RESTORE, why, recorded(self.first[path]))
            elif self.only is not None:
                where = f"{self.target.row.run_id}@{self.target.seq}"
                hint = f"`leftoff show {where} --files` lists its files."
                raise NotFound(f"{where} has no file {path}.", hint=hint)
            else:
                out[path] = PlanEntry(path, DELETE, "it was created since") if self._is_new(path) else None
        return out

    def _based(self, commit: str | None, paths: set[str]) -> dict[str, PlanEntry] | None:
        """Return files that were not dirty as a commit has them; ``None`` if git does not know it any more."""
        if self.repo is None or commit is None or (commit and not self.repo.has(commit)):
            return None
        out = {}
        for path, base in (self.repo.bases(commit, paths) if commit and paths else {}).items():
            content = self.repo.content(commit, base)
            digest, size = hashed([content])
            want = FileState(FILE, f"sha256:{digest.hex()}", size, 0o755 if base.executable else None)
            want = link_to(os.fsdecode(content)) if base.link else want
            out[path] = PlanEntry(path, RESTORE, f"as in commit {commit[:12]}", want, commit=commit)
        return out

    def _is_new(self, path: str) -> bool:
        """Return whether a path that only the newest version knows was made since; in doubt it was not."""
        status = self.newest[path].get("status")
        made = status == "created"
        if status is None and path in self.made:
            made = not (self.repo is not None and self.head and self.repo.bases(self.head, [path]))
        return made and path not in self.dirty and written_at(self.project, path) >= self.at - _SLACK_MS

    def _entry(self, path: str, entry: PlanEntry | None, gone: set[str]) -> PlanEntry | None:
        """Compare what is wanted with what is there; ``None`` if nothing is to be done."""
        wanted = entry is not None and entry.want.kind != ABSENT
        # Nothing of leftoff is below a file or a link that is deleted first, or below one that has a folder's place.
        obstacle = _obstacle(self.project, path)
        if obstacle in gone or (not wanted and obstacle in {*self.then, *self.newest}):
            now = NOTHING_THERE
        else:
            now = present(self.project, path, self.newest.get(path) or self.then.get(path))
        if entry is None:
            return PlanEntry(path, KEEP, "it was not tracked then", now, now) if now.kind != ABSENT else None
        entry.now, want = now, entry.want
        if entry.commit and want.kind == FILE == now.kind and now.mode is not None:
            # git knows only whether a file is executable: the other permissions stay as they are.
            if want.mode is not None and now.mode & 0o100:
                want = want._replace(mode=None)
            elif want.mode is None and now.mode & 0o100:
                want = want._replace(mode=now.mode & ~0o111)
            entry.want = want
        if now.same(want):
            return None
        if self.redactor.secret_file(path):
            return entry.kept("it may hold secrets, which are never copied")
        if now.kind == OTHER or (now.kind == FOLDER and want.kind == ABSENT):
            return entry.kept("there is no file in its place, but something else")
        if want.kind == ABSENT:
            entry.action = DELETE
        elif want.kind == FILE and not entry.commit and want.hash not in {*self.blobs, now.hash}:
            copy_of(self.store, self.then.get(path) or self.first.get(path) or {})  # raises if it is lost
            return entry.kept("its content was not kept")
        return entry


def _obstacle(project: str, path: str) -> str:
    """Return the first part of the way to a path that is there and is not a folder; empty if there is none."""
    for at in (number for number, char in enumerate(path) if char == "/"):
        try:
            mode = os.lstat(os.path.join(project, path[:at])).st_mode
        except OSError:
            return ""
        if not stat.S_ISDIR(mode):
            return path[:at]
    return ""


def _below(project: str, path: str) -> list[str]:
    """Return every file below a folder; an empty folder counts as one."""
    out = []
    for at, folders, names in os.walk(os.path.join(project, path)):
        inside = os.path.relpath(at, project)
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        out += [os.path.join(inside, name) for name in (*names, *links)]
        if not folders and not names:
            out.append(inside)
    return out


def _committed(repo: Repo | None, entry: PlanEntry) -> bytes:
    """Return the content of a file that git has."""
    base = repo.bases(entry.commit, [entry.path]).get(entry.path) if repo is not None else None
    if repo is None or base is None:
        raise Corrupt(f"Commit {entry.commit} has no {entry.path} any more.", where=entry.path)
    return repo.content(entry.commit, base)


def last_good(store: SqlStore, target: Target) -> Target:
    """Return the newest checkpoint, up to the target, without a failed step or an unmet criterion."""
    row = target.row

    def find(view: View) -> Target | None:
        before = None if target.version is None else target.version.seq + 1
        for version in view.versions(row.run, sealed=True, before=before):
            if version.trigger != ROLLBACK_BEGIN and counts_of(version.counts)["failed"] == 0:
                criteria = Reader(store, view, row.run, row.run_id, version.seq).plain("criterion")
                if all(met(about) is True for about in criteria.values()):
                    return Target(row, version)
        return None

    found = store.read(find)
    if found is None:
        raise NoCheckpoint(
            f"Run {row.run_id} has no checkpoint without a failed step or an unmet criterion.",
            hint=f"`leftoff history {row.run_id}` lists its checkpoints; choose one.",
        )
    return found


# -- carrying it out

Agree = Callable[[RestorePlan], bool]


@dataclass
class RestoreOutcome:
    """What was done. ``completed``: it had been interrupted before. ``saved``: the version that has the files as they
    were before. ``done``: False if the user did not agree."""

    plan: RestorePlan
    completed: bool = False
    saved: int | None = None
    done: bool = True

    def to_json(self) -> dict[str, Any]:
        return {**self.plan.to_json(), "completed": self.completed}


@dataclass
class Restorer:
    """Restores the files of one run in one project, to one version. No other process may drive the run, unless
    ``session`` or ``guard`` say that it is ours."""

    store: SqlStore
    project: str
    redactor: Redactor
    now: Callable[[], int]
    target: Target
    session: str | None = None
    guard: Guard = NO_GUARD
    outputs: frozenset[str] = frozenset()  # files that are restored as their steps recorded them
    version: Version | None = None  # the checkpoint that a rollback made
    saved: int | None = None  # the version that this call made first

    def rollback(self, agree: Agree) -> RestoreOutcome:
        """Make the records and the files what they were at the version."""
        return until_unmoved(lambda: self._restore(None, agree))

    def restore(self, paths: list[str], agree: Agree) -> RestoreOutcome:
        """Make some files what they were at the version; no other record changes."""
        return until_unmoved(lambda: self._restore(paths, agree))

    def plan(self, paths: list[str] | None) -> RestorePlan:
        """Return what differs from the version, and what is done about each file."""
        return RestorePlan(
            self.store, self.project, self.target, self.redactor, only=paths, outputs=self.outputs
        )

    def back(self, row: RunRow | None = None) -> None:
        """Make the records what they were at the version, as a new checkpoint. ``row``: the run as it must still be."""
        self.version = go_back(
            self.store, self.target, self.now(), session=self.session, guard=self.guard, decided=row
        )

    def _restore(self, paths: list[str] | None, agree: Agree) -> RestoreOutcome:
        """If another process commits to the run meanwhile, this raises ``Moved`` and is called again: what the user
        agreed to was about another state. Files that are in their place need nothing more."""
        with _restore_lock(self.store):
            row = self.store.read(self._free)
            own = {"run_id": row.run_id, "seq": self.target.seq, "paths": paths}
            begun = _restoring(row)
            completed = begun == own and self.saved is None
            if completed:  # remove what the interrupted call left: new files, and folders that it emptied
                known = known_to(self.store, row)
                discard_new_files(self.project, known)
                for path in known:
                    if not os.path.lexists(os.path.join(self.project, path)):
                        _remove_empty(self.project, path)
            plan = self.plan(paths)
            if not agree(plan):
                return RestoreOutcome(plan, completed, done=False)
            # Restoring single files does not close a rollback that was interrupted.
            mark = own if begun in (None, own) or paths is None else None
            if plan.touched:
                row = self._place(row, plan, mark)
            if paths is None:
                self.back(row)
            elif plan.touched or begun == own:
                tracker = self._tracker()
                touched = [entry.path for entry in plan.touched] or paths
                gone = [path for path in touched if present(self.project, path).kind == ABSENT]
                after = [tracker.deleted(path) if path in gone else tracker.capture(path) for path in touched]
                self._seal(row, Found(after, []), "rollback", mark)
            return RestoreOutcome(plan, completed, self.saved)

    def _place(self, row: RunRow, plan: RestorePlan, mark: dict[str, Any] | None) -> RunRow:
        """Write the new files, save the present, rename. Return the run as it is then."""
        found, todo = self._before(row, plan), plan.touched
        writer = _Writer(self.store, self.project, plan.repo)
        try:
            for entry in todo:
                writer.prepare(entry)
            row = self._seal(row, found, ROLLBACK_BEGIN, mark)
            self.saved = self.saved or row.seq
            try:
                put_in_place(writer, todo)
            except (Conflict, StoreUnavailable) as error:
                verb = "rollback" if plan.only is None else "restore"
                done = sum(present(self.project, entry.path).same(entry.want) for entry in todo)
                error.message += f" {done} of {len(todo)} files are in place; what was there before is saved."
                error.hint = f"Then the same `leftoff {verb}` completes it, and saves that file again."
                raise
        finally:
            discard_new_files(self.project, [entry.path for entry in todo])
        return row

    def _tracker(self, known: dict[str, Any] | None = None) -> FileTracker:
        """Return a tracker without limits: everything that is overwritten is saved."""
        return FileTracker(Workspace(self.store, self.project, self.redactor, None, self.now()), known)

    def _before(self, row: RunRow, plan: RestorePlan) -> Found:
        """Capture every file that will be touched, and in git every other dirty one."""
        known = known_to(self.store, row)
        tracker = self._tracker(known)
        is_whole = plan.repo is not None and plan.commit is not None
        found = dirty_state(tracker, plan.repo) if is_whole and plan.repo is not None else Found([], [])
        captured = {got.key: got for got in found.captured}
        for entry in plan.touched:
            path = entry.path
            about = captured[path].about if path in captured else known.get(path, {})
            if entry.now.kind in (ABSENT, FOLDER):
                captured[path] = tracker.deleted(path, by=about.get("by"))
                continue
            given = {name: about.get(name) for name in ("status", "by", "staged")}
            if given["status"] == "deleted":
                given["status"] = None
            captured[path] = got = tracker.capture(path, **given)
            if got.about["hash"] != entry.now.hash:
                raise Conflict(f"{path} was changed just now.", hint="Nothing was touched. Try again.")
        dropped = [path for path in found.dropped if path not in captured]
        return Found([*captured.values()], dropped, found.commit)

    def _free(self, view: View) -> RunRow:
        """Return the run; raise if another process drives it."""
        row = need_run(view, self.target.row.run, self.target.row.run_id)
        if self.guard.epoch is None:  # else it is ours, and the commit checks that
            refuse_driven(view, row.run, row.run_id, self.now(), self.session)
        return row

    def _seal(self, row: RunRow, found: Found, trigger: str, mark: dict[str, Any] | None) -> RunRow:
        """Make a checkpoint with these files. ``mark``: the record `run/restoring` that it begins or ends."""
        names = ", ".join(got.key for got in found.captured)
        note = f"restored from version {self.target.seq}: {names}"[:500]
        seal = Seal(trigger, note="before a rollback" if trigger == ROLLBACK_BEGIN else note)

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
            found.put(changes, row.seq + 1)
            if mark is not None and trigger == ROLLBACK_BEGIN:
                changes.put("run", RESTORING, mark)
            elif mark is not None and RESTORING in row.card:
                changes.delete("run", RESTORING)
            return seal

        def find(view: View) -> RunRow:
            need_unmoved(view, row)
            return self._free(view)

        return report(self.store, find, make, Terms(self.now(), self.guard, blobs=found.blobs)).left


# -- interrupted restores


@dataclass
class HalfRestored:
    """A rollback, or a restore of single files, that is not complete: interrupted, or ``busy`` in another process."""

    message: str
    command: str  # that completes it
    busy: bool


def find_half_restored(store: SqlStore, row: RunRow) -> HalfRestored | None:
    """Return what was begun with the files of a run and is not complete."""
    about = _restoring(row)
    if about is None:
        return None
    ref, paths = f"{row.run_id}@{about['seq']}", about["paths"]
    if paths is None:
        what, command = f"A rollback to {ref} with its files", f"leftoff rollback {ref} --files"
    else:
        what = f"Restoring files as {ref} has them"
        command = f"leftoff restore {ref} {' '.join(as_word(path) for path in paths)}"
    try:
        with _restore_lock(store):
            pass
    except Conflict:
        return HalfRestored(f"{what} is under way: not all files are in place yet.", command, busy=True)
    except OSError:  # a read-only disk
        pass
    told = f"{what} was cut short: some files are in place, others may not be."
    return HalfRestored(told, command, busy=False)


def _restoring(row: RunRow) -> dict[str, Any] | None:
    """Return the record of a restore of this run that is not complete. A fork has the record of its source."""
    about = row.card.get(RESTORING)
    if not isinstance(about, dict) or about.get("run_id") != row.run_id:
        return None
    seq, paths = about.get("seq"), about.get("paths")
    named = paths is None or (isinstance(paths, list) and all(isinstance(path, str) for path in paths))
    return {"run_id": row.run_id, "seq": seq, "paths": paths} if isinstance(seq, int) and named else None


@contextmanager
def _restore_lock(store: SqlStore) -> Iterator[None]:
    """Let one process at a time restore files; raise ``Conflict`` if another one does."""
    os.makedirs(store.folder, mode=0o700, exist_ok=True)
    fd = os.open(os.path.join(store.folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not lock_within(fd, fcntl.LOCK_EX, 0):
            raise Conflict("Somebody else is restoring files here.", hint="Wait for it, then try again.")
        yield
    finally:
        os.close(fd)


# -- files


class _Writer:
    """Writes new files near their places, and renames them."""

    def __init__(self, store: SqlStore, project: str, repo: Repo | None) -> None:
        self.store, self.project, self.repo = store, project, repo
        self._new: dict[str, str] = {}  # path -> the new file that is to be renamed to it

    def prepare(self, entry: PlanEntry) -> None:
        """Write the new file or link of a path, if it needs one, in the nearest folder above that is there."""
        want, now, path = entry.want, entry.now, entry.path
        only_mode = now.kind == want.kind == FILE and now.hash == want.hash and want.mode is not None
        if want.kind == ABSENT or only_mode:
            return
        above, at = path, None
        while at is None:
            with suppress(NotADirectoryError, UnsafePath):  # a file or a link makes room for a folder later
                at = place(self.project, above)
            if at is None:
                above = os.path.dirname(above)
        temp = _temp(path)
        with at:
            try:
                with suppress(FileNotFoundError):
                    os.unlink(temp, dir_fd=at.folder)
                if want.kind == LINK:
                    os.symlink(str(want.target), temp, dir_fd=at.folder)
                else:
                    blob = self.store.load_blob(blob_hash(want.hash)) if not entry.commit else ()
                    chunks = [_committed(self.repo, entry)] if entry.commit else blob
                    # git does not know all permissions; a new file without any gets those of the umask
                    mode = want.mode if want.mode is not None else now.mode
                    write_new(at, temp, _checked(path, want.hash, chunks), mode, new=0o666)
            except OSError as error:
                raise StoreUnavailable(
                    f"{path} cannot be restored: {error.strerror or error}.",
                    hint="Nothing was changed. Remove the cause, then give the same command again.",
                ) from None
        self._new[path] = os.path.join(os.path.dirname(above), temp)

    def put(self, entry: PlanEntry) -> None:
        """Make what is at a path what is wanted there, unless another process wrote to it since it was saved."""
        path, want = entry.path, entry.want
        try:
            now = present(self.project, path)
            if now.same(want):
                return
            if now.kind in (FILE, LINK) and not now.same(entry.now):
                raise Conflict(f"{path} was changed while files were restored.")
            at = place(self.project, path, make=True)
            assert at is not None
            with at:
                if want.kind == ABSENT:
                    os.unlink(at.name, dir_fd=at.folder)
                elif path in self._new:
                    new = place(self.project, self._new[path])
                    assert new is not None
                    with new:
                        os.rename(new.name, at.name, src_dir_fd=new.folder, dst_dir_fd=at.folder)
                else:
                    fd = os.open(at.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at.folder)
                    try:
                        os.fchmod(fd, want.mode or 0)
                        sync(fd)
                    finally:
                        os.close(fd)
                sync(at.folder)
            if want.kind == ABSENT:
                _remove_empty(self.project, path)
        except OSError as error:
            raise StoreUnavailable(f"{path} cannot be restored: {error.strerror or error}.") from None


def put_in_place(writer: _Writer, entries: list[PlanEntry]) -> None:
    """Delete, then rename, each file atomically. A folder whose last file is deleted makes room for a file."""
    for entry in sorted(entries, key=lambda entry: entry.want.kind != ABSENT):
        writer.put(entry)


def put_file_back(store: SqlStore, project: str, path: str, about: dict[str, Any]) -> None:
    """Write a missing file of a project as its record has it."""
    want = recorded(about)
    if want.kind == LINK:
        ProjectFiles(project).link(path, str(want.target))
        return
    with ProjectFiles(project).open(path) as at:
        replace_at(at, _checked(path, want.hash, store.load_blob(blob_hash(want.hash))), want.mode, new=0o666)


def _checked(path: str, hash: str | None, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Pass content on; raise ``Corrupt`` at its end if it is not what was recorded."""
    digest = sha256()
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
    if hash != f"sha256:{digest.hexdigest()}":
        raise Corrupt(f"The content for {path} is not what was recorded.", where=path)


def _temp(path: str) -> str:
    """Return the name of the new file of a path: always the same, so that the next call finds it after a kill."""
    return f"{RESTORE_TEMP}{sha256(path.encode()).hexdigest()[:16]}"


def discard_new_files(project: str, paths: Iterable[str]) -> None:
    """Remove new files that were not renamed."""
    for path in paths:
        above = path
        while above:
            with suppress(OSError, UnsafePath):
                at = place(project, above)
                if at is not None:
                    with at:
                        os.unlink(_temp(path), dir_fd=at.folder)
            above = os.path.dirname(above)


def _remove_empty(project: str, path: str) -> None:
    """Remove the folders that a deleted file was the last one in."""
    with suppress(OSError, UnsafePath):  # something else is in there
        while path := os.path.dirname(path):
            at = place(project, path)
            if at is not None:
                with at:
                    os.rmdir(at.name, dir_fd=at.folder)
                    sync(at.folder)
