"""The trash: what retention removed, to be brought back for some days. A run lies there whole, where it is.

Into the trash and back is one transaction each, in which it is also looked at whether the run is still as it was when
that was decided. Bundles of the archive lie in a folder of their own beside the others.
"""

from __future__ import annotations

import os

from leftoff.engine.read.which import only_archived
from leftoff.engine.retention import archive, archive_trash
from leftoff.engine.retention.disk import attempts_folder, disk_use
from leftoff.engine.retention.names import is_called
from leftoff.engine.retention.page import TRASH
from leftoff.engine.retention.prune import refuse_driven, remove_attempts
from leftoff.engine.write.commit import Seal, Terms, commit_in
from leftoff.engine.write.head import Head
from leftoff.engine.write.unmoved import Moved, need_unmoved, until_unmoved
from leftoff.errors import Ambiguous, Conflict, NotFound
from leftoff.model.changes import ChangeSet
from leftoff.model.fields import Fields
from leftoff.store.bundle.write import sweep_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.host import Process
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow, Trashed

NOTE = "brought back from the trash"


class InTrash(Fields):
    """A run that can be brought back: where it is (its number in the store, or its bundle), and since when."""

    run_id: str
    workflow: str
    title: str | None
    status: str
    at: int
    n: int
    run: int = 0
    path: str = ""
    issue: str | None = None

    def about(self) -> dict[str, Any]:
        """What it is called."""
        return {"workflow": self.workflow, "title": self.title, "issue": self.issue}

    def to_json(self) -> dict[str, Any]:
        from leftoff.clock import iso

        about = {"run_id": self.run_id, "workflow": self.workflow, "title": self.title, "status": self.status}
        return {**about, "removed_at": iso(self.at)}


def discard(store: Store, row: RunRow, now: int) -> None:
    """A run goes into the trash, if it is still as it was decided on, and nobody drives it."""

    def work(tx: Tx) -> None:
        need_unmoved(tx, row)
        refuse_driven(tx, row.run, row.run_id, now)
        tx.trash(row.run, now)

    store.write(work)


def contents(store: Store) -> list[InTrash]:
    """What lies in the trash, the last one first."""
    if not store.exists():
        return []
    runs = [_in_store(each) for each in store.read(lambda view: view.trashed())]
    return sorted(
        [*runs, *map(_bundled, archive_trash.trashed(store))],
        key=lambda each: (each.n, each.at),
        reverse=True,
    )


def _in_store(each: Trashed) -> InTrash:
    row = each.row
    words = (row.run_id, row.workflow, row.title, row.status)
    return InTrash(*words, each.at, each.n, run=row.run, issue=row.issue)


def _bundled(page: dict[str, Any]) -> InTrash:
    words = (str(page.get("workflow", "")), page.get("title"), str(page.get("status", "")))
    since = (page[archive_trash.SINCE], page[archive.ORDER])
    return InTrash(page["run_id"], *words, *since, path=page["path"], issue=page.get("issue"))


# -- back


def undelete(store: Store, name: str, now: int, driver: tuple[Process, str]) -> str:
    """Bring a run back, by its id, or by a workflow, title or issue that only one has; an archived one, too. Its id.

    That is a checkpoint of its own: the rules count its age from here. One that was brought back and archived again
    meanwhile is looked up anew.
    """
    return until_unmoved(lambda: _undelete(store, name, now, driver))


def _undelete(store: Store, name: str, now: int, driver: tuple[Process, str]) -> str:
    found = _named(store, name)
    if isinstance(found, archive.Kept):
        return _unarchive(store, found, now, driver)
    if found.path:
        try:
            archive_trash.take_back(store, found.path, now, driver)
        except Moved:  # emptied, or brought back by somebody else
            raise _no_longer(found) from None
    store.write(lambda tx: _back(tx, found, now))
    return found.run_id


