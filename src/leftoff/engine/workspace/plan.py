"""What going back to a version means for the files: which are restored, which deleted, which kept, and why.

A plan is made from three things: what the version says of each path, what the newest version says, and what is there.
Making it touches nothing. Whatever a record says is checked here, before anything is written.
"""

from __future__ import annotations

import os

from leftoff.clock import by_time
from leftoff.engine.read.history import went_back_to
from leftoff.engine.read.state import Reader
from leftoff.engine.steps.artifacts import WITHHELD
from leftoff.engine.workspace.birth import born
from leftoff.engine.workspace.content import (
    ABSENT,
    FILE,
    FOLDER,
    LINK,
    NOTHING_THERE,
    OTHER,
    Content,
    cut_off,
    link_to,
    present,
    recorded,
)
from leftoff.engine.workspace.copies import Copies
from leftoff.engine.workspace.git import repository
from leftoff.engine.workspace.paths import check_path, refuse_store
from leftoff.engine.workspace.stat import hashed
from leftoff.engine.workspace.surroundings import DIRTY, own_files
from leftoff.engine.workspace.tracking import BEFORE, BY_GIT, MARK, changed_by_others
from leftoff.errors import NotFound
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.git import Repo
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View

    Paths = Collection[str] | None

RESTORE, DELETE, KEEP = "restore", "delete", "keep"
NOT_KEPT = "its content was not kept"
WHY_NOT_KEPT = "Files that hold secrets, and those over [capture] max_file, are only hashed."
_SLACK_MS = 20  # the clock that stamps files is late by up to a tick


class Entry(Fields):
    """One path: what is done with it and why; what is there, what shall be, and where that comes from."""

    path: str
    action: str
    why: str
    now: Content
    want: Content
    commit: str = ""  # of git, that has the content; empty: a blob has it
    changed: bool = False  # what is there was never recorded
    lost: bool = False  # it should be as it was, and cannot be

    def kept(self, why: str, *, lost: bool = True) -> Entry:
        self.action, self.why, self.lost = KEEP, why, lost
        return self

    def to_json(self) -> dict[str, Any]:
        """As faces show it."""
        return {"path": self.path, "why": self.why, "changed": self.changed}

    def __repr__(self) -> str:
        return f"<{self.action} {self.path}: {self.why}>"


class Plan(Fields):
    """The entries of one rollback or restore, by path; those that need nothing are not among them."""

    entries: list[Entry]
    sides: Sides
    head: str | None  # git's; None outside of a repository
    whole: bool  # all files of the version, not some that were named

    def of(self, action: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.action == action]

    @property
    def touched(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.action != KEEP]

    @property
    def changed(self) -> list[Entry]:
        """What would be overwritten or deleted, and was changed by somebody since it was last recorded."""
        return [entry for entry in self.touched if entry.changed]

    @property
    def unseen(self) -> str:
        """What the plan leaves out, as a sentence; empty where it has every file."""
        then = self.sides.commit
        if not self.whole or (then is not None and then == self.head):
            return ""
        if self.head is None:
            return "outside of git only tracked files are known: what else a command changed stays as it is."
        if then is None:
            return "that version did not look at git: what was not tracked then stays as it is."
        return f"git was at {then[:12] or 'no commit'} then: what was only changed by commits since is left to it."

    @property
    def lost(self) -> list[Entry]:
        """What should be as it was, and cannot be."""
        return [entry for entry in self.entries if entry.lost]

    def to_json(self) -> dict[str, Any]:
        return {action: [entry.to_json() for entry in self.of(action)] for action in (RESTORE, DELETE, KEEP)}


