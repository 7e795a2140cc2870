"""The file of a bundle: one run in an SQLite database of its own, to be carried anywhere. See docs/bundle.md.

Whoever reads one must assume that somebody made it to do harm. So the file is opened read-only and immutable, with
SQLite's defences up; its schema must be ours to the letter; every size is declared, and nothing is unpacked beyond
what it declares; and whatever SQLite complains about is ``Corrupt``. What the rows mean is checked by
``leftoff.engine.retention.bundle_check``.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager

import apsw

from leftoff.errors import BadData, Corrupt, Invalid, NotFound, StoreUnavailable, Unsupported
from leftoff.model.codec import encode, sha256
from leftoff.store.blobs import zstd
from leftoff.store.sqlite.queries import Queries, read, run_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.model.versions import Version

APPLICATION_ID = 0x6C656674  # "left"
SCHEMA = 1
MAGIC = b"SQLite format 3\0"

PACK = 1 << 18  # values are packed together up to here
PIECE = 1 << 20  # nothing that is compressed is larger than this
TOTAL = 16 << 30  # of unpacked bytes
ROWS = 20_000_000
WINDOW = 23  # the most memory that unpacking may ask for, as a power of two
CACHED = 32  # packs

AGAIN = "The file is not as `leftoff export` wrote it: copy it again, or export the run again."
_TOTALS = ("versions", "records", "values", "blobs", "packed", "files", "packs", "pieces", "pieces_declared")
Q = Queries(read("bundle/queries.sql"))


def sniff(path: str) -> None:
    """Raise unless this is a bundle that we can read, judging by its header; SQLite does not see the file yet."""
    head = _header(path)
    if not head.startswith(MAGIC) or len(head) < 100:
        what = "is empty" if not head else "is not a leftoff bundle"
        raise Invalid(f"{path} {what}.", hint="`leftoff export RUN -o FILE` makes one.")
    if int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise Invalid(
            f"{path} is an SQLite database, but not a leftoff bundle.",
            hint="A whole store is used as it is (--store FOLDER); `leftoff export RUN -o FILE` makes a bundle.",
        )
    schema = int.from_bytes(head[60:64], "big")
    if not 1 <= schema <= SCHEMA:
        raise Unsupported(f"{path} has bundle schema {schema}; this leftoff knows {SCHEMA}.")


def _header(path: str) -> bytes:
    """The first bytes of a regular file. Nothing else is opened: a FIFO would wait for ever."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.", hint="Check the path.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise StoreUnavailable(f"{path} cannot be read: {why}.", hint="Check its permissions.") from error
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            what = "a folder" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
            raise Invalid(
                f"{path} is {what}, not a leftoff bundle.", hint="Give the files that `leftoff export` wrote."
            )
        if facts.st_size > TOTAL:
            raise Invalid(f"{path} has {facts.st_size:,} bytes; a bundle has at most {TOTAL:,}.", hint=AGAIN)
        return os.read(fd, 100)
    finally:
        os.close(fd)


def unpack(data: bytes, size: int, where: str) -> bytes:
    """The content of one zstd frame, which must have exactly the size it declares."""
    library = zstd()
    if not 0 <= size <= PIECE:
        raise Corrupt(f"{where} declares {size:,} bytes; {PIECE:,} is the most.", where=where, hint=AGAIN)
    unpacker = library.ZstdDecompressor(options={library.DecompressionParameter.window_log_max: WINDOW})
    try:
        out: bytes = unpacker.decompress(data, max_length=size + 1)
    except library.ZstdError as error:
        raise Corrupt(f"{where} cannot be unpacked: {error}", where=where, hint=AGAIN) from error
    if len(out) != size or not unpacker.eof or unpacker.unused_data:
        raise Corrupt(f"{where} does not have the size that it declares.", where=where, hint=AGAIN)
    return out


class Sum:
    """One hash over everything that no digest covers: when, why, by which names, from which version to which.

    Fed by whoever writes a bundle and by whoever reads it, with the same rows in the same order.
    """

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, *cells: str | int | bytes | None) -> None:
        self._hash.update(encode([cell.hex() if isinstance(cell, bytes) else cell for cell in cells]) + b"\n")

    def add_version(self, version: Version) -> tuple[Any, ...]:
        """A version and its other names; its row."""
        v = version
        row = (v.seq, v.digest, v.at, v.counts, v.checkpoint, v.trigger, v.step, v.note)
        self.add(*row, *sorted(v.aliases))
        return row

    def facts(self, facts: dict[str, str]) -> str:
        """The sum, facts and all."""
        for name in sorted(facts.keys() - {"sum"}):
            self.add(name, facts[name])
        return str(self._hash.hexdigest())


