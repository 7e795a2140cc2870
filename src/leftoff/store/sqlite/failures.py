"""The one place where errors of SQLite become ours; those of the operating system do in ``leftoff.files``."""

from __future__ import annotations

import apsw

from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable, Unsupported
from leftoff.files import failure, full, read_only

IOERR_CHECKSUM = 8202  # SQLITE_IOERR_DATA: a page whose checksum is off

# What taking a row apart raises where its columns are not those of its table: a sound page lies in another's place; and
# what a row is refused with that cannot be there yet: a page is an older one of itself.
NONSENSE = (
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    apsw.ConstraintError,
)


def explained(error: Exception, db: apsw.Connection, where: str) -> Exception:
    """The error itself; or ``Corrupt``, where the structure of the database explains it."""
    if isinstance(error, LeftoffError):
        return error
    try:
        found = [str(line) for (line,) in db.execute("PRAGMA integrity_check(1)")]
        if isinstance(error, apsw.ConstraintError) and found == ["ok"]:
            found = [f"a row is older than others ({error})"]
    except apsw.Error as other:
        found = [str(other)]
    if found == ["ok"]:
        return error
    return Corrupt(f"{where} is damaged: {found[0]}", where=where)


def translate(error: BaseException, where: str) -> LeftoffError:
    """The typed error for a failure of SQLite or of a system call at ``where``."""
    if isinstance(error, LeftoffError):
        return error
    if isinstance(error, apsw.Error):
        return _sqlite(error, where)
    if isinstance(error, OSError):
        return failure(error, where)
    raise error


def _sqlite(error: apsw.Error, where: str) -> LeftoffError:
    extended = getattr(error, "extendedresult", 0)
    if extended == IOERR_CHECKSUM:
        return Corrupt(f"A page of {where} is damaged: its checksum does not match.", where=where)
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Corrupt(f"{where} is damaged, or is not a leftoff store: {error}", where=where)
    if isinstance(error, apsw.FullError):
        return full(where)
    if isinstance(error, apsw.ReadOnlyError):
        return read_only(where)
    if isinstance(error, (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)):
        return StoreUnavailable(
            f"{where} is locked by another program.",
            hint="Close what holds it open (a database browser?), then retry.",
        )
    if isinstance(error, (apsw.IOError, apsw.CantOpenError, apsw.PermissionsError, apsw.NoMemError)):
        return StoreUnavailable(f"{where} is out of reach: {error}")
    if isinstance(error, apsw.SQLError) and "no such" in str(error):
        return Unsupported(f"{where} has another layout than this leftoff knows: {error}")
    raise error
