"""Programs, tools and hooks that commit keep the files of a protocol in step, as the command does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import leftoff
from leftoff.clock import Clock
from tests.cli.command import environment, succeed
from tests.protocols.files import put

STATE = "_bmad-output/.runs/main/r/state.json"


@pytest.fixture
def bmad(project: Path) -> Path:
    succeed("init", "--protocol", "bmad", cwd=project)
    return project


def state(project: Path, path: str = STATE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project / path).read_text())
    return found


def test_every_commit_is_in_the_files(bmad: Path) -> None:
    """The start, a step, a variable, the end: each as soon as it is committed."""
    with leftoff.open(bmad / ".leftoff") as store:
        run = store.start("w", run_id="r", steps=["a", "b"])
        assert ("running", []) == (state(bmad)["status"], state(bmad)["steps_completed"])
        with run.step("a"):
            run.variables["x"] = 1
        assert ([1], {"x": 1}) == (state(bmad)["steps_completed"], state(bmad)["session_variables"])
        run.finish()
        assert "completed" == state(bmad)["status"]


class StandingStill(Clock):
    def now(self) -> int:
        return 1_760_000_000_123


def test_edits_are_taken_in_by_every_way_to_open_a_run(bmad: Path) -> None:
    """By `get`, `list`, `run` and `resume`, before they answer."""
    with leftoff.open(bmad / ".leftoff") as store:
        store.start("w", run_id="r", steps=["a", "b"]).pause()
        ways: list[Callable[[], object]] = [
            store.list,
            lambda: store.get("r"),
            lambda: store.run("w").pause(),
        ]
        for number, look in enumerate(ways):
            put(bmad / STATE, {**state(bmad), "session_variables": {"x": number}})
            look()
            assert number == store.get("r").variables["x"]
        put(bmad / STATE, {**state(bmad), "steps_completed": [1]})
        run = store.resume("r")
        assert "completed" == run.steps["a"]["status"]


def test_an_edit_beside_a_program_is_not_lost(bmad: Path) -> None:
    """It is taken in with the program's next commit, which reverts nothing of it."""
    with leftoff.open(bmad / ".leftoff") as store, store.start("w", run_id="r") as run:
        run.variables["x"] = 1
        run.commit()
        put(bmad / STATE, {**state(bmad), "session_variables": {"x": 1, "theirs": 2}})
        run.variables["y"] = 3
        run.commit()
        assert {"x": 1, "y": 3, "theirs": 2} == state(bmad)["session_variables"]


def test_functions_too(bmad: Path) -> None:
    """A durable function's steps are in the file when they are done."""
    script = (
        "import json, leftoff\n"
        "@leftoff.step\n"
        "def one(x): return x + 1\n"
        "@leftoff.workflow\n"
        "def flow(x):\n"
        "    y = one(x)\n"
        f"    print(json.load(open({STATE!r}))['steps_completed'])\n"
        "    return y\n"
        "flow.run(1, run_id='r')\n"
    )
    (bmad / "flow.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "flow.py"], cwd=bmad, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert "[1]\n" == done.stdout, done.stderr
    assert "completed" == state(bmad)["status"]


def test_the_protocol_names_the_runs_of_programs(project: Path) -> None:
    """Without a name that it would look for, the file would not be found by those who follow it."""
    succeed("init", "--protocol", "claude-checkpoints", cwd=project)
    with leftoff.open(project / ".leftoff") as store:
        secret = "sk-ant-REDACTED"
        run = store.start("implement", title=f"Dark mode {secret}")
        assert re.fullmatch(r"implement_dark_mode_[a-z_]*\d{8}_\d{6}", run.id)
        again = store.run("implement", title=f"Dark mode {secret}")
        assert again.id == run.id


def test_the_protocol_seals_what_programs_commit(project: Path) -> None:
    """Triggers that are off are committed, and not sealed; a phase is a `phase_transition`."""
    succeed("init", "--protocol", "crunch", cwd=project)
    with leftoff.open(project / ".leftoff") as store, store.run("crunch", issue=42) as run:
        assert ("crunch-42", ["enrich", "ready"]) == (run.id, list(run.steps)[:2])
        run.do("enrich/system-architect/spec", lambda: "done")
        assert [] == run.history()
        run.do("enrich", lambda: None)
        assert ["phase_transition"] == [version.trigger for version in run.history()]
    index = yaml.safe_load((project / ".claude/crunch/42/checkpoints/index.yaml").read_text())
    assert "phase_transition" == index["checkpoints"][0]["trigger"]


def test_start_again_finds_the_work_not_the_moment(project: Path) -> None:
    """`start --resume` of a protocol with the time in its ids goes on with the unfinished run."""
    succeed("init", "--protocol", "claude-checkpoints", cwd=project)
    first = succeed("start", "implement", "--title", "Dark mode", cwd=project).out
    assert first == succeed("start", "implement", "--title", "Dark mode", "--resume", cwd=project).out


def test_threads_and_forks(bmad: Path) -> None:
    """Several threads commit, and a child that was forked meanwhile: all of it is in the file."""
    with leftoff.open(bmad / ".leftoff") as store:
        run = store.start("w", run_id="r", steps=[f"s{n}" for n in range(8)])
        threads = [threading.Thread(target=run.do, args=(f"s{n}", lambda: None)) for n in range(8)]
        for thread in threads:
            thread.start()
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                store._store.follower.look()  # type: ignore[union-attr]
            finally:
                os._exit(0)
        assert 0 == os.waitpid(child, 0)[1]
        for thread in threads:
            thread.join()
        assert list(range(1, 9)) == state(bmad)["steps_completed"]


def test_without_a_protocol_nothing_of_it_is_loaded(project: Path) -> None:
    """A project that follows none pays nothing for those that do."""
    script = (
        "import sys, leftoff\n"
        "with leftoff.open('.leftoff') as store:\n"
        "    run = store.start('w'); run.variables['x'] = 1; run.commit()\n"
        "print([name for name in sys.modules if name.startswith('leftoff.protocols')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, env=environment(), capture_output=True, text=True
    )
    assert "[]\n" == done.stdout, done.stderr
