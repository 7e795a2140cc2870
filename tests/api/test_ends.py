"""How a run ends: with its with block, by an exception, by Ctrl-C, at the program's end, or by kill -9."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import Invalid
from tests.api.others import out_of_reach, program, start_program, wait_for
from tests.api.test_steps import sealed, statuses


def test_leaving_normally_completes(store: leftoff.Store, capsys: pytest.CaptureFixture[str]) -> None:
    """The run is completed, with when; where nothing is left, nothing is said."""
    with store.run("w", steps=["a"]) as run:
        run.variables["n"] = 1
        run.do("a", lambda: 1)
    seen = store.get(run.id)
    assert ("completed", 1, "finished") == (seen.status, seen.variables["n"], seen.info.health)
    assert seen.info.to_json()["completed_at"]
    assert ("", "") == capsys.readouterr()


def test_leaving_normally_says_which_steps_are_left(
    store: leftoff.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, the first few by name; it completes all the same."""
    steps = [f"s{i}" for i in range(8)]
    with store.run("w", steps=[*steps, "batch/a", "batch/b", "batch"]) as run:
        run.do("s0", lambda: 1)
        run.put("step", "s1", {"status": "skipped"})
        run.put("step", "batch/a", {"status": "completed"})
    out, err = capsys.readouterr()
    assert "" == out
    assert f"leftoff: run {run.id} is completed; steps left: s2, s3, s4, s5, s6 and 2 more\n" == err
    assert "completed" == store.get(run.id).status


def test_an_exception_fails_the_run(store: leftoff.Store) -> None:
    """It goes on its way; what was buffered is kept, and a checkpoint `error` tells it."""
    with pytest.raises(ZeroDivisionError), store.run("w") as run:
        run.variables["n"] = 1
        _ = 1 / 0
    seen = store.get(run.id)
    assert ("failed", 1) == (seen.status, seen.variables["n"])
    (checkpoint,) = seen.history()
    assert ("error", "division by zero") == (checkpoint.trigger, checkpoint.note)


def test_an_exception_from_a_step_is_sealed_once(store: leftoff.Store) -> None:
    """The step's own checkpoint tells it; the run is failed and adds no second one."""
    with pytest.raises(ZeroDivisionError), store.run("w") as run:
        run.do("a", lambda: 1 / 0)
    seen = store.get(run.id)
    assert ("failed", [("error", "a")]) == (seen.status, sealed(seen))


def test_an_interrupt_pauses_the_run(store: leftoff.Store) -> None:
    """Ctrl-C outside any step."""
    with pytest.raises(KeyboardInterrupt), store.run("w") as run:
        raise KeyboardInterrupt
    seen = store.get(run.id)
    assert ("paused", ["user_interrupt"]) == (seen.status, [v.trigger for v in seen.history()])


def test_sys_exit_pauses_the_run(store: leftoff.Store) -> None:
    """Whoever leaves the program on purpose may come back."""
    with pytest.raises(SystemExit), store.run("w") as run:
        raise SystemExit(0)
    seen = store.get(run.id)
    assert ("paused", ["session_end"]) == (seen.status, [v.trigger for v in seen.history()])


@pytest.mark.parametrize("status", ["completed", "failed", "abandoned", "blocked"])
def test_finish(store: leftoff.Store, run: leftoff.Run, status: str) -> None:
    """By a word of one's own, with a summary; nobody drives it afterwards."""
    run.finish(status, summary="done with it")
    seen = store.get(run.id)
    assert (status, "done with it") == (seen.status, seen.records["run"]["summary"])
    assert ("completed_at" in seen.records["run"]) == (status in ("completed", "abandoned"))
    run.finish("failed")  # it has ended: nothing happens any more
    assert status == store.get(run.id).status


def test_a_bad_word(run: leftoff.Run) -> None:
    """What is no status is refused, and the run goes on."""
    with pytest.raises(Invalid, match="no run status 'done'"):
        run.finish("done")
    assert "running" == run.status
    run.finish()


