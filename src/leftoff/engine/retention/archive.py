"""The archive: runs that are over, out of the way, and opened again by whoever names them.

Where the store has a folder for it, each is a bundle there. A run goes into its bundle first, durably and aside. The
transaction in which it leaves the store, if it is still as the bundle has it, gives the bundle its name: so nobody
replaces the bundle of whoever was faster. Cut short in between, it is in both, which the next archiving finds to be the
same. A small page beside the bundle holds what listings show.

A store that has no folder which all its machines find keeps archived runs itself (``leftoff.engine.retention.shelf``).
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock

from leftoff.clock import by_time
from leftoff.engine.lifecycle.opening import find
from leftoff.engine.lifecycle.origin import came_back, note_leaving
from leftoff.engine.read.info import LIMITS, run_info
from leftoff.engine.retention import shelf
from leftoff.engine.retention.bundle_check import open_bundle, open_kept
from leftoff.engine.retention.disk import disk_use
from leftoff.engine.retention.export import export, hidden, import_bundle
from leftoff.engine.retention.names import NAMES, carries, carries_longer, is_called, is_of, with_checkpoint
from leftoff.engine.retention.page import (
    DAMAGED,
    SUFFIX,
    TRASH,
    bundles_in,
    is_bundle,
    page_of,
    read_page,
    refuse_unknown,
    write_page,
)
from leftoff.engine.retention.prune import check_removable, refuse_driven, remove_attempts, take_away
from leftoff.engine.write.head import gone
from leftoff.engine.write.unmoved import Moved, need_unmoved, until_unmoved
from leftoff.errors import Conflict, Corrupt, LeftoffError, NotFound, StoreUnavailable
from leftoff.files import sync_folder
from leftoff.model.fields import Fields
from leftoff.model.ids import parse_ref
from leftoff.store.bundle.write import PART
from leftoff.store.rows import ARCHIVED_IN, BESIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from leftoff.engine.lifecycle.origin import Mark
    from leftoff.engine.retention.bundle_check import Bundle
    from leftoff.host import Process
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

    Check = Callable[[RunRow], None]
    Several = Callable[[list[dict[str, Any]], str], dict[str, Any]]

ORDER = "n"  # on the page: the store-wide number of its last commit
OURS = "ours"  # on the page: what shows that this user made it, as it is in the bundle


def folder_of(store: Store) -> str | None:
    """Where a store keeps its archive; ``None``: it has none."""
    return store.archive_folder()


class Kept(Fields):
    """An archived run: its bundle, or its number in the store that keeps it. ``seen``: the file, or the version, that
    tells it from the next one of that name."""

    run_id: str
    path: str = ""
    run: int = 0
    seen: Any = None


class Archived(Fields):
    """The bundle that a run went into (none: the store keeps it), and the run as it was listed. ``logs``: the bytes of
    what its steps had printed, which is in no bundle. ``already``: it was there before, and nothing was done."""

    path: str
    about: dict[str, Any]
    logs: int = 0
    already: bool = False


def archive(store: Store, row: RunRow, now: int, check: Check, limits: tuple[int, int] = LIMITS) -> Archived:
    """Move a run into the archive. ``check`` raises where a run, as it is by then, is not to be archived.

    A commit made while the bundle was written is seen in the transaction that would remove the run: then the bundle
    is written again, with that commit in it.
    """
    _refuse_gone(store)
    folder = store.archive_folder(make=True)
    if folder is None:
        about = until_unmoved(lambda: shelf.put(store, row.run_id, now, check, limits))
        return Archived("", about)
    note_folder(store)
    path = os.path.join(folder, row.run_id + SUFFIX)
    _refuse_other(store, row, path)
    try:
        return until_unmoved(lambda: _archive(store, row.run_id, path, now, check, limits))
    except LeftoffError:
        with suppress(StoreUnavailable):  # it is in both then
            _drop_taken(store, path, row.run_id)  # the run stays in the store, and is not in the archive, too
        raise


def _refuse_gone(store: Store) -> None:
    """A new folder in its place would hide that there was another."""
    folder = folder_of(store) or ""
    wrong = "" if os.path.lexists(folder) else unfit_folders(store).get(folder)
    if wrong:
        hint = (
            "Look for a backup of it. `leftoff fsck --repair` notes that it is gone; then a new one is begun."
        )
        raise Corrupt(wrong, where=folder, hint=hint)


def note_folder(store: Store) -> None:
    """That there is a folder of archived runs, once: if it is gone later, it is missed."""
    if store.read(lambda view: view.fact(ARCHIVED_IN)) is None:
        store.write(lambda tx: tx.put_fact(ARCHIVED_IN, BESIDE))


def unfit_folders(store: Store) -> dict[str, str]:
    """By path, what is wrong with the folder of archived runs, and with that of its trash."""
    folder, found = folder_of(store), {}
    if folder is None or not store.exists():
        return {}
    for path in (folder, os.path.join(folder, TRASH)):
        if os.path.lexists(path) and not os.path.isdir(path):
            found[path] = f"{path} is no folder, and archived runs should be in there."
    if not os.path.lexists(folder) and store.read(lambda view: view.fact(ARCHIVED_IN)) == BESIDE:
        found[folder] = f"{folder} is gone, and with it what was archived in there."
    return found


def _archive(
    store: Store, run_id: str, path: str, now: int, check: Check, limits: tuple[int, int]
) -> Archived:
    check_removable(store, run_id, now)
    row = store.read(lambda view: find(view, run_id))
    check(row)
    aside = _aside(path)
    try:
        done = export(store, row, aside, inside=True)
        with _held(aside) as written:
            info = run_info(store, row.run, now, limits)
            if info is None:
                raise gone(run_id)
            about = {**info.to_json(), "archived": True}
            ours = store.read(lambda view: note_leaving(view, done.row))
            page = {**about, NAMES: done.names, ORDER: done.row.n, OURS: ours}

            def allowed(view: View) -> None:
                view.head(row.run)  # on a server, too, nobody else changes it from here on
                need_unmoved(view, done.row)
                refuse_driven(view, row.run, run_id, now)
                _place(aside, path, written, page)

            take_away(store, row.run, f"Run {run_id} is archived", allowed)
    finally:
        unlink(aside)
    return Archived(path, about, remove_attempts(store, run_id))


def _aside(path: str) -> str:
    """A new name beside a bundle's, of a part that is swept where nobody holds it any more."""
    return os.path.join(os.path.dirname(path), os.urandom(6).hex().join(PART))


