"""Which session sees and changes which run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.hooking import Living, Session
from tests.cli.command import call, succeed


@pytest.fixture
def living(project: Path) -> Iterator[Living]:
    """A session that can be killed."""
    agent = Living(project, "dies")
    yield agent
    if agent.process.returncode is None:
        agent.kill()


def runs(cwd: Path) -> list[dict[str, object]]:
    return list(succeed("ls", "--all", "--json", cwd=cwd).json["runs"])


def test_nothing_unfinished_nothing_said(project: Path) -> None:
    """A new session where nothing is unfinished is told nothing, and leaves no run behind."""
    session = Session(project)
    for name in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        assert "" == session.fire(name, source="startup", prompt="hello", reason="exit").out
    assert [] == runs(project)


def test_the_own_run_is_briefed_in_full(project: Path) -> None:
    """After a compaction, and when the session is resumed, it gets its own run's brief."""
    session = Session(project)
    session.todos(fix_it="completed", test_it="in_progress")
    for source in ("compact", "resume"):
        told = session.context("SessionStart", source=source)
        assert told is not None and "[>] “test it”" in told and "1 of 2 steps done" in told
        assert len(told) <= 10_000


def test_a_live_session_is_never_shown_to_another(project: Path) -> None:
    """Two sessions in one folder: neither hears of the other's run, nor takes it by a word."""
    Session(project, "first").todos(secret_plan="in_progress")
    second = Session(project, "second")
    assert None is second.context("SessionStart", source="startup")
    assert None is second.context("UserPromptSubmit", prompt="continue")


def test_a_dead_session_is_offered_in_one_line(project: Path, living: Living) -> None:
    """The agent's process is gone: the next session is offered its run, and is not bound to it."""
    living.todos(half_done="in_progress")
    other = Session(project, "next")
    assert None is other.context("SessionStart", source="startup")
    living.kill()
    told = other.context("SessionStart", source="startup")
    (run,) = runs(project)
    assert told is not None and str(run["run_id"]) in told and "\n" not in told
    assert "dies" == run["session_id"]


@pytest.mark.parametrize("word", ["resume", "Continue.", " reprendre "])
def test_a_word_takes_the_offered_run(word: str, project: Path, living: Living) -> None:
    """Alone in a prompt it gives the brief, and the run is this session's from then on."""
    living.todos(half_done="in_progress")
    living.kill()
    told = Session(project, "next").context("UserPromptSubmit", prompt=word)
    assert told is not None and "“half done”  ← was here" in told and "more unfinished" not in told
    assert ["next"] == [run["session_id"] for run in runs(project)]


def test_a_word_does_not_hide_the_other_runs(project: Path, living: Living) -> None:
    """If several runs are unfinished, the brief of the one that was taken says how many others there are."""
    succeed("start", "release", "--steps", "a", cwd=project)
    living.todos(half_done="in_progress")
    living.kill()
    told = Session(project, "next").context("UserPromptSubmit", prompt="resume")
    assert told is not None and "1 more unfinished: `leftoff status`." in told


def test_a_word_among_others_does_nothing(project: Path, living: Living) -> None:
    """Only the word alone asks for the brief."""
    living.todos(half_done="in_progress")
    living.kill()
    assert None is Session(project, "next").context("UserPromptSubmit", prompt="continue with the tests")


def test_an_unbound_session_starts_its_own_run(project: Path, living: Living) -> None:
    """A session that was offered a run and did not take it keeps its own progress apart."""
    living.todos(half_done="in_progress")
    living.kill()
    other = Session(project, "next")
    other.context("SessionStart", source="startup")
    other.todos(something_else="in_progress")
    assert {"dies": "half-done", "next": "something-else"} == {
        run["session_id"]: run["current_step"] for run in runs(project)
    }


