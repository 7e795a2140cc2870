"""docs/internals/format.md says what is on disk: its tables, columns and numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

import leftoff
from leftoff.model import changes, codec, ids, words
from leftoff.store import base, blobs, sqlite
from leftoff.store import sqlite_connection as connection

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "format.md").read_text()


def described() -> dict[str, set[str]]:
    """Each table of the page, with the columns that its rows name."""
    found: dict[str, set[str]] = {}
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        name = re.match(r"`(\w+)`\n", section)
        if name:
            rows = re.findall(r"^\| (`[^|]+) \|", section.partition("\n## ")[0], re.MULTILINE)
            found[name[1]] = {column for row in rows for column in re.findall(r"`(\w+)`", row)}
    return found


def actual() -> dict[str, set[str]]:
    """The tables and columns that the schema has."""
    db = apsw.Connection(":memory:")
    for name in connection.SCRIPTS:
        for _ in db.execute(base.read_sql(name)):
            pass
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {
        str(table): {str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")}
        for table in tables
        if not str(table).startswith("sqlite_")
    }


def test_every_table_and_column_is_described() -> None:
    """None is left out, none is made up."""
    assert actual() == described()


@pytest.mark.parametrize(
    "sentence",
    [
        f"| page size | {connection.PAGE_SIZE} bytes |",
        f"| reserved bytes per page | {connection.RESERVE}:",
        f"| `user_version` | the schema: {connection.SCHEMA} |",
        f"up to {base.INLINE} of them",
        f"more than {base.INLINE} and at most {base.VALUE_MAX:,} bytes",
        f"more than {changes.SPREAD_OVER} bytes of canonical JSON",
        f"nested more than {codec.MAX_DEPTH} deep",
        f"1 to {ids.MAX_KEY} characters",
        f"at most {ids.MAX_RUN_ID} characters",
        f"longer than {sqlite.CHECKPOINT_PAGES:,} pages",
        f"never below {blobs.SMALL} bytes",
        f"the first {blobs.SAMPLE // 1024} KiB",
        f"(magic `{blobs.SKIPPED[:4].hex(' ')}`, 32",
        "order " + ", ".join(words.STEP_STATUS),
        "`, `".join(words.COLLECTIONS[:6]),
    ],
)
def test_numbers_are_those_of_the_code(sentence: str) -> None:
    """A number that changes must change here too."""
    assert " ".join(sentence.split()) in " ".join(PAGE.split())


def test_every_collection_is_named() -> None:
    """As the words have them, in their order."""
    listed = re.search(r"The collections are (.*?)\.", PAGE, re.DOTALL)
    assert listed is not None
    assert list(words.COLLECTIONS) == re.findall(r"`(\w+)`", listed[1])


def test_every_tag_is_described() -> None:
    """One row per tag."""
    rows = re.findall(r"^\| ((?:`[A-Z]`(?:, )?)+) \|", PAGE, re.MULTILINE)
    tags = {codec.JSON, codec.LIST, codec.DICT, codec.REDACTED, codec.BLOB}
    assert {tag.decode() for tag in tags} == {tag for row in rows for tag in re.findall(r"`([A-Z])`", row)}


def test_the_folder_is_as_drawn(store_path: Path) -> None:
    """Every name that a store makes is on the page, with its mode."""
    with leftoff.open(store_path) as store:
        run = store.start("w", variables={"huge": "x" * 1_100_000})
        run.commit()
        names = {path.name for path in store_path.iterdir()}
        run.finish()
    drawn = set(re.findall(r"^  ([\w.]+)", PAGE.partition("```text")[2].partition("```")[0], re.MULTILINE))
    assert {name.removesuffix("-wal").removesuffix("-shm") for name in names} <= drawn
    assert 0o700 == store_path.stat().st_mode & 0o777
    assert 0o600 == (store_path / "store.db").stat().st_mode & 0o777
