"""Many runs in a store on a server, without the time that they would take: a few are made as everybody makes them, and
the server copies their rows.

`python -m bench.load URL RUNS [RECORDS]`. What a copy must have of its own (id, numbers, tokens, checkpoints) it gets;
so `leftoff fsck` of such a store is clean.
"""

from __future__ import annotations

import sys
from contextlib import closing

import psycopg

import leftoff
from leftoff.store.server_location import ServerPlace

MODELS = 10  # runs that are copied
STEPS = 20
OPEN = 50  # runs that are not finished, however many there are
SOME = 5_000  # runs that are copied in one transaction

COPY = {
    "copies": """FROM generate_series(%(low)s::bigint, %(high)s::bigint) g
        CROSS JOIN LATERAL (SELECT 'run-' || g AS id) i""",
    "model": "%(first)s + g %% %(models)s",
    "checkpoint": """encode(sha256(
        convert_to(i.id || ':' || m.seq || ':' || encode(m.digest, 'hex'), 'UTF8')), 'hex')""",
}
#: in this order: `run` first, as the others name it
COPIES = (
    """INSERT INTO run (run, run_id, n, seq, digest, counts, updated_at, checkpoint, created_at, workflow, branch,
        status, title, issue, session, card, hidden)
    SELECT g, i.id, g * 100::bigint + m.seq, m.seq, m.digest, m.counts, m.updated_at,
        CASE WHEN m.checkpoint IS NOT NULL THEN {checkpoint} END, m.created_at, m.workflow, m.branch, m.status, m.title,
        m.issue, m.session, m.card, 0
    {copies} JOIN run m ON m.run = {model}""",
    """INSERT INTO version (run, seq, n, token, digest, epoch, at, counts, checkpoint, trigger, step, note)
    SELECT g, m.seq, g * 100::bigint + m.seq, int8send(g) || int8send(m.seq), m.digest, m.epoch, m.at, m.counts,
        CASE WHEN m.checkpoint IS NOT NULL THEN {checkpoint} END, m.trigger, m.step, m.note
    {copies} JOIN version m ON m.run = {model}""",
    """INSERT INTO record (run, collection, key, seq, hash, data, blob, status, ord, leaf)
    SELECT g, m.collection, m.key, m.seq, m.hash, m.data, m.blob, m.status, m.ord, m.leaf
    {copies} JOIN record m ON m.run = {model}""",
    """INSERT INTO past (run, collection, key, until, seq, hash, data, blob)
    SELECT g, m.collection, m.key, m.until, m.seq, m.hash, m.data, m.blob
    {copies} JOIN past m ON m.run = {model}""",
    """INSERT INTO lease (run, epoch, kind, scope, pid, started, session, who, since, beat)
    SELECT g, m.epoch, m.kind, m.scope, m.pid, m.started, m.session, m.who, m.since, m.beat
    {copies} JOIN lease m ON m.run = {model}""",
)


def load(url: str, runs: int, records: int = 50) -> None:
    """Fill the store to so many runs of so many records each; the newest few are not finished."""
    with closing(leftoff.open(url)) as store:
        for number in range(MODELS):
            model(store, number, records)
    place = ServerPlace(url)
    with psycopg.connect(place.conninfo, autocommit=True, options=f"-c search_path={place.quoted}") as conn:
        first = conn.execute("SELECT min(run) FROM run").fetchone()[0]  # type: ignore[index]
        for low in range(first + MODELS, first + runs, SOME):
            high = min(low + SOME, first + runs) - 1
            with conn.transaction():
                for sql in COPIES:
                    conn.execute(
                        sql.format(**COPY).encode(),
                        {"low": low, "high": high, "first": first, "models": MODELS},
                    )
        conn.execute("SELECT setval('commit_number', (SELECT max(n) FROM version))")
        conn.execute("SELECT setval(pg_get_serial_sequence('run', 'run'), (SELECT max(run) FROM run))")
        conn.execute("VACUUM ANALYZE")
    with closing(leftoff.open(url)) as store:
        for number in range(OPEN):
            store.start("open", run_id=f"open-{number}", steps=["a", "b", "c"]).pause()


def model(store: leftoff.Store, number: int, records: int) -> None:
    """A finished run with a history: steps, variables, a list."""
    names = [f"step-{n:02}" for n in range(STEPS)]
    with store.start("work", run_id=f"model-{number}", title=f"Run {number}", steps=names) as run:
        for name in names:
            with run.step(name):
                run.variables["last"] = name
        run.variables.update({f"name-{n}": f"value {n} of {number}" for n in range(records - STEPS - 11)})
        run.commit()


if __name__ == "__main__":
    load(sys.argv[1], int(sys.argv[2]), int([*sys.argv[3:], "50"][0]))
