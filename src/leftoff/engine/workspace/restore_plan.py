"""What going back to a version means for the files: which are restored, deleted or kept, and why.

A plan compares what the version says of each path, what the newest version says, and what is there. Making a plan
touches nothing. The paths of records are checked here, before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from leftoff.engine.read.find import Target
from leftoff.engine.read.state import Reader, met
from leftoff.engine.redaction.redactor import Redactor
from leftoff.engine.steps.artifacts import WITHHELD
from leftoff.engine.workspace.file_state import (
    ABSENT,
    FILE,
    FOLDER,
    LINK,
    NOTHING_THERE,
    OTHER,
    FileContent,
    hashed,
    is_cut_off,
    link_to,
    present,
    recorded,
    written_at,
)
from leftoff.engine.workspace.file_versions import (
    MOST_BYTES,
    blob_hash,
    complete_at,
    copy_of,
    decoded,
    manifest,
    present_text,
    recorded_text,
    unified,
)
from leftoff.engine.workspace.git import DIRTY, repository
from leftoff.engine.workspace.paths import check_path, is_behind_link, refuse_store
from leftoff.engine.workspace.tracking import BEFORE, BY_GIT, changed_by_others, own_files
from leftoff.errors import NoCheckpoint, NotFound
from leftoff.model.versions import counts_of
from leftoff.model.words import ROLLBACK_BEGIN
from leftoff.store.base import Store, View

RESTORE, DELETE, KEEP = "restore", "delete", "keep"
_SLACK_MS = 20  # the clock that stamps files is late by up to a tick

Paths = Collection[str] | None


@dataclass
class PlanEntry:
    """One path: what is done with it and why, what is there, what shall be there, and where that comes from."""

    path: str
    action: str
    why: str
    want: FileContent = NOTHING_THERE
    now: FileContent = NOTHING_THERE
    commit: str = ""  # of git, that has the content; empty: a blob has it
    changed: bool = False  # what is there was never recorded
    lost: bool = False  # it should be as it was, and cannot be

    def kept(self, why: str, *, lost: bool = True) -> PlanEntry:
        self.action, self.why, self.lost = KEEP, why, lost
        return self

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "why": self.why, "changed": self.changed}


class Manifests:
    """What the records of two versions say of files: of the one to go back to (``then``), and of the ``newest``.

    ``only``: the copies of these files are looked up, and no others. ``outputs``: for these files the records of their
    steps count, also if a later record says that they were changed or deleted.
    """

    def __init__(self, store: Store, view: View, target: Target, only: Paths, outputs: Paths) -> None:
        run, run_id = target.row.run, target.row.run_id
        old, new = Reader(store, view, run, run_id, target.seq), Reader(store, view, run, run_id)
        version, newest = view.version(run, target.seq), view.run_row(run)
        assert version is not None and newest is not None
        self.store, self.run, self.run_id, self.seq, self.at = store, run, run_id, target.seq, version.at
        self.then, outside = manifest(old)
        for path, about in manifest(old, "artifact")[0].items() if outputs else ():
            if path in (outputs or ()):
                self.then[path] = about
        self.newest, more = manifest(new)
        self.outside = sorted({*outside, *more})
        self.first = {  # files as they were before the run first changed them, if a hook stored that
            check_path(key[len(BEFORE) :], f"context/{key}"): about
            for key, about in new.plain("context").items()
            if key.startswith(BEFORE) and isinstance(about, dict)
        }
        turns = [turn for turn in new.plain("turn").values() if isinstance(turn, dict)]
        claimed = {path for turn in turns for path in turn.get("files") or ()}
        self.unclaimed = {path for turn in turns for path in turn.get("unclaimed") or ()} - claimed
        artifacts = [about for about in new.plain("artifact").values() if isinstance(about, dict)]
        self.outputs = {about.get("path") for about in artifacts}
        known = [*self.then.items(), *self.newest.items()]
        self.withheld = {path for path, about in known if about.get(WITHHELD) is True}
        dirty = old.plain("context").get(DIRTY)
        self.dirty = {one for one in dirty if isinstance(one, str)} if isinstance(dirty, list) else set()
        self.commit = complete_at(view, old, run, target.seq)
        self.complete_now = complete_at(view, new, run, newest.seq) is not None
        self.blobs = {  # hashes of the content that the store has
            about.get("hash")
            for path, about in (*self.then.items(), *self.first.items())
            if (only is None or path in only) and view.blob(blob_hash(about.get("hash"))) is not None
        }


@dataclass
class RestorePlan:
    """The entries of one rollback or restore, by path; paths that need nothing are not among them."""

    entries: list[PlanEntry]
    sides: Manifests
    head: str | None  # git's; None outside of a repository
    whole: bool  # all files of the version, not some that were named

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
        then = self.sides.commit
        if not self.whole or (then is not None and then == self.head):
            return ""
        if self.head is None:
            return "outside of git only tracked files are known: what else a command changed stays as it is."
        if then is None:
            return "that version did not look at git: what was not tracked then stays as it is."
        return f"git was at {then[:12] or 'no commit'} then: what was only changed by commits since is left to it."

    def to_json(self) -> dict[str, Any]:
        return {action: [entry.to_json() for entry in self.of(action)] for action in (RESTORE, DELETE, KEEP)}

    def difference(self, project: str, entry: PlanEntry, redactor: Redactor) -> str:
        """Return what the user changed in a file that would be overwritten or deleted, as a diff: since it was last
        recorded, else against what would be restored."""
        about, want, old = self.sides.newest.get(entry.path), entry.want, None
        what = "as recorded" if about is not None else "as it would be restored"
        if about is None and want.kind == ABSENT:
            old = ""
        elif about is None and entry.commit and want.kind == FILE:
            repo = repository(project) if want.size <= MOST_BYTES else None
            base = repo.bases(entry.commit, [entry.path]).get(entry.path) if repo is not None else None
            old = decoded(repo.content(entry.commit, base)) if repo is not None and base is not None else None
        else:
            old = recorded_text(self.sides.store, about if about is not None else want.to_json())
        new = present_text(project, entry.path, present(project, entry.path))
        if old is None or new is None or redactor.secret_file(entry.path):
            why = "it is no text, too long, secret, or was not kept"
            return f"{entry.path} has changed; it cannot be shown: {why}."
        return redactor.mask(unified(old, new, f"{entry.path} ({what})", f"{entry.path} (now)"))


def make_restore_plan(
    store: Store,
    project: str,
    target: Target,
    redactor: Redactor,
    *,
    only: Paths = None,
    outputs: Paths = None,
) -> RestorePlan:
    """Return what bringing the files back to a version would do. ``only``: these paths, whatever else differs."""
    sides = store.read(lambda view: Manifests(store, view, target, only, outputs))
    plan = _Planner(store, project, redactor, sides).plan(only)
    refuse_store(project, store.folder, (entry.path for entry in plan.touched))
    return plan


class _Planner:
    def __init__(self, store: Store, project: str, redactor: Redactor, sides: Manifests) -> None:
        self.store = store
        self.project = project
        self.redactor = redactor
        self.sides = sides
        self.repo = repository(project)
        self.head = (self.repo.head or "") if self.repo is not None else ""

    def plan(self, only: Paths) -> RestorePlan:
        sides = self.sides
        paths = {*sides.then, *sides.newest} if only is None else set(only)
        if only is None:
            if sides.commit is not None and self.repo is not None:
                paths.update(one.path for one in self.repo.dirty())
            paths -= own_files(self.store)  # they follow the records by themselves
        wants = self._wants(paths, explicit=only is not None)
        entries: list[PlanEntry] = []
        gone: set[str] = set()  # files and links that will be deleted
        for path in sorted(paths):  # a folder comes before what is in it
            entry = self._entry(path, wants[path], gone)
            if entry is not None:
                entries.append(entry)
                if entry.action == DELETE:
                    gone.add(path)
        if only is None:
            entries += [PlanEntry(path, KEEP, "it is outside the project") for path in sides.outside]
            self._leave_others(entries)
        _settle_folders(self.project, entries)
        self._mark_changed(entries)
        return RestorePlan(
            entries, sides, head=self.head if self.repo is not None else None, whole=only is None
        )

    # -- what shall be there

    def _wants(self, paths: set[str], *, explicit: bool) -> dict[str, PlanEntry | None]:
        """Return for each path what the version wants there; ``None``: it does not say."""
        sides = self.sides
        out: dict[str, PlanEntry | None] = {}
        unsaid = {path for path in paths if path not in sides.then}
        bases = self._based(sides.commit, unsaid)
        ignored: set[str] = set()
        if self.repo is not None and bases is not None:  # git refuses paths behind a link
            asked = [path for path in unsaid - bases.keys() if not is_behind_link(self.project, path)]
            ignored = self.repo.ignored(asked)
        for path in paths:
            if path in sides.then:
                out[path] = PlanEntry(path, RESTORE, "as it was then", recorded(sides.then[path]))
            elif bases is not None and path in bases:
                entry, first = bases[path], recorded(sides.first.get(path) or {})
                # A record with the same content also has the permissions.
                if entry.want.kind == FILE == first.kind and first.hash == entry.want.hash in sides.blobs:
                    entry.want, entry.commit = first, ""
                out[path] = entry
            elif bases is not None and path not in ignored:
                # git had nothing there. An older file was ignored then.
                older = 0 < written_at(self.project, path) < sides.at - _SLACK_MS
                out[path] = None if older else PlanEntry(path, DELETE, "it did not exist then")
            elif path in sides.first:
                why = "as it was before its first change"
                out[path] = PlanEntry(path, RESTORE, why, recorded(sides.first[path]))
            elif explicit:
                where = f"{sides.run_id}@{sides.seq}"
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
            want = FileContent(FILE, f"sha256:{digest.hex()}", size, 0o755 if base.executable else None)
            want = link_to(os.fsdecode(content)) if base.link else want
            out[path] = PlanEntry(path, RESTORE, f"as in commit {commit[:12]}", want, commit=commit)
        return out

    def _is_new(self, path: str) -> bool:
        """Return whether a path that only the newest version knows was made since; in doubt it was not."""
        sides, status = self.sides, self.sides.newest[path].get("status")
        made = status == "created"
        if status is None and path in sides.outputs:
            in_git = self.repo is not None and self.head and self.repo.bases(self.head, [path])
            made = not in_git
        was_dirty = any(path == one or (one.endswith("/") and path.startswith(one)) for one in sides.dirty)
        return made and not was_dirty and written_at(self.project, path) >= sides.at - _SLACK_MS

    # -- against what is there

    def _entry(self, path: str, entry: PlanEntry | None, gone: set[str]) -> PlanEntry | None:
        wanted = entry is not None and entry.want.kind != ABSENT
        now = self._present(path, wanted, gone)
        if entry is None:
            return PlanEntry(path, KEEP, "it was not tracked then", now, now) if now.kind != ABSENT else None
        entry.now = now
        if entry.commit and entry.want.kind == FILE == now.kind and now.mode is not None:
            # git knows only whether a file is executable: the other permissions stay as they are.
            if entry.want.mode is not None and now.mode & 0o100:
                entry.want = entry.want._replace(mode=None)
            elif entry.want.mode is None and now.mode & 0o100:
                entry.want = entry.want._replace(mode=now.mode & ~0o111)
        want = entry.want
        if now.same(want):
            return None
        if self.redactor.secret_file(path) or path in self.sides.withheld:
            return entry.kept("it may hold secrets, which are never copied")
        if now.kind == OTHER or (now.kind == FOLDER and want.kind == ABSENT):
            return entry.kept("there is no file in its place, but something else")
        if want.kind == ABSENT:
            entry.action = DELETE
        elif want.kind == FILE and not entry.commit and want.hash not in {*self.sides.blobs, now.hash}:
            copy_of(
                self.store, self.sides.then.get(path) or self.sides.first.get(path) or {}
            )  # or it is lost
            return entry.kept("its content was not kept")
        return entry

    def _present(self, path: str, wanted: bool, gone: set[str]) -> FileContent:
        """Return what is there; nothing, if a file or a link above it is deleted first or need not be followed."""
        sides = self.sides
        if not wanted and is_cut_off(self.project, path, {*sides.then, *sides.newest}):
            return NOTHING_THERE
        above = path
        while above := above.rpartition("/")[0]:
            if above in gone:
                return NOTHING_THERE
        return present(self.project, path, sides.newest.get(path) or sides.then.get(path))

    def _leave_others(self, entries: list[PlanEntry]) -> None:
        """Keep files that another run changed since, or may have, and that this run knows only from git."""
        newest = self.sides.newest
        doubtful = [e for e in entries if e.action != KEEP and newest.get(e.path, BY_GIT).get("by") == "git"]
        paths = [entry.path for entry in doubtful]
        others = self.store.read(lambda view: changed_by_others(view, self.sides.run, paths, self.sides.at))
        for entry in doubtful:
            if entry.path in others:
                entry.kept(f"run {others[entry.path]} changed it", lost=False)
            elif entry.path in self.sides.unclaimed:
                entry.kept("it changed while others were at work here", lost=False)

    def _mark_changed(self, entries: list[PlanEntry]) -> None:
        """Mark files that are not what was last recorded, and would be lost: the user must agree to that."""
        newest = self.sides.newest
        doubtful = [e for e in entries if e.action != KEEP and e.now.kind in (FILE, LINK)]
        unsaid = {entry.path for entry in doubtful if entry.path not in newest}
        clean = self.sides.complete_now or self.sides.commit is not None
        bases = (self._based(self.head, unsaid) if clean and self.head else None) or {}
        for entry in doubtful:
            about, base = newest.get(entry.path), bases.get(entry.path)
            if about is not None:
                entry.changed = not entry.now.same(recorded(about))
            else:
                entry.changed = base is None or base.want.hash != entry.now.hash


def _settle_folders(project: str, entries: list[PlanEntry]) -> None:
    """Keep a folder in the place of a file, and a file in the place of a folder, unless it is deleted anyway."""
    gone = {entry.path for entry in entries if entry.action == DELETE}
    for entry in entries:
        if entry.action != RESTORE:
            continue
        if entry.now.kind == FOLDER:
            left = [path for path in _below(project, entry.path) if path not in gone]
            if left:
                entry.kept(f"there is a folder in its place, with {left[0]}")
        parts = entry.path.split("/")
        for number in range(1, len(parts)):
            above = "/".join(parts[:number])
            full = os.path.join(project, above)
            if above in gone or not os.path.lexists(full):
                break  # from there on folders are made
            if not os.path.isdir(full):
                entry.kept(f"{above} is in the way, which is no folder")
                break


def _below(project: str, path: str) -> list[str]:
    """Return every file below a folder; an empty folder counts as one."""
    out = []
    for at, folders, names in os.walk(os.path.join(project, path)):
        inside = os.path.relpath(at, project)
        out += [os.path.join(inside, name) for name in names]
        out += [os.path.join(inside, name) for name in folders if os.path.islink(os.path.join(at, name))]
        if not folders and not names:
            out.append(inside)
    return out


def last_good(store: Store, target: Target) -> Target:
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
            hint=f"`leftoff log {row.run_id}` lists its checkpoints; choose one.",
        )
    return found
