"""Everything that an agent did to files can be rolled back, told or not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import leftoff
from tests.agents.hooking import Session, Spawned, runs, turns
from tests.cli.command import call, succeed
from tests.workspace.trees import git, tree


@pytest.fixture
def repository(project: Path) -> Path:
    """Committed files, one of them changed since, and one that git does not know."""
    git(project, "init", "-q")
    for name in ("told.txt", "untold.txt", "changed.txt", "removed.txt", "sub/deep.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(f"{name}\n")
    (project / "told.txt").chmod(0o600)  # more than git knows
    (project / "link.txt").symlink_to("told.txt")
    git(project, "add", ".")
    git(project, "commit", "-qm", "start")
    (project / "changed.txt").write_text("the user's own edit\n")
    (project / "unknown.txt").write_bytes(b"\x00not text\xff")
    return project


def sed(cwd: Path, *names: str) -> None:
    """What an agent does in its shell."""
    subprocess.run(["sed", "-i", "s/^/sed: /", *names], cwd=cwd, check=True)


def first_checkpoint(cwd: Path) -> str:
    (run,) = succeed("ls", "--all", "--json", cwd=cwd).json["runs"]
    found = succeed("log", run["run_id"], "--json", cwd=cwd).json["checkpoints"]
    return str(found[-1]["checkpoint_id"])


@pytest.mark.parametrize("shell_first", [True, False])
def test_a_session_is_rolled_back_to_its_start(shell_first: bool, repository: Path) -> None:
    """By Write, by `sed -i`, rm, chmod, ln, made anew: as it was, byte for byte, the user's uncommitted edits too."""
    before = tree(repository)
    session = Session(repository)
    session.fire("SessionStart", source="startup")
    session.fire("UserPromptSubmit", prompt="change everything")
    if shell_first:
        sed(repository, "untold.txt", "changed.txt", "unknown.txt")
    session.writes("told.txt", "written\n")
    (repository / "made").mkdir()
    session.writes("made/new.txt", "new\n")
    sed(repository, "sub/deep.txt", "told.txt", "untold.txt", "changed.txt")
    (repository / "removed.txt").unlink()
    (repository / "shell-made.txt").write_text("new, too\n")
    (repository / "told.txt").chmod(0o777)
    (repository / "changed.txt").chmod(0o755)
    (repository / "link.txt").unlink()
    (repository / "link.txt").symlink_to("elsewhere")
    (repository / "new-link").symlink_to("told.txt")
    session.fire("Stop")
    session.fire("SessionEnd", reason="exit")
    assert before != tree(repository)
    succeed("rollback", first_checkpoint(repository), "--files", "--yes", cwd=repository)
    assert before == tree(repository)


def test_what_a_shell_changed_is_known_at_the_end_of_a_turn(repository: Path) -> None:
    """Without a word from any tool."""
    session = Session(repository)
    session.todos(work="in_progress")
    sed(repository, "untold.txt")
    session.fire("Stop")
    shown = succeed("show", "latest", "--json", cwd=repository).json
    assert "untold.txt" in [about["path"] for about in shown["files"]]
    (repository / "untold.txt").write_text("once more\n")
    session.fire("UserPromptSubmit", prompt="go on")
    again = succeed("show", "latest", "--json", cwd=repository).json
    assert again["head"]["seq"] > shown["head"]["seq"]


def checkpoints(cwd: Path) -> list[str]:
    found = succeed("log", "latest", "--json", cwd=cwd).json["checkpoints"]
    return [one["trigger"] for one in found]


def test_turns_without_changes_make_no_checkpoints(repository: Path) -> None:
    """Prompts and stops in which only was talked are no versions to go back to."""
    session = Session(repository)
    session.todos(work="in_progress")
    session.fire("Stop")
    before = checkpoints(repository)
    for _ in range(3):
        session.fire("UserPromptSubmit", prompt="what?")
        session.fire("Stop")
    assert before == checkpoints(repository)


