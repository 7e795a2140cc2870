"""docs/SECURITY.md names the tests that hold its promises: they are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/SECURITY.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def test_each_named_test_exists() -> None:
    """A promise whose test was renamed or removed is noticed."""
    absent = [f"{file}::{name}" for file, name in NAMED if f"def {name}(" not in (ROOT / file).read_text()]
    assert [] == absent


def test_each_promise_names_one() -> None:
    """Every row of the table of promises has at least one test."""
    table = PAGE.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 10
    assert [] == [row for row in rows if "::test_" not in row]
