"""Where repair puts what it takes out: one folder per repair, named by its time; nothing in there is ever deleted."""

from __future__ import annotations

import os

from leftoff.clock import compact
from leftoff.files import sync, sync_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leftoff.store.sqlite.pages import PageFile
    from leftoff.store.sqlite.store import SqliteStore

FOLDER = "quarantine"
CHUNK = 1 << 20


class Quarantine:
    """The folder of one repair; it is made when the first thing is put there."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._root = os.path.join(store.folder, FOLDER)
        self._name = compact(store.clock.now())
        self._folder = ""
        self._kept = False
        self.paths: list[str] = []

    def folder(self) -> str:
        """``quarantine/20260131-090500``, with a number behind it where that is taken."""
        if not self._folder:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
            sync_folder(self._store.folder)
            number = 1
            while not self._folder:
                folder = os.path.join(self._root, self._name if number == 1 else f"{self._name}-{number}")
                try:
                    os.mkdir(folder, 0o700)
                    self._folder = folder
                except FileExistsError:
                    number += 1
            sync_folder(self._root)
        return self._folder

    def keep_database(self, file: PageFile | None) -> None:
        """Copy the database as it is, with its log and its index, once. ``file``: read through SQLite's own layer."""
        if self._kept:
            return
        self._kept = True
        base = os.path.basename(self._store.path)
        if file is not None:
            self._write(base, (file.piece(at, CHUNK) for at in range(0, file.size(), CHUNK)))
        for suffix in ("-wal", "-shm"):
            source = self._store.path + suffix
            if os.path.exists(source):
                with open(source, "rb") as opened:
                    self._write(base + suffix, iter(lambda: opened.read(CHUNK), b""))
        sync_folder(self.folder())

    def write_lines(self, name: str, lines: Iterable[bytes]) -> str:
        """JSON lines: what could be read and found no place in the repaired store. The file."""
        self._write(name, (line + b"\n" for line in lines))
        sync_folder(self.folder())
        return self.paths[-1]

    def move_blob(self, path: str, hash: bytes) -> None:
        """Take a damaged blob's file away."""
        folder = os.path.join(self._root, "blobs")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        target, number = os.path.join(folder, hash.hex()), 1
        while os.path.exists(target):
            number += 1
            target = os.path.join(folder, f"{hash.hex()}-{number}")
        os.rename(path, target)
        sync_folder(folder)
        sync_folder(os.path.dirname(path))
        self.paths.append(target)

    def _write(self, name: str, pieces: Iterable[bytes]) -> None:
        path = os.path.join(self.folder(), name)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as out:
            for piece in pieces:
                out.write(piece)
            out.flush()
            sync(out.fileno())
        self.paths.append(path)
