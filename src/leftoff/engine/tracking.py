"""Capture files: record what they are, with a copy of their content in the store.

A run knows a file by one record, `file/PATH`: its hash, size and mode (or the target of a link), what became of it
(created, modified, deleted), and a blob. So each version of a run is also a manifest of its files. What a step produced
is a record `artifact/NAME`. An artifact may be anywhere, and a symbolic link to it is followed.

Files are read before the transaction that records them, and a copy is durable before any record refers to it. A file
that holds a secret is hashed and never copied.
"""

from __future__ import annotations

import os
import stat as bits
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.clock import by_time, iso
from leftoff.engine.file_state import (
    ABSENT,
    FOLDER,
    SAME,
    Unreadable,
    compare_files,
    hashed,
    link_to,
    open_regular,
    present,
    read_steadily,
    recorded,
    shown_mode,
    unchanged,
    written_at,
)
from leftoff.engine.git import Dirty, Repo, dirty_paths, git_head, remember_git, repository
from leftoff.engine.project_files import (
    given_path,
    is_behind_link,
    is_own_path,
    place,
    refuse_store,
)
from leftoff.engine.redactor import Redactor
from leftoff.engine.run_reader import Reader
from leftoff.engine.settings import FileSettings
from leftoff.errors import NotFound, Usage
from leftoff.model.changes import ChangeSet, blob_stored
from leftoff.model.codec import long_sha256 as sha256
from leftoff.store.base import Save, SqlStore, Tx, View
from leftoff.store.rows import BlobRow, RunRow

if TYPE_CHECKING:
    from leftoff.engine.project import Project

DELETED = "deleted"
WAS = "was"  # of a deleted file: its status before
MARK = "workspace"  # a key of `context`: which version has every dirty file, and of which commit
BEFORE = "before "  # and a path, a key of `context`: the file as it was before the run first changed it
BY_GIT = {"by": "git"}  # of a file that is known only because git calls it dirty
_STEADY = ("hash", "size", "mode", "target", "status", "staged", "by", "captured", "seen")
_FOUND = frozenset(("path", "captured_at", WAS, *_STEADY))  # what capturing finds out


class Workspace(NamedTuple):
    """The files of a project at a moment. ``capture``: how much of them is copied (``None``: all).

    ``until``: nanoseconds, if the moment has passed. The content of a file that was changed later is not captured.
    """

    store: SqlStore
    folder: str
    redactor: Redactor
    capture: FileSettings | None
    at: int
    say: Callable[[str], None] | None = None  # reports to the user
    until: int | None = None


class Captured(NamedTuple):
    """A file as it was when it was looked at: what its record says, and the blob that holds its content."""

    key: str
    about: dict[str, Any]
    blob: BlobRow | None = None

    def put(self, changes: ChangeSet, collection: str = "artifact") -> None:
        """Add the record to a change set, whose commit must also have the blob's row."""
        if self.blob is None:
            changes.put(collection, self.key, self.about)
        else:
            changes.put_stored(collection, self.key, blob_stored(self.blob.hash, self.about))


def _contents(path: str, fd: int, save: Save | None) -> tuple[dict[str, Any], BlobRow | None, int]:
    """Read a file: return what a record says of its content, its copy, and when the file was last changed.

    ``save``: stores the copy.
    """
    if save is not None:
        row, st, seen = read_steadily(path, save, fd)
        digest, size = row.hash, row.size
    else:
        (digest, size), st, seen = read_steadily(path, hashed, fd)
    mode, captured = shown_mode(st.st_mode), save is not None
    about = {"hash": f"sha256:{digest.hex()}", "size": size, "mode": mode, "seen": seen, "captured": captured}
    return about, row if captured else None, st.st_ctime_ns


# -- artifacts


def relative(project: str, path: str) -> str:
    """Return how records name a file: relative to the project if it is inside, also if one of both is named through a
    link."""
    full = os.path.normpath(path) if os.path.isabs(path) else os.path.abspath(os.path.join(project, path))
    inside = os.path.relpath(full, project)
    if _leads_out(inside):
        folder, name = os.path.split(full)
        inside = os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(project))
    return full if _leads_out(inside) else inside


def _leads_out(path: str) -> bool:
    return path == ".." or path.startswith("../")


