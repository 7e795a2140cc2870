"""The options of ``run.do`` and ``run.map``, coroutine functions, ``run_id=``, and code that changed."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import CannotResume
from tests.api.others import program, said, start_program, wait_for

AT_ONCE = {"max": 3, "backoff": 0}


class Flaky:
    """Fails so many times."""

    def __init__(self, times: int, error: type[Exception] = ConnectionError) -> None:
        self.left, self.error, self.calls = times, error, 0

    def __call__(self, n: int = 1) -> int:
        self.calls += 1
        self.left -= 1
        if self.left >= 0:
            raise self.error(f"{self.left} more to come")
        return n * 10


# -- retries, retry_on, timeout


def test_a_failed_attempt_is_repeated(run: leftoff.Run) -> None:
    """As often as was asked for; the record counts the attempts and keeps no error."""
    assert 40 == run.do("work", Flaky(2), 4, retries=AT_ONCE)
    record = run.steps["work"]
    assert ("completed", 3) == (record["status"], record["attempt"]) and "error" not in record


def test_the_last_failure_is_raised(run: leftoff.Run) -> None:
    work = Flaky(9)
    with pytest.raises(ConnectionError):
        run.do("work", work, retries={"max": 2, "backoff": 0})
    assert (3, "failed") == (work.calls, run.steps["work"]["status"])


def test_only_some_errors_are_retried(run: leftoff.Run) -> None:
    work = Flaky(1, ValueError)
    with pytest.raises(ValueError, match="to come"):
        run.do("work", work, retries=AT_ONCE, retry_on=(ConnectionError, TimeoutError))
    assert 1 == work.calls
    assert [10] == run.map(Flaky(1, KeyError), [1], name="m", retries=AT_ONCE, retry_on=LookupError)


def test_retries_of_items(run: leftoff.Run) -> None:
    """Each item has its own."""
    left = {n: 2 for n in range(6)}

    def work(n: int) -> int:
        left[n] -= 1
        if left[n] >= 0:
            raise OSError("flaky")
        return n

    assert [*range(6)] == run.map(work, range(6), max_parallel=3, retries=AT_ONCE)
    assert {3} == {run.steps[f"work/{n}"]["attempt"] for n in range(6)}


def test_time_is_up(run: leftoff.Run) -> None:
    """The attempt has failed; what the function returns later is not recorded."""
    free = threading.Event()
    with pytest.raises(leftoff.StepTimeout, match=r"not done within 0\.05s"):
        run.do("slow", lambda: free.wait(60), timeout=0.05)
    free.set()
    assert "failed" == run.steps["slow"]["status"]
    assert "in time" == run.do("slow", lambda: "in time", timeout="1m")


def test_the_step_is_known_in_the_thread_of_a_timeout(run: leftoff.Run, tmp_path: Path) -> None:
    """An artifact belongs to the step that made it."""

    def make() -> None:
        path = Path(run._owner.project) / "out.txt"
        path.write_text("x")
        run.artifact(path)

    run.do("make", make, timeout="1m")
    assert ["out.txt"] == run.steps["make"]["outputs"]


def test_a_parameter_of_the_function_comes_first(run: leftoff.Run) -> None:
    """An option of that name is passed on, and counts as an argument."""

    def get(url: str, timeout: float = 5, *, retries: int = 1) -> list[Any]:
        return [url, timeout, retries]

    assert ["u", 3, 7] == run.do("get", get, "u", timeout=3, retries=7)
    with pytest.raises(leftoff.Usage, match="timeout=3, and is called with timeout=4"):
        run.do("get", get, "u", timeout=4, retries=7)


@pytest.mark.parametrize(
    "wrong",
    [{"retries": -1}, {"retries": "3"}, {"timeout": 0}, {"timeout": "soon"}, {"retry_on": "OSError"},
     {"retry_on": KeyboardInterrupt}, {"on_code_change": "panic"}],
    ids=str,
)  # fmt: skip
def test_a_wrong_option(run: leftoff.Run, wrong: dict[str, Any]) -> None:
    """It is said before anything is done."""
    for call in (lambda: run.do("a", len, "x", **wrong), lambda: run.map(len, ["x"], name="a", **wrong)):
        with pytest.raises(leftoff.Usage):
            call()
    assert {} == dict(run.steps)


# -- coroutine functions


def test_a_coroutine_function_is_awaited(run: leftoff.Run) -> None:
    """Side by side, with retries and a time limit; done ones give their recorded result."""
    calls: list[int] = []

    async def fetch(n: int) -> int:
        calls.append(n)
        await asyncio.sleep(0)
        if calls.count(n) < 2:
            raise OSError("flaky")
        return n * n

    async def main() -> list[int]:
        return await asyncio.gather(*(run.do(f"f{n}", fetch, n, retries=AT_ONCE) for n in range(3)))

    assert [0, 1, 4] == asyncio.run(main()) == asyncio.run(main())
    assert 6 == len(calls)

    async def late() -> None:
        await run.do("late", asyncio.sleep, 60, timeout=0.05)

    with pytest.raises(leftoff.StepTimeout):
        asyncio.run(late())


def test_a_coroutine_looks_when_it_is_awaited(run: leftoff.Run) -> None:
    """A step that was completed after the call does not run again."""
    calls: list[int] = []

    async def work(n: int) -> int:
        calls.append(n)
        return n

    async def main() -> list[int]:
        both = [run.do("w", work, 1), run.do("w", work, 1)]
        return [await each for each in both]

    assert ([1, 1], [1]) == (asyncio.run(main()), calls)


def test_steps_of_tasks_do_not_mix(run: leftoff.Run) -> None:
    """What a task records belongs to its own step."""

    async def work(n: int) -> None:
        await asyncio.sleep(0)
        path = Path(run._owner.project) / f"{n}.txt"
        path.write_text("x")
        run.artifact(path)

    async def main() -> None:
        await asyncio.gather(*(run.do(f"w{n}", work, n) for n in range(3)))

    asyncio.run(main())
    assert [["0.txt"], ["1.txt"], ["2.txt"]] == [run.steps[f"w{n}"]["outputs"] for n in range(3)]


def test_a_coroutine_is_no_result(run: leftoff.Run) -> None:
    """The error says how it is meant."""

    async def fetch() -> int:
        return 1

    with pytest.raises(leftoff.Invalid) as caught:
        run.do("f", lambda: fetch())  # type: ignore[unused-coroutine]
    assert "await run.do(" in caught.value.hint


# -- keyed steps


def test_a_step_for_each_argument(run: leftoff.Run) -> None:
    """In any order, in this process and the next; equal arguments are one step."""
    work = Flaky(0)
    assert [10, 20, 10] == [run.do("work", work, n, keyed=True) for n in (1, 2, 1)]
    assert ["work/1", "work/2"] == [*run.steps] and 2 == work.calls
    run.do("pair", pow, 2, 3, keyed=True)
    run.do("text", str.upper, "1", keyed=True)
    run.do("text", str, 1, keyed=True)
    run.do("log in", lambda password: 1, "hunter2", keyed=True)
    run.do("path", len, "a/b", keyed=True)
    names = [*run.steps][2:]
    assert ["text/%221%22", "text/1"] == [name.replace('"', "%22") for name in names[1:3]]
    assert "path/a%2Fb" == names[-1] and not any("hunter2" in name for name in names)


def test_keyed_durable_steps(store: leftoff.Store) -> None:
    """Called in another order on resume, each gets its own result."""
    calls: list[int] = []

    @leftoff.step(keyed=True)
    def square(n: int) -> int:
        calls.append(n)
        return n * n

    order = [1, 2, 3]

    @leftoff.workflow
    def flow() -> list[int]:
        found = [square(n) for n in order]
        if order[0] == 1:
            raise KeyboardInterrupt
        return found

    with pytest.raises(KeyboardInterrupt):
        flow.run(store=store)
    order.reverse()
    assert ([9, 4, 1], [1, 2, 3]) == (flow.run(store=store), calls)
    with pytest.raises(leftoff.Usage, match="exclude each other"):
        leftoff.step(lambda n: n, name="x", key="n", keyed=True)


def test_again_runs_a_durable_step_with_other_arguments(store: leftoff.Store) -> None:
    """Only the step that is named."""
    given = ["a"]
    step = leftoff.step(lambda word: word.upper(), name="upper")

    @leftoff.workflow
    def flow() -> str:
        found = str(step(given[0]))
        if given[0] == "a":
            raise KeyboardInterrupt
        return found

    with pytest.raises(KeyboardInterrupt):
        flow.run(store=store, run_id="r")
    given[0] = "b"
    with pytest.raises(
        leftoff.Diverged, match="done with word='a', and is called with word='b' now"
    ) as caught:
        flow.run(store=store, run_id="r")
    assert "again=['1-upper']" in caught.value.hint
    assert "B" == flow.run(store=store, run_id="r", again=["1-upper"])


# -- run_id


NIGHTLY = """
import os, leftoff
with leftoff.run("nightly", run_id="n1") as run:
    rows = run.do("load", lambda: print("load") or [3, 4])
    run.variables["rows"] = len(rows)
    for row in run.each("rows", rows):
        print("row", row)
    print(run.map(lambda n: print("call", n) or n + 1, rows, name="add"))
    run.checkpoint(note="all done")
    if "STOP" in os.environ:
        os._exit(9)
