"""A consistent copy of a store while others write to it."""

from __future__ import annotations

import os
import shutil

from leftoff.errors import Invalid
from leftoff.store.location import make_folder, refuse_network, sync, sync_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.sqlite import SqliteStore


def backup(store: SqliteStore, folder: str) -> None:
    """The database by ``VACUUM INTO`` (one snapshot, no writer waits), then every blob that it refers to.

    The copy is made under another name and renamed last: a folder with a ``store.db`` is a complete backup.
    """
    from leftoff.store.sqlite import FILE, SqliteStore

    if os.path.isdir(folder) and os.listdir(folder):
        raise Invalid(f"{folder} is not empty; a backup goes into a new folder.")
    make_folder(folder)
    refuse_network(folder)
    part = os.path.join(folder, FILE + ".part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    db = store.take()
    try:
        db.execute("VACUUM INTO ?", (part,))
    finally:
        store.give(db)
    fd = os.open(part, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)
    os.rename(part, os.path.join(folder, FILE))
    copy = SqliteStore(folder, store.clock)
    try:
        _copy_blobs(store, copy)
    finally:
        copy.close()
    sync_folder(folder)


def _copy_blobs(store: SqliteStore, copy: SqliteStore) -> None:
    from leftoff.store.queries import Q
    from leftoff.store.rows import BlobRow

    rows = copy.read(lambda view: view.execute(Q.blobs).fetchall())  # type: ignore[attr-defined]
    for columns in rows:
        row = BlobRow(*columns)
        for _ in store.blobs.load(row):
            pass  # checked before it is copied: a backup of damage is none
        target = copy.blobs.path(row.hash)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        source = store.blobs.path(row.hash)
        shutil.copyfile(source if os.path.exists(source) else store.blobs.trash_path(row.hash), target)
        fd = os.open(target, os.O_RDONLY)
        try:
            sync(fd)
        finally:
            os.close(fd)
        sync_folder(os.path.dirname(target))
