"""Track files: record what they are, with a copy of their content in the store.

A run knows a file by one record, `file/PATH`: its hash, size and mode (or the target of a link), what became of it
(created, modified, deleted), and a blob. So each version of a run is also a manifest of its files.
"""

from __future__ import annotations

import os
import stat as bits
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.clock import iso
from leftoff.engine.config.git_head import git_head
from leftoff.engine.config.settings import Capture
from leftoff.engine.read.state import Reader
from leftoff.engine.redaction.redactor import Redactor
from leftoff.engine.steps.artifacts import WITHHELD, Captured
from leftoff.engine.workspace.file_state import (
    ABSENT,
    FOLDER,
    SAME,
    hashed,
    link_to,
    look,
    open_file,
    present,
    recorded,
    shown_mode,
    take,
    unchanged,
    written_at,
)
from leftoff.engine.workspace.git import Dirty, Repo, dirty_paths, remember_git, repository
from leftoff.engine.workspace.project_files import given_path, is_behind_link, place, refuse_store
from leftoff.errors import Invalid, NotFound, StoreUnavailable
from leftoff.model.changes import ChangeSet
from leftoff.store.base import Store, View
from leftoff.store.rows import BlobRow, RunRow

if TYPE_CHECKING:
    from leftoff.engine.config.project import Project
    from leftoff.store.base import Save

DELETED = "deleted"
WAS = "was"  # of a deleted file: its status before
MARK = "workspace"  # a key of `context`: which version has every dirty file, and of which commit
BEFORE = "before "  # and a path, a key of `context`: the file as it was before the run first changed it
BY_GIT = {"by": "git"}  # of a file that is known only because git calls it dirty
_OTHERS = 200  # runs that are searched for who changed a file
_STEADY = ("hash", "size", "mode", "target", "status", "staged", "by", "captured", "seen")
_FOUND = frozenset(("path", "captured_at", WAS, WITHHELD, *_STEADY))  # what capturing finds out


class Workspace(NamedTuple):
    """The files of a project at a moment. ``capture``: how much of them is copied (``None``: all)."""

    store: Store
    folder: str
    redactor: Redactor
    capture: Capture | None
    at: int
    say: Callable[[str], None] | None = None  # reports to the user