print(run.status, run.variables["rows"], run.resumed)
"""


def test_a_restart_after_the_end(tmp_path: Path) -> None:
    """It gets the finished run with its results, and changes nothing. A run that was cut off continues."""
    first = program(NIGHTLY, tmp_path, STOP="1")
    assert (9, "load\nrow 3\nrow 4\ncall 3\ncall 4\n[4, 5]\n") == (first.returncode, first.stdout)
    assert ["[4, 5]", "completed 2 True"] == said(NIGHTLY, tmp_path)
    with leftoff.open(tmp_path / ".leftoff") as store:
        before = store.get("n1").history(sealed=False)
        done = program(NIGHTLY, tmp_path)
        assert (0, "[4, 5]\ncompleted 2 True\n") == (done.returncode, done.stdout), done.stderr
        assert "n1 is completed; its recorded results are used." in done.stderr
        assert (before, 1) == (store.get("n1").history(sealed=False), len(store.list()))


def test_what_a_finished_run_refuses(store: leftoff.Store) -> None:
    """New steps, other work under its id, an id in the trash, a run that was abandoned."""
    with store.run("w", run_id="r") as run:
        run.do("a", lambda: 1)
    with pytest.raises(leftoff.Usage, match="step b is not done in it"), store.run("w", run_id="r") as run:
        run.do("b", lambda: 2)
    assert "completed" == store.get("r").status
    with pytest.raises(leftoff.Conflict, match="is a run of w, not of other"):
        store.run("other", run_id="r")
    store.run("w", run_id="left").finish("abandoned")
    with pytest.raises(CannotResume, match="abandoned"):
        store.run("w", run_id="left")
    store.remove("r")
    with pytest.raises(leftoff.Conflict, match="in the trash"):
        store.run("w", run_id="r")


def test_steps_that_are_declared_no_more(store: leftoff.Store) -> None:
    """They go if they were never tried; items and steps that were begun stay."""
    with pytest.raises(KeyboardInterrupt), store.run("w", run_id="r", steps=["a", "b", "boom"]) as run:
        run.do("a", lambda: 1)
        run.map(lambda n: (_ for _ in ()).throw(KeyboardInterrupt), [1, 2], name="items")
    with store.run("w", run_id="r", steps=["a", "b"]) as run:
        assert ["a", "b", "items", "items/1", "items/2"] == sorted(run.steps)


# -- code that changed

CHANGED = """
import os, leftoff
from functools import partial
def work(n):
    {doc}
    return [n + {constant} for n in (n,)][0]
