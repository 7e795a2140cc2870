"""Which files a run knows, and bringing that up to date: files that somebody names, or all that git calls dirty."""

from __future__ import annotations

from leftoff.engine.read.state import Reader
from leftoff.engine.steps.artifacts import WITHHELD, Captured
from leftoff.engine.workspace.birth import born
from leftoff.engine.workspace.capturing import DELETED, Limits, Tracked, next_status
from leftoff.engine.workspace.content import ABSENT, FOLDER, present, recorded
from leftoff.engine.workspace.paths import given_path, is_behind_link, refuse_store
from leftoff.engine.workspace.stat import SAME, look
from leftoff.engine.workspace.surroundings import own_files
from leftoff.errors import CannotResume, NotFound, StoreUnavailable
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.workspace.git import Dirty, Repo
    from leftoff.engine.workspace.workspace import Workspace
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Save, Store, View
    from leftoff.store.rows import BlobRow, RunRow

MARK = "workspace"  # of the collection `context`: which version has every dirty file, and of which commit
BY_GIT = {"by": "git"}  # of a file that nobody told of
_OTHERS = 200  # runs that are looked at for who changed a file
BEFORE = "before "  # and a path: the file as it was before the run first changed it


class Found(Fields):
    """Files that were looked at: what to record of them, and which need not be known any more.

    ``commit``: git's, where these are all that differ from it; empty before the first one.
    """

    captured: list[Captured]
    dropped: list[str]
    commit: str | None = None

    @property
    def blobs(self) -> list[BlobRow]:
        return [got.blob for got in self.captured if got.blob is not None]

    def put(self, changes: ChangeSet, seq: int) -> None:
        """Into the change set of the commit that makes version ``seq``; with it the blobs must get their rows."""
        for path in self.dropped:
            changes.delete("file", path)
        for got in self.captured:
            got.put(changes, "file")
        if self.commit is not None:
            changes.put("context", MARK, {"complete": True, "head": self.commit or None, "seq": seq})

    def news(self, reader: Reader, seq: int) -> bool:
        """Whether version ``seq`` does not know all this already."""
        known, mark = known_files(reader), reader.plain("context").get(MARK)
        marked = {"complete": True, "head": self.commit or None, "seq": seq} == mark
        same = all(known.get(got.key) == got.about for got in self.captured) and not self.dropped
        return not (same and (marked or self.commit is None))


def still_complete(reader: Reader, changes: ChangeSet, seq: int) -> None:
    """No file was changed since all that is dirty was captured: version ``seq`` has all of it, too."""
    mark = reader.value("context", MARK)
    if mark is not None and isinstance(mark.plain, dict):
        changes.put("context", MARK, {**mark.plain, "seq": seq})


def tracked_of(workspace: Workspace, row: RunRow) -> Tracked:
    """The files of a run, as its newest version knows them."""
    store = workspace.store
    return Tracked(workspace, known=files_of(store, row), withheld=withheld_outputs(store, row))


def look_at_git(
    workspace: Workspace, row: RunRow | None, *, always: bool = False, until: int | None = None
) -> Found:
    """The dirty files of a project whose settings say so (or ``always``), for the next checkpoint of a run, which may
    not have begun."""
    if not always and not (workspace.capture is not None and workspace.capture.git):
        return Found([], [])
    from leftoff.engine.workspace.git import repository

    repo = repository(workspace.folder)
    if repo is None:
        if always:
            raise NotFound("This is not a git repository.", hint="Name the files: leftoff track PATH…")
        return Found([], [])
    tracked = tracked_of(workspace, row) if row is not None else Tracked(workspace)
    others = (about for about in tracked.known.values() if about.get("by") != "git")
    tracked.limits, tracked.until = Limits.of(workspace, others), until
    return dirty_state(tracked, repo)


def for_checkpoint(workspace: Workspace, row: RunRow) -> Found:
    """What a checkpoint of a run says of files: those it knows, as they are by now; where wanted, all that is dirty."""
    if workspace.capture is not None and workspace.capture.git:
        return look_at_git(workspace, row)
    known = files_of(workspace.store, row)
    entries = {path: about for path, about in known.items() if "hash" in about or "target" in about}
    seen = look(workspace.folder, entries, modes=True)
    paths = [
        path for path, what in seen.items() if what != SAME and not is_behind_link(workspace.folder, path)
    ]
    return track(workspace, row, paths) if paths else Found([], [])


def changed_by_others(view: View, run: int, paths: list[str], since: int) -> dict[str, str]:
    """The other runs that were told of a first change of these files since then, by path."""
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