@contextmanager
def _held(part: str) -> Iterator[os.stat_result]:
    """A part that nobody sweeps meanwhile; which file it is."""
    try:
        fd = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _swept(part) from None
    try:
        flock(fd, LOCK_EX)
        written = os.fstat(fd)
        if not same_file(part, written):
            raise _swept(part)
        yield written
    finally:
        os.close(fd)


def _swept(path: str) -> Moved:
    return Moved(f"The bundle {path} is no longer there.")


def _place(aside: str, path: str, written: os.stat_result, page: dict[str, Any]) -> None:
    """Give a bundle its name, and its page, durably. In a transaction, which may be tried again."""
    try:
        os.replace(aside, path)
    except FileNotFoundError:
        if not same_file(path, written):
            raise _swept(path) from None
    write_page(page_of(path), page)
    sync_folder(os.path.dirname(path))


def same_file(path: str, written: os.stat_result) -> bool:
    """Whether a file is the one that we wrote: whoever took the run out of the archive meanwhile took it away, and a
    new one may have got its number."""
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(now, written) and now.st_mtime_ns == written.st_mtime_ns


def _refuse_other(store: Store, row: RunRow, path: str) -> None:
    """A bundle that is there already must be of this very run, as it was or is; another one is not written over."""
    if not os.path.exists(path):
        return
    bundle = open_bundle(path)
    try:
        last = bundle.versions[-1] if bundle.versions else None
    finally:
        bundle.close()
    known = store.read(lambda view: view.version(row.run, last.seq)) if last is not None else None
    if last is not None and (known is None or known.digest != last.digest):
        raise Conflict(
            f"There is another run {row.run_id} in the archive: {path}.",
            hint="Move that file away, or `leftoff import` it into another store.",
        )


def kept(store: Store, run_id: str) -> Kept | None:
    """The archived run of that id."""
    if "/" in run_id or "\0" in run_id or not run_id:
        return None
    path = os.path.join(folder_of(store) or "", run_id + SUFFIX)
    if os.path.isabs(path) and is_bundle(path):
        return Kept(run_id, path, seen=os.stat(path))
    row = shelf.find(store, run_id)
    return Kept(run_id, run=row.run, seen=row.seq) if row is not None else None


