"""docs/internals/security-tests.md names tests of each promise of the security model: they exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "docs/explanation/security.md").read_text()
ROWS = re.findall(r"^\| (\d+)\. .*", (ROOT / "docs/internals/security-tests.md").read_text(), re.MULTILINE)
NAMED = re.findall(
    r"`(tests/[\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", (ROOT / "docs/internals/security-tests.md").read_text()
)


def test_each_named_test_exists() -> None:
    """A test that was renamed or removed is noticed."""
    absent = [
        f"{file}::{name}"
        for file, names in NAMED
        for name in re.findall(r"\w+", names)
        if f"def {name}(" not in (ROOT / file).read_text()
    ]
    assert len(NAMED) > 20
    assert [] == absent


def test_each_promise_has_a_row() -> None:
    """The list of tests has a row for each numbered promise of the model."""
    promises = re.findall(r"^(\d+)\. \*\*", MODEL, re.MULTILINE)
    assert len(promises) >= 10
    assert promises == ROWS
