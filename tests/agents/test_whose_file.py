"""Whose a changed file is, of several sessions at work in one folder: whoever tells has it, else it is nobody's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leftoff.engine.spool import Spool
from leftoff.host import this_process
from tests.agents.hooking import Living, Session
from tests.agents.test_recorded_events import GOOD, play, session_of
from tests.cli.command import succeed


def asked(cwd: Path, *names: str) -> list[Session]:
    """Sessions that were asked for something, one after another."""
    out = [Session(cwd, name) for name in names]
    for session in out:
        session.fire("UserPromptSubmit", prompt=session.name)
    return out


def runs(cwd: Path) -> dict[str, str]:
    return {
        run["session_id"]: run["run_id"] for run in succeed("ls", "--all", "--json", cwd=cwd).json["runs"]
    }


def last_turn(cwd: Path, session: str) -> dict[str, Any]:
    turns = succeed("show", runs(cwd)[session], "--json", cwd=cwd).json["records"]["turn"]
    found: dict[str, Any] = turns[max(turns)]
    return found


def test_what_nobody_told_of_is_nobodys_while_others_are_at_work(repository: Path) -> None:
    """A turn has what its own tools wrote, and nothing that the other wrote, whether that was told yet or not."""
    one, two = asked(repository, "one", "two")
    one.writes("one.txt", "of one\n")
    two.writes("two.txt", "of two\n")
    (repository / "late.txt").write_text("of two, whose hook has not come yet\n")
    one.fire("Stop")
    two.writes("late.txt", "of two\n")
    two.fire("SessionEnd", reason="exit")
    first, second = last_turn(repository, "one"), last_turn(repository, "two")
    assert (["one.txt"], ["late.txt"], 1) == (first["files"], first["unclaimed"], first["others"])
    assert ["two.txt", "late.txt"] == second["files"] and "unclaimed" not in second
    told = "changed one.txt; changed while another was at work, nobody said by whom: late.txt"
    assert told in succeed("brief", runs(repository)["one"], cwd=repository).out
    assert told in succeed("show", runs(repository)["one"], cwd=repository).out


def test_those_who_were_at_work_are_counted(repository: Path) -> None:
    one, two, three = asked(repository, "one", "two", "three")
    (repository / "shell.txt").write_text("told by nobody\n")
    two.fire("Stop")
    three.fire("StopFailure", error="overloaded")
    one.fire("Stop")
    assert (["shell.txt"], 2) == tuple(last_turn(repository, "one")[key] for key in ("unclaimed", "others"))
    told = "changed while 2 others were at work, nobody said by whom: shell.txt"
    assert told in succeed("brief", runs(repository)["one"], cwd=repository).out


def test_whoever_was_done_before_is_not_at_work(repository: Path) -> None:
    """An idle session, and one that ends: the only one that was asked for something has what its shell changed."""
    (idle,) = asked(repository, "idle")
    idle.writes("idle.txt", "of the idle\n")
    idle.fire("Stop")
    (one,) = asked(repository, "one")
    (repository / "shell.txt").write_text("told by nobody\n")
    idle.fire("SessionEnd", reason="exit")
    one.fire("Stop")
    assert ["shell.txt"] == last_turn(repository, "one")["files"]


def test_a_session_whose_prompt_still_waits_is_at_work(repository: Path) -> None:
    """Its prompt is in the spool, and not in the store yet."""
    (one,) = asked(repository, "one")
    (repository / "shell.txt").write_text("told by nobody\n")
    spool, own = Spool(str(repository / ".leftoff")), this_process()
    name = spool.put({"session": "two", "answered_by": [own.scope, own.pid, own.started]})
    one.fire("Stop")
    spool.remove(name)
    turn = last_turn(repository, "one")
    assert (["shell.txt"], 1) == (turn["unclaimed"], turn["others"]) and "files" not in turn


def test_whoever_works_in_silence_is_at_work(repository: Path) -> None:
    """A session that has told nothing since is in the middle of its turn, until its process is gone."""
    silent = Living(repository, "silent")
    silent.fire("UserPromptSubmit", prompt="silent")
    (one,) = asked(repository, "one")
    (repository / "first.txt").write_text("told by nobody\n")
    one.fire("Stop")
    silent.kill()
    assert ["first.txt"] == last_turn(repository, "one")["unclaimed"]
    one.fire("UserPromptSubmit", prompt="again")
    (repository / "second.txt").write_text("told by nobody\n")
    one.fire("Stop")
    assert ["second.txt"] == last_turn(repository, "one")["files"]


def test_a_workflow_is_no_session(repository: Path) -> None:
    """What an agent's shell does through leftoff is its own."""
    (one,) = asked(repository, "one")
    succeed("start", "release", "--steps", "a", cwd=repository)
    (repository / "shell.txt").write_text("of a step\n")
    succeed("step", "done", "a", cwd=repository)
    one.fire("Stop")
    assert ["shell.txt"] == last_turn(repository, "one")["files"]


def test_a_file_that_was_ones_own_may_be_anothers_now(repository: Path) -> None:
    """What one wrote in an earlier turn, and another one writes now, is the other one's now."""
    (one,) = asked(repository, "one")
    one.writes("shared.txt", "of one\n")
    one.fire("Stop")
    one, two = asked(repository, "one", "two")
    two.writes("shared.txt", "of two\n")
    two.fire("Stop")
    one.fire("Stop")
    turn = last_turn(repository, "one")
    assert "files" not in turn and "unclaimed" not in turn
    assert ["shared.txt"] == last_turn(repository, "two")["files"]


def test_what_may_be_anothers_is_not_undone(repository: Path) -> None:
    """A rollback leaves it, and says why; named, it is restored."""
    one, two = asked(repository, "one", "two")
    one.writes("one.txt", "of one\n")
    (repository / "notes.txt").write_text("told by nobody\n")
    one.fire("Stop")
    two.fire("Stop")
    start = f"{runs(repository)['one']}@2"
    done = succeed("rollback", start, "--files", "--yes", cwd=repository)
    assert not (repository / "one.txt").exists()
    assert "told by nobody\n" == (repository / "notes.txt").read_text()
    assert "it changed while others were at work here" in done.err
    succeed("restore", start, "notes.txt", "--yes", cwd=repository)
    assert "alpha\n" == (repository / "notes.txt").read_text()


@pytest.mark.parametrize(
    ("agent", "beside"), [("claude", "codex"), ("codex", "gemini"), ("gemini", "claude")]
)
def test_recorded_sessions_in_each_others_turns(agent: str, beside: str, repository: Path) -> None:
    """As two real agents told it: what one of them writes is not told yet when the other one's turn ends."""
    ours, theirs = session_of(agent, GOOD), session_of(beside, GOOD)
    ours_at, theirs_at = (
        next(at for at, one in enumerate(told) if "prompt" in one) for told in (ours, theirs)
    )
    play(repository, beside, theirs[: theirs_at + 1], "two.md")
    play(repository, agent, ours[: ours_at + 1], "one.md")
    (repository / "two.md").write_text("a draft\n")
    play(repository, agent, ours[ours_at + 1 :], "one.md")
    play(repository, beside, theirs[theirs_at + 1 :], "two.md")
    first, second = (
        last_turn(repository, f"{name}-{told[0]['session_id']}")
        for name, told in ((agent, ours), (beside, theirs))
    )
    assert (["one.md"], ["two.md"]) == (first["files"], first["unclaimed"])
    assert ["two.md"] == second["files"] and "unclaimed" not in second