def _pages(store: Store) -> list[dict[str, Any]]:
    """What is known of the archived runs, latest first; names of their checkpoints included."""
    found = shelf.pages(store)
    for path in bundles(store):
        about: dict[str, Any] = {"status": "completed", "archived": True}
        try:
            about |= read_page(page_of(path))
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            about |= {"status": "unknown", DAMAGED: True}
        found.append({**about, "run_id": os.path.basename(path).removesuffix(SUFFIX)})
    return sorted(found, key=lambda about: by_time(about.get("updated_at")), reverse=True)


def archived(store: Store) -> list[dict[str, Any]]:
    """The archived runs as they were listed, latest first."""
    return [
        {key: value for key, value in about.items() if key not in (NAMES, ORDER, OURS)}
        for about in _pages(store)
    ]


def already(store: Store, run_id: str) -> Archived | None:
    """What is said to whoever archives a run that is archived; ``None`` where it is not."""
    found = kept(store, run_id)
    about = next((page for page in archived(store) if page["run_id"] == run_id), None)
    return Archived(found.path, about, already=True) if found is not None and about is not None else None


def find_archived(store: Store, text: str, several: Several, *, whole: bool = False) -> Kept | None:
    """The archived run that a REF is about, as a REF is read; ``several`` says which of those that a
    name fits. Only for what names nothing in the store. ``whole``: a version of one is not looked for."""
    ref, pages = parse_ref(text), _pages(store)
    tried = [(text, is_of), (text, carries), (text, is_called)]
    if not ref.has_version:
        tried.append((text, carries_longer))
    elif not whole:
        tried = [(ref.base, is_of), (ref.base, is_called), *tried]
    if not whole and not any(is_of(about, text) for about in pages):
        carrier = with_checkpoint(store, bundles(store), text)
        if carrier is not None:
            return kept(store, carrier)
    for name, fits in tried:
        found = [about for about in pages if fits(about, name)]
        if found:
            return kept(store, str(several(found, name)["run_id"]))
    refuse_unknown(pages, text, folder_of(store))
    return None


def run_in_archive(store: Store, text: str) -> Kept | None:
    """The run whose id a REF starts with, where that is in the archive and no longer in the store."""
    base = parse_ref(text).base
    found = kept(store, base)
    there = found is not None and store.exists() and store.read(lambda view: view.find_run(base)) is not None
    return None if there else found


def take_out(store: Store, found: Kept, into: Store, now: int, driver: tuple[Process, str]) -> str:
    """Bring an archived run back, into this store or another; its id. Back in its own, the bundle goes."""
    if found.run and into is store:
        shelf.take_back(store, found.run)
    elif found.run:
        shelf.copy_out(store, found.run, into, now, driver)
    else:
        opened = take_in(into, found.path, now, driver, own=into is store)
        if into is store:
            _drop_taken(store, found.path, found.run_id, opened)
    return found.run_id


def take_in(
    into: Store,
    path: str,
    now: int,
    driver: tuple[Process, str],
    hide: Mark | None = None,
    *,
    own: bool = False,
) -> os.stat_result:
    """The run of a bundle becomes one of a store; which file that was. ``hide``: it is not seen there. ``own``: the
    archive is that store's. ``Moved`` where the bundle is not there any more, in its own store also when the run would
    be seen: somebody took it back, and may have archived it again, with more in it."""
    try:
        opened = os.stat(path)
        bundle = open_kept(path)
    except (FileNotFoundError, NotFound):
        raise _swept(path) from None
    try:
        if hide is None or not _is_hidden(into, bundle):
            still = _still(path, opened) if own else None
            import_bundle(into, bundle, now, driver, both(still, _mark(path, bundle), hide))
    finally:
        bundle.close()
    return opened


def refuse_other(store: Store, bundle: Bundle) -> Mark:
    """An archived run keeps its id: only that very run comes back under it, else this is a ``Conflict``. Given back is
    what looks once more when the run of a bundle would be seen: one of its id may have been archived meanwhile."""
    found = run_in_archive(store, bundle.run_id)
    if found is not None and found.path:
        there = open_kept(found.path)
        there.close()
        if (there.head.seq, there.head.digest) != (bundle.head.seq, bundle.head.digest):
            raise hidden(bundle.run_id)

    def still(tx: Tx, run: int, run_id: str) -> None:
        path = os.path.join(tx.archive_folder, run_id + SUFFIX) if tx.archive_folder is not None else ""
        known = found is not None and found.path and same_file(path, found.seen)
        if is_bundle(path) and not known:
            raise hidden(run_id)

    return still


