"""The file format of a bundle: a folder store with one run, packed into one file. See docs/internals/bundle.md.

The file is one zstd frame with a checksum. In it is a SQLite database with the store's own schema, and with the content
of the blobs in the table `piece`, which is empty in a folder store.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

import apsw

from leftoff.errors import Corrupt, Invalid, NotFound, StoreUnavailable, Unsupported, Usage
from leftoff.files import failure, write_private
from leftoff.store import sqlite_connection as connection
from leftoff.store.blobs import CHUNK, LEVEL, zstd
from leftoff.store.rows import ATTEMPTS, BlobRow, is_of_attempt
from leftoff.store.sqlite import FILE, SqliteStore
from leftoff.store.sqlite_connection import SCHEMA, translate, version
from leftoff.store.sqlite_files import switch_log_on

APPLICATION_ID = 0x6C656674  # "left"
SQLITE, FRAME = b"SQLite format 3\0", b"\x28\xb5\x2f\xfd"  # how the files of SQLite and zstd begin
PIECE = 1 << 20
AGAIN = "The file is not as `leftoff export` wrote it: copy it again, or export the run again."


def check_target(path: str, forbidden: str) -> str:
    """Return the full path if a bundle may be written there: not over a special file, nor inside the store."""
    full = os.path.abspath(path)
    folder = os.path.dirname(full)
    if not os.path.isdir(folder):
        raise NotFound(f"There is no folder {folder}.", hint="Make it first, or choose another place.")
    if os.path.lexists(full) and not os.path.isfile(full):
        raise Usage(f"{path} is there, and is not a regular file.", hint="Give the name of a file to write.")
    if not os.access(folder, os.W_OK):
        raise failure(PermissionError(errno.EACCES, os.strerror(errno.EACCES)), full)
    if (os.path.realpath(folder) + os.sep).startswith(os.path.realpath(forbidden) + os.sep):
        raise Usage(f"{path} is inside the store {forbidden}.", hint="Choose a place outside of it.")
    return full


TemporaryStore = SqliteStore  # to be filled and packed; the engine does not need to know which store it is


def pack_bundle(store: SqliteStore, path: str) -> int:
    """Write a temporary store to one file, whole or not at all; return its size in bytes.

    The file does not depend on when or where it was made, so the same run gives the same bytes.
    """
    try:
        store.write(lambda tx: _put_pieces(tx.db, store))  # type: ignore[attr-defined]
        store.close()
        db = connection.open_file(store.path)
        try:
            connection.pragma(db, "journal_mode=delete")
            db.execute("VACUUM")
        finally:
            db.close()
        write_private(path, _compressed(store.path))
        return os.path.getsize(path)
    except (OSError, apsw.Error, StoreUnavailable) as error:
        why = error if isinstance(error, StoreUnavailable) else translate(error, path)
        raise StoreUnavailable(
            f"{path} cannot be written: {why.message}",
            hint="Nothing was written. Choose another place, or make room, and export again.",
        ) from error


def _put_pieces(db: apsw.Connection, store: SqliteStore) -> None:
    """Move the blobs and logs into the database, and remove what describes this store and not the run."""
    rows: Any = db.execute("SELECT hash FROM blob ORDER BY hash").fetchall()
    files = [(hash, store.blobs.path(hash)) for (hash,) in rows]
    for inside, _, names in os.walk(os.path.join(store.folder, ATTEMPTS)):
        paths = [os.path.join(inside, name) for name in names]
        files += [(os.fsencode(os.path.relpath(path, store.folder)), path) for path in paths]
    for name, path in files:
        with open(path, "rb") as file:
            number = 0
            while piece := file.read(PIECE):
                db.execute("INSERT INTO piece (blob, number, data) VALUES (?, ?, ?)", (name, number, piece))
                number += 1
    for name in ("store_id", "created_at", "created_by"):
        db.execute("DELETE FROM meta WHERE name = ?", (name,))
    db.execute("DELETE FROM lease")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _compressed(path: str) -> Iterator[bytes]:
    library = zstd()
    parameters = library.CompressionParameter
    packer = library.ZstdCompressor(
        options={parameters.compression_level: LEVEL, parameters.checksum_flag: 1}
    )
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            yield packer.compress(chunk)
    yield packer.flush()


def may_be_bundle(path: str) -> bool:
    """Return whether a file begins like a bundle, or like a database that could be mistaken for one."""
    return os.path.isfile(path) and _head(path).startswith((FRAME, SQLITE))


def check_is_bundle(path: str) -> None:
    """Raise unless the file begins like a bundle."""
    if not os.path.exists(path):
        raise NotFound(f"There is no file {path}.", hint="Check the path.")
    if not os.path.isfile(path):
        what = "a folder" if os.path.isdir(path) else "not a regular file"
        hint = "Give the files that `leftoff export` wrote."
        raise Invalid(f"{path} is {what}, not a leftoff bundle.", hint=hint)
    head = _head(path)
    if head.startswith(SQLITE):
        raise Invalid(
            f"{path} is an SQLite database, but not a leftoff bundle.",
            hint="A whole store is used as it is (--store FOLDER); `leftoff export RUN -o FILE` makes a bundle.",
        )
    if not head.startswith(FRAME):
        raise _not_a_bundle(path, "is not a leftoff bundle" if head else "is empty")


def unpack_bundle(path: str, folder: str) -> SqliteStore:
    """Unpack a bundle into an empty folder; return it as a store of the present schema, checked as fsck checks it."""
    check_is_bundle(path)
    database = os.path.join(folder, FILE)
    store = SqliteStore(folder)
    try:
        _decompress(path, database)
        _check_schema(path, database)
        rows = switch_log_on(database)
        store.write(lambda tx: _take_pieces(path, tx.db, store, rows))  # type: ignore[attr-defined]
        for problem in store.check()["problems"]:
            where = problem["where"].replace(database, path)
            raise damaged(path, f"{where}: {problem['message']}")
        return store
    except BaseException as error:
        store.close()
        if isinstance(error, apsw.Error):
            raise damaged(path, f"{error}.") from error
        if isinstance(error, OSError):
            raise failure(error, path) from error
        raise


def damaged(path: str, message: str) -> Corrupt:
    return Corrupt(f"{path} is damaged: {message}", where=path, hint=AGAIN)


def _not_a_bundle(path: str, what: str) -> Invalid:
    return Invalid(f"{path} {what}.", hint="`leftoff export RUN -o FILE` makes one.")


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE))
    except OSError as error:
        raise failure(error, path) from error


def _decompress(path: str, database: str) -> None:
    """Write the database that is in a bundle to a file; zstd checks its checksum."""
    library = zstd()
    unpacker = library.ZstdDecompressor()
    with open(path, "rb") as packed, open(database, "wb") as out:
        while chunk := packed.read(CHUNK):
            if unpacker.eof:
                raise damaged(path, "it has bytes after its end.")
            try:
                out.write(unpacker.decompress(chunk))
            except library.ZstdError as error:
                raise damaged(path, f"{error}.") from error
    if unpacker.unused_data:
        raise damaged(path, "it has bytes after its end.")
    if not unpacker.eof:
        raise damaged(path, "it is truncated.")


def _check_schema(path: str, database: str) -> None:
    """Raise if the database is not one of leftoff's bundles, or of a newer leftoff."""
    db = connection.open_file(database)
    try:
        if connection.pragma(db, "application_id") != APPLICATION_ID:
            raise _not_a_bundle(path, "is not a leftoff bundle")
        schema = version(db)
    except apsw.NotADBError:
        raise _not_a_bundle(path, "is not a leftoff bundle") from None
    finally:
        db.close()
    if schema > SCHEMA:
        raise Unsupported(f"{path} has bundle schema {schema}; this leftoff knows {SCHEMA}.")


def _take_pieces(bundle: str, db: apsw.Connection, store: SqliteStore, rows: list[BlobRow]) -> None:
    """Write the content of the blobs and logs to files, as a folder store has it. A log is named by its path."""
    files = {row.hash: store.blobs.path(row.hash) for row in rows}
    names: Any = db.execute("SELECT DISTINCT blob FROM piece").fetchall()
    for (name,) in names:
        if name not in files:
            path = os.fsdecode(name)
            if "\0" in path or not is_of_attempt(path):
                raise damaged(bundle, f"{path!r} is neither a blob nor the path of a log.")
            files[name] = os.path.join(store.folder, path)
    for name, path in files.items():
        pieces = db.execute("SELECT data FROM piece WHERE blob = ? ORDER BY number", (name,))
        write_private(path, (data for (data,) in pieces), durable=False)
    db.execute("DELETE FROM piece")
