"""What was in flight when a driver died, attempt by attempt: followed, believed, asked about, done again."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

import pytest

from leftoff.host import scope
from leftoff.store.sqlite import SqliteStore
from tests.cli.terminal import Terminal
from tests.workflow.driving import Driver, Flow, kill, mark, until, wait

ONE = f"""
name: one
steps:
  - id: a
    run: "{mark("a")}; echo before; {wait()}; echo after"
  - id: b
    run: "{mark("b")}"
"""


def begun(flow: Flow, text: str, step: str = "a", **more: str) -> Driver:
    """A driver whose step is in flight."""
    flow.write(text)
    driver = flow.run(**more)
    driver.until("step_start", step=step)
    flow.started(step)
    return driver


# -- its process still runs


def test_a_living_process_is_followed(flow: Flow) -> None:
    """A step whose process outlived its driver is not started again: the next driver follows it and takes its end."""
    begun(flow, ONE).kill()
    driver = flow.resume()
    assert "a" == driver.until("reattached")["step"]
    assert "reattach" == driver.plan()["a"][0]
    flow.file("gate")
    driver.end(0)
    record = flow.steps()["a"]
    assert ("completed", 1) == (record["status"], record["attempt"])
    assert record["why"].startswith("reattached after")
    assert 1 == len(flow.starts("a"))
    assert "before\nafter\n" == flow.succeed("logs", "r", "a").out


def test_a_followed_process_that_fails_is_tried_again(flow: Flow) -> None:
    """The exit code of a process that was followed counts like any other, and so do the step's retries."""
    text = """
name: one
steps:
  - id: a
    retries: {max: 1, backoff: 0s}
    run: "MARK; if test -e failed; then exit 0; fi; WAIT; touch failed; exit 3"
"""
    begun(flow, text.replace("MARK", mark("a")).replace("WAIT", wait())).kill()
    driver = flow.resume()
    driver.until("reattached")
    flow.file("gate")
    driver.end(0)
    failed = driver.of("step_failed")[0]
    assert (3, "a") == (failed["error"]["exit_code"], failed["step"])
    assert 2 == flow.steps()["a"]["attempt"] == len(flow.starts("a"))


def test_a_followed_process_is_seen_by_the_one_after_next(flow: Flow) -> None:
    """One driver after the other dies; the process is the same all along."""
    begun(flow, ONE).kill()
    for _ in range(2):
        driver = flow.resume()
        driver.until("reattached")
        driver.kill()
    flow.file("gate")
    flow.resume().end(0)
    assert 1 == len(flow.starts("a"))
    assert 1 == flow.steps()["a"]["attempt"]


def test_what_is_followed_is_shown(flow: Flow) -> None:
    """On a terminal, what a process prints that an earlier driver started is shown like any other's."""
    begun(flow, ONE).kill()
    with Terminal("resume", "r", cwd=flow.folder) as terminal:
        terminal.expect("before")
        flow.file("gate")
        terminal.expect("after")
        assert 0 == terminal.end(), terminal.shown


def test_what_is_followed_may_report_on_itself(flow: Flow) -> None:
    """Its attempt is the current one, with or without a driver."""
    report = "until test -e GATE; do sleep 0.05; done; LEFTOFF set GATE=5; LEFTOFF step done sub-GATE"
    script = "; ".join(
        report.replace("GATE", gate).replace("LEFTOFF", flow.leftoff) for gate in ("one", "two")
    )
    begun(flow, ONE.replace(wait(), script)).kill()
    flow.file("one")
    until(lambda: "a/sub-one" in flow.steps(), "a report without a driver")
    driver = flow.resume()
    driver.until("reattached")
    flow.file("two")
    driver.end(0)
    assert {"one": 5, "two": 5} == flow.show()["variables"]
    assert "completed" == flow.status("a/sub-two")


def test_a_process_whose_step_was_reported_done_is_ended(flow: Flow) -> None:
    """Nobody waits for it any more."""
    begun(flow, ONE).kill()
    flow.succeed("step", "done", "a", "--run", "r")
    flow.resume().end(0)
    assert [] == flow.processes()
    assert (1, 1) == (len(flow.starts("a")), len(flow.starts("b")))


