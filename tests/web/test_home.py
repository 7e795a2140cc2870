"""The home page, asked for without a browser: what it says of runs that stand still, and how it comes by the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from leftoff.operations.run_lifecycle import pause_run
from tests.web.client import PATIENCE, Client
from tests.web.night import MINUTE, Night


def _until(look: Callable[[], bool]) -> None:
    """A page is asked for again, as its script does."""
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline


def test_a_paused_run_that_asks_needs_a_person(tmp_path: Path) -> None:
    """Its verdict is looked at beside the page, which is not held up; what needs an answer moves up."""
    night = Night(tmp_path / "p")
    who = night.start("w", "r", title="Changed", steps=["a", "b"])
    night.step(who, "a", MINUTE, outputs=[night.write("out.txt", "as it was")])
    pause_run(night.project, who)
    who = night.start("w", "s", title="Unchanged", steps=["a", "b"])
    pause_run(night.project, who)
    night.project.close()
    night.write("out.txt", "as somebody else left it")
    client = Client(tmp_path / "p")
    try:
        assert "data-poll" in client.get("/").text
        _until(lambda: "data-poll" not in client.get("/").text)
        page = client.get("/").text
    finally:
        client.close()
    needs, _, works = page.partition('id="works"')
    assert "Changed" in needs and "something needs your answer" in needs
    assert "Unchanged" in works and ">Changed<" not in works
    assert 'data-need="1"' in page
    assert "<title>(1) leftoff</title>" in page
