"""Files that an agent's tool edits: as they are before it first changes them, and after each change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.clock import by_time
from leftoff.engine.read.state import Reader
from leftoff.engine.steps.artifacts import Captured, relative
from leftoff.engine.workspace.file_state import recorded
from leftoff.engine.workspace.project_files import is_own
from leftoff.engine.workspace.tracking import (
    BEFORE,
    FileTracker,
    Found,
    Workspace,
    keep_first,
    look_at_git,
    look_at_known,
    next_status,
    withheld_outputs,
)
from leftoff.errors import LeftoffError, NotFound
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import long_sha256 as sha256
from leftoff.store.base import Store, Tx, View
from leftoff.store.rows import BlobRow, RunRow

if TYPE_CHECKING:
    from leftoff.store.base import Save


def inside(folder: str, paths: list[str]) -> list[str]:
    """Return those of the paths that are the project's own, and not the store's, as records name them.

    A tool that writes to a link writes to its target, so that is one of them, too.
    """
    top, found = os.path.realpath(folder), []
    for path in paths:
        above, name = os.path.split(path)
        real = os.path.join(os.path.realpath(above), name)
        found += [real, os.path.realpath(real)] if os.path.islink(real) else [real]
    names = dict.fromkeys(relative(top, path) for path in found)
    return [name for name in names if not os.path.isabs(name) and not is_own(name)]


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
    found = [(_captured(tracker, path) or [tracker.deleted(path)])[0] for path in paths]
    return [
        Peeked(got.key, got.about, contents[got.blob.hash] if got.blob is not None else None) for got in found
    ]


def before(workspace: Workspace, row: RunRow | None, peeked: list[Peeked]) -> list[Captured]:
    """Store the content of those files that a run knows nothing of yet, and return them."""
    store = workspace.store
    known = _known(store, row, [one.path for one in peeked])
    fresh = [one for one in peeked if one.path not in known or _later(known[one.path], one.about)]
    withheld = withheld_outputs(store, row) if row is not None and fresh else ()
    secret = [
        one._replace(about={**one.about, "captured": False}, data=None)
        for one in fresh
        if one.path in withheld
    ]
    fresh = [one for one in fresh if one.path not in withheld] + secret

    def work(save: Save) -> list[Captured]:
        rows = [save([one.data]) if one.data is not None else None for one in fresh]
        return [Captured(one.path, one.about, row) for one, row in zip(fresh, rows, strict=True)]

    return store.save_together(work) if fresh else []


def put_first(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, found: list[Captured]) -> None:
    """Record files as they were before the run first changed them, unless it knows that already."""
    reader = Reader(store, tx, row.run, row.run_id)
    for got in found:
        there = reader.value("file", got.key)
        first = tx.row(row.run, "context", BEFORE + got.key)
        if there is None or (first is None and _later(there.plain, got.about)):
            keep_first(changes, got, known=there is not None)


def _later(about: dict[str, Any], than: dict[str, Any]) -> bool:
    """Return whether a record was made after another one: a hook that waited may commit after a later hook."""
    return by_time(about.get("captured_at")) > by_time(than.get("captured_at"))


def after(workspace: Workspace, row: RunRow | None, paths: list[str]) -> list[Captured]:
    """Capture the files as they are now, and what became of them."""
    known = _known(workspace.store, row, paths)
    withheld = withheld_outputs(workspace.store, row) if row is not None else ()
    tracker = FileTracker(workspace, known, withheld)
    tracker.limit()
    out = []
    for path in paths:
        found = _captured(tracker, path, next_status(known.get(path), True, False))
        out += found or ([tracker.deleted(path)] if path in known else [])
    return out


def differs(reader: Reader, got: Captured) -> bool:
    """Return whether a file differs from what a run knows: a tool that failed may have left it as it was."""
    known = reader.value("file", got.key)
    return known is None or not recorded(known.plain).same(recorded(got.about))


def _captured(tracker: FileTracker, path: str, status: str | None = None) -> list[Captured]:
    try:
        return [tracker.capture(path, status=status)]
    except NotFound:
        return []
    except LeftoffError as error:
        if "cannot be read" not in error.message:
            raise
        return []


def _known(store: Store, row: RunRow | None, paths: list[str]) -> dict[str, dict[str, Any]]:
    """Return what a run's newest version says of these files."""
    if row is None:
        return {}

    def read(view: View) -> dict[str, dict[str, Any]]:
        reader = Reader(store, view, row.run, row.run_id)
        found = {path: reader.value("file", path) for path in paths}
        return {path: value.plain for path, value in found.items() if value is not None}

    return store.read(read)


def changed(workspace: Workspace, row: RunRow | None, until: int | None) -> Found | None:
    """Capture all that git calls dirty; outside of a repository, what changed of the files that the run knows.

    ``until``: what was changed later, in nanoseconds, is left out.
    """
    try:
        return look_at_git(workspace, row, always=True, until=until)
    except NotFound:
        if row is None:
            return None
        return look_at_known(workspace, row)