class BundleReader:
    """A bundle opened for reading. Use its methods inside ``guard``. ``glance``: for a few rows, not all of the file is
    looked through for damage first, which takes as long as it is large."""

    def __init__(self, path: str, *, glance: bool = False) -> None:
        self.path = path
        sniff(path)
        self._packs: dict[int, bytes] = {}
        with self.guard():
            self.db = _open(path)
            try:
                self._check_file(glance=glance)
            except BaseException:
                self.db.close()
                raise

    def close(self) -> None:
        self.db.close()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Whatever SQLite says of a damaged file, we say that it is one."""
        try:
            yield
        except apsw.CantOpenError as error:
            sniff(self.path)  # it went just now
            raise StoreUnavailable(f"{self.path} cannot be opened: {error}.") from error
        except (apsw.Error, UnicodeDecodeError) as error:
            raise Corrupt(f"{self.path} is damaged: {error}", where=self.path, hint=AGAIN) from error

    def bad(self, message: str) -> BadData:
        """The error for rows that cannot be right."""
        return Corrupt(f"{self.path} is damaged: {message}", where=self.path, hint=AGAIN)

    def _check_file(self, *, glance: bool) -> None:
        if self.db.execute(Q.schema).fetchall() != _expected():
            raise Invalid(f"{self.path} has other tables than a leftoff bundle has.", hint=AGAIN)
        for (line,) in () if glance else self.db.execute("PRAGMA integrity_check(1)"):
            if line != "ok":
                raise self.bad(f"{' '.join(str(line).split())}.")  # SQLite tells it in several lines

    def facts(self) -> dict[str, str]:
        found: Any = self.db.execute(Q.facts)
        return dict(found)

    def totals(self) -> dict[str, int]:
        """How much there is of everything; refused where that is absurd."""
        row = self.db.execute(Q.totals).fetchone()
        found = {name: int(number) for name, number in zip(_TOTALS, row or (), strict=True)}
        for name in ("versions", "records", "values", "blobs", "pieces"):
            if found[name] > ROWS:
                raise Invalid(f"{self.path} has {found[name]:,} {name}; {ROWS:,} is the most.", hint=AGAIN)
        size = found["packed"] + found["files"]
        if size > TOTAL:
            raise Invalid(
                f"{self.path} would unpack to {size:,} bytes; {TOTAL:,} is the most.",
                hint="Do not trust it, unless you know why it is so large.",
            )
        return found

    def rows(self, name: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a named query."""
        return self.db.execute(getattr(Q, name))

    def stored(self, value: int) -> tuple[bytes, bytes]:
        """The hash and the stored bytes of a value."""
        row = self.db.execute(Q.value, (value,)).fetchone()
        if row is None:
            raise self.bad(f"it has no value {value}.")
        hash, pack, start, size = row
        packed = self._pack(pack)
        if start < 0 or size < 1 or start + size > len(packed):
            raise self.bad(f"value {value} lies outside of its pack.")
        stored = packed[start : start + size]
        if sha256(stored).digest() != hash:
            raise self.bad(f"the bytes of value {value} have another hash.")
        return hash, stored

    def _pack(self, pack: int) -> bytes:
        there = self._packs.get(pack)
        if there is None:
            row = self.db.execute(Q.pack, (pack,)).fetchone()
            if row is None:
                raise self.bad(f"it has no pack {pack}.")
            there = unpack(row[1], row[0], f"pack {pack} of {self.path}")
            if len(self._packs) >= CACHED:
                del self._packs[next(iter(self._packs))]
            self._packs[pack] = there
        return there

    def content(self, hash: bytes, size: int, pieces: int) -> Iterator[bytes]:
        """A file in pieces; an error before the end where it is not what it should be."""
        digest, total, number = sha256(), 0, 0
        where = f"file {hash.hex()} of {self.path}"
        for at, declared, data in self.db.execute(Q.pieces, (hash,)):
            if at != number:
                raise self.bad(f"piece {number} of {where} is missing.")
            piece = unpack(data, declared, where)
            digest.update(piece)
            number, total = number + 1, total + len(piece)
            yield piece
        if (number, total, digest.digest()) != (pieces, size, hash):
            raise self.bad(f"{where} is not what it should be.")


def _open(path: str) -> apsw.Connection:
    from urllib.parse import quote

    try:
        uri = f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1"
    except UnicodeEncodeError:
        raise Invalid(f"{path!r} is not a name in UTF-8.", hint="Rename the file.") from None
    db = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    for setting, value in (
        (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
        (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
    ):
        db.config(setting, value)
    db.limit(apsw.SQLITE_LIMIT_LENGTH, 4 * PIECE)
    for text in ("cell_size_check=1", "mmap_size=0", "temp_store=2", "query_only=1"):
        db.execute(f"PRAGMA {text}").fetchall()
    return db


def _expected() -> list[tuple[Any, ...]]:
    """What the schema of a bundle says, as SQLite itself tells it."""
    db = apsw.Connection(":memory:")
    try:
        make_tables(db)
        return db.execute(Q.schema).fetchall()
    finally:
        db.close()


def make_tables(db: apsw.Connection) -> None:
    """Make the tables of a bundle."""
    run_script(db, "bundle/schema.sql")
    db.execute(f"PRAGMA user_version = {SCHEMA}")
