"""Reading a store whose folder takes nothing, not even the index that SQLite makes of the log.

A backup on a read-only disk has neither a log nor its index. The database then is all there is, and is read as a file
that does not change. Who may write there could still do so meanwhile: the log that appears then is looked for behind
each look at the store.
"""

from __future__ import annotations

import errno
import os

import apsw

from leftoff.errors import StoreUnavailable
from leftoff.store.sqlite import connection, migrate

_FILES = (
    5  # that opening a store takes: the database, its log, the index of that, their folder; and one to spare
)


def open_still(path: str) -> apsw.Connection:
    """A connection for one look at a database that lies there without a log; ``StoreUnavailable`` where it has one."""
    from urllib.parse import quote

    _refuse_no_more_files(path)
    if has_log(path):
        raise StoreUnavailable(
            f"{path} cannot be read where it is: its log has no index, and none can be made there.",
            hint="Copy the folder to where you may write, and name the copy: --store FOLDER.",
        )
    db = connection.open_file(f"file:{quote(os.fsencode(path))}?immutable=1", read_only=True)
    try:
        migrate.check(db, path, writing=False)
        return connection.prepare(db, path)
    except BaseException:
        db.close()
        raise


def _refuse_no_more_files(path: str) -> None:
    """SQLite does not say why it cannot open a file: that no more may be open is not the folder's fault. Tried with
    another file: to close one of the store's would give up our locks on it."""
    held = []
    try:
        for _ in range(_FILES):
            held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise OSError(error.errno, error.strerror, path) from None
    finally:
        for fd in held:
            os.close(fd)


def refuse_written(path: str) -> None:
    """Raise where somebody wrote meanwhile: what was read may be half of the one and half of the other."""
    if has_log(path):
        raise StoreUnavailable(
            f"{path} was written to while it was read.", hint="Nothing is damaged. Read again."
        )


def has_log(path: str) -> bool:
    try:
        return os.stat(path + "-wal").st_size > 0
    except FileNotFoundError:
        return False