def withheld_outputs(store: Store, row: RunRow) -> set[str]:
    """The outputs of steps that hold a secret of the workflow."""

    def read(view: View) -> set[str]:
        found = Reader(store, view, row.run, row.run_id).plain("artifact").values()
        return {about["path"] for about in found if isinstance(about, dict) and about.get(WITHHELD) is True}

    return store.read(read)


def track_given(workspace: Workspace, row: RunRow, given: list[str]) -> Found:
    """Files that somebody names from the current folder, for the next commit of a run. One whose name holds a secret
    of the workflow is left out."""
    paths = list(dict.fromkeys(given_path(workspace.folder, path) for path in given))
    refuse_store(workspace.folder, workspace.store.folder, paths)
    return track(workspace, row, paths)


def files_of(store: Store, row: RunRow) -> dict[str, dict[str, Any]]:
    """The `file` records of a run's newest version."""
    return store.read(lambda view: known_files(Reader(store, view, row.run, row.run_id)))


def known_files(reader: Reader) -> dict[str, dict[str, Any]]:
    """The `file` records of a version, by path."""
    return {key: about for key, about in reader.plain("file").items() if isinstance(about, dict)}


def keep_first(changes: ChangeSet, got: Captured, *, known: bool = False) -> None:
    """A file as it is before the run first changes it: for going back to versions that do not know it yet.

    It is a record of its own, which stays while later ones of the file come and go. ``known``: there is a later one.
    """
    if not known:
        got.put(changes, "file")
    Captured(BEFORE + got.key, got.about, got.blob).put(changes, "context")


def look_again(tracked: Tracked, since: int) -> Found:
    """The files that a run knows already, and that are not as it knows them. ``since``: when the run began."""
    out = []
    for path, about in tracked.known.items():
        try:
            if not present(tracked.project, path, about).same(recorded(about)):
                out.append(_capture_other(tracked, path, False, since))
        except (StoreUnavailable, CannotResume):  # it cannot be read, or is behind a link by now
            continue
    return Found(out, [])


def track(workspace: Workspace, row: RunRow, paths: list[str]) -> Found:
    """Files by their paths in the project, for the next commit of a run."""
    from leftoff.engine.workspace.git import repository

    tracked, repo = tracked_of(workspace, row), repository(workspace.folder)
    tracked.limits = Limits.of(
        workspace, (about for path, about in tracked.known.items() if path not in paths)
    )
    dirty = {one.path: one for one in repo.dirty(paths)} if repo is not None else {}
    commit = repo.head if repo is not None else None
    clean = repo.bases(commit, set(paths) - dirty.keys()) if repo is not None and commit else {}
    out = []
    for path in paths:
        if path in dirty:
            out.append(_capture_dirty(tracked, dirty[path]))
        else:
            out.append(_capture_other(tracked, path, path in clean, row.created_at))
    return Found(out, [])


def _capture_dirty(tracked: Tracked, one: Dirty, **facts: Any) -> Captured:
    facts["staged"] = one.staged
    try:
        if one.status != DELETED:
            return tracked.capture(one.path, status=one.status, **facts)
    except NotFound:
        pass  # it went since git looked
    return tracked.deleted(one.path, **facts)


def _capture_other(tracked: Tracked, path: str, clean: bool, since: int) -> Captured:
    """A file that git does not call dirty, or that is in no repository."""
    known = tracked.known.get(path)
    now = present(tracked.project, path, known)
    if now.kind in (ABSENT, FOLDER) and known is not None:
        return tracked.deleted(path)
    if clean:
        return tracked.capture(path)
    fresh = born(f"{tracked.project}/{path}") >= since
    changed = known is not None and not now.same(recorded(known))
    return tracked.capture(path, status=next_status(known, changed, fresh))


def dirty_state(tracked: Tracked, repo: Repo) -> Found:
    """Every file that git calls dirty. Those that were known only for that, and are clean again, are dropped."""

    def work(save: Save) -> Found:
        tracked.save = save
        return _dirty_state(tracked, repo)

    try:
        return tracked.store.save_together(work)
    finally:
        tracked.save = tracked.store.save_blob


def _dirty_state(tracked: Tracked, repo: Repo) -> Found:
    commit = repo.head or ""
    captured, own = [], own_files(tracked.store)
    for one in repo.dirty():
        if one.path in own:
            continue
        known = tracked.known.get(one.path)
        by = "git" if known is None or known.get("by") == "git" else None
        try:
            captured.append(_capture_dirty(tracked, one, by=by))
        except StoreUnavailable as error:
            if "cannot be read" not in error.message:
                raise
            captured.append(tracked.unread(one.path, status=one.status, staged=one.staged, by=by))
    paths = {got.key for got in captured}
    only_dirty = (path for path, about in tracked.known.items() if about.get("by") == "git")
    return Found(captured, [path for path in only_dirty if path not in paths], commit)
