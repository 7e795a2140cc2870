"""Schema versions of the store file.

``user_version`` is the schema's number: one integer in the file's header, looked at inside every write transaction.
``meta`` says which older leftoffs may still read (``min_reader``) and write (``min_writer``). A schema equals the sum
of its migrations. None runs while someone else drives a run: their code would not know the new one.
"""

from __future__ import annotations

import apsw

from leftoff.errors import Conflict, Corrupt, Unsupported
from leftoff.host import GONE, this_process
from leftoff.store.rows import LIMIT_MS, Lease
from leftoff.store.sqlite.queries import Q, run_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIGRATIONS: list[str] = ["migrations/0001.sql"]
SCHEMA = len(MIGRATIONS)
#: by schema number: the oldest schema whose code may read, and write, a store of that schema
COMPATIBLE = {1: (1, 1)}


def version(db: apsw.Connection) -> int:
    row: Any = db.execute("PRAGMA user_version").fetchone()
    return int(row[0])


def is_empty(db: apsw.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def check(db: apsw.Connection, where: str, *, writing: bool, schema: int | None = None) -> int:
    """The schema of the store, if this code may use it; the refusal names both numbers."""
    schema = version(db) if schema is None else schema
    if schema == 0:
        raise Corrupt(f"{where} is a database, but not one of leftoff's.", where=where, hint="Move it away.")
    if schema > SCHEMA:
        rows: Any = db.execute(Q.meta).fetchall()
        facts = dict(rows)
        needed = int(facts.get("min_writer" if writing else "min_reader", schema))
        if needed > SCHEMA:
            raise Unsupported(
                f"{where} has schema {schema}, made by leftoff {facts.get('written_by', 'of a later version')}; "
                f"this leftoff knows schema {SCHEMA}.",
            )
    return schema


def migrate(db: apsw.Connection, where: str, facts: dict[str, str]) -> None:
    """Bring the schema up to date, inside the caller's write transaction."""
    schema = 0 if is_empty(db) else check(db, where, writing=True)
    if schema >= SCHEMA:
        return
    if schema > 0:
        _refuse_while_driven(db, where, int(facts["created_at"]))
    for number in range(schema, SCHEMA):
        run_script(db, MIGRATIONS[number])
    reader, writer = COMPATIBLE[SCHEMA]
    known = {**facts} if schema == 0 else {"written_by": facts["written_by"]}
    known.update(schema=str(SCHEMA), min_reader=str(reader), min_writer=str(writer))
    for name, value in known.items():
        db.execute(Q.put_meta, (name, value))
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def _refuse_while_driven(db: apsw.Connection, where: str, now: int) -> None:
    """Nor while the session of an agent whose process nobody knows has given a sign of life."""
    me = this_process()
    for columns in db.execute(Q.leases):
        run_id, lease = columns[0], Lease(columns[1:])
        process: Any = lease.process
        silent = lease.silence(now) > LIMIT_MS
        if process != me and (not silent if process is None else process.state() != GONE):
            raise Conflict(
                f"{where} needs a newer schema, but run {run_id} is driven by {process or f'session {lease.session}'}.",
                hint="Let it end, or stop it; then try again. A session is waited for until it is silent for 10 min.",
            )