def test_finishing_inside_the_with_block(store: leftoff.Store) -> None:
    """What was decided inside is not decided again outside."""
    with store.run("w") as run:
        run.finish("abandoned")
    assert "abandoned" == store.get(run.id).status


def test_after_its_end_a_run_takes_no_changes(run: leftoff.Run) -> None:
    """They would never become durable: the error says what to do."""
    run.finish()
    run.variables["n"] = 1
    with pytest.raises(Invalid, match="no longer driven by this object") as caught:
        run.commit()
    assert "resume" in caught.value.hint


def test_a_finished_run_can_still_be_read(run: leftoff.Run) -> None:
    """Its variables, steps and history are there."""
    run.variables["n"] = 1
    run.do("a", lambda: 2)
    run.finish()
    assert (1, 2, "completed") == (run.variables["n"], run.result("a"), run.status)
    assert 1 == len(run.history())


def test_closing_the_store_pauses_what_it_drives(store_path: Path) -> None:
    """With everything that was buffered; the store may be used again."""
    store = leftoff.open(store_path)
    runs = [store.start("w", run_id=f"r{i}") for i in range(3)]
    for run in runs:
        run.variables["n"] = 1
    store.close()
    assert ["paused"] * 3 == [info.status for info in store.list()]
    assert {"n": 1} == dict(store.get("r1").variables)
    again = store.resume("r0")
    assert "running" == again.status
    store.close()
    assert "paused" == store.get("r0").status


def test_pause_with_a_note(run: leftoff.Run) -> None:
    """A note makes a checkpoint of it."""
    run.pause("until the paper comes")
    assert [("session_end", "until the paper comes")] == [(v.trigger, v.note) for v in run.history()]


def test_async_with(store: leftoff.Store) -> None:
    """Runs and steps work in coroutines; the calls are the ordinary ones."""

    async def main() -> str:
        async with store.run("w", steps=["a"]) as run:
            async with run.step("a"):
                await asyncio.sleep(0)
                run.variables["n"] = 1
            with pytest.raises(ValueError):
                async with run.step("b"):
                    raise ValueError("no")
        return run.id

    seen = store.get(asyncio.run(main()))
    assert ("completed", {"a": "completed", "b": "failed"}) == (seen.status, statuses(seen))


# -- real processes

INTERRUPTED = """
import signal, time, leftoff
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background have it ignored
with leftoff.run("w", steps=["a", "b"]) as run:
    run.do("a", lambda: 1)
    with run.step("b"):
        run.variables["half"] = True
        print("inside", flush=True)
        time.sleep(60)
"""


def test_ctrl_c(project: Path) -> None:
    """SIGINT: KeyboardInterrupt goes on its way, after a checkpoint `user_interrupt`; step pending, run paused."""
    child = start_program(INTERRUPTED, project)
    wait_for(child, "inside")
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert -signal.SIGINT == child.returncode
    assert "KeyboardInterrupt" in err
    with leftoff.open(".leftoff") as store:
        seen = store.get("w")
        assert ("paused", "idle") == (seen.status, seen.info.health)
        assert {"a": "completed", "b": "pending"} == statuses(seen)
        assert [("step_complete", "a"), ("user_interrupt", "b")] == sealed(seen)
        assert seen.variables["half"] is True