class Sides:
    """What the records of two versions say of files: of the one to go back to, and of the newest.

    ``only``: the copies of these files are looked for, and no others. ``outputs``: of these files, what their steps
    recorded counts, also if it was recorded since that they were changed or deleted.
    """

    def __init__(self, store: Store, view: View, target: Target, only: Paths, outputs: Paths) -> None:
        run, run_id = target.row.run, target.row.run_id
        old, new = Reader(store, view, run, run_id, target.seq), Reader(store, view, run, run_id)
        version = view.version(run, target.seq)
        assert version is not None
        self.run, self.run_id, self.seq, self.at = run, run_id, target.seq, version.at
        self.store = store
        self.then, self.outside = records(old)
        if outputs:
            self.then |= {
                path: about for path, about in records(old, "artifact")[0].items() if path in outputs
            }
        self.newest, outside = records(new)
        self.outside = sorted({*self.outside, *outside})
        self.paths = {*self.then, *self.newest}
        self.first = first_records(new)
        self.unclaimed = _unclaimed(new)
        self.outputs = {
            about.get("path") for about in new.plain("artifact").values() if isinstance(about, dict)
        }
        self.withheld = {
            path
            for side in (self.then, self.newest)
            for path, about in side.items()
            if about.get(WITHHELD) is True
        }
        dirty = old.plain("context").get(DIRTY)
        self.dirty = [one for one in dirty if isinstance(one, str)] if isinstance(dirty, list) else []
        self.commit = complete_at(view, old, run, target.seq)
        newest = view.run_row(run)
        self.complete_now = complete_at(view, new, run, newest.seq) if newest is not None else None
        self.blobs = {
            about["hash"]
            for copies, side in ((Copies(old), self.then), (Copies(new), self.first))
            for path, about in side.items()
            if (only is None or path in only) and copies.of(about) is not None
        }

    def was_dirty(self, path: str) -> bool:
        """Whether git named a file, or a folder above it, when the run last looked at what is not committed."""
        return any(path == one or (one.endswith("/") and path.startswith(one)) for one in self.dirty)

    def changed_by(self, view: View, paths: list[str]) -> dict[str, str]:
        """Other runs that were told of a change of these files since the version, by path."""
        return changed_by_others(view, self.run, paths, self.at)


def complete_at(view: View, reader: Reader, run: int, seq: int) -> str | None:
    """The commit of a version that has all that was dirty; empty before the first commit. ``None``: it has not.

    The mark says for which version it was made: a later one that did not look at git again has it, too, and means
    nothing by it. A rollback equals the version it went back to.
    """
    mark = reader.plain("context").get(MARK)
    if not isinstance(mark, dict) or mark.get("complete") is not True:
        return None
    while mark.get("seq") != seq:
        version = view.version(run, seq)
        before = back_to(view, run, version) if version is not None else None
        if before is None:
            return None
        seq = before
    head = mark.get("head")
    return head if isinstance(head, str) and head.isalnum() else ""


def back_to(view: View, run: int, version: Version) -> int | None:
    """The seq that a rollback went back to, as its note says."""
    if version.trigger != "rollback":
        return None
    versions = view.versions(run, sealed=True, before=version.seq)
    return went_back_to(version, {one.id: one.seq for one in versions})


