"""What ends a driver: signals, once or twice, a terminal that is gone, a reader that has left, `leftoff stop`."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leftoff.cli.drive_verbs import interruptible
from leftoff.operations import workflow_runs as execution
from leftoff.store.base import Tx
from leftoff.store.sqlite import SqliteStore
from tests.cli.command import inside, succeed
from tests.cli.terminal import CTRL_C, Terminal
from tests.seams import SEAMS
from tests.workflow.driving import Driver, Flow, kill, mark, until, wait

LONG = f"""
name: long
steps:
  - id: a
    run: "{mark("a")}"
  - id: b
    run: "{mark("b")}; sleep 1000 & {wait()}"
  - id: c
    needs: [a]
    run: "{mark("c")}; {wait()}"
  - id: d
    needs: [b, c]
    run: "{mark("d")}"
"""
DEAF = LONG.replace("sleep 1000 &", "trap '' TERM INT HUP;")


def under_way(flow: Flow, text: str = LONG) -> Driver:
    """A driver that has one step behind it and two in flight."""
    flow.write(text)
    driver = flow.run()
    for name in "bc":
        driver.until("step_start", step=name)
        flow.started(name)
    return driver


def goes_on(flow: Flow) -> None:
    """The run ends well, and what was done before is not done again."""
    flow.file("gate")
    flow.resume().end(0)
    assert [1, 2, 2, 1] == [len(flow.starts(name)) for name in "abcd"]


def test_a_signal_that_was_held_back_is_heeded() -> None:
    """Whoever started the command may have blocked it, for another program's sake."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    try:
        with interruptible():
            held = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert {signal.SIGUSR1} == held - before


@pytest.mark.parametrize(
    ("number", "trigger"),
    [
        (signal.SIGINT, "user_interrupt"),
        (signal.SIGTERM, "session_end"),
        (signal.SIGHUP, "session_end"),
    ],
)
def test_a_signal_ends_it_in_order(flow: Flow, number: signal.Signals, trigger: str) -> None:
    """A checkpoint with the reason, the steps back to pending, their processes gone, the lease free; exit 130."""
    driver = under_way(flow)
    driver.signal(number)
    driver.end(130)
    assert [] == flow.processes()
    assert trigger == flow.triggers()[-1]
    assert ["completed", "pending", "pending", "pending"] == flow.statuses("abcd")
    assert ("paused", "idle") == (driver.run["status"], driver.run["health"])
    assert [number.name] == [told["signal"] for told in driver.of("interrupt")]
    assert {"b", "c"} == {told["step"] for told in driver.of("step_stopped")}
    goes_on(flow)


def test_a_second_signal_ends_it_at_once(flow: Flow) -> None:
    """Steps that do not heed the first one are killed by the second; nothing that was acknowledged is lost."""
    driver = under_way(flow, DEAF)
    driver.signal(signal.SIGINT)
    driver.until("interrupt")
    assert flow.processes()
    driver.signal(signal.SIGINT)
    driver.end(130)
    assert [] == flow.processes()
    assert "user_interrupt" == flow.triggers()[-1]
    sealed = [told["checkpoint_id"] for told in driver.of("checkpoint")]
    kept = {
        checkpoint["checkpoint_id"] for checkpoint in flow.succeed("log", "r", "--json").json["checkpoints"]
    }
    assert sealed and kept >= set(sealed)
    goes_on(flow)


def test_those_who_do_not_heed_a_signal_are_killed_after_the_grace(flow: Flow) -> None:
    """One signal is enough, given time."""
    flow.file("leftoff.toml", "[run]\nstop_timeout = 0.2\n")
    driver = under_way(flow, DEAF)
    driver.signal(signal.SIGTERM)
    driver.end(130)
    assert [] == flow.processes()
    goes_on(flow)


def test_a_step_that_was_told_to_end_is_not_done_whatever_it_says(flow: Flow) -> None:
    """Programs tidy up and exit with 0 when they are told to end; that is no success."""
    driver = under_way(flow, LONG.replace(f"{mark('b')}; sleep 1000 &", f"trap 'exit 0' TERM; {mark('b')};"))
    driver.signal(signal.SIGINT)
    driver.end(130)
    assert "pending" == flow.status("b")
    goes_on(flow)


CHECKS = f"""
name: checks
steps:
  - id: a
    run: "{mark("a")}; echo word=new >> $LEFTOFF_VARS"
    checks: ["{mark("check")}; trap '' TERM; {wait()}"]
  - id: b
    run: "{mark("b")}; test {{{{ word }}}} = new"
"""