def test_restart_ends_what_still_runs(flow: Flow) -> None:
    """`--restart` ends the process of an earlier driver, and the step is done by a new attempt."""
    begun(flow, ONE).kill()
    before = flow.processes()
    driver = flow.resume("--restart")
    flow.started("a", 2)
    assert not set(before) & set(flow.processes())
    flow.file("gate")
    driver.end(0)
    assert 2 == flow.steps()["a"]["attempt"]
    assert "run" == driver.plan()["a"][0]


# -- an exit code was written


OUTPUTS = f"""
name: one
vars: {{word: old}}
steps:
  - id: a
    run: "{mark("a")}; {wait()}; echo x > out.txt; echo word=new >> $LEFTOFF_VARS"
    outputs: [out.txt]
    checks: ["{mark("check")}; test -s out.txt"]
  - id: b
    run: "{mark("b")}; echo {{{{ word }}}} > word"
"""


def ended_alone(flow: Flow, text: str) -> None:
    """The driver is killed; then its step ends."""
    begun(flow, text).kill()
    flow.file("gate")
    flow.gone()


def test_an_exit_code_of_0_is_believed(flow: Flow) -> None:
    """A step that ended well while nobody drove is adopted, with its outputs, its variables, and its checks."""
    ended_alone(flow, OUTPUTS)
    driver = flow.resume()
    driver.end(0)
    assert "a" == driver.of("adopted")[0]["step"]
    assert "adopt" == driver.plan()["a"][0]
    record = flow.steps()["a"]
    assert ("completed", 1, ["out.txt"]) == (record["status"], record["attempt"], record["outputs"])
    assert record["why"].startswith("adopted: ")
    assert "new\n" == (flow.folder / "word").read_text()
    assert (1, 1) == (len(flow.starts("a")), len(flow.starts("check")))
    assert ["out.txt"] == [artifact["path"] for artifact in flow.show()["artifacts"]]


@pytest.mark.parametrize("dead", [True, False], ids=["adopted", "followed"])
def test_what_a_python_step_returned_is_taken(flow: Flow, dead: bool) -> None:
    """Its result is in a file of its attempt, whoever drives."""
    flow.file(
        "tools.py",
        """
import os, time

def build(words):
    with open("starts.a", "a") as file:
        file.write(os.environ["LEFTOFF_ATTEMPT"] + "\\n")
    while not os.path.exists("gate"):
        time.sleep(0.05)
    return {"words": words}
""",
    )
    text = "name: py\nsteps:\n  - id: a\n    python: tools:build\n    with: {words: [1, two]}\n"
    begun(flow, text).kill()
    driver = None if dead else flow.resume()
    if driver is not None:
        driver.until("reattached")
    flow.file("gate")
    if driver is None:
        flow.gone()
    (driver or flow.resume()).end(0)
    assert {"words": [1, "two"]} == flow.steps()["a"]["result"]
    assert 1 == len(flow.starts("a"))


def test_an_exit_code_of_0_without_the_outputs_is_not_enough(flow: Flow) -> None:
    """Outputs that are declared must be there; else the step is done again, without costing it a retry."""
    ended_alone(flow, OUTPUTS)
    (flow.folder / "out.txt").unlink()
    driver = flow.resume()
    driver.end(0)
    assert 2 == flow.steps()["a"]["attempt"] == len(flow.starts("a"))
    action, why = driver.plan()["a"]
    assert ("run", True) == (action, "out.txt is not there" in why)
    assert not driver.of("step_failed")


def test_an_exit_code_of_0_with_a_check_that_fails_is_not_enough(flow: Flow) -> None:
    """Checks are made before an attempt is adopted."""
    ended_alone(flow, OUTPUTS)
    flow.file("out.txt", "")
    flow.resume().end(0)
    assert 2 == flow.steps()["a"]["attempt"] == len(flow.starts("a"))


def test_another_exit_code_runs_again_with_fresh_retries(flow: Flow) -> None:
    """A step that failed while nobody drove is done again, as often as its retries allow from now on."""
    text = """
name: one
steps:
  - id: a
    retries: {max: 1, backoff: 0s}
    run: "MARK; WAIT; test $(cat starts.a | wc -l) -ge 3"
"""
    ended_alone(flow, text.replace("MARK", mark("a")).replace("WAIT", wait()))
    driver = flow.resume()
    driver.end(0)
    assert 3 == flow.steps()["a"]["attempt"] == len(flow.starts("a"))
    assert "exit code 1" in driver.plan()["a"][1]


