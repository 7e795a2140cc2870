"""Every query has a name, a reason and a use, fits the schema, and finds its rows without reading all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import apsw.ext
import pytest

from leftoff.store.base import in_sqlite, read_sql
from leftoff.store.sqlite_connection import SCRIPTS, Q

SRC = Path(__file__).parents[2] / "src" / "leftoff"
TEXT = read_sql("queries.sql")
NAMES = re.findall(r"^-- name: (.*)$", TEXT, re.MULTILINE)
#: the queries that a SQLite store has, as it says them
OURS = {
    name.partition(" ")[0]: getattr(Q, name.partition(" ")[0]) for name in NAMES if "[postgres]" not in name
}
#: what the code puts into a text, or behind a fragment
FILLED = {"{runs}": "1, 2", "{seqs}": "1, 2"}
# fsck reads everything, a sweep looks at every value; so does nothing else.
READS_EVERYTHING = {"rows_of_no_run"}
MUST_SEARCH = """record row drop_value_if_unused leaves has_below head live last_key hashes token_since bounds
drop_blob_if_unused past_batch records_at last_order leaf_page""".split()


def database() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    for script in SCRIPTS:
        for _ in db.execute(read_sql(script)):
            pass
    return db


def filled(sql: str) -> str:
    for mark, text in FILLED.items():
        sql = sql.replace(mark, text)
    return sql


def plan(sql: str) -> list[str]:
    """What SQLite would do, one line each."""
    info = apsw.ext.query_info(database(), filled(sql), explain_query_plan=True)

    def lines(node: apsw.ext.QueryPlan) -> Iterator[str]:
        yield node.detail
        for below in node.sub or ():
            yield from lines(below)

    return list(lines(info.query_plan)) if info.query_plan is not None else []


def test_names_are_unique() -> None:
    """No query hides another one. A query for one database only has its name in brackets."""
    assert len(set(NAMES)) == len(NAMES) > 60
    assert all(re.fullmatch(r"[a-z_0-9]+( \[(sqlite|postgres)\])?", name) for name in NAMES)


def test_each_is_described() -> None:
    """Each query says why it exists, in a sentence."""
    for block in TEXT.split("\n-- name: ")[1:]:
        about = [line for line in block.split("\n")[1:] if line.startswith("--")]
        assert (about and about[-1].endswith(".")) or about[-1].endswith(")."), block


def test_every_query_is_used() -> None:
    """A query that no code uses is not there."""
    code = "".join(path.read_text() for path in (SRC / "store").rglob("*.py"))
    used = set(re.findall(r"\b[qQ]\.(\w+)\b", code))
    assert set() == {name.partition(" ")[0] for name in NAMES} - used


@pytest.mark.parametrize("name", OURS)
def test_query_fits_the_schema(name: str) -> None:
    """SQLite accepts each query as it stands, and it is one statement."""
    assert apsw.ext.query_info(database(), filled(OURS[name])).query_remaining is None


@pytest.mark.parametrize("name", MUST_SEARCH)
def test_hot_query_searches(name: str) -> None:
    """What runs in every commit, or for every key, goes straight to its rows."""
    steps = plan(OURS[name])
    assert [] == [step for step in steps if re.match(r"SCAN (record|past|version|r|p|q|v)\b", step)]
    assert any(step.startswith("SEARCH ") for step in steps)


@pytest.mark.parametrize("name", OURS)
def test_no_query_reads_all_records(name: str) -> None:
    """Records and their past are many: only fsck goes over all of them."""
    scans = [step for step in plan(OURS[name]) if re.match(r"SCAN (record|past|r|p)\b", step)]
    assert [] == scans or name in READS_EVERYTHING | {"run_columns", "hidden_but_complete"}


def test_leaves_are_found_by_their_index() -> None:
    """The index of leaf steps is taken, not the primary key."""
    for name in ("leaves", "leaf_page", "last_order"):
        assert any("record_leaf" in step for step in plan(OURS[name])), plan(OURS[name])


def test_words_of_sqlite() -> None:
    """Shared texts are turned into SQLite's words."""
    assert "instr(a, ?1)" == in_sqlite("strpos(a, $1)")
