"""A whole store once more: with its archive, which may lie in files beside its rows."""

from __future__ import annotations

import os
from functools import partial

from leftoff.engine.retention import archive
from leftoff.engine.retention.archive_trash import SINCE, trashed
from leftoff.engine.retention.page import SUFFIX, TRASH, page_of
from leftoff.errors import Conflict, NotFound
from leftoff.files import ARCHIVE, make_archive, sync_file, sync_folder
from leftoff.store.transfer import ARCHIVE_LEFT, check, copy, state

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
        if _copy_files(store, aside) or os.path.isdir(archive.folder_of(store) or ""):
            make_archive(aside)
            os.rename(aside, os.path.join(folder, ARCHIVE))
            sync_folder(folder)
    finally:
        rmtree(aside, ignore_errors=True)


def copy_store(
    source: Store, target: Store, now: int, driver: tuple[Process, str], tell: Tell
) -> dict[str, Any]:
    """Everything of one store into another that is empty, or was left by a copy of the same; what was copied. The
    archive comes last: where only that is missing, it alone is gone on with. It is looked at before the runs are copied
    and after: what is archived meanwhile is in the copy, too."""
    before, left = _files(source), _left(target) if target.exists() else None
    if left is None:
        done = copy(source, target, tell, more=True)
        left = _left(target)
    else:
        _need_unmoved(source, target, left)
        done = {"copied": {"run": 0}, "checked": check(target)}
    files = _files(source)
    if files:
        _copy_archive(source, target, now, driver)
        done["copied"]["archived"] = len(files)
    if files or before:
        _need_unmoved(source, target, left)
    target.write(lambda tx: tx.put_fact(ARCHIVE_LEFT, None))
    return done


def _left(target: Store) -> str | None:
    """What stood for the source when its runs were copied, where its archive is still to follow."""
    return target.read(lambda view: view.fact(ARCHIVE_LEFT))


def _need_unmoved(source: Store, target: Store, known: str | None) -> None:
    """What came to the runs of a source since they were copied, from its archive or by a commit, is not in the copy."""
    if state(source) != known:
        raise Conflict(
            f"{source.name} went on since its runs were copied: {target.name} does not have everything.",
            hint="Copy it into another place (`?project=NAME` makes one on the same server) while nobody works in it.",
        )


def _files(store: Store) -> list[str]:
    """The bundles of the archive, and of its trash."""
    return [*archive.bundles(store), *(page["path"] for page in trashed(store))]


def _copy_archive(source: Store, target: Store, now: int, driver: tuple[Process, str]) -> None:
    folder = target.archive_folder(make=True)
    if folder is not None:
        archive.note_folder(target)
        _copy_files(source, folder)
        return
    _refuse_namesakes(source, target)
    for path in sorted(archive.bundles(source), key=lambda path: archive.order_of(path) or (-1, "")):
        archive.take_in(target, path, now, driver, lambda tx, run, _: tx.archive(run))
    for page in sorted(trashed(source), key=lambda page: page[archive.ORDER]):
        hide = partial(_into_trash, page[SINCE])
        archive.take_in(target, page["path"], now, driver, hide)


def _into_trash(since: int, tx: Tx, run: int, run_id: str) -> None:
    tx.trash(run, since)


def _refuse_namesakes(source: Store, target: Store) -> None:
    """Files of the trash may have the name of another run; in a store each name is there once."""
    taken = {os.path.basename(path).removesuffix(SUFFIX) for path in archive.bundles(source)}
    taken |= set(source.read(lambda view: [row.run_id for row in view.list_runs({})]))
    for page in trashed(source):
        if page["run_id"] in taken:
            raise Conflict(
                f"The trash of {source.name} has a run {page['run_id']}, and there is another one of that name: "
                f"{target.name} cannot keep both.",
                hint="Delete it there (`leftoff prune --empty-trash`); then copy again.",
            )
        taken.add(page["run_id"])


def _copy_files(source: Store, folder: str) -> int:
    """The bundles and pages of an archive that are not in that folder yet, as files; how many there are."""
    found = _files(source)
    for path in found:
        below = TRASH if os.path.basename(os.path.dirname(path)) == TRASH else ""
        place = os.path.join(folder, below)
        make_archive(place)
        for name in (page_of(path), path):  # a bundle is there once its page is
            _copy_file(name, os.path.join(place, os.path.basename(name)))
        sync_folder(place)
    return len(found)


def _copy_file(path: str, target: str) -> None:
    from shutil import copyfile

    part = f"{target}.part"
    try:
        # A link may have come along with a repository.
        if not os.path.exists(target) and not os.path.islink(path):
            copyfile(path, part)
            os.chmod(part, 0o600)
            sync_file(part)
            os.rename(part, target)
    except FileNotFoundError:  # taken out meanwhile: it is in the store then; or a bundle without its page
        pass
