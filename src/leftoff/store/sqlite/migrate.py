"""Schema versions of the store file.

``user_version`` is the schema's number: one integer in the file's header, checked inside every write transaction. A
newer schema than ours is refused. An older one is migrated by the first write, but not while another process drives a
run: its code would not know the new schema.
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

#: the first script makes schema 1, and each later one a schema from the one before it
SCRIPTS: list[str] = ["schema.sql"]
SCHEMA = len(SCRIPTS)


def version(db: apsw.Connection) -> int:
    row: Any = db.execute("PRAGMA user_version").fetchone()
    return int(row[0])


def is_empty(db: apsw.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def check(db: apsw.Connection, where: str, schema: int | None = None) -> int:
    """Return the schema of the store; raise ``Unsupported`` if it is newer than ours."""
    schema = version(db) if schema is None else schema
    if schema == 0:
        raise Corrupt(f"{where} is a database, but not one of leftoff's.", where=where, hint="Move it away.")
    if schema > SCHEMA:
        rows: Any = db.execute(Q.meta).fetchall()
        raise Unsupported(
            f"{where} has schema {schema}, made by leftoff {dict(rows).get('written_by', 'of a later version')}; "
            f"this leftoff knows schema {SCHEMA}.",
        )
    return schema


def migrate(db: apsw.Connection, where: str, facts: dict[str, str]) -> None:
    """Bring the schema up to date, inside the caller's write transaction."""
    schema = 0 if is_empty(db) else check(db, where)
    if schema >= SCHEMA:
        return
    if schema > 0:
        _refuse_while_driven(db, where, int(facts["created_at"]))
    for name in SCRIPTS[schema:]:
        run_script(db, name)
    known = {**facts} if schema == 0 else {"written_by": facts["written_by"]}
    for name, value in {**known, "schema": str(SCHEMA)}.items():
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
