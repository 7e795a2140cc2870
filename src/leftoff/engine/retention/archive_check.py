"""fsck of the archive: every bundle, those in its trash included, and the page beside each.

A page is made again from its bundle. A bundle that is damaged is the only copy of its run: repair puts it aside, and
names the run as lost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from tempfile import TemporaryDirectory

from leftoff.engine.lifecycle.opening import find
from leftoff.engine.read.info import LIMITS, run_info
from leftoff.engine.retention import archive, archive_trash
from leftoff.engine.retention.bundle_check import open_kept
from leftoff.engine.retention.names import NAMES
from leftoff.engine.retention.page import TRASH, lost_bundles, page_of, read_page, run_of, write_page
from leftoff.errors import BadData, Unsupported
from leftoff.files import sync_folder
from leftoff.host import this_process
from leftoff.store import open_store
from leftoff.store.rows import ARCHIVED_IN, BESIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store, Tx

CODE = "archive"
QUARANTINE = "quarantine"


def check_archive(store: Store, found: dict[str, Any], *, repair: bool) -> None:
    """What is wrong with the archive is added to what fsck found in the store."""
    sound = repair or not found["problems"]
    paths = [*archive.bundles(store), *archive_trash.in_trash(store)]
    if paths:
        found["checked"]["bundles"] = len(paths)
    for path in paths:
        wrong = _bundle(path)
        if wrong and repair:
            _set_aside(store, path, wrong, found)
        elif wrong:
            found["problems"].append(_problem(path, wrong))
        else:
            _check_page(store, path, found, repair=repair)
    if not sound:  # what it knows of its archive cannot be read before it is repaired
        return
    for path, wrong in archive.unfit_folders(store).items():
        _no_folder(store, path, wrong, found, repair=repair)
    for run_id, page in gone_from_archive(store).items():
        _gone(store, run_id, page, found, repair=repair)


def gone_from_archive(store: Store) -> dict[str, str]:
    """By run, the pages of archived runs whose bundle is gone, and that are not in the store either."""
    lost = lost_bundles(archive.folder_of(store))
    return {run_id: page for run_id, page in lost.items() if not _is_there(store, page, hidden=True)}


def _no_folder(store: Store, path: str, wrong: str, found: dict[str, Any], *, repair: bool) -> None:
    """The archive or its trash is gone: nothing tells which runs were in there. What is in its place is put aside."""
    found["repaired" if repair else "problems"].append(_problem(path, wrong))
    if repair and os.path.lexists(path):
        there = _place_in_quarantine(store, path)
        os.rename(path, there)
        found["quarantined"].append(there)
    if repair and path == archive.folder_of(store):
        store.write(_forget_folder)


def _forget_folder(tx: Tx) -> None:
    if tx.fact(ARCHIVED_IN) == BESIDE:
        tx.put_fact(ARCHIVED_IN, None)


def _gone(store: Store, run_id: str, page: str, found: dict[str, Any], *, repair: bool) -> None:
    """Only the page of an archived run is left."""
    message = f"The bundle of the archived run {run_id} is gone; this page tells of it."
    if repair:
        _put_aside(store, page, "Its bundle in the archive is gone.", found)
    else:
        found["problems"].append(_problem(page, message))


def _problem(path: str, message: str) -> dict[str, Any]:
    return {"code": CODE, "where": path, "message": message}


def _bundle(path: str) -> str:
    """What is wrong with a bundle. One of a newer leftoff is not judged, nor one that went meanwhile."""
    try:
        open_kept(path).close()
    except Unsupported:
        return ""
    except (BadData, FileNotFoundError) as error:
        return getattr(error, "message", "") if os.path.exists(path) else ""
    return ""


def _check_page(store: Store, path: str, found: dict[str, Any], *, repair: bool) -> None:
    """Whether a page is what was written. One that is not there is missing, unless archiving was cut short."""
    page = page_of(path)
    try:
        read_page(page)
        return
    except FileNotFoundError:
        wrong = "The page of this bundle is gone: what listings show, and names are found by."
    except (OSError, ValueError):
        wrong = "It is damaged: what listings show of an archived run, and names are found by."
    if not os.path.exists(path) or (not os.path.exists(page) and _is_there(store, path)):
        return
    if repair:
        _make_page(store, path)
    found["repaired" if repair else "problems"].append(_problem(page, wrong))


def _is_trash(path: str) -> bool:
    return os.path.basename(os.path.dirname(path)) == TRASH


def _is_there(store: Store, path: str, *, hidden: bool = False) -> bool:
    """Whether the run of a bundle is in the store as well."""
    return store.exists() and store.read(lambda view: view.find_run(run_of(path), hidden=hidden)) is not None


def _make_page(store: Store, path: str) -> None:
    """The page of a bundle, from what is in that. Its place among the others, and its days in the trash, count anew."""
    now = store.clock.now()
    with TemporaryDirectory(prefix="leftoff-") as folder:
        aside = open_store(folder + "/.leftoff", folder)
        try:
            seen = archive.take_in(aside, path, now, (this_process(), "leftoff fsck"))
            row = aside.read(lambda view: find(view, view.list_runs({}, 1)[0].run_id))
            info = run_info(aside, row.run, now, LIMITS)
            sealed = aside.read(lambda view: view.versions(row.run, sealed=True))
        finally:
            aside.close(soon=True)
    names = sorted({name for version in sealed for name in version.aliases})
    newest = store.read(lambda view: max((n for _, n in view.stamps()), default=0)) if store.exists() else 0
    about = {**(info.to_json() if info is not None else {}), "archived": True}
    about |= {NAMES: names, archive.ORDER: newest}

    def work(tx: Tx) -> None:
        if _is_same(path, seen):  # else it was taken out, or archived anew with a page of its own
            write_page(page_of(path), {**about, archive_trash.SINCE: now} if _is_trash(path) else about)

    store.write(work)


def _is_same(path: str, seen: os.stat_result) -> bool:
    return os.path.exists(path) and os.path.samestat(os.stat(path), seen)


def _set_aside(store: Store, path: str, wrong: str, found: dict[str, Any]) -> None:
    """A damaged bundle goes to the quarantine; its run is lost, unless the store has it."""
    if not _is_there(store, path):
        _put_aside(store, path, f"{wrong.rstrip('.')}. It is left out.", found)
    elif _into_quarantine(store, path, found):
        found["repaired"].append(_problem(path, wrong))


def _put_aside(store: Store, path: str, message: str, found: dict[str, Any]) -> None:
    """What is left of a run that is lost goes to the quarantine."""
    there = _into_quarantine(store, path, found)
    if there:
        lost: dict[str, Any] = {"run_id": run_of(path), "kept": None, "newest": None, "unproved": []}
        found["salvaged"].append({**lost, "aside": there, "message": message})


def _into_quarantine(store: Store, path: str, found: dict[str, Any]) -> str:
    """Where it is now; empty where somebody was faster."""
    seen, there = os.stat(path), _place_in_quarantine(store, path)

    def work(tx: Tx) -> None:
        if _is_same(path, seen):
            os.rename(path, there)
            with suppress(FileNotFoundError):  # its page goes along; or it is one itself
                os.rename(page_of(path), page_of(there))

    store.write(work)
    sync_folder(os.path.dirname(there))
    if not os.path.exists(there):
        return ""
    found["quarantined"].append(there)
    return there


def _place_in_quarantine(store: Store, path: str) -> str:
    """A name for a file of the archive in a folder that is there then."""
    folder = os.path.join(os.path.dirname(archive.folder_of(store) or ""), QUARANTINE, CODE)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, f"{store.clock.now()}-{os.path.basename(path)}")
