"""Retries, timeouts, Ctrl-C, and steps that must not be repeated blindly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.python import calls as calling
from leftoff.python.calls import retry_policy
from leftoff.workflow.durations import Retries
from tests.seams import SEAMS
from tests.workflow.driving import PATIENCE, until
from tests.workflow.functions import Calls, calls, lines, program, start_program, statuses, store

__all__ = ["calls", "store"]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited between attempts; nobody really waits."""
    found: list[float] = []
    monkeypatch.setattr(SEAMS["calls.time.sleep"], found.append)
    return found


def run(store: leftoff.Store, body: Callable[[], Any], **options: Any) -> Any:
    """A workflow of these calls, always of the same run."""
    made: Any = leftoff.workflow(lambda: body(), name="flow")
    return made.run(store=store, run_id="r", **options)


def step(work: Callable[..., Any], name: str = "work", **options: Any) -> Any:
    """A step."""
    return leftoff.step(work, name=name, **options)


# -- retries


def test_how_long_to_wait() -> None:
    """The backoff, then factor times as long each time, an hour at most; jitter takes up to half of it away."""
    plain = retry_policy({"max": 3, "backoff": "2s", "factor": 3, "jitter": False})
    assert [2.0, 6.0, 18.0] == [plain.pause(n) for n in (1, 2, 3)]
    assert 3600.0 == plain.pause(5000)
    mixed = {round(retry_policy(2).pause(1), 6) for _ in range(50)}
    assert 1 < len(mixed) and all(0.5 <= pause <= 1 for pause in mixed)
    assert (2, 1.0, 2.0, True) == tuple(
        getattr(retry_policy(2), word) for word in ("max", "backoff", "factor", "jitter")
    )
    assert isinstance(retry_policy(0), Retries)


def test_a_failed_attempt_is_repeated(store: leftoff.Store, calls: Calls, pauses: list[float]) -> None:
    """As often as it may be; the record counts attempts, and keeps the last error only where it failed for good."""
    work = step(calls, retries={"max": 3, "backoff": 2, "jitter": False})
    calls.fail["a"] = 3
    assert "a" == run(store, lambda: work("a"))
    assert (["a"] * 4, [2.0, 4.0, 8.0]) == (calls, pauses)
    record = store.get("r").steps["1-work"]
    assert (4, "completed", False, False) == (
        record["attempt"],
        record["status"],
        "error" in record,
        "retried" in record,
    )


def test_when_all_attempts_have_failed(store: leftoff.Store, calls: Calls, pauses: list[float]) -> None:
    """The last exception is raised, the run is failed, one checkpoint says why; resumed, it has fresh retries."""
    work = step(calls, retries=1)
    calls.fail["a"] = 3
    with pytest.raises(ValueError, match="no a"):
        run(store, lambda: work("a"))
    view = store.get("r")
    error = view.steps["1-work"]["error"]
    assert ("failed", "ValueError", "no a") == (view.status, error["type"], error["message"])
    assert 'raise ValueError(f"no {what}")' in error["traceback"] and "leftoff/api" not in error["traceback"]
    assert [("error", "1-work", "no a")] == [(v.trigger, v.step, v.note) for v in view.history()]
    assert "a" == run(store, lambda: work("a"))
    assert (["a"] * 4, 4) == (calls, store.get("r").steps["1-work"]["attempt"])


def test_attempts_are_counted_across_deaths(tmp_path: Path) -> None:
    """Killed between two attempts, it has as many left as it had."""
    text = """
import leftoff, os, signal, sys
@leftoff.step(retries={"max": 2, "backoff": 0})
def work():
    with open("log", "a") as log:
        print("attempt", file=log)
    if sys.argv[1] == "kill" and sum(1 for _ in open("log")) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("never")
leftoff.workflow(lambda: work(), name="flow").run()
"""
    assert -signal.SIGKILL == program(text, tmp_path, "kill").returncode
    again = program(text, tmp_path, "go on")
    assert (1, 4) == (again.returncode, len(lines(tmp_path / "log"))), again.stderr
    assert "ValueError: never" in again.stderr
    program(text, tmp_path, "go on")
    assert 7 == len(lines(tmp_path / "log"))


# -- timeouts


