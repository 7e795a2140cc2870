"""What the tools of the MCP server have in common with the command beyond the records of a run: the rules around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.agents.mcp_tools import Tools
from leftoff.errors import Conflict, LeftoffError
from tests.cli.command import call, succeed


@pytest.fixture
def tools(project: Path) -> Tools:
    return Tools(str(project), None)


def test_an_archived_run_is_looked_into(tools: Tools, project: Path) -> None:
    """It is opened by whoever names it, and stays in the archive."""
    tools.start_run("w", run_id="old", variables={"x": 1})
    tools.save_checkpoint(run_id="old")
    tools.finish_run(run_id="old")
    succeed("archive", "old", cwd=project)
    assert {"x": 1} == tools.show_run("old")["variables"]
    assert "old" in tools.brief_resource("old")
    assert {} == tools.diff_checkpoints("old@1", "old")["variables"]["changed"]  # type: ignore[index]
    assert {"runs": [], "archived": 1} == tools.list_runs()


def test_an_archived_run_is_taken_back_to_go_on(tools: Tools, project: Path) -> None:
    """As the command does it: what is reported afterwards is in the store."""
    tools.start_run("w", run_id="old", steps=["a"])
    tools.finish_run("failed", run_id="old")
    succeed("archive", "old", cwd=project)
    assert "running" == tools.resume_run("old")["status"]
    tools.report_step("a", "completed", run_id="old")
    assert "completed" == succeed("get", "step/a", "--run", "old", cwd=project).json["status"]


def test_a_step_of_another_run_is_refused(project: Path) -> None:
    """A session that has not resumed a run does not report on its steps: they would be added to the session's own."""
    tools = Tools(str(project), None)
    tools.start_run("release", run_id="theirs", title="Release 2", steps=["collect", "build"])
    own = succeed("start", "session", "--run-id", "mine", "--session", "s1", cwd=project)
    assert "mine" == own.out.strip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEFTOFF_SESSION", "s1")
        with pytest.raises(Conflict, match=r"step of run theirs \(“Release 2”\)"):
            tools.report_step("build", "completed")
        assert [] == tools.show_run("mine")["step_records"]
        assert "mine" == tools.report_step("sweep", "completed")["run_id"]
        assert "theirs" == tools.report_step("build", "completed", run_id="theirs")["run_id"]


def test_values_and_a_note_with_a_checkpoint(tools: Tools) -> None:
    """One call keeps what the next session needs."""
    tools.start_run("w")
    tools.save_checkpoint(note="mind the gap", variables={"x": 1}, resume=True)
    shown = tools.show_run()
    assert {"x": 1} == shown["variables"]
    (note,) = shown["records"]["note"].values()  # type: ignore[index]
    assert ("mind the gap", True) == (note["text"], note["resume"])


def test_a_secret_is_left_out_and_that_is_said(tools: Tools) -> None:
    """A model that stored a password must know that the next session will not have it."""
    secret = {"password": "hunter2hunter", "x": 1}
    assert ["password"] == tools.start_run("w", variables=secret)["redacted"]
    assert ["password"] == tools.save_checkpoint(variables=secret)["redacted"]
    assert "redacted" not in tools.save_checkpoint(variables={"x": 2})


def test_a_checkpoint_that_cannot_be_saved_changes_nothing(tools: Tools) -> None:
    tools.start_run("w")
    with pytest.raises(LeftoffError):
        tools.save_checkpoint("whenever", "note", variables={"x": 1}, resume=True)
    assert ({}, {}) == (tools.show_run()["variables"], tools.show_run()["records"].get("note", {}))  # type: ignore[attr-defined]


def test_inside_of_a_step(tools: Tools, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note and a checkpoint of an agent that does a step are that step's."""
    tools.start_run("w", steps=["a", "b"])
    monkeypatch.setenv("LEFTOFF_STEP", "b")
    tools.add_note("look here")
    assert "b" == tools.save_checkpoint()["step"]
    (note,) = tools.show_run()["records"]["note"].values()  # type: ignore[index]
    assert ("look here", "b") == (note["text"], note["step"])


def test_a_note_is_about_a_step_that_can_be(tools: Tools, project: Path) -> None:
    """A name that no step can have is refused, and nothing is kept."""
    tools.start_run("w")
    for refused in (lambda: tools.add_note("x", step="a//b"), lambda: tools.report_step("a//b", "running")):
        with pytest.raises(LeftoffError):
            refused()
    assert 2 == call("note", "x", "--step", "a//b", cwd=project).code
    assert "note" not in tools.show_run()["records"]  # type: ignore[operator]


def test_retention_by_itself(tools: Tools, project: Path) -> None:
    """The end of a run lets go what the rules no longer keep, as `leftoff finish` does."""
    tools.start_run("w", run_id="r")
    for _ in range(3):
        tools.save_checkpoint()
    (project / "leftoff.toml").write_text("[retention]\nauto = true\nkeep = {manual = 1}\n")
    tools.finish_run()
    found = succeed("log", "r", "--json", cwd=project).json["checkpoints"]
    assert ["session_end", "manual"] == [version["trigger"] for version in found]
