"""Schema versions of a project on a server.

`meta` has the schema's number. A newer schema than ours is refused. `leftoff store migrate` migrates an older one, in
one transaction, one process at a time, and not while another process drives a run.
"""

from __future__ import annotations

from psycopg.errors import InsufficientPrivilege, LockNotAvailable

from leftoff.errors import Conflict, StoreUnavailable, Unsupported
from leftoff.host import GONE, this_process
from leftoff.store.postgres.queries import Q, read
from leftoff.store.rows import LIMIT_MS, Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.postgres.connection import Link
    from leftoff.store.postgres.location import Place

#: the first script makes schema 1, and each later one a schema from the one before it
SCRIPTS: list[str] = ["schema.sql"]
SCHEMA = len(SCRIPTS)
#: seconds that others who make a store are waited for at least: each does it once
PATIENCE_S = 30.0


def is_there(link: Link) -> bool:
    """Whether there is a store; an error where the role may not know."""
    there, is_closed = link.ask([(Q.there, (link.place.schema,))])[0][0]
    if is_closed:
        raise InsufficientPrivilege(f"permission denied for schema {link.place.schema}")
    return bool(there)


def is_current(link: Link) -> bool:
    """Return whether there is a store of this schema."""
    return is_there(link) and check(dict(link.ask([(Q.meta, ())])[0]), link.place) >= SCHEMA


def check(facts: dict[str, str], place: Place) -> int:
    """Return the schema of the store; raise ``Unsupported`` if it is newer than ours."""
    schema = int(facts.get("schema", 0))
    if schema > SCHEMA:
        raise Unsupported(
            f"{place.name} has schema {schema}, made by leftoff {facts.get('written_by', 'of a later version')}; "
            f"this leftoff knows schema {SCHEMA}.",
        )
    return schema


def migrate(link: Link, facts: dict[str, str], patience: float) -> None:
    """Make the store, or bring its schema up to date. Whoever else wants to waits, and finds it done."""
    link.wait_at_most(max(patience, PATIENCE_S))
    try:
        _migrate(link, facts)
    except LockNotAvailable:
        raise StoreUnavailable(
            f"Another process has been making tables of {link.place.name}, or working in them, for too long.",
            hint="Nothing was changed. Try again when it has finished.",
        ) from None


def _migrate(link: Link, facts: dict[str, str]) -> None:
    quoted = link.place.quoted
    link.ask([("BEGIN", ()), ("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", (quoted,))])
    schema = 0
    if is_there(link):
        schema = check(dict(link.ask([(Q.meta, ())])[0]), link.place)
        if schema < SCHEMA:
            _refuse_while_driven(link)
    else:
        there = link.ask([("SELECT 1 FROM pg_namespace WHERE nspname = $1", (link.place.schema,))])[0]
        if not there:  # where it is, somebody made it for us: that needs no right to make one
            link.script([f"CREATE SCHEMA {quoted}"])
    if schema < SCHEMA:
        _apply(link, schema, facts)
    link.ask([("COMMIT", ())])


def _apply(link: Link, schema: int, facts: dict[str, str]) -> None:
    for name in SCRIPTS[schema:]:
        link.script(statements(read(name)))
    known = facts if schema == 0 else {"written_by": facts["written_by"]}
    link.ask([(Q.put_meta, pair) for pair in {**known, "schema": str(SCHEMA)}.items()])


def statements(script: str) -> list[str]:
    """The statements of a file; a pipeline takes them one by one. None of ours has a semicolon inside."""
    lines = [line.partition("--")[0] for line in script.splitlines()]
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


def _refuse_while_driven(link: Link) -> None:
    for columns in link.ask([(Q.leases, ())])[0]:
        lease = Lease(columns[1:10], columns[10])
        process = lease.process
        gone = process == this_process() or lease.seen(0) == GONE
        if not gone and lease.silence(0) <= LIMIT_MS:
            raise Conflict(
                f"{link.place.name} needs a newer schema, but run {columns[0]} is driven by {lease.who or process}.",
                hint="Let it end, or stop it; then try again. One that is silent for 10 min is not waited for.",
            )
