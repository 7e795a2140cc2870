"""Every query has a name, a reason and a use, fits the schema, and finds its rows without reading all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import apsw
import apsw.ext
import pytest

from leftoff.store.sqlite.migrate import SCRIPTS
from leftoff.store.sqlite.queries import parse, read

SRC = Path(__file__).parents[2] / "src" / "leftoff"
# Where queries live, the schema that they are for, and the modules that may use them.
FILES = {"queries.sql": SCRIPTS}
QUERIES = {(file, name): (about, sql) for file in FILES for name, about, sql in parse(read(file))}
# fsck reads everything; so does nothing else.
READS_EVERYTHING = {"every_record", "rows_of_no_run"}
MUST_SEARCH = [
    "record",
    "row",
    "past_at",
    "past_next_key",
    "drop_value_if_unused",
    "leaves",
    "has_below",
    "head",
]
MUST_SEARCH += [
    "live_at",
    "live_range",
    "last_key",
    "hashes",
    "token_since",
    "bounds",
    "drop_blob_if_unused",
    "past_batch",
]


def database(file: str) -> apsw.Connection:
    db = apsw.Connection(":memory:")
    for schema in FILES[file]:
        for _ in db.execute(read(schema)):
            pass
    return db


def plan(file: str, sql: str) -> list[str]:
    """What SQLite would do, one line each."""
    info = apsw.ext.query_info(database(file), sql, explain_query_plan=True)

    def lines(node: apsw.ext.QueryPlan) -> Iterator[str]:
        yield node.detail
        for below in node.sub or ():
            yield from lines(below)

    return list(lines(info.query_plan)) if info.query_plan is not None else []


def test_there_are_queries() -> None:
    """The files are read and taken apart."""
    assert len(QUERIES) > 60


@pytest.mark.parametrize("file", FILES)
def test_names_are_unique(file: str) -> None:
    """No query hides another of the same name."""
    names = re.findall(r"^-- name: (.*)$", read(file), re.MULTILINE)
    assert [] == [name for name, count in Counter(names).items() if count > 1]
    assert all(re.fullmatch(r"[a-z_0-9]+", name) for name in names)
    assert len(names) == len([name for of, name in QUERIES if of == file])


@pytest.mark.parametrize("key", QUERIES, ids="-".join)
def test_query_is_described(key: tuple[str, str]) -> None:
    """Each query says why it exists, in a sentence."""
    about, sql = QUERIES[key]
    assert about.endswith(".")
    assert sql and not sql.endswith(";")


def test_each_name_is_given_once() -> None:
    """Of two queries of one name only the last would ever be used."""
    for file in FILES:
        names = re.findall(r"^-- name: (\S+)", read(file), re.MULTILINE)
        assert sorted(set(names)) == sorted(names)


def test_every_query_is_used() -> None:
    """A query that no code uses is not there."""
    modules = [path for path in SRC.rglob("*.py") if not path.name.startswith("bundle")]
    used = {name for path in modules for name in re.findall(r"\bQ\.(\w+)\b", path.read_text())}
    assert set() == {name for file, name in QUERIES if file == "queries.sql"} - used


@pytest.mark.parametrize("key", QUERIES, ids="-".join)
def test_query_fits_the_schema(key: tuple[str, str]) -> None:
    """SQLite accepts each query as it stands, and it is one statement."""
    file, sql = key[0], QUERIES[key][1]
    info = apsw.ext.query_info(database(file), sql)
    assert info.query_remaining is None


@pytest.mark.parametrize("name", MUST_SEARCH)
def test_hot_query_searches(name: str) -> None:
    """What runs in every commit, or for every key, goes straight to its rows."""
    steps = plan("queries.sql", QUERIES["queries.sql", name][1])
    assert [] == [step for step in steps if step.startswith("SCAN ")]
    assert any(step.startswith("SEARCH ") for step in steps)


@pytest.mark.parametrize("name", [name for file, name in QUERIES if file == "queries.sql"])
def test_no_query_reads_all_records(name: str) -> None:
    """Records and their past are many: only fsck goes over all of them."""
    steps = plan("queries.sql", QUERIES["queries.sql", name][1])
    scans = [step for step in steps if re.match(r"SCAN (record|past|p)\b", step)]
    assert [] == scans or name in READS_EVERYTHING