def test_a_signal_during_a_check(flow: Flow) -> None:
    """The command ended well, so only its checks are made again, not the command."""
    flow.write(CHECKS)
    driver = flow.run()
    flow.started("check")
    driver.signal(signal.SIGINT)
    driver.until("interrupt")
    driver.signal(signal.SIGINT)
    driver.end(130)
    assert [] == flow.processes()
    assert "pending" == flow.status("a")
    flow.file("gate")
    driver = flow.resume()
    driver.end(0)
    assert [1, 2, 1] == [len(flow.starts(name)) for name in ("a", "check", "b")]
    assert "adopt" == driver.plan()["a"][0]


def test_death_during_a_check(flow: Flow) -> None:
    """The same where the driver was killed."""
    flow.write(CHECKS)
    driver = flow.run()
    flow.started("check")
    driver.kill_all()
    flow.file("gate")
    flow.resume().end(0)
    assert [1, 2, 1] == [len(flow.starts(name)) for name in ("a", "check", "b")]
    assert 1 == flow.steps()["a"]["attempt"]


def test_a_check_ends_with_its_driver(flow: Flow) -> None:
    """With SIGTERM, and SIGKILL after the grace. The driver that resumes the run checks again."""
    flow.file("leftoff.toml", "[run]\nstop_timeout = 0.2\n")
    flow.write(CHECKS)
    driver = flow.run()
    flow.started("check")
    driver.kill()
    flow.gone()
    flow.file("gate")
    flow.resume().end(0)
    assert [1, 2, 1] == [len(flow.starts(name)) for name in ("a", "check", "b")]


def test_checks_do_not_overlap(flow: Flow) -> None:
    """The check of a driver that died may take its time to end. The next one waits for that."""
    clean = "trap 'sleep 1; rmdir lock; exit 1' TERM"
    check = f"mkdir lock || exit 1; {mark('check')}; {clean}; {wait()}; rmdir lock"
    flow.write(
        f"name: checks\nsteps:\n  - id: a\n    run: {json.dumps(mark('a'))}\n    checks: [{json.dumps(check)}]\n"
    )
    driver = flow.run()
    flow.started("check")
    driver.kill()
    flow.file("gate")
    flow.resume().end(0)
    assert [1, 2] == [len(flow.starts(name)) for name in ("a", "check")]


@pytest.mark.parametrize("ends", ["stop", "exit 4"])
def test_a_step_that_is_reported_while_it_runs(flow: Flow, ends: str) -> None:
    """The report counts, however the process ends."""
    script = json.dumps(f"{mark('a')}; {wait()}; exit 4")
    flow.write(f"name: told\nsteps:\n  - id: a\n    run: {script}\n  - {{id: b, run: 'true'}}\n")
    driver = flow.run()
    flow.started("a")
    flow.succeed("step", "done", "a", "--run", "r")
    if ends == "stop":
        driver.signal(signal.SIGTERM)
        driver.end(130)
        flow.resume().end(0)
    else:
        flow.file("gate")
        driver.end(0)
    assert "completed" == flow.status("a")
    assert 1 == len(flow.starts("a"))


def test_a_check_that_is_killed_says_nothing(flow: Flow) -> None:
    """Neither that it holds nor that it does not: it is made again, and the run does not hang on it."""
    flow.write(CHECKS)
    driver = flow.run()
    flow.started("check")
    for pid in flow.processes():
        kill(pid)
    flow.started("check", 2)
    flow.file("gate")
    driver.end(0)
    assert [1, 2, 1] == [len(flow.starts(name)) for name in ("a", "check", "b")]


def test_a_signal_while_a_retry_is_due(flow: Flow) -> None:
    """It does not wait for the next try."""
    flow.write(
        f"name: w\nsteps:\n  - id: a\n    retries: {{max: 3, backoff: 1h}}\n    run: '{mark('a')}; test -e gate'\n"
    )
    driver = flow.run()
    driver.until("step_failed")
    driver.signal(signal.SIGINT)
    driver.end(130)
    assert "pending" == flow.status("a")
    flow.file("gate")
    flow.resume().end(0)
    assert 2 == len(flow.starts("a")) == flow.steps()["a"]["attempt"]


