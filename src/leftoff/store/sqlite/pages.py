"""The database file page by page, through SQLite's own file layer: its locks in this process survive that."""

from __future__ import annotations

import struct

import apsw

from leftoff.store.sqlite.connection import PAGE_SIZE, RESERVE, VFS, load_checksums
from leftoff.store.sqlite.sums import differs_in_a_byte, sums, undone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USABLE = PAGE_SIZE - RESERVE
MAGIC = b"SQLite format 3\0"
TRIES = 3  # a page that a checkpoint is writing may look torn once, not three times

MAP_ENTRY = 5  # bytes per page in a pointer map, which says of each page what it is for
MAPPED = USABLE // MAP_ENTRY  # pages that one pointer map tells about
FREE = 2
LOCK_PAGE = (1 << 30) // PAGE_SIZE + 1  # where SQLite keeps its locks, and never anything else


def checksum(page: bytes) -> bytes:
    """What the last eight bytes of a sound page are."""
    return struct.pack("<II", *sums(page[:USABLE]))


def is_sound(page: bytes) -> bool:
    return len(page) == PAGE_SIZE and checksum(page) == page[USABLE:]


def is_map(number: int) -> bool:
    """Whether a page is one of the pointer maps."""
    return number >= 2 and (number - 2) % (MAPPED + 1) == 0


def is_free(get: Callable[[int], bytes | None], number: int) -> bool:
    """Whether the pointer maps call a page free; ``get`` gives them by number."""
    place = (number - 2) // (MAPPED + 1) * (MAPPED + 1) + 2
    entry = (number - place - 1) * MAP_ENTRY
    return number > 2 and not is_map(number) and (get(place) or bytes(PAGE_SIZE))[entry] == FREE


class PageFile:
    """A database file as pages, numbered from 1."""

    def __init__(self, path: str) -> None:
        load_checksums()
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
        self.path = path
        self._raw = apsw.VFSFile("unix", path, [flags, 0])
        self._checked = apsw.VFSFile(VFS, path, [flags, 0])

    def __enter__(self) -> PageFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._checked.xClose()
        self._raw.xClose()

    def size(self) -> int:
        return self._raw.xFileSize()

    def count(self) -> int:
        return self.size() // PAGE_SIZE

    def read(self, number: int) -> bytes:
        """The bytes of a page as they are; a page at a torn end is filled with zeros."""
        offset = (number - 1) * PAGE_SIZE
        there = min(PAGE_SIZE, self.size() - offset)
        return self._raw.xRead(there, offset).ljust(PAGE_SIZE, b"\0") if there > 0 else bytes(PAGE_SIZE)

    def piece(self, offset: int, size: int) -> bytes:
        """Bytes of the file, wherever its pages begin."""
        return self._raw.xRead(min(size, self.size() - offset), offset)

    def write(self, number: int, page: bytes) -> None:
        self._raw.xWrite(page, (number - 1) * PAGE_SIZE)

    def truncate(self, count: int) -> None:
        self._raw.xTruncate(count * PAGE_SIZE)

    def sync(self) -> None:
        self._raw.xSync(apsw.SQLITE_SYNC_FULL)

    def lock(self) -> None:
        """From now on nobody else, in this process or another, has the file open; ``apsw.BusyError`` if they do."""
        for level in (apsw.SQLITE_LOCK_SHARED, apsw.SQLITE_LOCK_RESERVED, apsw.SQLITE_LOCK_EXCLUSIVE):
            self._raw.xLock(level)

    def zeros(self) -> Iterator[int]:
        """The numbers of the pages that are nothing but zeros. Their checksum is right, and yet they are no pages."""
        empty = bytes(PAGE_SIZE)
        for number in range(1, self.count() + 1):
            if self.read(number) == empty and number != LOCK_PAGE:
                yield number

    def damaged(self) -> Iterator[int]:
        """The numbers of the pages whose checksum is off."""
        first = self.read(1)
        # Without a sound header the checksum layer stands aside: then every page is summed up here, which is slow.
        quick = is_sound(first) and first.startswith(MAGIC) and first[20] == RESERVE
        if quick:
            self._checked.xRead(PAGE_SIZE, 0)  # only now does the layer look at the others
        for number in range(1, self.count() + 1):
            if not any(self._sound(number, quick) for _ in range(TRIES)):
                yield number

    def _sound(self, number: int, quick: bool) -> bool:
        if not quick:
            return is_sound(self.read(number))
        try:
            self._checked.xRead(PAGE_SIZE, (number - 1) * PAGE_SIZE)
        except apsw.IOError:
            return False
        return True


def mends(page: bytes) -> list[bytes]:
    """Every sound page that differs from this one in one byte; empty where more is wrong."""
    sound = checksum(page)
    fixed = []
    if differs_in_a_byte(sound, page[USABLE:]):  # the checksum itself may be the damage
        fixed.append(page[:USABLE] + sound)
    found, told = struct.unpack("<II", sound), struct.unpack("<II", page[USABLE:])
    return fixed + [rest + page[USABLE:] for rest in undone(page[:USABLE], found, told)]
