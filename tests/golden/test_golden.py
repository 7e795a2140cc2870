"""Everyday calls print what they printed when they were recorded; see the docstring of ``tests.golden``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden import CASES, Session


def lines(text: str) -> list[str]:
    """The lines of a transcript. How wide a column of times is depends on the clock."""
    return re.sub(r"\b(TIME|AGO|SPAN) {2,}", r"\1  ", text).splitlines()


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.txt")))
def test_prints_what_was_recorded(name: str, tmp_path: Path) -> None:
    recorded = (CASES / f"{name}.txt").read_text(encoding="utf-8")
    assert lines(recorded) == lines(Session(tmp_path).transcript(recorded))