def test_a_signal_that_is_to_be_ignored_is(flow: Flow) -> None:
    """`nohup leftoff run` outlives its terminal."""
    flow.write(LONG)
    driver = flow.run(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    flow.started("b")
    driver.signal(signal.SIGHUP)
    flow.succeed("set", "seen=1", "--run", "r")
    flow.file("gate")
    driver.end(0)
    assert not driver.of("interrupt")


# -- whoever watches


def test_ctrl_c_on_a_terminal(flow: Flow) -> None:
    """The terminal's signal goes to the driver alone, which ends its steps."""
    flow.write(LONG)
    with Terminal("run", "flow.yaml", "--run-id", "r", cwd=flow.folder) as terminal:
        flow.started("b")
        flow.started("c")
        terminal.type(CTRL_C)
        assert 130 == terminal.end()
        assert "leftoff resume r" in terminal.shown
    assert [] == flow.processes()
    assert "user_interrupt" == flow.triggers()[-1]
    goes_on(flow)


def test_a_terminal_that_is_closed(flow: Flow) -> None:
    """The driver ends its steps in order, though nobody can be told."""
    flow.write(LONG)
    with Terminal("run", "flow.yaml", "--run-id", "r", cwd=flow.folder) as terminal:
        flow.started("b")
        flow.started("c")
        terminal.hang_up()
        assert 130 == terminal.wait()
    assert [] == flow.processes()
    assert "session_end" == flow.triggers()[-1]
    goes_on(flow)


def test_a_reader_that_has_left(flow: Flow) -> None:
    """`leftoff run | head -1`: the work matters more than the talk about it."""
    flow.write(LONG)
    reader = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdin is not None and reader.stdout is not None
    driver = flow.run(stdout=reader.stdin)
    reader.stdin.close()
    assert b"start" in reader.stdout.read()
    reader.stdout.close()
    reader.wait()
    flow.started("b")
    flow.file("gate")
    driver.end(0)
    assert "completed" == flow.show()["status"]
    assert "" == driver.said


def test_closed_standard_streams(flow: Flow) -> None:
    """`leftoff run >&- 2>&- <&-`: nothing of the store is taken for one of them."""
    flow.write(LONG)
    flow.file("gate")
    done = subprocess.run(
        ["sh", "-c", f"exec {flow.leftoff} run flow.yaml --run-id r >&- 2>&- <&-"],
        cwd=flow.folder,
        check=False,
    )
    assert 0 == done.returncode
    assert "completed" == flow.show()["status"]


# -- a driver that lives


def test_a_live_driver_is_left_alone(flow: Flow) -> None:
    """Whoever else wants to drive the run is told who does: exit 5, and nothing is changed."""
    driver = under_way(flow)
    for words in (
        ("resume", "r"),
        ("resume", "r", "--yes"),
        ("run", "flow.yaml", "--resume"),
        ("rm", "r", "--yes"),
    ):
        done = flow.call(*words)
        assert 5 == done.code, str(done)
        assert f"process {driver.pid}" in done.err
    assert 5 == flow.call("run", "flow.yaml", "--fresh").code
    flow.file("gate")
    driver.end(0)
    assert [1, 1, 1, 1] == [len(flow.starts(name)) for name in "abcd"]


def test_a_driver_that_is_stopped_is_alive(flow: Flow) -> None:
    """SIGSTOP is no death: its lease is not taken, and once it goes on, so does the run."""
    driver = under_way(flow)
    driver.signal(signal.SIGSTOP)
    assert 5 == flow.call("resume", "r", "--yes").code
    driver.signal(signal.SIGCONT)
    flow.file("gate")
    driver.end(0)


def test_a_driver_that_was_replaced_ends(flow: Flow) -> None:
    """Whoever took its run over has another epoch: it writes nothing any more, and ends what it started."""
    driver = under_way(flow)
    store = SqliteStore(str(flow.folder / ".leftoff"))

    def take(tx: Tx) -> None:
        row = tx.find_run("r")
        assert row is not None
        tx.put_lease(row.run, 99)

    store.write(take)
    store.close()
    before = flow.show()
    flow.file("gate")
    driver.end(5)
    assert [] == flow.processes()
    assert before["head"] == flow.show()["head"]
    flow.resume().end(0)
    assert [1, 1] == [len(flow.starts(name)) for name in "ad"]


def test_of_two_who_resume_at_once_one_wins(flow: Flow) -> None:
    """The other exits with 5; no step runs twice."""
    under_way(flow).kill_all()
    drivers = [flow.drive("run", "flow.yaml", "--resume") for _ in range(2)]
    until(lambda: any(driver.process.poll() is not None for driver in drivers), "one of them to give up")
    flow.file("gate")
    assert [0, 5] == sorted(driver.end() for driver in drivers)
    assert [1, 2, 2, 1] == [len(flow.starts(name)) for name in "abcd"]


def test_of_two_who_start_at_once_one_wins(flow: Flow) -> None:
    """`run --resume` of what is not there yet starts it once."""
    flow.write(LONG)
    drivers = [flow.drive("run", "flow.yaml", "--resume") for _ in range(3)]
    until(lambda: sum(driver.process.poll() is not None for driver in drivers) == 2, "two of them to give up")
    flow.file("gate")
    assert [0, 5, 5] == sorted(driver.end() for driver in drivers)
    assert 1 == len(flow.succeed("ls", "--all", "--json").json["runs"])


def test_one_that_another_started_meanwhile_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for an unfinished run and the start of one, somebody else starts it: there is no second one."""
    (tmp_path / "flow.yaml").write_text("name: short\nsteps: [{id: a, run: touch ran}]\n")
    meanwhile = execution.check_executable

    def check(*args: Any) -> None:
        succeed("start", "short", cwd=tmp_path)
        meanwhile(*args)

    monkeypatch.setattr(SEAMS["workflow_file.check_executable"], check)
    assert 5 == inside("run", "flow.yaml", "--resume", cwd=tmp_path, input="").code
    assert 1 == len(succeed("ls", "--all", "--json", cwd=tmp_path).json["runs"])
    assert not (tmp_path / "ran").exists()


# -- stop


def test_stop_with_a_live_driver(flow: Flow) -> None:
    """The driver seals a checkpoint, ends its steps, frees the lease, and is gone when `stop` returns."""
    driver = under_way(flow)
    done = flow.succeed("stop", "r", "--json")
    assert ("paused", "idle") == (done.json["status"], done.json["health"])
    driver.end(130)
    assert [] == flow.processes()
    assert "session_end" == flow.triggers()[-1]
    goes_on(flow)


def test_stop_with_a_dead_driver(flow: Flow) -> None:
    """What its steps left running is ended; nothing of the run is on record as running."""
    under_way(flow).kill()
    done = flow.succeed("stop", "r")
    assert "Ended: b, c" in done.err
    assert [] == flow.processes()
    assert "session_end" == flow.triggers()[-1]
    shown = flow.show()
    assert ("paused", "idle", 0) == (shown["status"], shown["health"], shown["steps"]["running"])
    goes_on(flow)


def test_stop_kills_what_does_not_heed_it(flow: Flow) -> None:
    """After the grace, with or without a driver."""
    flow.file("leftoff.toml", "[run]\nstop_timeout = 0.2\n")
    under_way(flow, DEAF).kill()
    flow.succeed("stop", "r")
    assert [] == flow.processes()
    goes_on(flow)


def test_stop_does_not_undo_what_ended_well(flow: Flow) -> None:
    """A step that ended with 0 before `stop` came, and that nobody took in, is adopted later."""
    under_way(flow).kill()
    flow.file("gate")
    flow.gone()
    flow.succeed("stop", "r")
    assert "pending" == flow.status("c")
    flow.resume().end(0)
    assert [1, 1, 1, 1] == [len(flow.starts(name)) for name in "abcd"]


def test_stop_with_nobody_there(flow: Flow) -> None:
    """A run that rests already stays as it is, and one that is finished too."""
    flow.write(LONG)
    flow.file("gate")
    under_way(flow).end(0)
    before = flow.show()
    done = flow.succeed("stop", "r")
    assert "completed; nothing was stopped" in done.err
    assert before == flow.show()
    flow.write("name: w\nsteps: [{id: a, run: 'false'}]\n")
    flow.drive("run", "flow.yaml", "--run-id", "f").end(1)
    before = flow.show("f")
    assert "it has failed" in flow.succeed("stop", "f").err
    assert before == flow.show("f")
    assert 3 == flow.call("stop", "nobody").code


def test_stop_after_everything_was_killed(flow: Flow) -> None:
    """Nobody drives it and nothing runs: it is paused, and says so."""
    under_way(flow).kill_all()
    assert "Run r is not being driven; it is paused" in flow.succeed("stop", "r").err
    shown = flow.show()
    assert ("paused", 0) == (shown["status"], shown["steps"]["running"])
    goes_on(flow)


def test_stop_from_inside_a_step(flow: Flow) -> None:
    """A step may stop its own run; it does not wait for itself."""
    flow.write(
        f"name: w\nsteps:\n  - id: a\n    run: '{mark('a')}; test -e gate || {flow.leftoff} stop $LEFTOFF_RUN'\n"
    )
    flow.run().end(130)
    assert "pending" == flow.status("a")
    flow.file("gate")
    flow.resume().end(0)
