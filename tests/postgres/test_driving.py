"""Drivers on several machines: who cannot be heard stops before another may follow; steps find the store."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import leftoff
from leftoff.engine.project import local_folder, open_store_at
from leftoff.errors import Conflict, StoreUnavailable
from leftoff.host import Process, started, this_process
from leftoff.store.base import Tx
from leftoff.store.rows import LIMIT_MS
from leftoff.workflow.driver import Driver, Fence
from tests.agents.hooking import Session
from tests.cli.command import LEFTOFF, call
from tests.contract.scribe import AT
from tests.postgres.proxy import Proxy
from tests.workflow.driving import Flow, mark, wait


def driver(*, shared: bool) -> Any:
    """One whose beats do not arrive."""

    def beat() -> None:
        if made.lost:
            raise StoreUnavailable("out of reach")

    made: Any = SimpleNamespace(now=0.0, lost=True)
    made._fence = Fence(lambda: None, now=lambda: made.now)
    made._renew, made.store = beat, SimpleNamespace(shared=shared)
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


def test_a_driver_that_hangs_in_the_store_stops_its_steps() -> None:
    """A thread does it: the driver itself waits for an answer that does not come. One that is heard goes on."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    process = Process(this_process().scope, child.pid, started(child.pid) or "")
    driver = SimpleNamespace(
        attempts={"t": SimpleNamespace(running=process)}, setting=SimpleNamespace(grace=0.0)
    )
    clock = SimpleNamespace(now=0.0)
    fence = Fence(lambda: Driver._end_children(driver), now=lambda: clock.now)  # type: ignore[arg-type]
    fence.start()
    try:
        clock.now = LIMIT_MS / 1000 * 0.7
        fence.heard(clock.now)
        clock.now += LIMIT_MS / 1000 * 0.7
        assert not fence.fell and not fence.is_alone()
        clock.now += LIMIT_MS / 1000 * 0.1
        assert child.wait(60) < 0
        assert fence.fell
    finally:
        child.kill()


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


def test_a_long_log_is_there_whole(project: Path, url: str, tmp_path: Path) -> None:
    """What is more than the row holds is a blob: from another machine all of it can be read, and after a copy, too."""
    (project / "flow.yaml").write_text("name: f\nsteps:\n  - id: a\n    run: seq 1 200000\n")
    here = {"LEFTOFF_STORE": url, "XDG_STATE_HOME": str(tmp_path / "here")}
    assert 0 == call("run", "flow.yaml", "--run-id", "r", cwd=project, **here).code  # type: ignore[arg-type]
    expected = "".join(f"{number}\n" for number in range(1, 200001))
    there = {**here, "XDG_STATE_HOME": str(tmp_path / "there")}
    assert expected == call("logs", "r", cwd=project, **there).out  # type: ignore[arg-type]
    copied = {"LEFTOFF_STORE": str(tmp_path / "copied"), "XDG_STATE_HOME": str(tmp_path / "third")}
    done = call("store", "copy", url, copied["LEFTOFF_STORE"], cwd=project, **copied)  # type: ignore[arg-type]
    assert 0 == done.code, done
    assert expected == call("logs", "r", cwd=project, **copied).out  # type: ignore[arg-type]
    store = open_store_at(url)
    store.sweep()
    assert [] == store.check()["problems"]
    assert len(expected) == sum(map(len, store.load_blob(sha256(expected.encode()).digest())))
    store.close()


@pytest.mark.parametrize(
    ("process", "told"),
    [
        (Process("machine@builder-7/boot/pid", 5, "1"), "its log is on builder-7 until then"),
        (this_process(), f"its log is on {this_process().host} until then"),  # in another user's folder
    ],
)
def test_a_log_that_is_still_written_elsewhere(project: Path, url: str, process: Process, told: str) -> None:
    """It is said where it is; it is not gone."""
    assert 0 == call("start", "work", "--run-id", "r", "--steps", "a", cwd=project, LEFTOFF_STORE=url).code
    store = open_store_at(url)

    def work(tx: Tx) -> None:
        row = tx.find_run("r")
        assert row is not None
        tx.add_attempt("t", row.run, "a", AT, process=process, log="attempts/r/t")

    store.write(work)
    store.close()
    done = call("logs", "r", cwd=project, LEFTOFF_STORE=url)
    assert 0 == done.code
    assert told in done.out + done.err
    assert "gone" not in done.out + done.err


def test_hooks_of_an_agent(project: Path, url: str) -> None:
    """A session's run is on the server; what its hooks remember lies in the folder of this machine."""
    opened = open_store_at(url)
    assert opened.folder == local_folder(url) == local_folder(url.replace("@", ":geheim@", 1))
    session = Session(project, "s-1")  # which takes the time it needs: no machine is too slow for it
    session.env = {"LEFTOFF_STORE": url}
    session.fire("UserPromptSubmit", prompt="Write the guide")
    (row,) = opened.read(lambda view: view.list_runs({"session": "s-1"}))
    assert "session" == row.workflow
    assert [] == list(project.iterdir())
    opened.close()


def test_a_decision_is_heard_of(project: Path, proxy: Proxy, url: str, name: str) -> None:
    """A driver that waits for a person continues once they have decided."""
    flow = Flow(project)
    side = f"  - id: side\n    needs: []\n    run: {mark('side')}; {wait()}\n"
    flow.write(f"name: f\nsteps:\n  - id: ok\n    approval: Good?\n  - id: b\n    run: {mark('b')}\n{side}")
    driver = flow.run(env={"LEFTOFF_STORE": proxy.url(name)})
    driver.until("waiting")
    flow.started("side")
    flow.succeed("approve", "r", "ok", LEFTOFF_STORE=url)
    flow.started("b")
    flow.file("gate")
    driver.end(0)


def test_compare_and_set_after_another_writer(project: Path, location: str) -> None:
    """A driver that does not know a variable's value, because others have committed since, asks the store for it."""
    with leftoff.Store(location, str(project)) as store:
        run = store.start("w")
        run.variables["a"] = 1
        run.commit()
        call("set", "b=1", "--run", run.id, "--store", location, cwd=project)
        run.variables["c"] = 1
        run.commit()
        run.compare_and_set("a", 1, 2)
        assert {"a": 2, "b": 1, "c": 1} == dict(run.variables)
        call("set", "a=3", "--run", run.id, "--store", location, cwd=project)
        with pytest.raises(Conflict):
            run.compare_and_set("a", 2, 4)