def test_the_agent_reports_on_its_own_run(project: Path) -> None:
    """What SessionStart exports leads the agent's own commands to its run, whatever else is unfinished."""
    Session(project, "other").todos(theirs="in_progress")
    session = Session(project, "it's mine")
    session.todos(mine="in_progress")
    exported = project / "env"
    session.env = {"CLAUDE_ENV_FILE": str(exported)}
    session.fire("SessionStart", source="resume")
    import subprocess

    shell = f'. {exported}; printf \'%s %s\' "$LEFTOFF_SESSION" "$LEFTOFF_RUN"'
    given = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True).stdout
    name, _, run = given.rpartition(" ")
    assert "it's mine" == name
    succeed("step", "done", "mine", cwd=project, LEFTOFF_SESSION=name, LEFTOFF_RUN=run)
    steps = {run["session_id"]: run["steps"] for run in runs(project)}
    assert 1 == steps["it's mine"]["completed"] and 0 == steps["other"]["completed"]  # type: ignore[index]


def test_a_session_that_ends_with_nothing_open_is_completed(project: Path) -> None:
    """And one with something open is paused; the same session goes on with the same run."""
    session = Session(project)
    session.todos(one="completed")
    session.fire("SessionEnd", reason="exit")
    assert ["completed"] == [run["status"] for run in runs(project)]
    session.todos(one="completed", two="pending")
    session.fire("SessionEnd", reason="exit")
    assert ["paused"] == [run["status"] for run in runs(project)]


def test_a_spent_run_of_a_dead_session_is_finished(project: Path, living: Living) -> None:
    """Died with nothing open: offered to nobody, not in the way of `resume`, and completed by the next session."""
    living.todos(one="completed")
    living.kill()
    assert 3 == call("resume", cwd=project).code
    assert None is Session(project, "next").context("SessionStart", source="startup")
    assert ["completed"] == [run["status"] for run in runs(project)]


def test_two_sessions_want_the_same_run(project: Path, living: Living) -> None:
    """Only one gets it."""
    living.todos(half_done="in_progress")
    living.kill()
    told = [Session(project, name).context("UserPromptSubmit", prompt="resume") for name in ("a", "b")]
    assert [True, False] == [text is not None for text in told]


def test_everywhere_makes_no_store_outside_of_git(project: Path) -> None:
    """With --user, a folder that is no git repository and has no store stays as it is."""
    session = Session(project, "s1", "claude", "--user")
    session.todos(one="in_progress")
    session.writes("a.txt", "a")
    assert ["a.txt"] == [path.name for path in project.iterdir()]
    (project / ".git").mkdir()
    session.todos(one="in_progress")
    assert 1 == len(runs(project))


def test_a_session_inside_a_run_of_a_runner(project: Path) -> None:
    """An agent that does a step of a run is told nothing, and its list does not change the run's steps."""
    run = succeed("start", "flow", "--steps", "a,b", cwd=project).out.strip()
    session = Session(project)
    session.env = {"LEFTOFF_RUN": run, "LEFTOFF_ATTEMPT": "0123456789abcdef"}
    assert None is session.context("SessionStart", source="startup")
    session.todos(my_own="in_progress")
    session.fire("SessionEnd", reason="exit")
    (found,) = runs(project)
    assert (run, 2, "running") == (found["run_id"], found["steps"]["total"], found["status"])  # type: ignore[index]


def test_the_brief_of_a_long_list(project: Path) -> None:
    """It has at most 1,600 characters; what is left out is counted."""
    session = Session(project, "s1", "codex")
    plan = [{"step": f"step number {n} " + "of many words " * 12, "status": "pending"} for n in range(200)]
    session.fire("PostToolUse", tool_name="update_plan", tool_input={"plan": plan})
    told = session.context("SessionStart", source="resume")
    assert told is not None and 1000 < len(told) <= 1600
    assert "step number 0" in told and re.search("and 19\\d more", told)


def test_json_survives_any_text(project: Path) -> None:
    """Lone surrogates, NULs and newlines in a list are no reason to lose it."""
    session = Session(project)
    data = {"todos": [{"content": "a\ud800b\u0000c\nd", "status": "pending"}]}
    session.fire("PostToolUse", tool_name="TodoWrite", tool_input=data)
    assert 1 == len(runs(project))
    assert json.dumps(session.context("SessionStart", source="resume"))


# -- runs that the agent starts by itself


