"""`leftoff reject`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.command import call, succeed
from tests.cli.people import ask, shown, step_of, story


def test_who_when_why(tmp_path: Path) -> None:
    """The step has failed with an error of its own type that says who and why; a checkpoint seals it."""
    run = story(tmp_path)
    done = succeed("reject", run, "sign-off", "--note", "too short", "--json", cwd=tmp_path)
    assert (run, 1) == (done.json["run_id"], done.json["steps"]["failed"])
    step, found = step_of(tmp_path, run, "sign-off"), shown(tmp_path, run)["records"]
    assert ("failed", "rejected") == (step["status"], step["error"]["type"])
    assert re.fullmatch(r"rejected by \S+@\S+: too short", step["error"]["message"])
    record = found["approval"]["sign-off"]
    assert ("rejected", "reject", "too short") == (record["status"], record["choice"], record["note"])
    assert "rejected" == found["error"]["sign-off"]["type"]
    newest = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"][0]
    assert ("approval", "sign-off", "reject: too short") == (
        newest["trigger"],
        newest["step"],
        newest["note"],
    )


def test_again_the_same_changes_nothing(tmp_path: Path) -> None:
    """Exit 0, and what was decided stays; approving it now is a conflict."""
    run = story(tmp_path)
    told = succeed("reject", run, "sign-off", cwd=tmp_path).err
    assert f"leftoff: sign-off of {run} is rejected. `leftoff resume {run}` continues.\n" == told
    before = shown(tmp_path, run)
    assert "is already rejected" in succeed("reject", run, "sign-off", cwd=tmp_path).err
    assert 5 == call("approve", run, "sign-off", cwd=tmp_path).code
    assert before == shown(tmp_path, run)


def test_no_need_for_it_to_be_an_option(tmp_path: Path) -> None:
    """One can always say no."""
    run = story(tmp_path)
    ask(tmp_path, "sign-off", run, options=["left", "right"])
    succeed("reject", run, "sign-off", cwd=tmp_path)
    assert "rejected" == step_of(tmp_path, run, "sign-off")["error"]["type"]


def test_wrong_words(tmp_path: Path) -> None:
    """No such run or step, one that does not wait, a choice that it does not take; no store is made."""
    assert 3 == call("reject", "x", "y", cwd=tmp_path).code
    assert [] == list(tmp_path.iterdir())
    run = story(tmp_path)
    assert 3 == call("reject", run, "nothing", cwd=tmp_path).code
    assert 5 == call("reject", run, "draft", cwd=tmp_path).code
    assert 2 == call("reject", run, "sign-off", "--choice", "approve", cwd=tmp_path).code
    assert 2 == call("reject", run, "sign-off", "more", cwd=tmp_path).code
