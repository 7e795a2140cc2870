"""One process drives through leftoff, another replaces the file of the run, a third reads it: nothing is lost."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import succeed
from tests.protocols.rivals import RUN, drive, edit, followed, watch

STATE = f"_bmad-output/.runs/main/{RUN}/state.json"


def rounds_of(project: Path, number: int) -> dict[str, Any]:
    """So many edits beside a driver and a reader; what they came to."""
    context = multiprocessing.get_context("spawn")
    stop, done, verdict = project / "stop", project / "done", project / "verdict"
    path = project / STATE
    driver = context.Process(target=drive, args=(project, stop, done))
    editor = context.Process(target=edit, args=(path, number, done))
    watcher = context.Process(target=watch, args=(path, stop, verdict))
    for process in (driver, watcher, editor):
        process.start()
    editor.join(240)
    stop.touch()
    driver.join(60)
    watcher.join(60)
    assert [0, 0, 0] == [process.exitcode for process in (driver, watcher, editor)]
    came = {**json.loads(done.read_text()), **json.loads(verdict.read_text())}
    stop.unlink()
    done.unlink()
    return came


def variables(project: Path) -> dict[str, Any]:
    told: list[str] = []
    followed(project, told).close()
    found: dict[str, Any] = succeed("show", RUN, "--json", cwd=project).json
    return found


def check(project: Path, number: int) -> None:
    succeed("init", "--protocol", "bmad", cwd=project)
    succeed("start", "w", "--run-id", RUN, "--steps", "a,b", "--var", "both=start", cwd=project)
    came = rounds_of(project, number)
    assert "" == came["bad"] and came["looks"] > number and came["rounds"] > 3
    found = variables(project)
    names = set(found["variables"])
    assert set() == {f"rename_{n:04d}" for n in range(number)} - names
    assert set() == {f"ours_{n:04d}" for n in range(1, came["rounds"] + 1)} - names
    document = json.loads((project / STATE).read_text())
    assert found["variables"] == document["session_variables"]
    assert "bmad:variable/both" in found["records"]["conflict"]
    succeed("fsck", cwd=project)


def test_a_few_rounds(project: Path) -> None:
    """No edit by rename is lost, and no file is ever half written by us."""
    check(project, 25)


@pytest.mark.crash_full
@pytest.mark.timeout(1200)
def test_many_rounds(project: Path) -> None:
    """250 rounds."""
    check(project, 250)