def test_a_session_that_only_talks_leaves_no_run(repository: Path) -> None:
    """It was answered, and nothing is left to do: neither a run nor a lock stays."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="hello")
    session.fire("Stop", last_assistant_message="Hello.")
    session.fire("SessionEnd", reason="exit")
    assert not (repository / ".leftoff" / "pending").exists()
    assert {"runs": []} == succeed("ls", "--all", "--json", cwd=repository).json


@pytest.mark.parametrize("ending", ["Stop", "UserPromptSubmit", "SessionEnd"])
def test_what_only_a_shell_did_is_worth_a_run(ending: str, repository: Path) -> None:
    """Noticed at the end of the turn, at the next prompt after an interrupt, or at the end: and rolled back."""
    before = tree(repository)
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="what is here?")
    session.fire("Stop")
    session.fire("UserPromptSubmit", prompt="now change it")
    sed(repository, "untold.txt", "changed.txt")
    git(repository, "checkout", "sub/deep.txt", "changed.txt")
    session.fire(ending, prompt="stop that", reason="exit")
    succeed("rollback", first_checkpoint(repository), "--files", "--yes", cwd=repository)
    assert before == tree(repository)


def test_what_the_user_does_between_turns_is_no_part_of_the_session(repository: Path) -> None:
    """The first checkpoint is what was there at the prompt that the agent's work began with."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="what is here?")
    session.fire("Stop")
    (repository / "told.txt").write_text("by hand\n")
    git(repository, "commit", "-qam", "by hand")
    (repository / "unknown.txt").write_text("by hand\n")
    session.fire("UserPromptSubmit", prompt="now?")
    session.fire("Stop")
    assert [] == checkpoints(repository)
    before = tree(repository)
    session.fire("UserPromptSubmit", prompt="change it")
    session.writes("told.txt", "by the agent\n")
    session.fire("Stop")
    succeed("rollback", first_checkpoint(repository), "--files", "--yes", cwd=repository)
    assert before == tree(repository)


def test_git_is_not_touched(repository: Path) -> None:
    """Neither the index nor anything else in it changes."""
    index = repository / ".git" / "index"
    before = index.read_bytes(), os.stat(index).st_mtime_ns
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="x")
    session.writes("told.txt", "x")
    session.fire("Stop")
    assert before == (index.read_bytes(), os.stat(index).st_mtime_ns)


# -- outside of git


@pytest.fixture
def folder(project: Path) -> Path:
    """Files that nobody but the session will know of: a private one, links, one in a folder."""
    for name in ("told.txt", "untold.txt", "removed.txt", "sub/deep.txt", "sub/behind.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(f"{name}\n")
    (project / "told.txt").chmod(0o640)
    (project / "link.txt").symlink_to("sub/behind.txt")
    (project / "way").symlink_to("sub")
    return project


def test_outside_of_git_what_was_told_is_rolled_back(folder: Path) -> None:
    """To the session's start, however late a file was first changed: content, permissions, links, made, deleted."""
    before = tree(folder)
    session = Session(folder)
    session.fire("UserPromptSubmit", prompt="change everything")
    session.todos(one="in_progress")
    session.fire("Stop")
    session.fire("UserPromptSubmit", prompt="go on")
    session.writes("told.txt", "written\n")
    sed(folder, "told.txt")
    (folder / "told.txt").chmod(0o755)
    session.writes("removed.txt", "written\n", "Edit")
    (folder / "removed.txt").unlink()
    (folder / "made").mkdir()
    session.writes("made/new.txt", "new\n")
    session.writes("link.txt", "through a link\n")
    session.writes("way/deep.txt", "on a way around\n")
    session.fire("Stop")
    (folder / "link.txt").unlink()
    (folder / "link.txt").write_text("no link any more\n")
    session.fire("SessionEnd", reason="exit")
    done = succeed("rollback", first_checkpoint(folder), "--files", "--yes", cwd=folder)
    assert before == tree(folder)
    assert "outside of git" in done.err


def test_outside_of_git_a_turn_knows_what_became_of_its_files(folder: Path) -> None:
    """A shell changed, and made executable, a file that the session wrote: its checkpoint has it so."""
    session = Session(folder)
    session.fire("UserPromptSubmit", prompt="x")
    session.writes("told.txt", "written\n")
    sed(folder, "told.txt")
    (folder / "told.txt").chmod(0o755)
    session.fire("Stop")
    then = tree(folder)
    (folder / "told.txt").unlink()
    session.fire("UserPromptSubmit", prompt="y")
    (run,) = succeed("ls", "--all", "--json", cwd=folder).json["runs"]
    succeed("rollback", f"{run['run_id']}~0", "--files", cwd=folder)
    assert then == tree(folder)


def test_outside_of_git_the_first_state_outlives_pruning(folder: Path) -> None:
    """Versions between two checkpoints go; what was before the first change stays."""
    before = tree(folder)
    (folder / "leftoff.toml").write_text("")
    session = Session(folder)
    session.todos(one="in_progress")
    for number in range(3):
        session.writes("told.txt", f"{number}\n")
        session.fire("Stop")
    start = first_checkpoint(folder)

    with leftoff.open(folder / ".leftoff") as store:
        (run,) = store.list()
        store.prune(run.run_id, drop=[])
    succeed("rollback", start, "--files", "--yes", cwd=folder)
    (folder / "leftoff.toml").unlink()
    assert before == tree(folder)


# -- what git does not look at, and what is another's


def test_an_ignored_file_that_was_there_comes_back(repository: Path) -> None:
    """git names neither: one that was there is restored, one that the agent made is deleted."""
    (repository / ".gitignore").write_text("*.ign\n")
    git(repository, "add", ".gitignore")
    git(repository, "commit", "-qm", "ignore")
    (repository / "local.ign").write_text("the user's own\n")
    before = tree(repository)
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="x")
    session.writes("local.ign", "changed\n", "Edit")
    session.writes("made.ign", "made\n")
    session.writes('od"d\n.ign', "made\n")
    session.fire("Stop")
    succeed("rollback", first_checkpoint(repository), "--files", "--yes", cwd=repository)
    assert before == tree(repository)


