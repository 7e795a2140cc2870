"""The archive: runs that are over, each one bundle beside the store, opened again by whoever names it.

A run goes into its bundle first, durably, and leaves the store after that; cut short in between it is in both, which
the next archiving finds to be the same. A small page beside the bundle holds what listings show.
"""

from __future__ import annotations

import os

from leftoff.engine.read.info import LIMITS, run_info
from leftoff.engine.retention.bundle_check import open_bundle
from leftoff.engine.retention.export import export, import_bundle
from leftoff.engine.retention.prune import check_removable
from leftoff.errors import Conflict, LeftoffError
from leftoff.model.codec import decode, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.host import Process
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow

FOLDER = "archive"
SUFFIX, PAGE = ".leftoff", ".json"
NAMES = "names"  # on the page: what its checkpoints are called by a protocol


def folder_of(store: Store) -> str | None:
    """Where a store keeps its archive; ``None`` for one that has no folder."""
    folder = getattr(store, "folder", None)
    return os.path.join(folder, FOLDER) if folder is not None else None


def archive(
    store: Store, row: RunRow, now: int, limits: tuple[int, int] = LIMITS
) -> tuple[str, dict[str, Any], int]:
    """Move a run into its bundle: the file, the run as it was listed, and the bytes given back."""
    check_removable(store, row.run_id, now)
    folder = folder_of(store)
    if folder is None:
        raise LeftoffError(f"{store.name} has no archive.", hint="`leftoff export` writes a run to a file.")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, row.run_id + SUFFIX)
    _refuse_other(store, row, path)
    info = run_info(store, row.run, now, limits)
    assert info is not None
    about = {**info.to_json(), "archived": True}
    known = store.read(lambda view: view.versions(row.run, sealed=True))
    names = sorted({name for version in known for name in version.aliases})
    export(store, row, path, inside=True)
    os.chmod(path, 0o600)
    _write_page(os.path.join(folder, row.run_id + PAGE), {**about, NAMES: names})
    return path, about, store.remove(row.run)


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


def _write_page(path: str, about: dict[str, Any]) -> None:
    temp = f"{path}.{os.getpid()}.part"
    with open(temp, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(text(about))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temp, path)


def bundle_of(store: Store, run_id: str) -> str | None:
    """The bundle of an archived run."""
    folder = folder_of(store)
    if folder is None or "/" in run_id or "\0" in run_id or not run_id:
        return None
    path = os.path.join(folder, run_id + SUFFIX)
    return path if os.path.isfile(path) else None


def _read_page(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        found = decode(file.read())
    return found if isinstance(found, dict) else {}


def bundle_named(store: Store, name: str) -> str | None:
    """The bundle of the archived run that has a checkpoint of this name."""
    folder = folder_of(store)
    for page in sorted(os.listdir(folder)) if folder is not None and os.path.isdir(folder) else ():
        try:
            own = _read_page(os.path.join(folder or "", page)).get(NAMES) if page.endswith(PAGE) else None
        except (OSError, ValueError):
            continue
        if isinstance(own, list) and name in own:
            return bundle_of(store, page.removesuffix(PAGE))
    return None


def archived(store: Store) -> list[dict[str, Any]]:
    """The archived runs as they were listed, latest first."""
    folder = folder_of(store)
    found = []
    for name in sorted(os.listdir(folder)) if folder is not None and os.path.isdir(folder) else ():
        if not name.endswith(SUFFIX):
            continue
        run_id = name.removesuffix(SUFFIX)
        about: dict[str, Any] = {"run_id": run_id, "status": "completed", "archived": True}
        try:
            about |= _read_page(os.path.join(folder or "", run_id + PAGE))
        except (OSError, ValueError):
            pass
        about.pop(NAMES, None)
        found.append(about)
    return sorted(found, key=lambda about: str(about.get("updated_at")), reverse=True)


def take_out(store: Store, path: str, into: Store, now: int, driver: tuple[Process, str]) -> str:
    """Bring an archived run back, into this store or another; its id. Back in its own, the bundle goes."""
    bundle = open_bundle(path)
    try:
        import_bundle(into, bundle, now, driver)
        run_id = bundle.run_id
    finally:
        bundle.close()
    if into is store:
        drop(path)
    return run_id


def drop(path: str) -> int:
    """Delete a bundle and its page; bytes."""
    size = 0
    for name in (path, path.removesuffix(SUFFIX) + PAGE):
        try:
            size += os.path.getsize(name)
            os.unlink(name)
        except FileNotFoundError:
            pass
    return size


def oldest(store: Store, keep: int) -> list[str]:
    """The bundles beyond the newest so many."""
    folder = folder_of(store)
    if folder is None or not os.path.isdir(folder) or keep < 0:
        return []
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX)]
    paths.sort(key=lambda path: (os.stat(path).st_mtime_ns, path), reverse=True)
    return paths[keep:]
