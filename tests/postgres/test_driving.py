"""Drivers on several machines: who cannot be heard stops before another may follow; steps find the store."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leftoff.engine.config.project import local_folder, open_store
from leftoff.engine.write.lease import LIMIT_MS
from leftoff.errors import StoreUnavailable
from leftoff.workflow.run.driver import Driver
from tests.cli.command import LEFTOFF, call


def driver(*, shared: bool) -> Any:
    """One whose beats do not arrive."""

    def beat() -> None:
        if made.lost:
            raise StoreUnavailable("out of reach")

    made: Any = SimpleNamespace(now=0.0, lost=True, _heard=0.0)
    ledger = SimpleNamespace(beat=beat, store=SimpleNamespace(shared=shared))
    made.stage = SimpleNamespace(ledger=ledger, monotonic=lambda: made.now)
    return made


def test_a_driver_that_nobody_hears_stops() -> None:
    """Before its lease is over by anybody's clock; what it started is ended by whoever catches this (`drive`)."""
    alone = driver(shared=True)
    alone.now = LIMIT_MS / 1000 * 0.7
    Driver._beat(alone)
    alone.lost = False
    Driver._beat(alone)  # it was heard: the time counts from here
    alone.lost = True
    alone.now += LIMIT_MS / 1000 * 0.7
    Driver._beat(alone)
    alone.now += LIMIT_MS / 1000 * 0.1
    with pytest.raises(StoreUnavailable):
        Driver._beat(alone)


def test_a_driver_that_can_be_seen_goes_on() -> None:
    """On one machine its process shows that it lives."""
    seen = driver(shared=False)
    seen.now = LIMIT_MS
    Driver._beat(seen)


def test_what_a_step_reports_goes_to_the_server(project: Path, url: str) -> None:
    """A step's process is told the store, and the token of its attempt."""
    flow = f"name: f\nsteps:\n  - id: a\n    run: {LEFTOFF} set found=yes\n"
    (project / "flow.yaml").write_text(flow)
    assert 0 == call("run", "flow.yaml", "--run-id", "r", cwd=project, LEFTOFF_STORE=url).code
    assert "yes" == call("get", "found", "--run", "r", cwd=project, LEFTOFF_STORE=url).out.strip()
    assert ["flow.yaml"] == [path.name for path in project.iterdir()]


def test_logs_from_another_machine(project: Path, url: str, tmp_path: Path) -> None:
    """What a step printed is in the store once it has ended; also what comes of a step that failed."""
    flow = "name: f\nsteps:\n  - id: a\n    run: echo hello\n  - id: b\n    run: echo no; exit 3\n"
    (project / "flow.yaml").write_text(flow)
    here = {"LEFTOFF_STORE": url, "XDG_STATE_HOME": str(tmp_path / "here")}
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=project, **here).code  # type: ignore[arg-type]
    there = {**here, "XDG_STATE_HOME": str(tmp_path / "there")}
    first, second = (call("logs", "r", cwd=project, **env).out for env in (here, there))  # type: ignore[arg-type]
    assert first == second
    assert "hello\n" in first and "no\n" in first


def test_hooks_of_an_agent(project: Path, url: str) -> None:
    """A session's run is on the server; what its hooks remember lies in the folder of this machine."""
    opened = open_store(url)
    opened.write(lambda tx: None)  # a hook has little time, and a store is made once
    assert opened.folder == local_folder(url) == local_folder(url.replace("@", ":geheim@", 1))
    event = {
        "session_id": "s-1",
        "cwd": str(project),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "go on",
    }
    done = call("hook", "claude", cwd=project, input=json.dumps(event), LEFTOFF_STORE=url)
    assert 0 == done.code, done
    (row,) = opened.read(lambda view: view.list_runs({"session": "s-1"}))
    assert "session" == row.workflow
    assert [] == list(project.iterdir())
    opened.close()
