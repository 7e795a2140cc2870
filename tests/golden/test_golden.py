"""Everyday calls print what they printed when they were recorded; see the docstring of ``tests.golden``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import CASES, Session


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.txt")))
def test_prints_what_was_recorded(name: str, tmp_path: Path) -> None:
    recorded = (CASES / f"{name}.txt").read_text(encoding="utf-8")
    assert recorded.splitlines() == Session(tmp_path).transcript(recorded).splitlines()