class FileTracker:
    """Captures files of a project. ``known``: the records that a run has of them.

    ``withheld``: paths that are known to hold a secret, whose value may not be known here.
    """

    def __init__(
        self,
        workspace: Workspace,
        known: Mapping[str, Mapping[str, Any]] | None = None,
        withheld: Collection[str] = (),
    ) -> None:
        self.workspace = workspace
        self.project = workspace.folder
        self.store = workspace.store
        self.save: Save = workspace.store.save_blob
        self.known = known or {}
        self.withheld = withheld
        self.until: int | None = (
            None  # nanoseconds: the content of a file that was changed later is not captured
        )
        self._most: int | None = None
        self._left: int | None = None

    def limit(self, kept: Iterable[Mapping[str, Any]] = ()) -> None:
        """Copy no more than `[capture]` allows. ``kept``: records of files that count already."""
        capture = self.workspace.capture
        if capture is not None:
            used = sum(about.get("size") or 0 for about in kept if about.get("captured"))
            self._most = capture.max_file
            self._left = max(0, capture.max_total - used)

    def _allows(self, size: int) -> bool:
        if (self._most is not None and size > self._most) or (self._left is not None and size > self._left):
            return False
        if self._left is not None:
            self._left -= size
        return True

    def capture(self, path: str, **given: Any) -> Captured:
        """Capture a file or a link. ``given``: status, staged, by, as far as known."""
        try:
            at = place(self.project, path)
        except NotADirectoryError:
            at = None
        missing = NotFound(
            f"There is no file {path}.", hint="Nothing was recorded. Write the file before you record it."
        )
        if at is None:
            raise missing
        with at:
            st = at.lstat()
            if st is None:
                raise missing
            if bits.S_ISDIR(st.st_mode):
                hint = "Nothing was recorded. Name the files in it."
                raise NotFound(f"{path} is a folder, not a file.", hint=hint)
            if bits.S_ISLNK(st.st_mode):
                link = link_to(os.readlink(at.name, dir_fd=at.folder))
                try:
                    str(link.target).encode()
                except UnicodeEncodeError:
                    message = f"{path} points to a name that is not UTF-8."
                    raise Invalid(message, hint="Nothing was recorded.") from None
                about = {"target": link.target, "hash": link.hash, "size": link.size, "captured": True}
                return self._made(path, {**given, **about})
            known = self.known.get(path)
            if known is not None and known.get("captured") and unchanged(known, st):
                hash = bytes.fromhex(known["hash"].partition(":")[2])
                row = self.store.read(lambda view: view.blob(hash))
                if row is not None and self._allows(row.size):
                    same = {name: known[name] for name in ("hash", "size", "captured", "seen")}
                    return self._made(path, {**given, **same, "mode": shown_mode(st.st_mode)}, row)
            fd = open_file(at.name, folder=at.folder, follow=False)
        return self._read(path, fd, st.st_size, given)

    def _read(self, path: str, fd: int, size: int, given: dict[str, Any]) -> Captured:
        redactor = self.workspace.redactor
        held = path in self.withheld or self.known.get(path, {}).get(WITHHELD) is True
        secret = held or redactor.in_file(fd)
        row: BlobRow | None = None
        if not secret and not redactor.secret_file(path) and self._allows(size):
            saved, st, seen = take(path, self.save, fd=fd)
            row, digest, size = saved, saved.hash, saved.size
        else:
            (digest, size), st, seen = take(path, hashed, fd=fd)
        if self.until is not None and st.st_ctime_ns > self.until:
            return self.unread(path, **given)
        about = {"hash": f"sha256:{digest.hex()}", "size": size, "mode": shown_mode(st.st_mode), "seen": seen}
        return self._made(
            path, {**given, **about, "captured": row is not None, WITHHELD: secret or None}, row
        )

    def deleted(self, path: str, **given: Any) -> Captured:
        """Record that a file is not there any more, and whether the run had created it."""
        known = self.known.get(path, {})
        before = known.get(WAS if known.get("status") == DELETED else "status")
        return self._made(path, {"status": DELETED, WAS: before if before == "created" else None, **given})

    def unread(self, path: str, **given: Any) -> Captured:
        """Record that a file is there whose content is not known."""
        return self._made(path, {**given, "captured": False})

    def _made(self, path: str, about: dict[str, Any], row: BlobRow | None = None) -> Captured:
        about = {name: value for name, value in about.items() if value is not None}
        known = self.known.get(path, {})
        if known and all(known.get(name) == about.get(name) for name in _STEADY):
            about["captured_at"] = known.get("captured_at")
        others = {name: value for name, value in known.items() if name not in _FOUND}
        return Captured(path, {"path": path, "captured_at": iso(self.workspace.at), **others, **about}, row)


def next_status(about: Mapping[str, Any] | None, changed: bool, fresh: bool) -> str | None:
    """Return what became of a tracked file if git cannot tell: made since the run began, or changed since."""
    if about is None:
        return "created" if fresh else None
    before: str | None = about.get("status")
    if before == DELETED:
        return "created"
    return before if before is not None else "modified" if changed else None


class Found(NamedTuple):
    """Files that were looked at: what to record of them, and which records to drop.

    ``commit``: git's, if these are all that differ from it; empty before the first one.
    """

    captured: list[Captured]
    dropped: list[str]
    commit: str | None = None

    @property
    def blobs(self) -> list[BlobRow]:
        return [got.blob for got in self.captured if got.blob is not None]

    def put(self, changes: ChangeSet, seq: int) -> None:
        """Add them to the change set of the commit that makes version ``seq``, which must add the blobs, too."""
        for path in self.dropped:
            changes.delete("file", path)
        for got in self.captured:
            got.put(changes, "file")
        if self.commit is not None:
            changes.put("context", MARK, self._mark(seq))

    def _mark(self, seq: int) -> dict[str, Any]:
        return {"complete": True, "head": self.commit or None, "seq": seq}

    def news(self, reader: Reader, seq: int) -> bool:
        """Return whether version ``seq`` does not know all this already."""
        known, mark = known_files(reader), reader.plain("context").get(MARK)
        same = all(known.get(got.key) == got.about for got in self.captured) and not self.dropped
        return not (same and (self.commit is None or mark == self._mark(seq)))