def shell(session: Session, *words: str, run: str = "") -> str:
    """A command in the agent's own shell, which has what SessionStart exports."""
    env = {"LEFTOFF_SESSION": session.name, **({"LEFTOFF_RUN": run} if run else {})}
    return succeed(*words, cwd=session.cwd, **env).out.strip()


def test_a_run_of_a_live_session_is_not_offered(project: Path) -> None:
    """The agent started it by a command, and no hook has seen it yet."""
    one, two = Session(project, "one"), Session(project, "two")
    one.fire("SessionStart", source="startup")
    shell(one, "start", "convert", "--steps", "a,b")
    assert None is two.context("SessionStart", source="startup")
    assert None is two.context("UserPromptSubmit", prompt="resume")
    assert ["convert"] == [run["workflow"] for run in runs(project) if run["session_id"] == "one"]


def test_the_agents_own_run_goes_before_the_automatic_one(project: Path) -> None:
    """After a todo list the agent starts a run: its commands mean that one; list and files stay where they began."""
    session = Session(project, "s")
    session.todos(plan="in_progress", do="pending")
    own = shell(session, "start", "convert", "--steps", "a,b,c")
    automatic = next(str(run["run_id"]) for run in runs(project) if run["workflow"] == "session")
    shell(session, "step", "done", "a")
    shell(session, "step", "done", "b", run=automatic)  # as it was exported before it was started
    assert "c" == shell(session, "next", run=automatic).partition("\n")[0].split()[0]
    session.todos(plan="completed", do="completed")
    told = session.context("SessionStart", source="compact")
    assert told is not None and own in told
    session.fire("SessionEnd", reason="exit")
    assert {"session": "completed", "convert": "paused"} == {
        str(run["workflow"]): run["status"] for run in runs(project)
    }


def test_a_session_without_a_run_does_not_use_anothers(project: Path) -> None:
    """Its own commands neither read nor change what a live session works on."""
    Session(project, "one").todos(secret_plan="in_progress")
    for words in (("step", "done", "x"), ("note", "hi"), ("brief",), ("next",)):
        done = call(*words, cwd=project, LEFTOFF_SESSION="two")
        assert 3 == done.code and "secret" not in done.out and "another session" in done.err, str(done)
    assert 1 == len(runs(project))