# -- neither


def test_an_attempt_that_never_began_does_not_count(flow: Flow) -> None:
    """An attempt that was recorded, and whose command was never executed, is forgotten."""
    begun(flow, ONE).kill_all()
    folder = flow.attempt("a")
    for name in os.listdir(folder):
        (folder / name).unlink()
    driver = flow.resume()
    flow.file("gate")
    driver.end(0)
    assert 1 == flow.steps()["a"]["attempt"]
    assert "never" in driver.plan()["a"][1]
    assert not folder.exists()


def test_an_unknown_end_runs_again(flow: Flow) -> None:
    """Where nobody knows how a command ended, and nothing proves it, it is done again."""
    begun(flow, ONE).kill_all()
    driver = flow.resume()
    flow.file("gate")
    driver.end(0)
    assert 2 == flow.steps()["a"]["attempt"] == len(flow.starts("a"))


def test_a_file_that_merely_exists_proves_nothing(flow: Flow) -> None:
    """Outputs may be half written: the step is done again."""
    begun(flow, OUTPUTS).kill_all()
    flow.file("out.txt", "half")
    driver = flow.resume()
    flow.file("gate")
    driver.end(0)
    assert 2 == len(flow.starts("a"))


# -- what must not simply run again

ONCE = ONE.replace("- id: a", "- id: a\n    idempotent: false")


@pytest.mark.parametrize("words", [(), ("--yes",)], ids=["bare", "--yes"])
def test_a_step_that_is_not_idempotent_is_asked_about(flow: Flow, words: tuple[str, ...]) -> None:
    """Where its end is unknown a person must decide, and --yes is no such decision."""
    begun(flow, ONCE).kill_all()
    before = flow.show()
    assert "dead" == before["health"]
    done = flow.call("resume", "r", *words)
    assert 7 == done.code, str(done)
    assert "step done a --run r" in done.err and "--accept step.not_idempotent" in done.err
    assert before == flow.show()
    assert 1 == len(flow.starts("a"))


def test_one_that_was_killed_under_its_driver_is_asked_about(flow: Flow) -> None:
    """It failed, and its retries are not used up on it; nobody knows how far it came."""
    driver = begun(
        flow, ONCE.replace("idempotent: false", "idempotent: false\n    retries: {max: 3, backoff: 0s}")
    )
    for pid in flow.processes():
        kill(pid)
    driver.end(1)
    assert 7 == flow.call("resume", "r", "--yes").code
    assert 1 == len(flow.starts("a"))
    flow.file("gate")
    flow.resume("--accept", "step.not_idempotent").end(0)
    assert 2 == len(flow.starts("a"))


def test_that_its_failure_is_allowed_answers_no_question(flow: Flow) -> None:
    """An unknown end is not a failure that the definition allows: what needs the step does not start."""
    driver = begun(flow, ONCE.replace("idempotent: false", "idempotent: false\n    allow_failure: true"))
    for pid in flow.processes():
        kill(pid)
    driver.end(1)
    assert "allowed" not in flow.steps()["a"]
    assert 7 == flow.call("resume", "r", "--yes").code
    assert 1 == len(flow.starts("a"))


def test_one_that_we_killed_is_asked_about(flow: Flow) -> None:
    """A second Ctrl-C leaves no exit code either."""
    driver = begun(flow, ONCE.replace("echo before", "trap '' TERM; echo before"))
    driver.signal(signal.SIGINT)
    driver.until("interrupt")
    driver.signal(signal.SIGINT)
    driver.end(130)
    assert "pending" == flow.status("a")
    assert 7 == flow.call("resume", "r").code
    flow.file("gate")
    flow.resume("--accept", "step.not_idempotent").end(0)
    assert 2 == len(flow.starts("a"))


def test_accepting_runs_it_again(flow: Flow) -> None:
    """`--accept step.not_idempotent` says that it may run again."""
    begun(flow, ONCE).kill_all()
    driver = flow.resume("--accept", "step.not_idempotent")
    flow.file("gate")
    driver.end(0)
    assert 2 == flow.steps()["a"]["attempt"] == len(flow.starts("a"))


