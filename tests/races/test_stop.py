"""Ending what a dead driver left has two halves: what lives is found, then it is ended. A driver may come between."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from leftoff.host import ALIVE, Process, scope, started
from leftoff.store.base import Tx
from leftoff.store.sqlite.store import SqliteStore
from tests.cli.command import call
from tests.races.between import Seam, taken_up


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


@pytest.fixture
def orphan(project: Path) -> Iterator[Process]:
    """A run of a workflow whose driver is gone, and whose step lives on."""
    (project / "flow.yaml").write_text("name: flow\nsteps:\n  - {id: a, run: 'false'}\n")
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=project).code
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as sleeping:
        process = Process(scope(), sleeping.pid, started(sleeping.pid))
        store = SqliteStore(str(project / ".leftoff"))
        row = store.read(lambda view: view.find_run("r"))
        assert row is not None

        def leave(tx: Tx) -> None:
            tx.add_attempt("left", row.run, "a", 0, log="attempts/r/left")
            tx.set_attempt_process("left", process)

        store.write(leave)
        store.close()
        yield process
        sleeping.kill()


@pytest.mark.parametrize("verb", ["stop", "rollback"])
def test_steps_of_a_driver_that_came_since(project: Path, orphan: Process, seam: Seam, verb: str) -> None:
    """They are its own: whoever ends what a dead driver left lets them live."""
    seam.after("leftoff.workflow.recovery.stop.left_running", lambda: taken_up(project, "r"))
    assert 5 == call(verb, "r", *(["--yes"] if verb == "rollback" else []), cwd=project).code
    assert ALIVE == orphan.state()
