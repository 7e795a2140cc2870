"""The database file page by page, through SQLite's own file layer: its locks in this process survive that.

The checksum of a page is two sums that are linear in its 32-bit words. So where one byte of a page was changed, the
two differences say which word it was and by how much: a flipped byte can be put right, and proved to be.
"""

from __future__ import annotations

import struct

import apsw

from leftoff.store.connection import PAGE_SIZE, RESERVE, VFS, load_checksums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

USABLE = PAGE_SIZE - RESERVE
MAGIC = b"SQLite format 3\0"
TRIES = 3  # a page that a checkpoint is writing may look torn once, not three times

_WORDS = USABLE // 4
_MASK = 0xFFFFFFFF


def checksum(page: bytes) -> bytes:
    """What the last eight bytes of a sound page are."""
    a = b = 0
    for x, y in struct.iter_unpack("<II", page[:USABLE]):
        a = (a + x + b) & _MASK
        b = (b + y + a) & _MASK
    return struct.pack("<II", a, b)


def is_sound(page: bytes) -> bool:
    return len(page) == PAGE_SIZE and checksum(page) == page[USABLE:]


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

    def write(self, number: int, page: bytes) -> None:
        self._raw.xWrite(page, (number - 1) * PAGE_SIZE)

    def sync(self) -> None:
        self._raw.xSync(apsw.SQLITE_SYNC_FULL)

    def lock(self) -> None:
        """Nobody else, in this process or another, has the file open while this holds; ``apsw.BusyError`` if they do."""
        for level in (apsw.SQLITE_LOCK_SHARED, apsw.SQLITE_LOCK_RESERVED, apsw.SQLITE_LOCK_EXCLUSIVE):
            self._raw.xLock(level)

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


def _weights() -> Iterator[tuple[int, int]]:
    """By how much the two sums grow when a word grows by one; from the last word to the first."""
    a, b = 0, 1
    for _ in range(_WORDS):
        yield a, b
        a, b = b, (a + b) & _MASK


def mends(page: bytes) -> list[bytes]:
    """Every page that has the checksum that is recorded and differs in one byte; empty where more is wrong."""
    found = struct.unpack("<II", checksum(page))
    told = struct.unpack("<II", page[USABLE:])
    wrong = ((told[0] - found[0]) & _MASK, (told[1] - found[1]) & _MASK)
    if 0 in wrong:  # one of the recorded sums may itself be the damage
        fixed = [page[:USABLE] + checksum(page)]
    else:
        fixed = []
    for number, weights in enumerate(_weights()):
        offset = USABLE - 4 * (number + 1)
        word = _fitting(int.from_bytes(page[offset : offset + 4], "little"), weights, wrong)
        if word is not None:
            fixed.append(page[:offset] + word + page[offset + 4 :])
    return fixed


def _fitting(word: int, weights: tuple[int, int], wrong: tuple[int, int]) -> bytes | None:
    """What the word was, if a change of one byte in it explains both sums."""
    which = 0 if weights[0] & 1 else 1  # an odd weight has an inverse; the two are never both even
    grown = wrong[which] * pow(weights[which], -1, 1 << 32) & _MASK
    if grown * weights[1 - which] & _MASK != wrong[1 - which]:
        return None
    was = (word + grown) & _MASK
    changed = word ^ was
    return was.to_bytes(4, "little") if any(changed & ~(0xFF << shift) == 0 for shift in (0, 8, 16, 24)) else None