def _still(path: str, opened: os.stat_result) -> Mark:
    def still(tx: Tx, run: int, run_id: str) -> None:
        if not same_file(path, opened):
            raise _swept(path)

    return still


def _is_hidden(store: Store, bundle: Bundle) -> bool:
    """Whether the very run of a bundle is in a store, out of sight."""
    row = store.read(lambda view: view.find_run(bundle.run_id, hidden=True)) if store.exists() else None
    return bool(row and row.hidden and (row.seq, row.digest) == (bundle.head.seq, bundle.head.digest))


def both(*marks: Mark | None) -> Mark:
    def mark(tx: Tx, run: int, run_id: str) -> None:
        for each in marks:
            if each is not None:
                each(tx, run, run_id)

    return mark


def _mark(path: str, bundle: Bundle) -> Mark | None:
    try:
        said = read_page(page_of(path)).get(OURS)
    except (OSError, ValueError):
        return None
    return came_back(said, bundle.run_id, bundle.head.digest)


def _drop_taken(store: Store, path: str, run_id: str, opened: os.stat_result | None = None) -> None:
    """The bundle of a run, the one that was ``opened``, goes if that run is in the store. It may have been archived
    again: a transaction tells, and takes its page along."""
    aside = _aside(path)

    def work(tx: Tx) -> None:
        same = os.path.exists(path) if opened is None else same_file(path, opened)
        row = tx.find_run(run_id) if same else None
        if row is not None and tx.head(row.run) is not None:  # held: what takes it away on a server is over
            os.rename(path, aside)  # at once, however large it is
            unlink(page_of(path))

    store.write(work)
    unlink(aside)


def remove(store: Store, found: Kept) -> int:
    """Delete an archived run that somebody decided about, as it was found then; the bytes that it took."""
    return shelf.delete(store, found.run, found.seen) if found.run else _remove(store, found.path, found.seen)


def _remove(store: Store, path: str, seen: os.stat_result) -> int:
    aside, size = _aside(path), disk_use(path) + disk_use(page_of(path))

    def work(tx: Tx) -> None:
        if not os.path.exists(aside):  # else this is tried again
            if not same_file(path, seen):
                raise Conflict(
                    f"The bundle {path} is not the one that was asked about.",
                    hint="Somebody worked on its run meanwhile. Nothing was removed; look again.",
                )
            unlink(page_of(path))  # before its bundle: a page alone tells of a run that is lost
            os.rename(path, aside)

    store.write(work)
    unlink(aside)
    return size


def unlink(path: str) -> None:
    with suppress(FileNotFoundError, IsADirectoryError):  # a folder is none of ours
        os.unlink(path)


def size_of(store: Store, found: Kept) -> int:
    """The bytes that an archived run takes."""
    return store.read(lambda view: view.size(found.run)) if found.run else disk_use(found.path)


def drop(path: str) -> int:
    """Delete a bundle and its page, that first; the bytes that they took on disk."""
    size = disk_use(path) + disk_use(page_of(path))
    unlink(page_of(path))
    unlink(path)
    return size


def oldest(store: Store, keep: int) -> list[Kept]:
    """The archived runs beyond the newest so many, by their last commit. A bundle without its page is not counted."""
    if keep < 0:
        return []
    found = [((row.n, ""), Kept(row.run_id, run=row.run, seen=row.seq)) for row in shelf.rows(store)]
    for path in bundles(store):
        run_id = os.path.basename(path).removesuffix(SUFFIX)
        with suppress(FileNotFoundError):  # taken out just now
            seen, order = os.stat(path), order_of(path)
            if order is not None:
                found.append((order, Kept(run_id, path, seen=seen)))
    found.sort(key=lambda each: each[0], reverse=True)
    return [each for _, each in found[keep:]]


def bundles(store: Store) -> list[str]:
    """The files of archived runs."""
    folder = folder_of(store)
    return bundles_in(folder) if folder is not None else []


def order_of(path: str) -> tuple[int, str] | None:
    """Where a bundle's run stands among the others: by the store's own count, never by a clock; pages of old have only
    that. ``None``: it has no page."""
    try:
        page = read_page(page_of(path))
    except (OSError, ValueError):
        return None
    number = page.get(ORDER)
    return number if isinstance(number, int) else -1, str(page.get("updated_at"))
