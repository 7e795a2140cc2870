"""`on_failure: ask`, with somebody at the terminal."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.terminal import CTRL_D, Terminal
from tests.workflow.flows import lines, write

FLOW = """
    name: asks
    steps:
      - {id: a, run: 'echo a >> ran; test -e fixed', on_failure: ask}
      - {id: each, foreach: [x, y], run: 'echo {{ item }} >> ran; test {{ item }} != y', on_failure: ask}
      - {id: b, run: echo b >> ran}
"""


def test_retried_then_skipped(tmp_path: Path) -> None:
    """Retry runs it again, skip goes on without it; nothing that was done runs twice."""
    write(tmp_path, FLOW)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect("(q)uit: ")
        assert "a failed: It ended with exit code 1." in terminal.shown
        (tmp_path / "fixed").touch()
        terminal.type("r\n")
        terminal.expect("each/y failed: It ended with exit code 1.\n")
        terminal.expect("(q)uit: ")
        terminal.type("skip\n")
        assert 0 == terminal.end(), terminal.shown
    assert ["a", "a", "b", "x", "y"] == sorted(lines(tmp_path, "ran"))
    (run,) = succeed("ls", "--all", "--json", cwd=tmp_path).json["runs"]
    steps = succeed("show", run["run_id"], "--json", cwd=tmp_path).json["step_records"]
    assert "skipped" == {step["step"]: step["status"] for step in steps}["each/y"]


@pytest.mark.parametrize("answer", ["q\n", CTRL_D])
def test_quit(tmp_path: Path, answer: str) -> None:
    """Quit, or no answer, leaves the run as it is: failed, to be resumed."""
    write(tmp_path, FLOW)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect("(q)uit: ")
        terminal.type(answer)
        assert 1 == terminal.end(), terminal.shown
    assert ["a"] == lines(tmp_path, "ran")
    (tmp_path / "fixed").touch()
    assert 1 == call("resume", cwd=tmp_path).code  # nobody there: y fails, and nothing is asked
    assert ["a", "a", "x", "y"] == sorted(lines(tmp_path, "ran"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_it_asks(tmp_path: Path, number: int) -> None:
    """Nothing is driven at that moment; both signals end with 130 all the same, and the run is as it was."""
    write(tmp_path, FLOW)
    for words in (("run", "flow.yaml"), ("resume",)):
        with Terminal(*words, cwd=tmp_path) as terminal:
            terminal.expect("(q)uit: ")
            terminal.send_signal(number)
            assert 130 == terminal.end(), terminal.shown
        (run,) = succeed("ls", "--json", cwd=tmp_path).json["runs"]
        assert "failed" == run["status"]


def test_yes_is_no_answer(tmp_path: Path) -> None:
    """`--yes` neither retries for ever nor skips what failed."""
    write(tmp_path, FLOW)
    with Terminal("run", "flow.yaml", "--yes", cwd=tmp_path) as terminal:
        assert 1 == terminal.end(), terminal.shown
    assert "(q)uit" not in terminal.shown


APPROVAL = """
    name: asked
    steps:
      - {id: sign-off, approval: {ask: Ship it?, options: [approve, hold]}}
      - {id: last, run: "echo {{ choice('sign-off') }} >> ran"}
"""


def test_an_approval_is_asked_at_the_terminal(tmp_path: Path) -> None:
    """Every option is offered, none is the default; the run goes on with the answer."""
    write(tmp_path, APPROVAL)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect("Which one? [1-4]: ")
        assert "sign-off is waiting for a decision: Ship it?" in terminal.shown
        terminal.type("hold\n")
        assert 0 == terminal.end(), terminal.shown
    assert ["hold"] == lines(tmp_path, "ran")


def test_an_approval_may_wait(tmp_path: Path) -> None:
    """Later leaves it as it is; --yes is not an answer to it."""
    write(tmp_path, APPROVAL)
    with Terminal("run", "flow.yaml", "--yes", cwd=tmp_path) as terminal:
        terminal.expect("Which one? [1-4]: ")
        terminal.type("later\n")
        assert 7 == terminal.end(), terminal.shown
    assert not (tmp_path / "ran").exists()


FAILED_TOO = """
    name: both
    steps:
      - {id: bad, run: 'echo bad >> ran; test -e fixed', on_failure: POLICY}
      - {id: sign-off, needs: [], approval: Ship it?}
      - {id: last, needs: [sign-off], run: echo last >> ran}