def test_the_word_does_not_turn_a_refusal_around(project: Path) -> None:
    """A run that `leftoff resume` refuses is told of, with the reason, and stays as it is."""
    from tests.workspace.trees import git

    git(project, "init", "-q", "-b", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    git(project, "checkout", "-q", "-b", "feature")
    first = Session(project, "first")
    first.todos(work="in_progress")
    first.fire("SessionEnd", reason="exit")
    git(project, "checkout", "-q", "main")
    git(project, "branch", "-q", "-D", "feature")
    told = Session(project, "second").context("UserPromptSubmit", prompt="resume")
    assert told is not None and "cannot be resumed as things are" in told and "feature" in told
    assert {"first": "paused", "second": "running"} == {
        run["session_id"]: run["status"] for run in runs(project)
    }


def test_a_protocols_doubts_are_told_too(project: Path) -> None:
    """A checkpoint that the claude protocol would not resume without a look: its reason is among what was found."""
    document = {
        "checkpoint_id": "implement_auth_20261110_101010",
        "workflow_type": "implement",
        "project_name": "auth",
        "created_at": "2026-11-10T10:10:10Z",
        "status": "in_progress",
        "workflow_state": {"current_phase": 1, "total_phases": 3, "completed_phases": []},
        "tests_passing": True,
        "last_error": "the build broke",
    }
    path = project / ".claude/checkpoints/implement_auth_20261110_101010.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    succeed("import", str(path), cwd=project)
    told = Session(project, "one").context("UserPromptSubmit", prompt="resume")
    assert told is not None and "the build broke" in told.partition("Run ")[0]


def test_the_brief_does_not_depend_on_the_env_file(project: Path) -> None:
    """One that cannot be written to is noted, and the session is told all the same."""
    session = Session(project)
    session.todos(one="in_progress")
    session.env = {"CLAUDE_ENV_FILE": "/nowhere/at/all"}
    assert session.context("SessionStart", source="resume") is not None
    assert "CLAUDE_ENV_FILE" in (project / ".leftoff" / "hook.log").read_text()


def test_a_folder_that_is_gone(project: Path) -> None:
    """An agent removed the folder that it works in: the nearest one above is the project's."""
    gone = project / "worktree"
    session = Session(project)
    session.todos(one="in_progress")
    gone.mkdir()
    import subprocess

    from tests.agents.hooking import event_of
    from tests.cli.command import LEFTOFF, environment

    data = json.dumps(event_of("s1", gone, "SessionEnd", reason="exit"))
    words = f"cd {gone} && rmdir {gone} && exec {LEFTOFF} hook claude"
    done = subprocess.run(
        ["sh", "-c", words], input=data, capture_output=True, text=True, env=environment(), cwd=project
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert ["paused"] == [run["status"] for run in runs(project)]


def test_the_shell_is_in_another_checkout(project: Path) -> None:
    """A session stays with the project that it was started in, also if its shell enters a repository inside it. In a
    linked work tree it has that work tree's files, and the same run."""
    from tests.workspace.trees import git

    git(project, "init", "-q", "-b", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    vendored, worktree = project / "vendored", project / ".claude" / "worktrees" / "one"
    vendored.mkdir()
    git(vendored, "init", "-q", "-b", "main")
    git(project, "worktree", "add", "-q", str(worktree), "-b", "one")
    session = Session(project)
    session.env = {"CLAUDE_PROJECT_DIR": str(project)}
    session.todos(work="in_progress")
    for folder in (vendored, worktree):
        session.cwd = folder
        session.fire("UserPromptSubmit", prompt="and more")
        session.todos(work="in_progress", **{folder.name: "pending"})
        assert not (folder / ".leftoff").exists()
    assert ["s1"] == [run["session_id"] for run in runs(project)]


def test_a_run_of_this_git_branch_is_offered_first(project: Path) -> None:
    """In the main folder another one than in a worktree, where the newest run of all is."""
    from tests.workspace.trees import git

    side = project / "trees" / "side"
    git(project, "init", "-q", "-b", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "worktree", "add", "-q", str(side), "-b", "side")
    for folder, name in ((project, "first"), (side, "second")):
        agent = Living(folder, name)
        agent.todos(**{f"half_of_{name}": "in_progress"})
        agent.kill()
    assert 2 == len(runs(project)) == len(runs(side))
    for folder, name in ((project, "first"), (side, "second")):
        told = Session(folder, f"after-{name}").context("SessionStart", source="startup")
        assert told is not None and f"half of {name}" in told


def test_workflow_runs_of_the_agent_are_listed(project: Path, living: Living) -> None:
    """One that ended is completed. One whose session died is abandoned, and says which of its agents have finished."""
    transcripts = project / "transcripts"
    for session, run, ended in (("dies", "wf_1", False), ("dies", "wf_2", True)):
        own = transcripts / session
        journal = own / "subagents" / "workflows" / run / "journal.jsonl"
        journal.parent.mkdir(parents=True)
        begun = [{"type": "started", "key": label, "label": label} for label in ("look", "write")]
        lines = [*begun, {"type": "result", "key": "look"}, *([{"type": "result", "key": "write"}] * ended)]
        journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        if ended:
            (own / "workflows").mkdir()
            (own / "workflows" / f"{run}.json").write_text("{}")
    living.todos(half_done="in_progress")
    about = {"source": "startup", "transcript_path": str(transcripts / "next.jsonl")}
    Session(project, "next").fire("SessionStart", **about)
    listed = succeed("ls", "--all", "--json", cwd=project).json["runs"]
    assert {"wf_2": "completed"} == {one["run_id"]: one["status"] for one in listed if "wf_" in one["run_id"]}
    living.kill()
    told = Session(project, "third").context("SessionStart", **about)
    assert told is not None and "wf_" not in told
    run = succeed("show", "wf_1", "--json", cwd=project).json
    assert "abandoned" == run["status"]
    steps = {one["step"]: one["status"] for one in run["step_records"]}
    assert {"look": "completed", "write": "pending"} == steps