def test_a_rollback_is_a_version_to_go_back_to(repository: Path) -> None:
    """The version that a rollback makes has the files of the version that it went back to."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="x")
    before = tree(repository)
    (repository / "untold.txt").write_text("one\n")
    (repository / "fresh.txt").write_text("one\n")
    session.fire("Stop")
    session.fire("SessionEnd")
    run = succeed("ls", "--json", cwd=repository).json["runs"][0]["run_id"]
    first = succeed("log", run, "--json", cwd=repository).json["checkpoints"][-1]["seq"]
    succeed("rollback", f"{run}@{first}", "--files", "--yes", cwd=repository)
    assert before == tree(repository)
    sealed = succeed("log", run, "--json", cwd=repository).json["checkpoints"]
    back = next(one["seq"] for one in sealed if one["trigger"] == "rollback")
    (repository / "untold.txt").write_text("two\n")
    succeed("track", "--git", "--run", run, cwd=repository)
    succeed("save", "--run", run, cwd=repository)
    succeed("rollback", f"{run}@{back}", "--files", "--yes", cwd=repository)
    assert before == tree(repository)
    assert "untold.txt\n" == succeed("cat", f"{run}@{back}:untold.txt", cwd=repository).out


def test_the_word_resume_keeps_what_is_there(repository: Path) -> None:
    """The prompt that takes a run up is a prompt like any other: what the user did before it is captured."""
    first = Session(repository, "first")
    first.todos(work="in_progress")
    first.fire("SessionEnd", reason="exit")
    (repository / "untold.txt").write_text("the user's work\n")
    second = Session(repository, "second")
    assert second.context("UserPromptSubmit", prompt="resume") is not None
    (repository / "untold.txt").write_text("clobbered\n")
    second.fire("Stop")
    (run,) = succeed("ls", "--all", "--json", cwd=repository).json["runs"]
    kept = [
        call("cat", f"{run['run_id']}@{seq}:untold.txt", cwd=repository).out
        for seq in range(1, run["head"]["seq"] + 1)
    ]
    assert "the user's work\n" in kept


def test_a_project_that_is_known_by_another_name(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A path that leads to the project through a link is the project's."""
    link = tmp_path_factory.mktemp("elsewhere") / "project"
    link.symlink_to(folder)
    given = {"file_path": str(link / "told.txt")}
    Session(folder).fire("PreToolUse", tool_name="Write", tool_input=given)
    shown = succeed("show", "latest", "--json", cwd=folder).json
    assert ["told.txt"] == [about["path"] for about in shown["files"]]


