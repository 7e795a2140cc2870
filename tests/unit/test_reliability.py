"""The reliability page: its table names tests that exist, and only a full run writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.guarantees import GUARANTEES, Guarantee
from tests.crash.reliability import PAGE, ROOT


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda one: one.number)
def test_every_pattern_names_tests(guarantee: Guarantee) -> None:
    """A test file that was renamed would silently leave the page."""
    for pattern in guarantee.tests:
        assert any(path.name.startswith("test_") for path in (ROOT / "tests").glob(pattern)) or list(
            (ROOT / "tests" / pattern.removesuffix("/*")).rglob("test_*.py")
        ), pattern


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda one: one.number)
def test_the_page_has_the_table(guarantee: Guarantee) -> None:
    """`python -m tests.crash.reliability` writes the page anew, without figures."""
    assert f"| {guarantee.number} | {guarantee.words} | {guarantee.how} |" in PAGE.read_text()


def test_a_part_does_not_write_the_page() -> None:
    """It would look like a full run."""
    before = PAGE.read_bytes()
    words = ["tests/unit/test_reliability.py", "-k", "pattern", "-p", "tests.crash.reliability"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stdout
    said = next(line for line in done.stdout.splitlines() if "only a part of the tests ran" in line)
    written = Path(said.split()[-1])
    assert "**Only a part of the tests ran.** 10 cases, 0 failed" in written.read_text()
    written.unlink()
    assert before == PAGE.read_bytes()