def test_a_report_settles_it(flow: Flow) -> None:
    """`step done` says that it was done; the rest of the run goes on."""
    begun(flow, ONCE).kill_all()
    flow.succeed("step", "done", "a", "--run", "r")
    driver = flow.resume()
    driver.end(0)
    assert ("skip", 1, 1) == (driver.plan()["a"][0], len(flow.starts("a")), len(flow.starts("b")))


def test_a_living_process_needs_no_question(flow: Flow) -> None:
    """What still runs is followed, whether or not it may run twice."""
    begun(flow, ONCE).kill()
    driver = flow.resume()
    driver.until("reattached")
    flow.file("gate")
    driver.end(0)
    assert 1 == len(flow.starts("a"))


def test_restarting_it_is_asked_about(flow: Flow) -> None:
    """To end a step half way and do it again is what `idempotent: false` forbids; nothing is ended unasked."""
    begun(flow, ONCE).kill()
    done = flow.call("resume", "r", "--restart")
    assert 7 == done.code, str(done)
    assert flow.processes()
    driver = flow.resume("--restart", "--accept", "step.not_idempotent")
    flow.started("a", 2)
    flow.file("gate")
    driver.end(0)
    assert 2 == flow.steps()["a"]["attempt"]


CHECKED = OUTPUTS.replace("- id: a", "- id: a\n    idempotent: false")


def test_outputs_are_no_proof(flow: Flow) -> None:
    """Outputs and checks do not say how it ended: a person is asked."""
    begun(flow, CHECKED).kill_all()
    flow.file("out.txt", "whole")
    done = flow.call("resume", "r", "--yes")
    assert 7 == done.code, str(done)
    assert 1 == len(flow.starts("a"))
    driver = flow.resume("--accept", "step.not_idempotent")
    flow.file("gate")
    driver.end(0)
    assert 2 == len(flow.starts("a"))


@pytest.mark.parametrize(("typed", "code", "runs"), [("n", 7, 1), ("y", 0, 2)])
def test_the_question_on_a_terminal(flow: Flow, typed: str, code: int, runs: int) -> None:
    """Whoever sits there decides, also with --yes."""
    begun(flow, ONCE).kill_all()
    flow.file("gate")
    with Terminal("resume", "r", "--yes", cwd=flow.folder) as terminal:
        terminal.expect("Run it again? [y/N]: ")
        terminal.type(f"{typed}\n")
        assert code == terminal.end(), terminal.shown
    assert runs == len(flow.starts("a"))


# -- somewhere else


def test_what_cannot_be_seen_from_here_is_asked_about(flow: Flow) -> None:
    """A process on another machine may still run; only a person can know."""
    begun(flow, ONE).kill_all()
    elsewhere(flow)
    done = flow.call("resume", "r", "--yes")
    assert 7 == done.code, str(done)
    assert "--accept step.elsewhere" in done.err
    driver = flow.resume("--accept", "step.elsewhere")
    flow.file("gate")
    driver.end(0)
    assert 2 == flow.steps()["a"]["attempt"]


def test_an_exit_code_from_elsewhere_is_believed(flow: Flow) -> None:
    """Whoever wrote it: it says that nothing of the attempt runs any more."""
    ended_alone(flow, ONE)
    elsewhere(flow)
    flow.resume().end(0)
    assert 1 == flow.steps()["a"]["attempt"] == len(flow.starts("a"))


def test_after_a_restart_of_the_machine_nobody_knows_whether_it_began(flow: Flow) -> None:
    """That there is no trace of it proves nothing then: what was not synced is lost. It counts, and is done again."""
    begun(flow, ONE).kill_all()
    shutil.rmtree(flow.attempt("a"))
    machine, _, space = scope().split("/")
    moved(flow, f"{machine}/another-boot/{space}")
    driver = flow.resume()
    flow.file("gate")
    driver.end(0)
    assert 2 == flow.steps()["a"]["attempt"] == len(flow.starts("a"))


def elsewhere(flow: Flow) -> None:
    """As if another machine had driven the run; its driver stopped in order."""
    moved(flow, "there@there/boot/1")


def moved(flow: Flow, where: str) -> None:
    """As if all that had happened there, and the driver had stopped in order."""
    store = SqliteStore(str(flow.folder / ".leftoff"))

    def work(tx: Any) -> None:
        tx.execute("UPDATE attempt SET scope = ?", (where,))
        tx.execute("UPDATE lease SET kind = NULL, scope = NULL")

    store.write(work)
    store.close()