def test_a_plain_function_that_takes_too_long(store: leftoff.Store, calls: Calls) -> None:
    """The step fails when its time is up; what the function returns later is never recorded."""
    go, ended = threading.Event(), threading.Event()

    def slow() -> str:
        calls("slow")
        if len(calls) == 1:
            go.wait(PATIENCE)
            ended.set()
            return "too late"
        return "in time"

    with pytest.raises(leftoff.StepTimeout, match="may still be running in the background"):
        run(store, step(slow, timeout=0.05))
    assert "failed" == store.get("r").steps["1-work"]["status"]
    go.set()
    assert ended.wait(PATIENCE)
    assert ("failed", False) == (store.get("r").status, "result" in store.get("r").steps["1-work"])
    assert "in time" == run(store, step(slow, timeout=PATIENCE))


def test_a_late_attempt_does_not_speak_for_the_next(
    store: leftoff.Store, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the second attempt runs, the first one returns: only the second counts."""
    begun, first, second = threading.Event(), threading.Event(), threading.Event()
    out_of_time = calling._out_of_time

    def late(*what: Any) -> leftoff.StepTimeout:
        assert begun.wait(PATIENCE)  # a busy machine may take longer than that to begin
        return out_of_time(*what)

    def work() -> str:
        calls("x")
        if len(calls) == 1:
            begun.set()
            first.wait(PATIENCE)
            second.set()
            return "first"
        first.set()
        second.wait(PATIENCE)
        return "second"

    monkeypatch.setattr(SEAMS["calls._out_of_time"], late)
    assert "second" == run(store, step(work, timeout=0.2, retries={"max": 50, "backoff": 0}))


def test_in_time_is_as_without(store: leftoff.Store, calls: Calls) -> None:
    """Results and exceptions come through; what the function calls is part of the step."""
    inner = step(lambda: "inner", "inner")
    assert "inner" == run(store, step(lambda: inner(), timeout="1m"))
    calls.fail["a"] = 1
    with pytest.raises(ValueError, match="no a"):
        leftoff.workflow(lambda: step(calls, timeout=60)("a"), name="other").run(store=store)
    assert {"1-work": "completed"} == statuses(store, "r")


# -- Ctrl-C and exits


@pytest.mark.parametrize(
    ("error", "sealed"),
    [(KeyboardInterrupt, ("user_interrupt", "1-work")), (SystemExit, ("session_end", None))],
)
def test_an_interrupted_step(store: leftoff.Store, error: type[BaseException], sealed: Any) -> None:
    """It is to be done again, one checkpoint says why, the run is paused, and the interrupt goes on its way."""
    raised = [error]

    def work() -> int:
        if raised:
            raise raised.pop()
        return 1

    with pytest.raises(error):
        run(store, step(work))
    view = store.get("r")
    assert ("paused", "pending") == (view.status, view.steps["1-work"]["status"])
    assert [sealed] == [(version.trigger, version.step) for version in view.history()]
    assert 1 == run(store, step(work))


INTERRUPTED = """
import leftoff, os, sys, time
def log(what):
    with open("log", "a") as file:
        print(what, file=file)

@leftoff.step
def work(n):
    log(f"begin {n}")
    if n in (2, 3) and sys.argv[1] == "wait":
        time.sleep(60)
    log(f"end {n}")
    return n

@leftoff.step
async def awork(n):
    return await __import__("asyncio").to_thread(work.plain, n)

@leftoff.workflow
def mapped():
    return work.map(range(4), max_parallel=2)

@leftoff.workflow
async def gathered():
    import asyncio
    return await asyncio.gather(*(asleep(n) for n in range(3)))

@leftoff.step
async def asleep(n):
    import asyncio
    log(f"begin {n}")
    if n == 2 and sys.argv[1] == "wait":
        await asyncio.sleep(60)
    log(f"end {n}")
    return n

if sys.argv[2] == "mapped":
    print(mapped.run(run_id="r"))
else:
    import asyncio
    print(asyncio.run(gathered.run(run_id="r")))
"""


@pytest.mark.parametrize(
    ("kind", "count", "done"), [("mapped", 4, "1-work/{}"), ("gathered", 3, "{}-asleep")]
)
def test_ctrl_c(tmp_path: Path, kind: str, count: int, done: str) -> None:
    """It does not wait for what runs: the run is paused, nothing more is recorded, and the rest is done on resume."""
    child = start_program(INTERRUPTED, tmp_path, "wait", kind)
    with leftoff.open(tmp_path / ".leftoff") as store:
        until(lambda: {f"begin {n}" for n in range(count)} <= {*lines(tmp_path / "log")}, "all are at work")
        until(
            lambda: {"completed"} == {statuses(store, "r").get(done.format(n)) for n in (1, 2)},
            "two are done",
        )
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=PATIENCE)
    assert -signal.SIGINT == child.returncode and "KeyboardInterrupt" in errors, errors
    with leftoff.open(tmp_path / ".leftoff") as store:
        view = store.get("r")
        trigger = "user_interrupt" if kind == "mapped" else "session_end"
        assert ("paused", trigger) == (view.status, view.history()[0].trigger)
        assert "running" not in statuses(store, "r").values()
    ran = program(INTERRUPTED, tmp_path, "go on", kind)
    assert (f"{list(range(count))}\n", 0) == (ran.stdout, ran.returncode), ran.stderr
    ends = [line for line in lines(tmp_path / "log") if line.startswith("end")]
    assert [f"end {number}" for number in range(count)] == sorted(ends)


# -- what must not be repeated blindly

NOT_IDEMPOTENT = """
import leftoff, os, signal, sys
@leftoff.step(idempotent=False)
def pay(amount):
    with open("log", "a") as log:
        print("pay", file=log)
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

quick = leftoff.step(lambda n: n, name="quick")

@leftoff.workflow
def flow():
    for n in range(20):  # a burst: starts are not told any more
        quick(n)
    return pay(5)

print(flow.run(run_id="r", again=sys.argv[2:]))
"""


def test_a_step_that_is_not_idempotent_is_not_repeated(tmp_path: Path) -> None:
    """Cut off, it is asked about; a person says that it took effect, or that it may be repeated."""
    assert -signal.SIGKILL == program(NOT_IDEMPOTENT, tmp_path, "kill").returncode
    refused = program(NOT_IDEMPOTENT, tmp_path, "go on")
    assert 1 == refused.returncode
    assert "NeedsPerson: Step 21-pay of run r was cut off" in refused.stderr
    assert "leftoff step done 21-pay --run r" in refused.stderr and "again=['21-pay']" in refused.stderr
    assert ["pay"] == lines(tmp_path / "log")
    again = program(NOT_IDEMPOTENT, tmp_path, "go on", "21-pay")
    assert ("paid\n", ["pay", "pay"]) == (again.stdout, lines(tmp_path / "log")), again.stderr


def test_somebody_says_that_it_took_effect(tmp_path: Path) -> None:
    """As the hint says; the step's result is then what they said."""
    import subprocess
    import sys

    program(NOT_IDEMPOTENT, tmp_path, "kill")
    program(NOT_IDEMPOTENT, tmp_path, "go on")
    command = [
        str(Path(sys.executable).parent / "leftoff"),
        "step",
        "done",
        "21-pay",
        "--run",
        "r",
        "--result",
        '"ok"',
    ]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert 0 == told.returncode, told.stderr
    done = program(NOT_IDEMPOTENT, tmp_path, "go on")
    assert ("ok\n", ["pay"]) == (done.stdout, lines(tmp_path / "log")), done.stderr


def test_an_exception_is_an_end_that_is_known(store: leftoff.Store, calls: Calls) -> None:
    """It failed: resumed, it is tried again without asking."""
    work = step(calls, idempotent=False)
    calls.fail["a"] = 1
    with pytest.raises(ValueError):
        run(store, lambda: work("a"))
    assert "a" == run(store, lambda: work("a"))


def test_out_of_time_nobody_knows(store: leftoff.Store) -> None:
    """Its function may still be running: not tried again, and asked about on resume."""
    go = threading.Event()

    def work(timeout: float) -> Any:
        return step(lambda: go.wait(PATIENCE), timeout=timeout, idempotent=False, retries=3)

    try:
        for error in (leftoff.StepTimeout, leftoff.NeedsPerson):
            with pytest.raises(error):
                run(store, work(0.05))
        assert 1 == store.get("r").steps["1-work"]["attempt"]
    finally:
        go.set()
    assert run(store, work(PATIENCE), again=["1-work"])
