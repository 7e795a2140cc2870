"""The one place where errors of SQLite and of the operating system become ours."""

from __future__ import annotations

import errno

import apsw

from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable, Unsupported

IOERR_CHECKSUM = 8202  # SQLITE_IOERR_DATA: a page whose checksum is off

_FULL = "Nothing was changed. Free some space, then try again: what was committed before is safe."
READ_ONLY = "Make the folder writable, or point LEFTOFF_STORE at one that is."


# What taking a row apart raises where its columns are not those of its table: a sound page lies in another's place.
NONSENSE = (TypeError, ValueError, KeyError, IndexError, AttributeError, AssertionError)


def explained(error: Exception, db: apsw.Connection, where: str) -> Exception:
    """The error itself; or ``Corrupt``, where the structure of the database explains it."""
    if isinstance(error, LeftoffError):
        return error
    try:
        found = [str(line) for (line,) in db.execute("PRAGMA integrity_check(1)")]
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
        return _system(error, where)
    raise error


def _sqlite(error: apsw.Error, where: str) -> LeftoffError:
    extended = getattr(error, "extendedresult", 0)
    if extended == IOERR_CHECKSUM:
        return Corrupt(f"A page of {where} is damaged: its checksum does not match.", where=where)
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Corrupt(f"{where} is damaged, or is not a leftoff store: {error}", where=where)
    if isinstance(error, apsw.FullError):
        return StoreUnavailable(f"The disk that holds {where} is full.", hint=_FULL)
    if isinstance(error, apsw.ReadOnlyError):
        return StoreUnavailable(f"{where} cannot be written to.", hint=READ_ONLY)
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


def _system(error: OSError, where: str) -> LeftoffError:
    place = error.filename or where
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(f"The disk that holds {place} is full.", hint=_FULL)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreUnavailable(f"{place} cannot be written to: {error.strerror}.", hint=READ_ONLY)
    return StoreUnavailable(f"{place}: {error.strerror or error}")
