"""The trash of the archive: bundles that retention let go, to be brought back for some days.

Each has a name that no other one has had: a later run of the same id may follow it there.
"""

from __future__ import annotations

import os
from contextlib import suppress

from leftoff.engine.retention import shelf
from leftoff.engine.retention.archive import ORDER, drop, same_file, take_in, unlink
from leftoff.engine.retention.page import (
    PAGE,
    SUFFIX,
    TRASH,
    bundles_in,
    free_stem,
    page_of,
    read_page,
    write_page,
)
from leftoff.files import sync_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.retention.archive import Kept
    from leftoff.host import Process
    from leftoff.store.base import Store, Tx

SINCE = "trashed_at"  # on the page: since when it lies there; beside it, in ORDER, the newest commit of the store then


def discard(store: Store, found: Kept, now: int) -> bool:
    """An archived run goes into the trash, as it was found; whether it did."""
    if found.run:
        return shelf.discard(store, found.run, found.seen, now)
    return _discard(store, found.path, found.seen, now)


def _discard(store: Store, path: str, seen: os.stat_result, now: int) -> bool:
    """Not a bundle that was taken out, or written anew, since it was chosen."""
    page = page_of(path)
    try:
        about = read_page(page)
    except FileNotFoundError:
        return False
    folder = os.path.join(os.path.dirname(path), TRASH)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    newest = store.read(lambda view: max((n for _, n in view.stamps()), default=0))
    stem = free_stem(os.path.join(folder, os.path.basename(path).removesuffix(SUFFIX)), newest)
    write_page(stem + PAGE, {**about, SINCE: now, ORDER: newest})

    def work(tx: Tx) -> bool:
        if same_file(path, seen) and not os.path.exists(stem + SUFFIX):
            os.rename(path, stem + SUFFIX)
            unlink(page)
        return same_file(stem + SUFFIX, seen)  # also where this is tried again

    try:
        return store.write(work)
    finally:
        if not os.path.exists(stem + SUFFIX):  # a page alone tells of a run that is lost
            unlink(stem + PAGE)
        sync_folder(folder)


def trashed(store: Store) -> list[dict[str, Any]]:
    """The pages of the bundles in the trash, each with where it is. Of one that is damaged, what the file tells."""
    found = []
    for path in in_trash(store):
        try:
            page = read_page(page_of(path))
        except (OSError, ValueError):
            page = {}
        with suppress(FileNotFoundError):  # it went meanwhile
            whole = {"run_id", SINCE, ORDER} <= page.keys()
            found.append({**(page if whole else _told_by_file(path)), "path": path})
    return found


def _told_by_file(path: str) -> dict[str, Any]:
    """What is known of a bundle in the trash without its page."""
    run_id, _, n = os.path.basename(path).removesuffix(SUFFIX).rpartition("~")
    since = int(os.stat(path).st_ctime * 1000)
    return {"run_id": run_id, "status": "unknown", SINCE: since, ORDER: int(n) if n.isdigit() else 0}


def in_trash(store: Store) -> list[str]:
    """The bundles in the trash."""
    folder = store.archive_folder()
    return bundles_in(os.path.join(folder, TRASH)) if folder is not None else []


def take_back(store: Store, path: str, now: int, driver: tuple[Process, str]) -> None:
    """A bundle in the trash becomes a run of the store again; ``Moved`` where it is gone."""
    take_in(store, path, now, driver, own=True)
    drop(path)