LEFT_AT_EXIT = """
import leftoff
run = leftoff.start("w", run_id="r")
run.variables["n"] = 1
{end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [("", 0), ("raise SystemExit(3)", 3), ("raise ValueError", 1)],
    ids=["end", "exit", "error"],
)
def test_a_run_without_with_is_paused_at_exit(project: Path, end: str, code: int) -> None:
    """However the program ends by itself, with everything that was buffered."""
    done = program(LEFT_AT_EXIT.format(end=end), project)
    assert code == done.returncode, done.stderr
    with leftoff.open(".leftoff") as store:
        seen = store.get("r")
        assert ("paused", "idle", 1) == (seen.status, seen.info.health, seen.variables["n"])


def test_a_store_that_was_closed_still_pauses_at_exit(project: Path) -> None:
    """Closing the project's store does not make it forget the runs that it drives later."""
    done = program(
        """
import leftoff
with leftoff.open() as store:
    store.start("first").finish()
leftoff.start("second", run_id="second")
""",
        project,
    )
    assert 0 == done.returncode and "run second was left open" in done.stderr
    with leftoff.open(".leftoff") as store:
        assert "paused" == store.get("second").status


def test_what_cannot_be_paused_at_exit_is_told(project: Path) -> None:
    """A run that was taken over is left alone, without a traceback; the others are paused."""
    done = program(
        """
import leftoff
from leftoff.store.rows import Holder
one, two = leftoff.start("w", run_id="one"), leftoff.start("w", run_id="two")
store = leftoff.open()._store
store.write(lambda tx: tx.put_lease(one._number, one._buffer.epoch + 1, Holder("process", None, None, "other", 1)))
""",
        project,
    )
    assert 0 == done.returncode
    assert "Traceback" not in done.stderr and "leftoff: Run one was taken over" in done.stderr
    with leftoff.open(".leftoff") as store:
        assert ("running", "paused") == (store.get("one").status, store.get("two").status)


KILLED = """
import os, signal, sys, leftoff
ran = open("ran.txt", "a", buffering=1)
def work(name):
    ran.write(name + "\\n")
    return name.upper()
with leftoff.run("w", steps=["collect", "convert", "publish"]) as run:
    names = run.do("collect", lambda: [work("collect")] and ["a", "b", "c"])
    for name in run.each("convert", names):
        run.variables[name] = work(name)
        if name == os.environ.get("KILL_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
    run.do("publish", work, "publish")
"""


def test_killed_and_run_again(project: Path) -> None:
    """kill -9, and the same program goes on where it was: finished steps are not run again."""
    for name in ("a", "c"):
        assert -signal.SIGKILL == program(KILLED, project, KILL_AT=name).returncode
    assert 0 == program(KILLED, project).returncode
    ran = (project / "ran.txt").read_text().split()
    assert ["collect", "a", "a", "b", "c", "c", "publish"] == ran
    with leftoff.open(".leftoff") as store:
        (info,) = store.list()
        seen = store.get(info.id)
        assert ("completed", {"a": "A", "b": "B", "c": "C"}) == (seen.status, dict(seen.variables))
        assert 2 == seen.steps["convert/a"]["attempt"]


def test_a_fork_of_the_process_does_not_end_the_run(project: Path) -> None:
    """A child that ends leaves its parent's run alone; both can read and write the store."""
    done = program(
        """
import os, leftoff
run = leftoff.start("w", run_id="r")
run.variables["n"] = 1
run.commit()
pid = os.fork()
if pid == 0:
    assert run.variables["n"] == 1
    leftoff.start("child", run_id="child").finish()
    raise SystemExit(0)
assert os.waitpid(pid, 0)[1] == 0
assert run.status == "running"
run.variables["n"] = 2
run.finish()
""",
        project,
    )
    assert 0 == done.returncode and "Traceback" not in done.stderr  # from 3.12 on Python warns of any fork
    with leftoff.open(".leftoff") as store:
        assert {"r": "completed", "child": "completed"} == {info.id: info.status for info in store.list()}
        assert 2 == store.get("r").variables["n"]


def test_the_store_was_lost_while_an_error_was_on_its_way(store: leftoff.Store, monkeypatch: Any) -> None:
    """The error that ended the work is the one that is told."""

    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError), store.run("w"):
        patch.setattr(store._store, "write", out_of_reach)
        _ = 1 / 0
