"""A workflow of agent steps, killed at random moments with everything that belongs to it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.agents.stage import Stage
from tests.cli.command import LEFTOFF, call, environment
from tests.crash import faults


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.crash_full)])
def test_killed_at_random(kills: int, stage: Stage) -> None:
    """Three agent steps, everything killed again and again: no finished step starts again, each session is resumed."""
    stage.write(*(f"agent: {agent}\nprompt: Part of {agent}." for agent in ("claude", "codex", "claude")))
    dice, env, killed = random.Random(7), environment(**stage.env, FAKE_SLEEP="0.3"), 0
    while killed < kills:
        words = ["resume", "--yes"] if has_run(stage.folder) else ["run", "flow.yaml", "--yes"]
        process = subprocess.Popen(
            [str(LEFTOFF), *words],
            cwd=stage.folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            assert 0 == process.wait(dice.uniform(0.3, 1.6))
            check_starts(stage)
        except subprocess.TimeoutExpired:
            kill_all(stage.folder)
            process.wait()
            faults.made("kills")
            killed += 1
            if stage.log and not has_run(stage.folder):  # it was done when it was hit
                check_starts(stage)
    if has_run(stage.folder):
        assert 0 == stage.run("resume", "--yes").code
        check_starts(stage)


def has_run(folder: Path) -> bool:
    """Whether a run is unfinished."""
    runs = call("ls", "--json", cwd=folder).json["runs"]
    return any(run["status"] != "completed" for run in runs)


def kill_all(folder: Path) -> None:
    """SIGKILL for every process that works in a folder."""
    for _ in range(3):
        for name in os.listdir("/proc"):
            try:
                if (
                    name.isdigit()
                    and os.readlink(f"/proc/{name}/cwd") == str(folder)
                    and int(name) != os.getpid()
                ):
                    os.kill(int(name), signal.SIGKILL)
            except OSError:
                continue


def check_starts(stage: Stage) -> None:
    """What the fakes saw: of each step one conversation after another only where the first had not begun to exist."""
    completed = {
        record["step"] for record in stage.shown()["step_records"] if record["status"] == "completed"
    }
    assert {"s0", "s1", "s2"} == completed
    order = [entry["step"] for entry in stage.of("start")]
    assert sorted(order) == order, "a step was started after a later one had begun"
    for step in ("s0", "s1", "s2"):
        starts = [entry for entry in stage.of("start") if entry["step"] == step]
        for before, after in pairwise(starts):
            # Codex says its session's id itself: killed before that was on record, there is nothing to resume.
            known = before["agent"] == "claude" or after["resumed"] is not None
            refused = before["resumed"] is not None and not exists(stage, before["session"])
            if known and not refused:
                assert before["session"] == after["resumed"]
            if after["resumed"] is None:
                assert "Somebody worked on this before" in after["prompt"]
    (stage.folder / "fake" / "log.jsonl").unlink()


def exists(stage: Stage, session: str) -> bool:
    return (stage.folder / "fake" / "sessions" / session).exists()