# -- a store that is locked while the agent works


def locked(folder: Path) -> subprocess.Popen[str]:
    """A process that holds the store's lock until its stdin ends."""
    script = (
        "import fcntl, sys\n"
        f"file = open({str(folder / '.leftoff' / 'lock')!r}, 'rb+')\n"
        "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    made = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert made.stdout is not None and "held\n" == made.stdout.readline()
    return made


def test_the_content_before_an_edit_does_not_wait_for_the_store(folder: Path) -> None:
    """Locked from before the edit to after it: the spool has the content from before, and a rollback restores it."""
    Session(folder).todos(one="in_progress")
    before = tree(folder)
    with locked(folder) as holder:
        Spawned(folder).writes("told.txt", "edited while the store was locked\n")
        holder.communicate("")
    assert 2 == len(spooled(folder))
    (shown,) = [one for one in succeed("show", "latest", "--json", cwd=folder).json["files"]]
    assert ("told.txt", (folder / "told.txt").stat().st_size) == (shown["path"], shown["size"])
    assert [] == spooled(folder)
    Session(folder).fire("Stop")
    succeed("rollback", first_checkpoint(folder), "--files", "--yes", cwd=folder)
    assert before == tree(folder)


def spooled(cwd: Path) -> list[Path]:
    """The events that wait."""
    return sorted((cwd / ".leftoff/spool").glob("[0-9]*"))


def test_a_change_after_the_prompt_belongs_to_the_turn(repository: Path) -> None:
    """A prompt that is recorded late does not show a later content as the one at the prompt."""
    session = Spawned(repository)
    session.fire("UserPromptSubmit", prompt="x")
    session.fire("Stop")
    (repository / "mine.txt").write_text("before\n")
    with locked(repository) as holder:
        session.fire("UserPromptSubmit", prompt="y")
        time.sleep(0.05)  # the clock of files is some milliseconds late
        sed(repository, "untold.txt")
        (repository / "mine.txt").write_text("after\n")
        holder.communicate("")
    session.fire("Stop")
    shown = succeed("show", "latest", "--json", cwd=repository).json
    turn = shown["records"]["turn"]["000002"]
    assert "y" == turn["prompt"] and "untold.txt" in turn["files"]
    for seq in range(1, shown["head"]["seq"]):
        assert "after" not in call("cat", f"{shown['run_id']}@{seq}:mine.txt", cwd=repository).out


def test_the_end_of_a_turn_comes_after_its_beginning(repository: Path) -> None:
    """Both wait for the store: they are recorded in their order."""
    session = Spawned(repository)
    session.fire("UserPromptSubmit", prompt="x")
    with locked(repository) as holder:
        sed(repository, "untold.txt")
        session.fire("Stop", last_assistant_message="the first")
        session.fire("UserPromptSubmit", prompt="y")
        session.fire("Stop", last_assistant_message="the second")
        holder.communicate("")
    turns = succeed("show", "latest", "--json", cwd=repository).json["records"]["turn"].values()
    assert [("x", "the first"), ("y", "the second")] == [(turn["prompt"], turn["said"]) for turn in turns]
    assert [] == spooled(repository) and checkpoints(repository)


def test_a_prompt_is_recorded_after_its_hook(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent does not wait while the files of a large work tree are copied: a process of its own does that."""
    monkeypatch.setattr("leftoff.agents.hook_process.IN_TIME", 0)
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Write the guide")
    end = time.monotonic() + 60
    while not runs(repository) and time.monotonic() < end:
        time.sleep(0.05)
    files = succeed("show", "latest", "--json", cwd=repository).json["files"]
    assert {"changed.txt"} <= {about["path"] for about in files if about["captured"]}
    assert ["Write the guide"] == [turn["prompt"] for turn in turns(repository)]