"""


@pytest.mark.parametrize("verb", ["run", "resume"])
def test_an_approval_is_asked_though_another_step_failed(tmp_path: Path, verb: str) -> None:
    """`run` and `resume` ask it at the terminal as usual. The run is failed when the rest is done."""
    write(tmp_path, FAILED_TOO.replace("POLICY", "continue"))
    if verb == "resume":
        assert 7 == call("run", "flow.yaml", cwd=tmp_path).code
    with Terminal(verb, *(["flow.yaml"] if verb == "run" else []), cwd=tmp_path) as terminal:
        terminal.expect("sign-off is waiting for a decision: Ship it?")
        terminal.type("approve\n")
        assert 1 == terminal.end(), terminal.shown
    assert "last" in lines(tmp_path, "ran")
    (run,) = succeed("ls", "--json", cwd=tmp_path).json["runs"]
    assert ("failed", 0) == (run["status"], run["steps"]["waiting"])


def test_what_failed_is_asked_before_the_approval(tmp_path: Path) -> None:
    """With `on_failure: ask` both are asked. Quit ends the command: the run still waits."""
    write(tmp_path, FAILED_TOO.replace("POLICY", "ask"))
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect("(q)uit: ")
        terminal.type("q\n")
        assert 7 == terminal.end(), terminal.shown
    (tmp_path / "fixed").touch()
    with Terminal("resume", cwd=tmp_path) as terminal:
        terminal.expect("sign-off is waiting for a decision: Ship it?")
        terminal.type("approve\n")
        assert 0 == terminal.end(), terminal.shown
    assert ["bad", "bad", "last"] == lines(tmp_path, "ran")


def test_a_question_that_is_put_anew_meanwhile(tmp_path: Path) -> None:
    """It is not decided by who saw the old one: that is said, and the new one is asked."""
    write(tmp_path, APPROVAL)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect("Which one? [1-4]: ")
        assert 7 == call("resume", "--from-step", "sign-off", cwd=tmp_path).code
        terminal.type("hold\n")
        terminal.expect("asks something else than what was shown")
        terminal.expect("Which one? [1-4]: ")
        terminal.type("approve\n")
        assert 0 == terminal.end(), terminal.shown
    assert ["approve"] == lines(tmp_path, "ran")


def test_somebody_else_decides_meanwhile(tmp_path: Path) -> None:
    """What they said counts; whoever answered too late is told so, and the run goes on."""
    write(tmp_path, APPROVAL)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect("Which one? [1-4]: ")
        succeed("approve", "@", "--choice", "hold", cwd=tmp_path)
        terminal.type("approve\n")
        assert 0 == terminal.end(), terminal.shown
        assert "already decided: hold" in " ".join(terminal.shown.split())
    assert ["hold"] == lines(tmp_path, "ran")


def test_what_failed_is_done_by_somebody_else_meanwhile(tmp_path: Path) -> None:
    """Skipping is about what failed as it was shown: what was done since stays done."""
    write(tmp_path, FLOW)
    with Terminal("run", "flow.yaml", cwd=tmp_path) as terminal:
        terminal.expect("(q)uit: ")
        (tmp_path / "fixed").touch()
        assert 1 == call("resume", cwd=tmp_path).code  # a is done now, and one of each failed
        terminal.type("skip\n")
        terminal.expect("each/y failed: It ended with exit code 1.\n")
        terminal.expect("(q)uit: ")
        terminal.type("q\n")
        assert 1 == terminal.end(), terminal.shown
    (run,) = succeed("ls", "--all", "--json", cwd=tmp_path).json["runs"]
    steps = succeed("show", run["run_id"], "--json", cwd=tmp_path).json["step_records"]
    assert "completed" == {step["step"]: step["status"] for step in steps}["a"]