options = {{"on_code_change": os.environ["CHANGE"]}} if "CHANGE" in os.environ else {{}}
step = leftoff.step(work, **options)
@leftoff.workflow
def flow():
    print(step(1), step.map([1, 2]))
    raise KeyboardInterrupt
with leftoff.run("w") as run:
    print(run.do("one", partial(work), 1, **options))
    print(run.map(work, [1, 2], **options), run.map(work, [3], name="keyed", key=str, **options))
    try:
        flow.run(run_id="f")
    except KeyboardInterrupt:
        pass
    os._exit(0)
"""


def test_a_notice_of_changed_code(tmp_path: Path) -> None:
    """Once for a step or a batch; comments do not count. It can be silenced, and can make the step run again."""

    def start(constant: int, doc: str = "pass", **change: str) -> tuple[list[str], list[str]]:
        done = program(CHANGED.format(constant=constant, doc=doc), tmp_path, **change)
        assert 0 == done.returncode, done.stderr
        return done.stdout.splitlines(), [line for line in done.stderr.splitlines() if "code of step" in line]

    old = ["2", "[2, 3] [4]", "2 [2, 3]"]
    assert (old, []) == start(1)
    assert (old, []) == start(1, "pass  # a comment")
    found, notices = start(2)
    assert old == found
    names = [line.partition("code of step ")[2].partition(" ")[0] for line in notices]
    assert ["one", "work", "keyed", "1-work", "2-work"] == names
    assert (old, []) == start(2, CHANGE="ignore")
    new = ["3", "[3, 4] [5]", "3 [3, 4]"]
    assert (new, []) == start(2, CHANGE="rerun")
    store = leftoff.open(tmp_path / ".leftoff")
    steps = {**store.get("w").steps, **store.get("f").steps}
    for name in ("one", "work/1", "keyed/3", "1-work", "2-work/2"):
        assert "its code changed" == steps[name]["why"], name
    assert (new, []) == start(2)


# -- Ctrl-C


def test_ctrl_c_waits_for_no_item(tmp_path: Path) -> None:
    """The threads are left behind. What they were doing is done again; what was done is not."""
    text = """
