"""Files over 1 MiB and artifacts: content-addressed, durable before anything refers to them.

A blob is written to a temporary file, synced, renamed to ``blobs/ab/cdef…`` and its folder synced. A blob that
nothing refers to moves to ``trash`` inside the transaction that forgets it, and is unlinked after a grace: a commit
that refers to it meanwhile takes it back from there.

A compressed file ends with the sha256 of what is before it, in a frame that zstd skips: some of zstd's own bits can be
flipped without a change of the content, and such a flip must be seen, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from fcntl import ioctl
from typing import Any, BinaryIO

from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.files import failure, keeps_us_out, open_plain, sync, sync_folder
from leftoff.model.codec import long_sha256 as sha256
from leftoff.store.rows import BlobRow

CHUNK = 1 << 18
LEVEL = 3
GRACE_S = 3600.0
UNCLAIMED_S = (
    7 * 86_400.0
)  # that a blob is kept for a commit which is still to come: of a step that takes days
SMALL = 512  # below that, compressing is not worth a try
SAMPLE = 1 << 16  # what decides whether a blob is compressed
SKIPPED = b"\x5f\x2a\x4d\x18\x20\0\0\0"  # the head of a frame of 32 bytes that zstd skips
TRAILER = len(SKIPPED) + 32
_FICLONE = 0x40049409  # of Linux


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

    def write(self, chunks: Iterable[bytes]) -> tuple[str, BlobRow]:
        """A temporary file, not synced, and what it holds."""
        os.makedirs(self._temp, mode=0o700, exist_ok=True)
        temp = os.path.join(self._temp, f"{os.getpid()}-{os.urandom(6).hex()}")
        try:
            return temp, self._write(temp, chunks)
        except BaseException:
            _unlink(temp)
            raise

    def _write(self, temp: str, chunks: Iterable[bytes]) -> BlobRow:
        fd = os.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "rb", buffering=0) as file:
            is_clone = _clone(getattr(chunks, "fd", None), fd)
            packing = Packing(_chunks(file) if is_clone else chunks)
            for piece in packing:
                if not is_clone:
                    _write_all(fd, piece)
        return packing.row

    def place(self, made: dict[str, BlobRow]) -> None:
        """Sync temporary files, put them in their places, and sync the names. The same content twice is one file.

        Synced after the last one was written, many files take a disk little longer than one.
        """
        for temp in made:
            fd = os.open(temp, os.O_RDONLY | os.O_CLOEXEC)
            try:
                sync(fd)
            finally:
                os.close(fd)
        paths = {temp: self.path(row.hash) for temp, row in made.items()}
        parents = dict.fromkeys(os.path.dirname(path) for path in paths.values())
        fresh = [parent for parent in parents if not os.path.isdir(parent)]
        # Each by itself: folders above one have other modes.
        for parent in (self._folder, *fresh) if fresh else ():
            os.makedirs(parent, mode=0o700, exist_ok=True)
        if fresh:
            sync_folder(self._folder)
            sync_folder(os.path.dirname(self._folder))
        for temp, path in paths.items():
            try:
                os.replace(temp, path)
            except IsADirectoryError as error:
                raise StoreUnavailable(
                    f"{path} is a folder, and a blob should be there.",
                    hint="leftoff makes no such thing. Move it away; or `leftoff fsck --repair` does, if it is missed.",
                ) from error
        for parent in parents:
            sync_folder(parent)

    def drop(self, made: Iterable[str]) -> None:
        """Delete temporary files that are not in their places; a sweep finds what stays."""
        for temp in made:
            try:
                _unlink(temp)
            except OSError:
                pass

    def load(self, row: BlobRow, forgotten: Callable[[], bool] | None = None) -> Iterator[bytes]:
        """The content in pieces; the last one only once everything proved right.

        ``forgotten``: where there is no file, whether the store does not know the blob any more, either.
        """
        where = self.path(row.hash)
        try:
            with self._open(row.hash) as file:
                where = file.name
                yield from proved(row, _content(file, row.encoding), where)
        except OSError as error:
            if keeps_us_out(error):
                raise failure(error, where) from error
            if isinstance(error, FileNotFoundError) and forgotten is not None and forgotten():
                raise pruned(row.hash) from None
            raise Corrupt(f"The blob {where} cannot be read: {error.strerror}", where=where) from error

    def _open(self, hash: bytes) -> BinaryIO:
        """The file, in its place or in the trash. It may move from one to the other, and back, while we look."""
        for path in (self.path(hash), self.trash_path(hash)):
            try:
                return open(path, "rb", opener=_plain)
            except FileNotFoundError:
                pass
        return open(self.path(hash), "rb", opener=_plain)

    def identify(self, hash: bytes) -> BlobRow | None:
        """What a blob's file alone says of it; ``None`` where there is none with that content."""
        path = self.path(hash)
        for encoding in ("raw", "zstd"):
            digest, size = sha256(), 0
            try:
                stored = os.stat(path).st_size
                with open(path, "rb", opener=_plain) as file:
                    for piece in _content(file, encoding):
                        digest.update(piece)
                        size += len(piece)
            except OSError as error:
                if keeps_us_out(error):
                    raise failure(error, path) from error
                continue
            except Corrupt:
                continue
            if digest.digest() == hash:
                return BlobRow(hash, size, stored, encoding)
        return None

    def present(self, hash: bytes) -> bool:
        """Whether the file is in its place; one that is in the trash is taken back."""
        path = self.path(hash)
        if os.path.isfile(path):
            return True
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.rename(self.trash_path(hash), path)
        except (FileNotFoundError, IsADirectoryError):
            return False
        sync_folder(os.path.dirname(path))
        return True

    def discard(self, hash: bytes) -> None:
        """To the trash, inside the transaction that forgets the blob. A folder in its place stays: it is not ours."""
        if os.path.isdir(self.path(hash)):
            return
        os.makedirs(self._trash, mode=0o700, exist_ok=True)
        try:
            # The grace begins now, and before the name changes.
            os.utime(self.path(hash), follow_symlinks=False)
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

    def empty(self, now: float, grace: float) -> int:
        """Unlink what has lain in the trash, or as a temporary file, for longer than the grace. A time far ahead
        comes from a wrong clock."""
        freed = 0
        for folder, is_ours in ((self._trash, _as_hash), (self._temp, _is_temp)):
            for name in filter(is_ours, _names(folder)):  # others may have a folder of that name there, too
                path = os.path.join(folder, name)
                try:
                    facts = os.stat(path)
                    if abs(now - facts.st_mtime) > grace or grace == 0:
                        os.unlink(path)
                        freed += facts.st_size
                except (FileNotFoundError, IsADirectoryError):
                    pass
        try:
            os.rmdir(self._trash)  # so that one look tells whether anything is left
        except OSError:
            pass
        return freed