def capture(
    workspace: Workspace, path: str, *, step: str | None = None, name: str | None = None, copy: bool = True
) -> Captured:
    """Hash what a step produced, and store a copy if ``copy`` is set and its name is not that of a secret file.

    A file is judged by what it is, not by the name of a link to it: a link to `.env` is `.env`.
    """
    redactor = workspace.redactor
    try:
        full = os.path.join(os.getcwd() if not os.path.isabs(path) else "", path)
    except OSError:
        hint = "Nothing was recorded. Name the file by its whole path."
        raise NotFound("The current folder is gone.", hint=hint) from None
    if not os.path.isfile(full):
        what = f"There is no file {path}"
        if os.path.exists(full):
            what = f"{path} is a folder, not a file" if os.path.isdir(full) else f"{path} is no plain file"
        raise NotFound(f"{what}.", hint="Nothing was recorded. Write the file before you record it.")
    shown = relative(workspace.folder, full)
    fd = open_regular(full, follow=True)
    try:
        opened = os.readlink(f"/proc/self/fd/{fd}")  # of the very file: a link may lead elsewhere by now
    except OSError:
        opened = os.path.realpath(full)
    real = relative(os.path.realpath(workspace.folder), opened)
    is_stores = opened.startswith(os.path.join(os.path.realpath(workspace.store.folder), ""))
    if is_stores or is_own_path(real):
        os.close(fd)
        what = "leftoff's store" if is_stores else "what git or leftoff keep"
        raise Usage(f"{full} is part of {what}.", hint="Nothing was recorded. Name files of your work.")
    withheld = not copy or redactor.secret_file(shown) or redactor.secret_file(real)
    read, row, _ = _contents(full, fd, None if withheld else workspace.store.save_blob)
    about = {"path": shown, "step": step, "name": name, "captured_at": iso(workspace.at), **read}
    about["followed"] = True if os.path.islink(full) else None
    return Captured(name or shown, {key: value for key, value in about.items() if value is not None}, row)


# -- files of the project


