"""What leftoff does can be watched: by the logger of a program, or on stderr."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import leftoff
from tests.cli.command import call


def test_the_logger_of_a_program(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "leftoff"), leftoff.open(project / ".leftoff") as store:
        run = store.start("flow", run_id="r")
        run.checkpoint()
    assert "drives r, epoch 1" in caplog.text
    assert "commits r@2, sealed as manual" in caplog.text


def test_nothing_is_said_unasked(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    with leftoff.open(project / ".leftoff") as store:
        store.start("flow")
    assert "" == caplog.text


def test_stderr_of_the_command(project: Path) -> None:
    """And only there: what a program reads on stdout stays what it is."""
    done = call("start", "flow", "--run-id", "r", cwd=project, LEFTOFF_DEBUG="1")
    assert (0, "r\n") == (done.code, done.out)
    assert "commits r@1" in done.err