import os, signal, time, leftoff
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that started the tests may ignore it
def work(n):
    if n and "SLOW" in os.environ:
        print("under way\\n", end="", flush=True)
        time.sleep(600)
    return n
with leftoff.run("w", run_id="r") as run:
    print(run.map(work, [0, 1, 2, 3], max_parallel=2))
"""
    child = start_program(text, tmp_path, SLOW="1")
    wait_for(child, "under way")
    wait_for(child, "under way")
    child.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = child.communicate(timeout=300)
    assert time.monotonic() - began < 300 and "KeyboardInterrupt" in err, err
    with leftoff.open(tmp_path / ".leftoff") as store:
        view = store.get("r")
        statuses = {path: step["status"] for path, step in view.steps.items()}
        assert {"work/0": "completed"} == {path: s for path, s in statuses.items() if s != "pending"}, out
        assert "paused" == view.status
    assert ["[0, 1, 2, 3]"] == said(text, tmp_path)


def test_ctrl_c_ends_the_retries_of_items(tmp_path: Path) -> None:
    """A thread that was left behind between two attempts makes no other one."""
    text = """
import signal, time, leftoff
signal.signal(signal.SIGINT, signal.default_int_handler)
calls = []
def work(n):
    calls.append(n)
    if len(calls) == 2:
        print("under way\\n", end="", flush=True)
    raise ConnectionError(n)
with leftoff.run("w") as run:
    try:
        run.map(work, [1, 2], max_parallel=2, retries={"max": 99, "backoff": 1, "factor": 1, "jitter": False})
    except KeyboardInterrupt:
        before = len(calls)
        time.sleep(1.5)
        print(len(calls) - before, {step["status"] for step in run.steps.values()})
"""
    child = start_program(text, tmp_path)
    wait_for(child, "under way")
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=300)
    assert ["0 {'pending'}"] == out.splitlines(), err