class FileTracker:
    """Captures files of a project. ``known``: the records that a run has of them."""

    def __init__(self, workspace: Workspace, known: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.workspace = workspace
        self.project = workspace.folder
        self.save: Save = workspace.store.save_blob
        self.known = known or {}
        self._most: int | None = None
        self._left: int | None = None

    def limit(self, kept: Iterable[Mapping[str, Any]] = ()) -> None:
        """Copy no more than `[files]` allows. ``kept``: records of files that count already."""
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
        st = None
        if at is not None:
            with at:
                st = at.lstat()
                if st is not None and bits.S_ISLNK(st.st_mode):
                    link = link_to(os.readlink(at.name, dir_fd=at.folder))
                    about = {"target": link.target, "hash": link.hash, "size": link.size, "captured": True}
                    return self._made(path, {**given, **about})
                if st is not None and not bits.S_ISDIR(st.st_mode):
                    row = self._copied_before(path, st)
                    if row is not None:
                        same = {name: self.known[path][name] for name in ("hash", "size", "captured", "seen")}
                        return self._made(path, {**given, **same, "mode": shown_mode(st.st_mode)}, row)
                    copied = not self.workspace.redactor.secret_file(path) and self._allows(st.st_size)
                    fd = open_regular(at.name, folder=at.folder)
                    about, row, changed_at = _contents(path, fd, self.save if copied else None)
                    until = self.workspace.until
                    if until is not None and changed_at > until:
                        return self.unread(path, **given)
                    return self._made(path, {**given, **about}, row)
        if st is None:
            hint = "Nothing was recorded. Write the file before you record it."
            raise NotFound(f"There is no file {path}.", hint=hint)
        hint = "Nothing was recorded. Name the files in it."
        raise NotFound(f"{path} is a folder, not a file.", hint=hint)

    def _copied_before(self, path: str, st: os.stat_result) -> BlobRow | None:
        """Return the copy of a file that is as its record says, and that the store has; ``None`` if it must be read."""
        known = self.known.get(path)
        if known is None or not known.get("captured") or not unchanged(known, st):
            return None
        hash = bytes.fromhex(known["hash"].partition(":")[2])
        row = self.workspace.store.read(lambda view: view.blob(hash))
        return row if row is not None and self._allows(row.size) else None

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

    def capture_dirty(self, one: Dirty, **given: Any) -> Captured:
        """Capture a file that git calls dirty; it may have been removed since git looked."""
        given["staged"] = one.staged
        try:
            if one.status != DELETED:
                return self.capture(one.path, status=one.status, **given)
        except NotFound:
            pass
        return self.deleted(one.path, **given)

    def capture_other(self, path: str, clean: bool, since: int) -> Captured:
        """Capture a file that git does not call dirty, or that is in no repository. ``since``: when the run began."""
        known = self.known.get(path)
        now = present(self.project, path, known)
        if now.kind in (ABSENT, FOLDER) and known is not None:
            return self.deleted(path)
        if clean:
            return self.capture(path)
        is_changed = known is not None and not now.same(recorded(known))
        is_fresh = written_at(self.project, path) >= since
        return self.capture(path, status=_next_status(known, is_changed, is_fresh))

    def capture_edit(self, path: str, status: str | None = None) -> Captured | None:
        """Capture a file that an agent's tool may have changed; ``None`` if it is not there, or cannot be read."""
        try:
            return self.capture(path, status=status)
        except (NotFound, Unreadable):
            return None


def _next_status(about: Mapping[str, Any] | None, changed: bool, fresh: bool) -> str | None:
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
        """Add them to the change set of the commit that makes version ``seq``, which must also add the blobs."""
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
        known, mark = _known_files(reader), reader.plain("context").get(MARK)
        same = all(known.get(got.key) == got.about for got in self.captured) and not self.dropped
        return not (same and (self.commit is None or mark == self._mark(seq)))


def still_complete(reader: Reader, changes: ChangeSet, seq: int) -> None:
    """Mark version ``seq`` as complete, as well: no file changed since all dirty ones were captured."""
    mark = reader.value("context", MARK)
    if mark is not None and isinstance(mark.plain, dict):
        changes.put("context", MARK, {**mark.plain, "seq": seq})


# -- what runs know


def known_to(
    store: SqlStore, row: RunRow | None, paths: Collection[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the `file` records of a run's newest version (or those of some paths), by path."""

    def read(view: View) -> dict[str, dict[str, Any]]:
        assert row is not None
        reader = Reader(store, view, row.run, row.run_id)
        if paths is None:
            return _known_files(reader)
        found = {path: reader.value("file", path) for path in paths}
        return {path: value.plain for path, value in found.items() if value is not None}

    return store.read(read) if row is not None else {}


def _known_files(reader: Reader) -> dict[str, dict[str, Any]]:
    return {key: about for key, about in reader.plain("file").items() if isinstance(about, dict)}


def own_files(store: SqlStore) -> frozenset[str]:
    """Return the files of the project that leftoff writes for a protocol: a change of one is not work of the run."""
    follower = getattr(store, "follower", None)
    return follower.own_files() if follower is not None else frozenset()


# -- looking


def track_given(workspace: Workspace, row: RunRow, given: list[str]) -> Found:
    """Capture files that the user names from the current folder, for the next commit of a run."""
    paths = list(dict.fromkeys(given_path(workspace.folder, path) for path in given))
    refuse_store(workspace.folder, workspace.store.folder, paths)
    return capture_paths(workspace, row, paths)


def capture_paths(workspace: Workspace, row: RunRow, paths: list[str]) -> Found:
    """Capture files by their paths in the project, for the next commit of a run."""
    if not paths:
        return Found([], [])
    store, repo = workspace.store, repository(workspace.folder)
    tracker = FileTracker(workspace, known_to(store, row))
    tracker.limit(about for path, about in tracker.known.items() if path not in paths)
    dirty = {one.path: one for one in repo.dirty(paths)} if repo is not None else {}
    commit = repo.head if repo is not None else None
    clean = repo.bases(commit, set(paths) - dirty.keys()) if repo is not None and commit else {}
    out = []
    for path in paths:
        if path in dirty:
            out.append(tracker.capture_dirty(dirty[path]))
        else:
            out.append(tracker.capture_other(path, path in clean, row.created_at))
    return Found(out, [])


def look_at_git(workspace: Workspace, row: RunRow | None) -> Found:
    """Capture all dirty files, for the next checkpoint of a run, which may not have begun; raise ``NotFound`` outside
    of a repository."""
    store, repo = workspace.store, repository(workspace.folder)
    if repo is None:
        raise NotFound("This is not a git repository.", hint="Name the files: leftoff track PATH…")
    tracker = FileTracker(workspace, known_to(store, row))
    tracker.limit(about for about in tracker.known.values() if about.get("by") != "git")
    return dirty_state(tracker, repo)


def dirty_state(tracker: FileTracker, repo: Repo) -> Found:
    """Capture each dirty file. Those that were known only as dirty, and are clean again, are dropped."""
    store = tracker.workspace.store

    def work(save: Save) -> Found:
        tracker.save = save
        commit = repo.head or ""
        captured, own = [], own_files(store)
        for one in repo.dirty():
            if one.path in own:
                continue
            by = "git" if tracker.known.get(one.path, BY_GIT).get("by") == "git" else None
            try:
                captured.append(tracker.capture_dirty(one, by=by))
            except Unreadable:
                captured.append(tracker.unread(one.path, status=one.status, staged=one.staged, by=by))
        paths = {got.key for got in captured}
        only_dirty = (path for path, about in tracker.known.items() if about.get("by") == "git")
        return Found(captured, [path for path in only_dirty if path not in paths], commit)

    try:
        return store.save_together(work)
    finally:
        tracker.save = store.save_blob


def for_checkpoint(workspace: Workspace, row: RunRow) -> Found:
    """Capture what changed of the files that a run knows; with `[files] git`, all that is dirty."""
    if workspace.capture is None or not workspace.capture.git:
        return _look_at_known(workspace, row)
    return look_at_git(workspace, row) if repository(workspace.folder) is not None else Found([], [])


def _look_at_known(workspace: Workspace, row: RunRow) -> Found:
    """Capture the files that differ from what a run knows of them."""
    known = known_to(workspace.store, row)
    entries = {path: about for path, about in known.items() if "hash" in about or "target" in about}
    seen = compare_files(workspace.folder, entries, modes=True)
    changed = [path for path, what in seen.items() if what != SAME]
    return capture_paths(
        workspace, row, [path for path in changed if not is_behind_link(workspace.folder, path)]
    )


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


# -- files that an agent's tool edits: as they are before it first changes them, and after each change


def edited_paths(folder: str, paths: list[str]) -> list[str]:
    """Return those of the paths that are the project's own, and not the store's, as records name them.

    A tool that writes to a link writes to its target, so that is one of them.
    """
    top, found = os.path.realpath(folder), []
    for path in paths:
        above, name = os.path.split(path)
        real = os.path.join(os.path.realpath(above), name)
        found += [real, os.path.realpath(real)] if os.path.islink(real) else [real]
    names = dict.fromkeys(relative(top, path) for path in found)
    return [name for name in names if not os.path.isabs(name) and not is_own_path(name)]


class Peeked(NamedTuple):
    """A file as it was at a moment, in memory: its record, and its content if that is to be stored."""

    path: str
    about: dict[str, Any]
    data: bytes | None


def peek(workspace: Workspace, paths: list[str]) -> list[Peeked]:
    """Return the files as they are, without the store. A file that is not there counts as deleted."""
    contents: dict[bytes, bytes] = {}

    def keep(chunks: Iterable[bytes]) -> BlobRow:
        data = b"".join(chunks)
        row = BlobRow(sha256(data).digest(), len(data), 0, "raw")
        contents[row.hash] = data
        return row

    tracker = FileTracker(workspace)
    tracker.limit()
    tracker.save = keep
    found = [tracker.capture_edit(path) or tracker.deleted(path) for path in paths]
    return [
        Peeked(got.key, got.about, contents[got.blob.hash] if got.blob is not None else None) for got in found
    ]


def store_first(workspace: Workspace, row: RunRow | None, peeked: list[Peeked]) -> list[Captured]:
    """Store the content of those files that a run knows nothing of yet, and return them."""
    store = workspace.store
    known = known_to(store, row, [one.path for one in peeked])
    fresh = [one for one in peeked if one.path not in known or _is_later(known[one.path], one.about)]

    def work(save: Save) -> list[Captured]:
        rows = [save([one.data]) if one.data is not None else None for one in fresh]
        return [Captured(one.path, one.about, row) for one, row in zip(fresh, rows, strict=True)]

    return store.save_together(work) if fresh else []


def put_first(store: SqlStore, tx: Tx, row: RunRow, changes: ChangeSet, found: list[Captured]) -> None:
    """Record files as they were before the run first changed them, unless it knows that already.

    That record stays while later ones of the file come and go. A rollback to a version that does not know the file yet
    needs it.
    """
    reader = Reader(store, tx, row.run, row.run_id)
    for got in found:
        there = reader.value("file", got.key)
        first = tx.row(row.run, "context", BEFORE + got.key)
        if there is None or (first is None and _is_later(there.plain, got.about)):
            if there is None:
                got.put(changes, "file")
            got._replace(key=BEFORE + got.key).put(changes, "context")


def _is_later(about: dict[str, Any], than: dict[str, Any]) -> bool:
    """Return whether a record was made after another one: a hook that waited may commit after a later hook."""
    return by_time(about.get("captured_at")) > by_time(than.get("captured_at"))


def capture_edits(workspace: Workspace, row: RunRow | None, paths: list[str]) -> list[Captured]:
    """Capture the files as they are now, and what became of them."""
    store = workspace.store
    tracker = FileTracker(workspace._replace(until=None), known_to(store, row, paths))
    tracker.limit()
    out = []
    for path in paths:
        known = tracker.known.get(path)
        got = tracker.capture_edit(path, _next_status(known, True, False))
        if got is not None or known is not None:
            out.append(got or tracker.deleted(path))
    return out


def is_news(reader: Reader, got: Captured) -> bool:
    """Return whether a file differs from what a run knows: a tool that failed may have left it as it was."""
    known = reader.value("file", got.key)
    return known is None or not recorded(known.plain).same(recorded(got.about))


def changed_in_turn(workspace: Workspace, row: RunRow | None) -> Found | None:
    """Capture all that git calls dirty; outside of a repository, what changed of the files that the run knows."""
    if repository(workspace.folder) is not None:
        return look_at_git(workspace, row)
    return _look_at_known(workspace, row) if row is not None else None
