"""A whole store once more: with its archive, which may lie in files beside its rows."""

from __future__ import annotations

import os

from leftoff.engine.retention import archive
from leftoff.engine.retention.archive import PAGE, SUFFIX, TRASH
from leftoff.errors import NotFound
from leftoff.files import ARCHIVE, make_archive, sync_file, sync_folder
from leftoff.store.transfer import ARCHIVE_LEFT, check, copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.host import Process
    from leftoff.store.base import Store, Tx
    from leftoff.store.transfer import Tell


def backup(store: Store, folder: str) -> None:
    """A consistent copy into a new folder, while others write. The archive is looked at before and after: whatever
    moves between it and the rows meanwhile is in one of them at least."""
    from shutil import rmtree

    if not store.exists():
        raise NotFound(f"There is nothing to back up: there is no store at {store.name}.")
    aside = f"{os.path.abspath(folder)}.{os.urandom(6).hex()}"  # nobody's name: it is deleted in the end
    try:
        _copy_files(store, aside)
        store.backup(folder)
        if _copy_files(store, aside):
            os.rename(aside, os.path.join(folder, ARCHIVE))
            sync_folder(folder)
    finally:
        rmtree(aside, ignore_errors=True)


def copy_store(
    source: Store, target: Store, now: int, driver: tuple[Process, str], tell: Tell
) -> dict[str, Any]:
    """Everything of one store into another that is empty, or was left by a copy of the same; what was copied. The
    archive comes last: where only that is missing, it alone is gone on with."""
    files = _files(source)
    if target.exists() and target.read(lambda view: view.fact(ARCHIVE_LEFT)) == source.name:
        done: dict[str, Any] = {"copied": {"run": 0}, "checked": check(target)}
    else:
        done = copy(source, target, tell, left=source.name if files else None)
    if files:
        _copy_archive(source, target, now, driver)
        target.write(lambda tx: tx.put_fact(ARCHIVE_LEFT, None))
        done["copied"]["archived"] = len(files)
    return done


def _files(store: Store) -> list[str]:
    """The bundles of the archive, and of its trash."""
    return [*archive.bundles(store), *(page["path"] for page in archive.trashed(store))]


def _copy_archive(source: Store, target: Store, now: int, driver: tuple[Process, str]) -> None:
    folder = target.archive_folder(make=True)
    if folder is not None:
        _copy_files(source, folder)
        return
    for path in archive.bundles(source):
        archive.take_in(target, path, now, driver)
        target.write(_hides(os.path.basename(path).removesuffix(SUFFIX)))
    for page in archive.trashed(source):
        archive.take_in(target, page["path"], now, driver)
        target.write(_hides(page["run_id"], page[archive.SINCE]))


def _hides(run_id: str, since: int | None = None) -> Any:
    """A run that just came in is archived; or lies in the trash, since then."""

    def work(tx: Tx) -> None:
        row = tx.find_run(run_id)
        if row is not None:
            tx.archive(row.run) if since is None else tx.trash(row.run, since)

    return work


def _copy_files(source: Store, folder: str) -> int:
    """The bundles and pages of an archive that are not in that folder yet, as files; how many there are."""
    found = _files(source)
    for path in found:
        below = TRASH if os.path.basename(os.path.dirname(path)) == TRASH else ""
        place = os.path.join(folder, below)
        make_archive(place)
        for name in (path.removesuffix(SUFFIX) + PAGE, path):  # a bundle is there once its page is
            _copy_file(name, os.path.join(place, os.path.basename(name)))
        sync_folder(place)
    return len(found)


def _copy_file(path: str, target: str) -> None:
    from shutil import copyfile

    part = f"{target}.part"
    try:
        if not os.path.exists(target):
            copyfile(path, part)
            os.chmod(part, 0o600)
            sync_file(part)
            os.rename(part, target)
    except FileNotFoundError:  # taken out meanwhile: it is in the store then; or a bundle without its page
        pass