class Packing:
    """Content as it is stored, in pieces of any size; ``row`` says what it was, once all of it was taken."""

    row: BlobRow

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        digest, packed, size, stored = sha256(), sha256(), 0, 0
        packer: Any = None
        for chunk in _with_sample(self._chunks):
            if size == 0:
                packer = _packer(chunk)
            digest.update(chunk)
            size += len(chunk)
            if packer:
                chunk = packer.compress(chunk)
                packed.update(chunk)
            stored += len(chunk)
            yield chunk
        if packer:
            rest = packer.flush()
            packed.update(rest)
            rest += SKIPPED + packed.digest()
            stored += len(rest)
            yield rest
        self.row = BlobRow(digest.digest(), size, stored, "zstd" if packer else "raw")


def _clone(source: int | None, target: int) -> bool:
    """Make an empty file a reflink of an open file that would not be compressed, if the file system can.

    The clone shares the disk blocks of the file until one of both is changed, so it takes no space. A hard link would
    take none either, but it shares the inode: an edit of the file in its place would change the copy.
    """
    try:
        if source is None or ioctl(target, _FICLONE, source) != 0:
            return False
    except OSError:  # another file system, or one without reflinks
        return False
    if _packer(os.pread(target, SAMPLE, 0)) is None:
        return True
    os.truncate(target, 0)  # the same content is stored the same way everywhere
    return False


def _packer(sample: bytes) -> Any:
    """A compressor where the first piece gains at least a tenth by it."""
    if len(sample) < SMALL:
        return None
    library = zstd()
    sample = sample[:SAMPLE]
    if len(library.compress(sample, LEVEL)) > 0.9 * len(sample):
        return None
    return library.ZstdCompressor(level=LEVEL)


def _content(file: BinaryIO, encoding: str) -> Iterator[bytes]:
    """What is in a blob's file. Its length is not compared: another zstd may have packed the same content since."""
    return unpacked(_chunks(file), encoding, file.name)


def proved(row: BlobRow, content: Iterable[bytes], where: str) -> Iterator[bytes]:
    """Content in pieces, the last one only once everything proved right."""
    digest, size, held = sha256(), 0, b""
    for piece in content:
        digest.update(piece)
        size += len(piece)
        if size > row.size:
            raise Corrupt(f"The blob {where} is longer than was recorded.", where=where)
        if held:
            yield held
        held = piece
    if digest.digest() != row.hash or size != row.size:
        raise Corrupt(f"The blob {where} is damaged: its content has another hash.", where=where)
    if held:
        yield held


def pruned(hash: bytes) -> StoreUnavailable:
    return StoreUnavailable(
        f"The blob sha256:{hash.hex()} was pruned while what refers to it was being read.",
        hint="Nothing is damaged. Read again: the newest version does not refer to it.",
    )


def unpacked(chunks: Iterable[bytes], encoding: str, where: str) -> Iterator[bytes]:
    """Content from what is stored. Of what is packed, the last bytes prove the others."""
    if encoding != "zstd":
        yield from chunks
        return
    unpack, packed, tail = zstd().ZstdDecompressor(), sha256(), b""
    for chunk in chunks:
        tail += chunk
        raw, tail = tail[:-TRAILER], tail[-TRAILER:]
        if not raw:
            continue
        packed.update(raw)
        try:
            piece = unpack.decompress(raw)
        except Exception as error:
            raise Corrupt(f"The blob {where} is damaged: {error}", where=where) from error
        if piece:
            yield piece
    if tail != SKIPPED + packed.digest():
        raise Corrupt(f"The blob {where} is damaged: its packed bytes have another hash.", where=where)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while raw := file.read(CHUNK):
        yield raw


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


def _plain(path: str, flags: int) -> int:
    return open_plain(path)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _is_temp(name: str) -> bool:
    """Whether this is the name of a file that is being written."""
    pid, _, rest = name.partition("-")
    return pid.isdecimal() and len(rest) == 12 and all(char in "0123456789abcdef" for char in rest)


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