def still_complete(reader: Reader, changes: ChangeSet, seq: int) -> None:
    """Mark version ``seq`` as complete, too: no file changed since all dirty ones were captured."""
    mark = reader.value("context", MARK)
    if mark is not None and isinstance(mark.plain, dict):
        changes.put("context", MARK, {**mark.plain, "seq": seq})


# -- what a run knows


def files_of(store: Store, row: RunRow) -> dict[str, dict[str, Any]]:
    """Return the `file` records of a run's newest version."""
    return store.read(lambda view: known_files(Reader(store, view, row.run, row.run_id)))


def known_files(reader: Reader) -> dict[str, dict[str, Any]]:
    """Return the `file` records of a version, by path."""
    return {key: about for key, about in reader.plain("file").items() if isinstance(about, dict)}


def withheld_outputs(store: Store, row: RunRow) -> set[str]:
    """Return the outputs of steps that hold a secret of the workflow."""

    def read(view: View) -> set[str]:
        found = Reader(store, view, row.run, row.run_id).plain("artifact").values()
        return {about["path"] for about in found if isinstance(about, dict) and about.get(WITHHELD) is True}

    return store.read(read)


def tracked_of(workspace: Workspace, row: RunRow | None) -> FileTracker:
    """Return a tracker that knows the files of a run, if there is one yet."""
    if row is None:
        return FileTracker(workspace)
    return FileTracker(workspace, files_of(workspace.store, row), withheld_outputs(workspace.store, row))


def own_files(store: Store) -> frozenset[str]:
    """Return the files of the project that leftoff writes for a protocol: a change of one is not work of the run."""
    follower = getattr(store, "follower", None)
    return follower.own_files() if follower is not None else frozenset()


def changed_by_others(view: View, run: int, paths: list[str], since: int) -> dict[str, str]:
    """Return, by path, the other runs that recorded a first change of these files since then."""
    out: dict[str, str] = {}
    for row in view.list_runs({}, _OTHERS) if paths else []:
        if row.run == run or row.updated_at < since:
            continue
        for path in paths:
            found = view.record(row.run, "context", BEFORE + path)
            version = view.version(row.run, found.seq) if found is not None else None
            if version is not None and version.at >= since:
                out[path] = row.run_id
    return out


def keep_first(changes: ChangeSet, got: Captured, *, known: bool = False) -> None:
    """Record a file as it is before the run first changes it, for rollbacks to versions that do not know it yet.

    That record stays while later ones of the file come and go. ``known``: there is a later one.
    """
    if not known:
        got.put(changes, "file")
    Captured(BEFORE + got.key, got.about, got.blob).put(changes, "context")


# -- looking


def track_given(workspace: Workspace, row: RunRow, given: list[str]) -> Found:
    """Capture files that the user names from the current folder, for the next commit of a run."""
    paths = list(dict.fromkeys(given_path(workspace.folder, path) for path in given))
    refuse_store(workspace.folder, workspace.store.folder, paths)
    return track(workspace, row, paths)


def track(workspace: Workspace, row: RunRow, paths: list[str]) -> Found:
    """Capture files by their paths in the project, for the next commit of a run."""
    tracker, repo = tracked_of(workspace, row), repository(workspace.folder)
    tracker.limit(about for path, about in tracker.known.items() if path not in paths)
    dirty = {one.path: one for one in repo.dirty(paths)} if repo is not None else {}
    commit = repo.head if repo is not None else None
    clean = repo.bases(commit, set(paths) - dirty.keys()) if repo is not None and commit else {}
    out = []
    for path in paths:
        if path in dirty:
            out.append(_capture_dirty(tracker, dirty[path]))
        else:
            out.append(_capture_other(tracker, path, path in clean, row.created_at))
    return Found(out, [])