def _named(store: Store, name: str) -> InTrash | archive.Kept:
    """What is meant, in the trash or in the archive: an id goes before every other name, wherever it is."""
    there = contents(store)
    by_id = next((each for each in there if each.run_id == name), None) or archive.kept(store, name)
    if by_id is not None:
        return by_id
    found = [each for each in there if is_called(each.about(), name)]
    archived = [page for page in archive.archived(store) if is_called(page, name)] if found else []
    if len(found) + len(archived) > 1:
        names = ", ".join([*(each.run_id for each in found), *(page["run_id"] for page in archived)])
        raise Ambiguous(
            f"{name} names several runs that were removed or archived: {names}.",
            hint="Give the id of one of them.",
        )
    kept = found[0] if found else archive.find_archived(store, name, only_archived, whole=True)
    if kept is None:
        raise _not_there(store, name)
    return kept


def _unarchive(store: Store, found: archive.Kept, now: int, driver: tuple[Process, str]) -> str:
    run_id = archive.take_out(store, found, store, now, driver)
    store.write(lambda tx: _sealed(tx, run_id, "brought back from the archive", now))
    return run_id


def _not_there(store: Store, name: str) -> NotFound:
    if store.exists() and store.read(lambda view: view.find_run(name)) is not None:
        return NotFound(
            f"Run {name} is neither in the trash nor archived: it is there.", hint=f"leftoff show {name}"
        )
    wrong = archive.unfit_folders(store).values()
    hint = "`leftoff undelete` lists what is in the trash, `leftoff ls --all` what is archived."
    return NotFound(
        f"There is no run {name} in the trash or the archive. What `leftoff rm` removed is gone for good, and so is "
        "what lay in the trash for too long.",
        hint=" ".join([*wrong, hint]),
    )


def _no_longer(each: InTrash) -> Conflict:
    return Conflict(f"Run {each.run_id} is no longer in the trash.")


def _back(tx: Tx, found: InTrash, now: int) -> None:
    if found.run:
        row = tx.run_row(found.run)
        if row is None or not any(each.row.run == found.run for each in tx.trashed()):
            raise _no_longer(found)
        tx.untrash(found.run)
    _sealed(tx, found.run_id, NOTE, now)


def _sealed(tx: Tx, run_id: str, note: str, now: int) -> None:
    row = tx.find_run(run_id)
    if row is not None:
        commit_in(tx, Head.of(row), ChangeSet(), Terms(now, seal=Seal("manual", note=note, asked=True)))


# -- for good


def due(store: Store, now: int, age: int | None) -> list[InTrash]:
    """Return what has been in the trash for longer than ``age``. Without an age, nothing is ever due."""
    return [each for each in contents(store) if now - each.at > age] if age is not None else []


def remove(store: Store, each: InTrash) -> int:
    """Gone for good, unless it was brought back meanwhile; bytes given back."""
    if each.path:
        if not os.path.exists(each.path):
            raise _no_longer(each)
        return archive.drop(each.path)

    def allowed(view: View) -> None:
        if not any(there.row.run == each.run and there.n == each.n for there in view.trashed()):
            raise _no_longer(each)

    return store.remove(each.run, allowed) + remove_attempts(store, each.run_id)


def size(store: Store, there: Sequence[InTrash | RunRow]) -> int:
    """Return about how many bytes are given back when all of these are removed."""
    runs = [each.run for each in there if each.run]
    inside = store.read(lambda view: view.size(*runs, alone=True)) if runs else 0
    files = [getattr(each, "path", "") or attempts_folder(store, each.run_id) for each in there]
    return inside + sum(disk_use(path) for path in files)


def sweep(store: Store, now: int, age: int | None) -> list[InTrash]:
    """What is due goes, and the parts of bundles that nobody writes any more; what went."""
    gone = []
    for each in due(store, now, age):
        try:
            remove(store, each)
            gone.append(each)
        except (Conflict, NotFound):
            pass  # somebody was faster
    sweep_archive(store)
    return gone


def sweep_archive(store: Store) -> None:
    """Parts of bundles that nobody writes any more go."""
    folder = archive.folder_of(store)
    for below in (folder, os.path.join(folder, TRASH)) if folder is not None else ():
        sweep_parts(below)
