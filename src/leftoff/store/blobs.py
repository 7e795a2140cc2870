"""Files over 1 MiB and artifacts: content-addressed, durable before anything refers to them.

A blob is written to a temporary file, synced, renamed to ``blobs/ab/cdef…`` and its folder synced. A blob that
nothing refers to moves to ``trash`` inside the transaction that forgets it, and is unlinked after a grace: a commit
that refers to it meanwhile takes it back from there.
"""

from __future__ import annotations

import os
import sys

from leftoff.errors import Corrupt
from leftoff.model.codec import sha256
from leftoff.store.location import sync, sync_folder
from leftoff.store.rows import BlobRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

CHUNK = 1 << 18
LEVEL = 3
GRACE_S = 3600.0
SMALL = 512  # below that, compressing is not worth a try
SAMPLE = 1 << 16  # what decides whether a blob is compressed


def zstd() -> Any:
    """The library, loaded when it is first needed."""
    if sys.version_info >= (3, 14):
        from compression import zstd as library
    else:
        from backports import zstd as library
    return library


class Blobs:
    """The blob folder of one store."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "blobs")
        self._trash = os.path.join(folder, "trash")
        self._temp = os.path.join(folder, "tmp")
        self.grace = GRACE_S

    def path(self, hash: bytes) -> str:
        name = hash.hex()
        return os.path.join(self._folder, name[:2], name[2:])

    def trash_path(self, hash: bytes) -> str:
        return os.path.join(self._trash, hash.hex())

    def save(self, chunks: Iterable[bytes]) -> BlobRow:
        """Durable when it returns. The same content twice is one file."""
        os.makedirs(self._temp, mode=0o700, exist_ok=True)
        temp = os.path.join(self._temp, f"{os.getpid()}-{os.urandom(6).hex()}")
        try:
            row = self._write(temp, chunks)
            self._place(temp, row)
        except BaseException:
            if os.path.exists(temp):
                os.unlink(temp)
            raise
        return row

    def _write(self, temp: str, chunks: Iterable[bytes]) -> BlobRow:
        digest, size, stored = sha256(), 0, 0
        packer: Any = None
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for chunk in _with_sample(chunks):
                if size == 0:
                    packer = self._packer(chunk)
                digest.update(chunk)
                size += len(chunk)
                stored += _write_all(fd, packer.compress(chunk) if packer else chunk)
            if packer:
                stored += _write_all(fd, packer.flush())
            sync(fd)
        finally:
            os.close(fd)
        return BlobRow(digest.digest(), size, stored, "zstd" if packer else "raw")

    @staticmethod
    def _packer(sample: bytes) -> Any:
        """A compressor where the first piece gains at least a tenth by it."""
        if len(sample) < SMALL:
            return None
        library = zstd()
        sample = sample[:SAMPLE]
        if len(library.compress(sample, LEVEL)) > 0.9 * len(sample):
            return None
        return library.ZstdCompressor(level=LEVEL)

    def _place(self, temp: str, row: BlobRow) -> None:
        path = self.path(row.hash)
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            os.makedirs(parent, mode=0o700, exist_ok=True)
            sync_folder(self._folder)
            sync_folder(os.path.dirname(self._folder))
        os.replace(temp, path)
        sync_folder(parent)

    def load(self, row: BlobRow) -> Iterator[bytes]:
        """The content in pieces; the last one only once everything proved right."""
        where = self.path(row.hash)
        digest, held = sha256(), b""
        try:
            for piece in self._pieces(row):
                digest.update(piece)
                if held:
                    yield held
                held = piece
        except OSError as error:
            raise Corrupt(f"The blob {where} cannot be read: {error.strerror}", where=where) from error
        if digest.digest() != row.hash:
            raise Corrupt(f"The blob {where} is damaged: its content has another hash.", where=where)
        if held:
            yield held

    def _pieces(self, row: BlobRow) -> Iterator[bytes]:
        path = self.path(row.hash)
        if not os.path.exists(path) and os.path.exists(self.trash_path(row.hash)):
            path = self.trash_path(row.hash)
        unpack = zstd().ZstdDecompressor() if row.encoding == "zstd" else None
        size = 0
        with open(path, "rb") as file:
            while raw := file.read(CHUNK):
                try:
                    piece = unpack.decompress(raw) if unpack else raw
                except Exception as error:
                    raise Corrupt(f"The blob {path} is damaged: {error}", where=path) from error
                size += len(piece)
                if size > row.size:
                    raise Corrupt(f"The blob {path} is longer than was recorded.", where=path)
                if piece:
                    yield piece

    def present(self, hash: bytes) -> bool:
        """Whether the file is in its place; one that is in the trash is taken back."""
        path = self.path(hash)
        if os.path.exists(path):
            return True
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.rename(self.trash_path(hash), path)
        except FileNotFoundError:
            return False
        sync_folder(os.path.dirname(path))
        return True

    def discard(self, hash: bytes) -> None:
        """To the trash, inside the transaction that forgets the blob."""
        os.makedirs(self._trash, mode=0o700, exist_ok=True)
        try:
            os.utime(self.path(hash))  # the grace begins now, and before the name changes
            os.rename(self.path(hash), self.trash_path(hash))
        except FileNotFoundError:
            pass

    def names(self) -> Iterator[bytes]:
        """The hashes of every file in the blob folder."""
        for part in _names(self._folder):
            for name in _names(os.path.join(self._folder, part)):
                yield from _as_hash(part + name)

    def trashed(self) -> Iterator[bytes]:
        """The hashes of every file in the trash."""
        for name in _names(self._trash):
            yield from _as_hash(name)

    def empty(self, now: float) -> int:
        """Unlink what has lain in the trash, or as a temporary file, for longer than the grace."""
        freed = 0
        for folder in (self._trash, self._temp):
            for name in _names(folder):
                path = os.path.join(folder, name)
                try:
                    facts = os.stat(path)
                    if facts.st_mtime < now - self.grace:
                        os.unlink(path)
                        freed += facts.st_size
                except FileNotFoundError:
                    pass
        return freed


def _with_sample(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, the first piece large enough to decide by: the same content must always be the same file."""
    first, enough = b"", False
    for chunk in chunks:
        if enough:
            yield chunk
        else:
            first += chunk
            enough = len(first) >= SAMPLE
            if enough:
                yield first
    if not enough and first:
        yield first


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _as_hash(name: str) -> list[bytes]:
    try:
        hash = bytes.fromhex(name)
    except ValueError:
        return []
    return [hash] if len(hash) == 32 else []


def _write_all(fd: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return len(data)