def look_at_git(
    workspace: Workspace, row: RunRow | None, *, always: bool = False, until: int | None = None
) -> Found:
    """Capture all dirty files, if the settings say so (or ``always``), for the next checkpoint of a run, which may not
    have begun."""
    if not always and not (workspace.capture is not None and workspace.capture.git):
        return Found([], [])
    repo = repository(workspace.folder)
    if repo is None:
        if always:
            raise NotFound("This is not a git repository.", hint="Name the files: leftoff track PATH…")
        return Found([], [])
    tracker = tracked_of(workspace, row)
    tracker.until = until
    tracker.limit(about for about in tracker.known.values() if about.get("by") != "git")
    return dirty_state(tracker, repo)


def dirty_state(tracker: FileTracker, repo: Repo) -> Found:
    """Capture each dirty file. Those that were known only as dirty, and are clean again, are dropped."""

    def work(save: Save) -> Found:
        tracker.save = save
        commit = repo.head or ""
        captured, own = [], own_files(tracker.store)
        for one in repo.dirty():
            if one.path in own:
                continue
            by = "git" if tracker.known.get(one.path, BY_GIT).get("by") == "git" else None
            try:
                captured.append(_capture_dirty(tracker, one, by=by))
            except StoreUnavailable as error:
                if "cannot be read" not in error.message:
                    raise
                captured.append(tracker.unread(one.path, status=one.status, staged=one.staged, by=by))
        paths = {got.key for got in captured}
        only_dirty = (path for path, about in tracker.known.items() if about.get("by") == "git")
        return Found(captured, [path for path in only_dirty if path not in paths], commit)

    try:
        return tracker.store.save_together(work)
    finally:
        tracker.save = tracker.store.save_blob


def _capture_dirty(tracker: FileTracker, one: Dirty, **given: Any) -> Captured:
    given["staged"] = one.staged
    try:
        if one.status != DELETED:
            return tracker.capture(one.path, status=one.status, **given)
    except NotFound:
        pass  # it was removed since git looked
    return tracker.deleted(one.path, **given)


def _capture_other(tracker: FileTracker, path: str, clean: bool, since: int) -> Captured:
    """Capture a file that git does not call dirty, or that is in no repository."""
    known = tracker.known.get(path)
    now = present(tracker.project, path, known)
    if now.kind in (ABSENT, FOLDER) and known is not None:
        return tracker.deleted(path)
    if clean:
        return tracker.capture(path)
    fresh = written_at(tracker.project, path) >= since
    changed = known is not None and not now.same(recorded(known))
    return tracker.capture(path, status=next_status(known, changed, fresh))


def for_checkpoint(workspace: Workspace, row: RunRow) -> Found:
    """Capture what changed of the files that a run knows; with `[capture] git`, all that is dirty."""
    if workspace.capture is not None and workspace.capture.git:
        return look_at_git(workspace, row)
    return look_at_known(workspace, row)


def look_at_known(workspace: Workspace, row: RunRow) -> Found:
    """Capture the files that differ from what a run knows of them."""
    known = files_of(workspace.store, row)
    entries = {path: about for path, about in known.items() if "hash" in about or "target" in about}
    seen = look(workspace.folder, entries, modes=True)
    changed = [path for path, what in seen.items() if what != SAME]
    paths = [path for path in changed if not is_behind_link(workspace.folder, path)]
    return track(workspace, row, paths) if paths else Found([], [])


class Surroundings(NamedTuple):
    """What a checkpoint stores of the world around a run. ``dirty``: if that was asked. ``issue``: as `context`
    records."""

    head: str | None
    files: Found
    dirty: list[str] | None
    issue: dict[str, Any]

    @property
    def blobs(self) -> list[BlobRow]:
        return self.files.blobs

    def put(self, row: RunRow, changes: ChangeSet) -> None:
        """Add it to the change set of the commit that seals."""
        remember_git(self.head, row, changes, self.dirty)
        for key, value in self.issue.items():
            changes.put("context", key, value)
        self.files.put(changes, row.seq + 1)


def look_around(project: Project, row: RunRow, *, dirty: bool = False, issue: bool = False) -> Surroundings:
    """Look at files and git for a checkpoint of a run, before the transaction that seals it.

    ``dirty``: also at what is not committed. ``issue``: also at its issue.
    """
    return Surroundings(
        git_head(project.folder),
        for_checkpoint(project.workspace(), row),
        dirty_paths(project.folder) if dirty else None,
        project.issue_snapshot(row.issue, row.card.get("git_branch")) if issue else {},
    )
