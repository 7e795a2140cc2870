"""Bring files back to what they were at a version: with a rollback, or one by one.

The order makes it safe:

1. The plan is made, and the user agrees to it.
2. Every new file is written next to its place. An error up to here removes these files and changes nothing.
3. The present content of every file that will be touched becomes a version with the trigger `rollback_begin`. The
   record `run/restoring` in it names the target.
4. The new files are renamed to their places.
5. The records follow as a `rollback` version, which does not have `run/restoring`.

If the process is killed after step 3, that record is still there: the next verdict reports it with the command that
completes it (`half_restored`). The same command plans again, and does what is left. One process at a time: a file lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from leftoff.engine.read.find import Target
from leftoff.engine.read.state import Reader
from leftoff.engine.redaction.redactor import Redactor
from leftoff.engine.resume.continue_run import go_back
from leftoff.engine.workspace.file_state import (
    ABSENT,
    FILE,
    FOLDER,
    LINK,
    FileContent,
    is_cut_off,
    mode_of,
    present,
    present_at,
    recorded,
    shown_mode,
)
from leftoff.engine.workspace.file_versions import blob_hash
from leftoff.engine.workspace.git import Repo, repository
from leftoff.engine.workspace.paths import RESTORE_TEMP, Place, is_behind_link, place
from leftoff.engine.workspace.project_files import ProjectFiles, replace_at, write_new
from leftoff.engine.workspace.restore_plan import DELETE, PlanEntry, RestorePlan, make_restore_plan
from leftoff.engine.workspace.tracking import FileTracker, Found, dirty_state, files_of
from leftoff.engine.workspace.workspace import Workspace
from leftoff.engine.write.commit import NO_GUARD, Guard, Seal, Terms
from leftoff.engine.write.head import need_run
from leftoff.engine.write.lease import refuse_driven
from leftoff.engine.write.report import report_in
from leftoff.engine.write.unmoved import need_unmoved, until_unmoved
from leftoff.errors import Conflict, Corrupt, LeftoffError, StoreUnavailable, UnsafePath
from leftoff.files import sync
from leftoff.model.changes import ChangeSet
from leftoff.model.digest import long_sha256 as sha256
from leftoff.model.ids import as_word
from leftoff.model.versions import Version
from leftoff.model.words import RESTORING, ROLLBACK_BEGIN
from leftoff.store.base import Store, Tx, View
from leftoff.store.rows import RunRow

LOCK = "restore.lock"

Agree = Callable[[RestorePlan], bool]


@dataclass
class RestoreOutcome:
    """What was done. ``completed``: it had been interrupted before. ``saved``: the version that has the files as they
    were before. ``done``: False if the user did not agree."""

    seq: int
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

    store: Store
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
        return make_restore_plan(
            self.store, self.project, self.target, self.redactor, only=paths, outputs=self.outputs
        )

    def _restore(self, paths: list[str] | None, agree: Agree) -> RestoreOutcome:
        """If another process commits to the run meanwhile, this raises ``Moved`` and is called again: what the user
        agreed to was about another state. Files that are in their place by then need nothing more."""
        with restore_lock(self.store):
            row = self.store.read(self._free)
            own = {"run_id": row.run_id, "seq": self.target.seq, "paths": paths}
            begun = _restoring(row)
            completed = begun == own and self.saved is None
            if completed:
                self._tidy(row)
            plan = self.plan(paths)
            outcome = RestoreOutcome(self.target.seq, plan, completed)
            if not agree(plan):
                outcome.done = False
                return outcome
            # Restoring single files does not close a rollback that was interrupted.
            mark = own if begun in (None, own) or paths is None else None
            if plan.touched:
                row = self._place(row, plan, mark)
            if paths is None:
                self.back(row)
            elif plan.touched or begun == own:
                self._seal(row, self._after(plan, paths), "rollback", mark)
            outcome.saved = self.saved
            return outcome

    def _tidy(self, row: RunRow) -> None:
        """Remove what an interrupted call left: new files that it did not rename, and folders that it emptied."""
        known, writer = files_of(self.store, row), _Writer(self.store, self.project)
        writer.discard(known)
        for path, about in known.items():
            emptied = "folders" in about and not os.path.lexists(os.path.join(self.project, path))
            if emptied and not is_behind_link(self.project, path):
                with suppress(Interrupted):
                    writer.tidy(path)

    def _place(self, row: RunRow, plan: RestorePlan, mark: dict[str, Any] | None) -> RunRow:
        """Write the new files, save the present, rename. Return the run as it is then."""
        found, writer = self._before(row, plan), _Writer(self.store, self.project)
        try:
            for entry in plan.touched:
                writer.prepare(entry, _folders(plan, entry))
            row = self._seal(row, found, ROLLBACK_BEGIN, mark)
            self.saved = self.saved or row.seq
            try:
                put_in_place(writer, plan)
            except Interrupted as error:
                raise self._half_done(plan, error) from None
        finally:
            writer.discard(entry.path for entry in plan.touched)
        return row

    def _half_done(self, plan: RestorePlan, error: Interrupted) -> LeftoffError:
        """Say how far it came, which file could not be put in its place, and what to do."""
        todo, verb = plan.touched, "rollback" if plan.whole else "restore"
        done = sum(present(self.project, entry.path).same(entry.want) for entry in todo)
        told = f"{error.path} {error.why}. {done} of {len(todo)} files are in place; what was there before is saved."
        if error.changed:
            return Conflict(told, hint=f"The same `leftoff {verb}` saves that, too, and continues.")
        return StoreUnavailable(told, hint=f"Then the same `leftoff {verb}` completes it.")

    # -- what is recorded

    def _tracker(self, known: dict[str, Any] | None = None, withheld: Collection[str] = ()) -> FileTracker:
        """Return a tracker without limits: whatever is overwritten is saved."""
        workspace = Workspace(self.store, self.project, self.redactor, None, self.now())
        return FileTracker(workspace, known, withheld)

    def _before(self, row: RunRow, plan: RestorePlan) -> Found:
        """Capture every file that will be touched, and in git every other dirty one."""
        known = files_of(self.store, row)
        tracker = self._tracker(known, plan.sides.withheld)
        repo = repository(self.project) if plan.sides.commit is not None else None
        found = dirty_state(tracker, repo) if repo is not None else Found([], [])
        captured = {got.key: got for got in found.captured}
        for entry in plan.touched:
            path = entry.path
            about = captured[path].about if path in captured else known.get(path, {})
            given = {name: about.get(name) for name in ("status", "by", "staged")}
            if entry.now.kind in (ABSENT, FOLDER):
                captured[path] = tracker.deleted(path, by=given["by"])
                continue
            if given["status"] == "deleted":
                given["status"] = None
            if entry.action == DELETE:
                given["folders"] = _folder_modes(self.project, path)
            captured[path] = got = tracker.capture(path, **given)
            if got.about["hash"] != entry.now.hash:
                raise Conflict(f"{path} was changed just now.", hint="Nothing was touched. Try again.")
        return Found(
            [*captured.values()], [path for path in found.dropped if path not in captured], found.commit
        )

    def _after(self, plan: RestorePlan, paths: list[str]) -> Found:
        """Capture the files that were restored one by one."""
        tracker, captured = self._tracker(), []
        for path in [entry.path for entry in plan.touched] or paths:
            gone = present(self.project, path).kind == ABSENT
            captured.append(tracker.deleted(path) if gone else tracker.capture(path))
        return Found(captured, [])

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

        def work(tx: Tx) -> RunRow:
            need_unmoved(tx, row)
            terms = Terms(self.now(), self.guard, blobs=found.blobs)
            report_in(self.store, tx, self._free(tx), make, terms, ChangeSet())
            return need_run(tx, row.run, row.run_id)

        return self.store.write(work)

    def back(self, row: RunRow | None = None) -> None:
        """Make the records what they were at the version, as a new checkpoint. ``row``: the run as it must still be."""
        self.version = go_back(
            self.store, self.target, self.now(), session=self.session, guard=self.guard, decided=row
        )


# -- interrupted restores


@dataclass
class HalfRestored:
    """A rollback, or a restore of single files, that is not complete: it was interrupted, or is at work just now."""

    what: str
    command: str  # that completes it
    busy: bool

    def told(self) -> str:
        """Return it as a sentence."""
        if self.busy:
            return f"{self.what} is under way: not all files are in place yet."
        return f"{self.what} was cut short: some files are in place, others may not be."


def find_half_restored(store: Store, row: RunRow) -> HalfRestored | None:
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
    return HalfRestored(what, command, busy=_is_locked(store))


def _restoring(row: RunRow) -> dict[str, Any] | None:
    """Return the record of a restore of this run that is not complete. A fork has the record of its source."""
    about = row.card.get(RESTORING)
    if not isinstance(about, dict) or about.get("run_id") != row.run_id:
        return None
    seq, paths = about.get("seq"), about.get("paths")
    named = paths is None or (isinstance(paths, list) and all(isinstance(path, str) for path in paths))
    return {"run_id": row.run_id, "seq": seq, "paths": paths} if isinstance(seq, int) and named else None


def forget_restore(store: Store, project: str, row: RunRow) -> None:
    """Remove new files that were not renamed: the run continues with its files as they are."""
    known = store.read(lambda view: Reader(store, view, row.run, row.run_id).plain("file"))
    _Writer(store, project).discard(known)


@contextmanager
def restore_lock(store: Store) -> Iterator[None]:
    """Let one process at a time restore files; raise ``Conflict`` if another one does."""
    os.makedirs(store.folder, mode=0o700, exist_ok=True)
    fd = os.open(os.path.join(store.folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "Wait for it, then try again."
            raise Conflict("Somebody else is restoring files here.", hint=hint) from None
        yield
    finally:
        os.close(fd)


def _is_locked(store: Store) -> bool:
    try:
        fd = os.open(os.path.join(store.folder, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


# -- files


class Interrupted(Exception):
    """A file could not be put in its place, and why; or somebody ``changed`` it just now."""

    def __init__(self, path: str, why: str, *, changed: bool = False) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why
        self.changed = changed


def put_in_place(writer: _Writer, plan: RestorePlan) -> None:
    """Rename and delete, each file atomically. Files that are in their place already are left alone."""
    todo, project = plan.touched, writer.project
    coming = [entry for entry in todo if entry.want.kind != ABSENT]
    names = {entry.path for entry in coming}
    gone = [
        entry for entry in todo if entry.want.kind == ABSENT and not is_cut_off(project, entry.path, names)
    ]
    for entry in gone:
        writer.put(entry, [])
    for entry in coming:
        for other in gone:
            if other.path.startswith(entry.path + "/") and not is_cut_off(project, other.path, names):
                writer.tidy(other.path)  # a folder makes room for a file
        writer.put(entry, _folders(plan, entry))
    for entry in gone:
        if not is_cut_off(project, entry.path, names):
            writer.tidy(entry.path)


def put_file_back(store: Store, project: str, path: str, about: dict[str, Any]) -> None:
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


class _Writer:
    """Writes new files next to their places, and renames them. The temporary name of a path is always the same, so that
    a second try replaces what a killed process left."""

    def __init__(self, store: Store, project: str) -> None:
        self.store = store
        self.project = project
        self._repo: Repo | None = None
        self._ready: set[str] = set()  # paths whose new file is written
        self._made: list[str] = []  # folders that were made for these, from the top

    def prepare(self, entry: PlanEntry, folders: list[int]) -> None:
        """Write the new file of a path, if it needs one. If a file or a link must make room first, write it later."""
        want, now, path = entry.want, entry.now, entry.path
        if want.kind != FILE or ((now.kind, now.hash) == (FILE, want.hash) and want.mode is not None):
            return
        above = [path[:at] for at, char in enumerate(path) if char == "/"]
        self._made += [one for one in above if not os.path.lexists(os.path.join(self.project, one))]
        try:
            at = place(self.project, path, make=folders)
            assert at is not None
            with at:
                self._clean(at)
                self._write(at, entry, now)
        except (NotADirectoryError, UnsafePath):
            return
        except OSError as error:
            raise StoreUnavailable(
                f"{path} cannot be restored: {error.strerror or error}.",
                hint="Nothing was changed. Remove the cause, then give the same command again.",
            ) from None
        self._ready.add(path)

    def put(self, entry: PlanEntry, folders: list[int]) -> None:
        """Make what is at a path what is wanted there, unless somebody wrote to it since it was saved."""
        path, want = entry.path, entry.want
        try:
            now = present(self.project, path)
            if now.kind in (FILE, LINK) and not (now.same(entry.now) or now.same(want)):
                raise Interrupted(path, "was changed while files were restored", changed=True)
            if now.same(want):
                return
            at = place(self.project, path, make=folders)
            assert at is not None
            with at:
                now = present_at(at)
                if want.kind == ABSENT:
                    os.unlink(at.name, dir_fd=at.folder)
                elif (
                    now.kind == FILE
                    and (now.kind, now.hash) == (want.kind, want.hash)
                    and want.mode is not None
                ):
                    fd = os.open(at.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at.folder)
                    try:
                        os.fchmod(fd, want.mode)
                        sync(fd)
                    finally:
                        os.close(fd)
                else:
                    self._rename(at, entry, now)
                sync(at.folder)
        except OSError as error:
            raise Interrupted(path, f"cannot be restored: {error.strerror or error}") from None

    def _rename(self, at: Place, entry: PlanEntry, now: FileContent) -> None:
        temp = _temp(at.path)
        if at.path not in self._ready:
            self._clean(at)
            if entry.want.kind == LINK:
                os.symlink(str(entry.want.target), temp, dir_fd=at.folder)
            else:
                self._write(at, entry, now)
        os.rename(temp, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)

    def _write(self, at: Place, entry: PlanEntry, now: FileContent) -> None:
        want, path = entry.want, at.path
        chunks: Iterable[bytes]
        if entry.commit:
            self._repo = self._repo or repository(self.project)
            base = self._repo.bases(entry.commit, [path]).get(path) if self._repo is not None else None
            if self._repo is None or base is None:
                raise Corrupt(f"Commit {entry.commit} has no {path} any more.", where=path)
            chunks = [self._repo.content(entry.commit, base)]
        else:
            chunks = self.store.load_blob(blob_hash(want.hash))
        # git does not know all permissions; a new file without any gets those of the umask
        mode = want.mode if want.mode is not None else now.mode
        write_new(at, _temp(path), _checked(path, want.hash, chunks), mode, new=0o666)

    def tidy(self, path: str) -> None:
        """Remove the folders that a deleted file was the last one in."""
        given = path
        while path := path.rpartition("/")[0]:
            try:
                above = place(self.project, path)
                if above is not None:
                    with above:
                        os.rmdir(above.name, dir_fd=above.folder)
                        sync(above.folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    return
                why = f"has a folder that cannot be removed: {error.strerror or error}"
                raise Interrupted(given, why) from None

    def discard(self, paths: Iterable[str]) -> None:
        """Remove new files that were not renamed, and the folders that were made for them."""
        for path in paths:
            with suppress(OSError, UnsafePath):
                at = place(self.project, path)
                if at is not None:
                    with at:
                        self._clean(at)
        for path in reversed(self._made):
            with suppress(OSError):  # a file may be in it by now
                os.rmdir(os.path.join(self.project, path))
        self._ready, self._made = set(), []

    def _clean(self, at: Place) -> None:
        with suppress(FileNotFoundError):
            os.unlink(_temp(at.path), dir_fd=at.folder)


def _temp(path: str) -> str:
    return f"{RESTORE_TEMP}{sha256(path.encode()).hexdigest()[:16]}"


def _folder_modes(project: str, path: str) -> list[str]:
    """Return the permissions of the folders above a file, from the top: they may have to be made again."""
    parts = path.split("/")[:-1]
    return [shown_mode(os.stat(os.path.join(project, *parts[: n + 1])).st_mode) for n in range(len(parts))]


def _folders(plan: RestorePlan, entry: PlanEntry) -> list[int]:
    given = plan.sides.then.get(entry.path, {}).get("folders")
    return [mode_of(text) or 0o777 for text in given] if isinstance(given, list) else []
