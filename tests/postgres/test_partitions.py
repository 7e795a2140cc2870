"""The SQL of docs/internals/scale.md that splits the large tables: the store stays the same, and takes writes."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from leftoff.store.postgres import PostgresStore
from tests.contract.scribe import Scribe
from tests.postgres.server import Server
from tests.postgres.test_copy import everything, fill

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "scale.md"


def test_tables_that_were_split(server: Server, url: str, tmp_path: Path) -> None:
    store = PostgresStore(url, str(tmp_path))
    fill(store)
    before = everything(store)
    (block,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with psycopg.connect(
        server.url(), options=f"-c search_path={store.place.quoted}", autocommit=True
    ) as conn:
        conn.execute(block.encode())
        assert 48 == len(
            conn.execute(
                "SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent "
                "WHERE c.relkind = 'p' AND c.relnamespace = current_schema()::regnamespace"
            ).fetchall()
        )
    assert before == everything(store)
    scribe = Scribe(store, "later")
    scribe.commit({("variable", "n"): 1, ("variable", "large"): "x" * 5000}, seal="manual")
    scribe.commit({("variable", "n"): 2})
    scribe.verify()
    store.prune(scribe.run, [1])
    assert [] == store.check()["problems"]
    store.close()