def records(reader: Reader, *collections: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The newest record of each path, and the paths of artifacts that are outside the project.

    A path that cannot be one of this project's files makes the whole version unfit: ``Invalid``.
    """
    out: dict[str, dict[str, Any]] = {}
    outside: list[str] = []
    for collection in collections or ("artifact", "file"):
        for key, about in reader.plain(collection).items():
            if not isinstance(about, dict):
                continue
            path = about.get("path", key)
            if collection == "artifact" and isinstance(path, str) and os.path.isabs(path):
                outside.append(path)
                continue
            check_path(path, f"{collection}/{key}")
            before = out.get(path)
            if before is None or by_time(before.get("captured_at")) <= by_time(about.get("captured_at")):
                out[path] = about
    _drop_nested(out)
    return out, outside


def first_records(reader: Reader) -> dict[str, dict[str, Any]]:
    """The files as they were before the run first changed them, by path, where somebody told of it beforehand."""
    found = {
        check_path(key[len(BEFORE) :], f"context/{key}"): about
        for key, about in reader.plain("context").items()
        if key.startswith(BEFORE) and isinstance(about, dict)
    }
    return found


def _unclaimed(reader: Reader) -> set[str]:
    """Files that changed in turns of a run while others were at work, and that no turn of it has."""
    turns = [turn for turn in reader.plain("turn").values() if isinstance(turn, dict)]
    unclaimed, files = (
        {path for turn in turns for path in turn.get(name) or ()} for name in ("unclaimed", "files")
    )
    return unclaimed - files


def _drop_nested(found: dict[str, dict[str, Any]]) -> None:
    """No file is below another: where both were recorded, the newer one counts, and a link never leads anywhere."""
    there = [path for path, about in found.items() if recorded(about).kind != ABSENT]
    for path in sorted(there):
        above = path
        while path in found and (above := above.rpartition("/")[0]):
            if above in found and recorded(found[above]).kind != ABSENT:
                older = by_time(found[path].get("captured_at")) < by_time(found[above].get("captured_at"))
                del found[path if older else above]


class Planner:
    """Makes the plan, path by path."""

    def __init__(self, store: Store, project: str, redactor: Redactor, sides: Sides) -> None:
        self.store = store
        self.project = project
        self.redactor = redactor
        self.sides = sides
        self.making_way: set[str] = set()  # files and links that will be deleted
        self.repo: Repo | None = repository(project)
        self.head = (self.repo.head or "") if self.repo is not None else ""

    def plan(self, only: Paths = None) -> Plan:
        sides = self.sides
        if only is None:
            paths = {*sides.then, *sides.newest}
            if sides.commit is not None and self.repo is not None:
                paths.update(one.path for one in self.repo.dirty())
            paths -= own_files(self.store)  # they follow the records by themselves
        else:
            paths = set(only)
        wants = self._wants(paths, explicit=only is not None)
        entries = []
        for path in sorted(paths):  # a folder comes before what is in it
            entry = self._entry(path, wants[path])
            if entry is not None:
                entries.append(entry)
                if entry.action == DELETE and entry.now.kind in (FILE, LINK):
                    self.making_way.add(path)
        if only is None:
            entries += [_outside(path) for path in sides.outside]
            self._leave_others(entries)
        _settle_folders(self.project, entries)
        self._mark_changed(entries)
        return Plan(entries, sides, head=self.head if self.repo is not None else None, whole=only is None)

    def _leave_others(self, entries: list[Entry]) -> None:
        """What another run says it changed since, or may have, and this one knows only from git, is not this one's to
        undo."""
        newest = self.sides.newest
        doubtful = [e for e in entries if e.action != KEEP and newest.get(e.path, BY_GIT).get("by") == "git"]
        others = self.store.read(lambda view: self.sides.changed_by(view, [entry.path for entry in doubtful]))
        for entry in doubtful:
            if entry.path in others:
                entry.kept(f"run {others[entry.path]} changed it", lost=False)
            elif entry.path in self.sides.unclaimed:
                entry.kept("it changed while others were at work here", lost=False)

    # -- what shall be there

    def _wants(self, paths: set[str], *, explicit: bool) -> dict[str, Entry | None]:
        """For each path what the version wants there; ``None``: it does not say."""
        sides = self.sides
        out: dict[str, Entry | None] = {}
        unsaid = {path for path in paths if path not in sides.then}
        bases = self._based(sides.commit, unsaid) if sides.commit is not None else None
        blind = self._ignored(unsaid - bases.keys()) if bases is not None else set()
        for path in paths:
            if path in sides.then:
                want = recorded(sides.then[path])
                out[path] = Entry(path, RESTORE, "as it was then", NOTHING_THERE, want)
            elif bases is not None and path not in blind:
                found = bases.get(path) or self._not_in_git(path)
                out[path] = self._exactly(path, found) if found is not None else None
            elif path in sides.first:
                why = "as it was before its first change"
                out[path] = Entry(path, RESTORE, why, NOTHING_THERE, recorded(sides.first[path]))
            elif explicit:
                raise NotFound(
                    f"{sides.run_id}@{sides.seq} has no file {path}.",
                    hint=f"`leftoff show {sides.run_id}@{sides.seq} --files` lists its files.",
                )
            else:
                out[path] = self._unknown_then(path)
        return out

    def _based(self, commit: str | None, paths: set[str]) -> dict[str, Entry] | None:
        """Files that were not dirty then: as the commit has them. ``None`` where git does not know it any more."""
        if self.repo is None or commit is None or (commit and not self.repo.has(commit)):
            return None
        out = {}
        for path, base in (self.repo.bases(commit, paths) if commit and paths else {}).items():
            content = self.repo.content(commit, base)
            if base.link:
                want = link_to(os.fsdecode(content))
            else:
                digest, size = hashed([content])
                want = Content(FILE, f"sha256:{digest.hex()}", size, 0o755 if base.mode == 0o755 else None)
            why = f"as in commit {commit[:12]}"
            out[path] = Entry(path, RESTORE, why, NOTHING_THERE, want, commit=commit)
        return out

    def _ignored(self, paths: set[str]) -> set[str]:
        """Files that git leaves alone: that it did not name one means nothing."""
        return self.repo.ignored(paths) if self.repo is not None and paths else set()

    def _exactly(self, path: str, entry: Entry) -> Entry:
        """What git knows of a file; a record that has the same content also has the permissions."""
        first = recorded(self.sides.first.get(path) or {})
        if entry.want.kind == FILE == first.kind and first.hash == entry.want.hash in self.sides.blobs:
            return Entry(path, RESTORE, entry.why, NOTHING_THERE, first)
        return entry

    def _not_in_git(self, path: str) -> Entry | None:
        """A path that git had nothing of then: it was not there, unless it is older, and git was told to ignore it."""
        if 0 < born(os.path.join(self.project, path)) < self.sides.at - _SLACK_MS:
            return None
        return _gone(path, "it did not exist then")

    def _unknown_then(self, path: str) -> Entry | None:
        """A path that only the newest version knows: deleted if it was made since, and kept if that is not sure."""
        about = self.sides.newest[path]
        status = about.get("status")
        made_since = status == "created" or (
            status is None and path in self.sides.outputs and not self._in_git(path)
        )
        if (
            made_since
            and not self.sides.was_dirty(path)
            and born(os.path.join(self.project, path)) >= self.sides.at - _SLACK_MS
        ):
            return _gone(path, "it was created since")
        return None

    def _in_git(self, path: str) -> bool:
        return self.repo is not None and bool(self.head) and bool(self.repo.bases(self.head, [path]))

    # -- against what is there

    def _entry(self, path: str, entry: Entry | None) -> Entry | None:
        now = self._present(path, wanted=entry is not None and entry.want.kind != ABSENT)
        if entry is None:
            if now.kind == ABSENT:
                return None
            return Entry(path, KEEP, "it was not tracked then", now, now)
        entry.now = now
        _git_mode(entry)
        if now.same(entry.want):
            return None
        if self.redactor.secret_file(path) or path in self.sides.withheld:
            return entry.kept("it may hold secrets, which are never copied")
        if now.kind == OTHER or (now.kind == FOLDER and entry.want.kind == ABSENT):
            return entry.kept("there is no file in its place, but something else")
        if entry.want.kind == ABSENT:
            entry.action = DELETE
        elif not self._has_content(entry):
            return entry.kept(NOT_KEPT)
        return entry

    def _present(self, path: str, *, wanted: bool) -> Content:
        """What is there; nothing, where a file or a link is above it that will go before, or need not be followed."""
        if not wanted and cut_off(self.project, path, self.sides.paths):
            return NOTHING_THERE
        above = path
        while above := above.rpartition("/")[0]:
            if above in self.making_way:
                return NOTHING_THERE
        return present(self.project, path, self.sides.newest.get(path) or self.sides.then.get(path))

    def _has_content(self, entry: Entry) -> bool:
        want, now = entry.want, entry.now
        only_its_mode = now.kind == FILE and now.hash == want.hash
        return want.kind != FILE or bool(entry.commit) or want.hash in self.sides.blobs or only_its_mode

    def _mark_changed(self, entries: list[Entry]) -> None:
        """What is there, is not what was last recorded, and would be lost: somebody must say yes to that."""
        doubtful = [e for e in entries if e.action != KEEP and e.now.kind in (FILE, LINK)]
        unsaid = {entry.path for entry in doubtful if entry.path not in self.sides.newest}
        clean = self.sides.complete_now is not None or self.sides.commit is not None
        bases = (self._based(self.head, unsaid) if clean and self.head else None) or {}
        for entry in doubtful:
            about, base = self.sides.newest.get(entry.path), bases.get(entry.path)
            if about is not None:
                entry.changed = not entry.now.same(recorded(about))
            else:
                entry.changed = base is None or base.want.hash != entry.now.hash


def _gone(path: str, why: str) -> Entry:
    return Entry(path, DELETE, why, NOTHING_THERE, NOTHING_THERE)


def _outside(path: str) -> Entry:
    return Entry(path, KEEP, "it is outside the project", Content(OTHER), Content(OTHER))


def _git_mode(entry: Entry) -> None:
    """git knows only whether a file is executable: the other permissions stay as they are."""
    want, now = entry.want, entry.now
    if not entry.commit or want.kind != FILE or now.kind != FILE or now.mode is None:
        return
    if want.mode is not None and now.mode & 0o100:
        want.mode = None
    elif want.mode is None and now.mode & 0o100:
        want.mode = now.mode & ~0o111


def _settle_folders(project: str, entries: list[Entry]) -> None:
    """A folder where a file shall be, or a file where a folder shall be: only if what is there is deleted anyway."""
    gone = {entry.path for entry in entries if entry.action == DELETE}
    for entry in entries:
        if entry.action != RESTORE:
            continue
        if entry.now.kind == FOLDER:
            left = [path for path in _below(project, entry.path) if path not in gone]
            if left:
                entry.kept(f"there is a folder in its place, with {left[0]}")
        in_the_way = _in_the_way(project, entry.path, gone)
        if in_the_way:
            entry.kept(f"{in_the_way} is in the way, which is no folder")


def _in_the_way(project: str, path: str, gone: set[str]) -> str:
    """What is above a path, is no folder, and stays."""
    parts = path.split("/")
    for number in range(1, len(parts)):
        above = "/".join(parts[:number])
        full = os.path.join(project, above)
        if above in gone or not os.path.lexists(full):
            return ""  # from there on folders are made
        if not os.path.isdir(full):
            return above
    return ""


def _below(project: str, path: str) -> list[str]:
    """Every file below a folder; an empty folder counts as one."""
    out = []
    for at, folders, names in os.walk(os.path.join(project, path)):
        inside = os.path.relpath(at, project)
        out += [os.path.join(inside, name) for name in names]
        out += [os.path.join(inside, name) for name in folders if os.path.islink(os.path.join(at, name))]
        if not folders and not names:
            out.append(inside)
    return out


def make_plan(
    store: Store,
    project: str,
    target: Target,
    redactor: Redactor,
    *,
    only: Paths = None,
    outputs: Paths = None,
) -> Plan:
    """What bringing the files back to a version would do. ``only``: these paths, whatever else differs."""
    sides = store.read(lambda view: Sides(store, view, target, only, outputs))
    plan = Planner(store, project, redactor, sides).plan(only)
    refuse_store(project, store.folder, (entry.path for entry in plan.touched))
    return plan
