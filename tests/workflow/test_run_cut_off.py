"""What was cut off, what cannot be recorded, what must not be stored: corners where a promise is easily lost."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.cli.command import LEFTOFF, call, environment, succeed
from tests.workflow.driving import until
from tests.workflow.flows import files_with, lines, path_with_leftoff, run, write

ONCE = """
    name: once
    defaults: {retries: {max: 2, backoff: 0}}
    steps:
      - id: publish
        idempotent: false
        run: echo started >> starts; %s
"""


def interrupted(folder: Path) -> int:
    """Ctrl-C for a run, as soon as its step has started; its exit code."""
    with subprocess.Popen(
        [str(LEFTOFF), "run", "flow.yaml"], cwd=folder, env=environment(), stdout=subprocess.DEVNULL
    ) as driver:
        until(lambda: lines(folder, "starts"), "the step starts")
        driver.send_signal(signal.SIGINT)
    return driver.returncode


def test_interrupted(tmp_path: Path) -> None:
    """A step that must not run twice, cut off by Ctrl-C, is not run again before somebody has said so."""
    write(tmp_path, ONCE % "sleep 60")
    assert 130 == interrupted(tmp_path)
    asked = call("resume", cwd=tmp_path)
    assert (7, ["started"]) == (asked.code, lines(tmp_path, "starts"))
    assert "step.not_idempotent" in asked.err
    assert 7 == call("resume", "--yes", cwd=tmp_path).code
    succeed("step", "done", "publish", cwd=tmp_path)
    assert (0, ["started"]) == (call("resume", cwd=tmp_path).code, lines(tmp_path, "starts"))


def test_timed_out(tmp_path: Path) -> None:
    """Nor after a timeout: nobody knows how far it came."""
    write(tmp_path, (ONCE % "sleep 60") + "        timeout: 500ms\n")
    assert (1, ["started"]) == (run(tmp_path, code=None).code, lines(tmp_path, "starts"))
    assert (7, ["started"]) == (call("resume", cwd=tmp_path).code, lines(tmp_path, "starts"))


def test_killed(tmp_path: Path) -> None:
    """Nor where something else killed it."""
    write(tmp_path, ONCE % "kill -9 $$")
    assert (1, ["started"]) == (run(tmp_path, code=None).code, lines(tmp_path, "starts"))
    assert (7, ["started"]) == (call("resume", cwd=tmp_path).code, lines(tmp_path, "starts"))


def test_failed_by_itself(tmp_path: Path) -> None:
    """An exit code of its own is the command's word, and retries were asked for."""
    write(tmp_path, ONCE % "exit 3")
    assert (1, ["started"] * 3) == (run(tmp_path, code=None).code, lines(tmp_path, "starts"))


def test_success_that_cannot_be_recorded(tmp_path: Path) -> None:
    """The store fails after the command ended well: that is no failure of the step. Resuming takes it in."""
    write(
        tmp_path,
        """
        name: kept
        defaults: {retries: 2}
        steps:
          - id: make
            run: |
              echo made >> starts
              head -c 2000000 /dev/zero | tr '\\0' x > out.txt
              rm -rf .leftoff/blobs; echo > .leftoff/blobs
            outputs: [out.txt]
        """,
    )
    ran = call("run", "flow.yaml", cwd=tmp_path)
    assert (8, ["made"]) == (ran.code, lines(tmp_path, "starts")), str(ran)
    (tmp_path / ".leftoff/blobs").unlink()
    assert (0, ["made"]) == (call("resume", cwd=tmp_path).code, lines(tmp_path, "starts"))


def test_secrets_through_our_own_verbs(tmp_path: Path) -> None:
    """A step that reports a secret of its workflow with `leftoff set` or `note` does not get it stored."""
    write(
        tmp_path,
        """
        name: secret
        secrets: [MINE]
        steps:
          - id: tell
            run: leftoff set found=$MINE; leftoff note "it is $MINE"; leftoff step done sub --note "$MINE"
        """,
    )
    run(tmp_path, MINE="hunter-plum-77", PATH=path_with_leftoff())
    assert [] == files_with(tmp_path / ".leftoff", "hunter-plum-77")


def test_secrets_in_questions(tmp_path: Path) -> None:
    """What an approval asks is masked in its record, in the checkpoint's note and in what is told."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    text = """
        name: ask
        steps:
          - {id: ok, approval: "Is {{ it }} right?"}
        """
    ran = run(tmp_path, text, "--var", f"it={token}", code=7)
    assert token not in ran.called.out
    assert [] == files_with(tmp_path / ".leftoff", token)
