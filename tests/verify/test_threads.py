"""What is looked at beside each other is looked at all the same where no thread can be started."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.cli.command import call, succeed


@pytest.mark.parametrize("started", [0, 1])
def test_a_machine_that_starts_no_more_threads(
    project: Path, monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    """The verdict is the same, whichever thread is the first that cannot be started."""
    succeed("start", "w", "--run-id", "r", "--steps", "a", cwd=project)
    (project / "made").write_text("made\n")
    succeed("step", "done", "a", "--output", "made", cwd=project)
    (project / "made").write_text("changed\n")
    before = call("verify", "r", "--json", cwd=project).json
    real, left = threading.Thread.start, [started]

    def start(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    assert before == call("verify", "r", "--json", cwd=project).json
    assert left[0] < 0
