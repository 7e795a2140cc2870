"""Writing a bundle: beside its place, synced, then renamed into it. Half a bundle is never seen.

The same run gives the same bytes: nothing in a bundle says when or where it was written.
"""

from __future__ import annotations

import fcntl
import os
import stat

import apsw

from leftoff.errors import Invalid, NotFound, StoreUnavailable, Unsupported, Usage
from leftoff.files import sync_file, sync_folder
from leftoff.store.blobs import LEVEL, zstd
from leftoff.store.bundle.read import APPLICATION_ID, PACK, PIECE, ROWS, TOTAL, Q, Sum, make_tables
from leftoff.store.sqlite.failures import translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from leftoff.model.versions import Version

_SETTINGS = ("page_size=4096", "journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE")


def check_target(path: str, forbidden: str | None = None) -> str:
    """Where a bundle may be written: a new file, or a regular one that it replaces; never inside a store."""
    full = os.path.abspath(path)
    folder = os.path.dirname(full)
    if not os.path.isdir(folder):
        raise NotFound(f"There is no folder {folder}.", hint="Make it first, or choose another place.")
    if os.path.lexists(full) and not stat.S_ISREG(os.stat(full).st_mode if os.path.exists(full) else 0):
        raise Usage(f"{path} is there, and is not a regular file.", hint="Give the name of a file to write.")
    if forbidden is not None:
        inside = os.path.realpath(folder) + os.sep
        if inside.startswith(os.path.realpath(forbidden) + os.sep):
            raise Usage(f"{path} is inside the store {forbidden}.", hint="Choose a place outside of it.")
    return full


PART = (".leftoff-", ".part")  # how the name of a file begins and ends that is not whole yet


def open_part(folder: str) -> tuple[str, int]:
    """A new file that becomes another one when it is whole, locked for as long as somebody writes it."""
    while True:
        path = os.path.join(folder, os.urandom(6).hex().join(PART))
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.path.exists(path):  # whoever swept just then took it for one that was left
            return path, fd
        os.close(fd)


def sweep_parts(folder: str) -> None:
    """Remove the parts that nobody writes any more: whoever did was killed, and its lock went with it."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(PART[0]) and name.endswith(PART[1])]
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # gone by now, or not ours
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        except OSError:
            pass  # it is being written
        finally:
            os.close(fd)


class BundleWriter:
    """A bundle in the making. Leave the ``with`` block without ``finish``, and nothing of it stays."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._temp, self._fd = "", -1
        self._db: apsw.Connection | None = None

    def __enter__(self) -> BundleWriter:
        self.begin()
        return self

    def begin(self) -> None:
        """An empty one, whatever was written before: who reads from a server may have to read again."""
        self._abandon()
        self._values: dict[bytes, int] = {}
        self._pack: list[bytes] = []
        self._packs = 0
        self._fill = 0
        self.counts = {"versions": 0, "records": 0, "values": 0, "blobs": 0}
        self.bytes = 0
        self._sum = Sum()
        try:
            folder = os.path.dirname(self.path)
            sweep_parts(folder)
            self._temp, self._fd = open_part(folder)
            self._db = self._open()
        except BaseException as error:
            self._abandon()
            raise self._failure(error) from error

    def _open(self) -> apsw.Connection:
        try:
            self._temp.encode()
        except UnicodeEncodeError:
            raise Invalid(f"{self.path!r} is not a name in UTF-8.", hint="Choose another name.") from None
        db = apsw.Connection(self._temp, flags=apsw.SQLITE_OPEN_READWRITE)
        for text in _SETTINGS:
            db.execute(f"PRAGMA {text}").fetchall()
        db.execute("BEGIN")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        make_tables(db)
        return db

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._abandon()
        if error is not None:
            known = self._failure(error)
            if known is not error:
                raise known from error

    def _abandon(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        if self._temp and os.path.lexists(self._temp):
            os.unlink(self._temp)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _failure(self, error: BaseException) -> BaseException:
        if not isinstance(error, (apsw.Error, OSError)):
            return error
        known = translate(error, self.path)
        if isinstance(known, StoreUnavailable):
            known = StoreUnavailable(
                f"{self.path} cannot be written: {known.message}",
                hint="Nothing was written. Choose another place, or make room, and export again.",
            )
        return known

    def _put(self, name: str, values: tuple[object, ...]) -> None:
        assert self._db is not None
        self._db.execute(getattr(Q, name), values)

    def _count(self, what: str, size: int = 0) -> None:
        self.counts[what] += 1
        self.bytes += size
        if self.counts[what] > ROWS or self.bytes > TOTAL:
            raise Unsupported(
                f"The run is too large for a bundle: more than {ROWS:,} {what}, or than {TOTAL:,} bytes.",
                hint="Copy the whole store instead (leftoff.open().backup(FOLDER)).",
            )

    # -- what is in it

    def facts(self, facts: dict[str, str]) -> None:
        """What the bundle says of itself; the last thing to be written."""
        for name, value in {**facts, "sum": self._sum.facts(facts)}.items():
            self._put("put_fact", (name, value))

    def version(self, version: Version) -> None:
        self._count("versions")
        self._put("put_version", self._sum.add_version(version))
        for name in version.aliases:
            self._put("put_alias", (version.seq, name))

    def record(
        self, collection: str, key: str, seq: int, until: int | None, hash: bytes, stored: bytes
    ) -> None:
        value = self._values.get(hash)
        if value is None:
            value = self._value(hash, stored)
        self._count("records")
        self._put("put_record", (collection, key, seq, until, value))
        self._sum.add(collection, key, seq, until, hash)

    def _value(self, hash: bytes, stored: bytes) -> int:
        if self._fill + len(stored) > PACK:
            self._flush()
        self._count("values", len(stored))
        number = self._values[hash] = self.counts["values"]
        self._put("put_value", (number, hash, self._packs, self._fill, len(stored)))
        self._pack.append(stored)
        self._fill += len(stored)
        return number

    def _flush(self) -> None:
        if self._pack:
            packed = b"".join(self._pack)
            self._put("put_pack", (self._packs, len(packed), zstd().compress(packed, LEVEL)))
            self._packs += 1
            self._pack, self._fill = [], 0

    def blob(self, hash: bytes, size: int, chunks: Iterable[bytes]) -> None:
        self._count("blobs", size)
        number = 0
        for piece in _cut(chunks):
            self._put("put_piece", (hash, number, len(piece), zstd().compress(piece, LEVEL)))
            number += 1
        self._put("put_blob", (hash, size, number))

    def finish(self) -> int:
        """Make it durable under its name; its size in bytes."""
        assert self._db is not None
        self._flush()
        self._db.execute("COMMIT")
        self._db.close()
        self._db = None
        sync_file(self._temp)
        size = os.path.getsize(self._temp)
        os.rename(self._temp, self.path)
        sync_folder(os.path.dirname(self.path))
        return size


def _cut(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces that are no larger than a piece may be."""
    for chunk in chunks:
        for start in range(0, len(chunk), PIECE):
            yield chunk[start : start + PIECE]
