"""Everything that an agent did to files can be rolled back, told or not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.agents.hooking import Session
from tests.cli.command import succeed


def git(cwd: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *words], cwd=cwd, check=True, capture_output=True)


def tree(cwd: Path) -> dict[str, bytes]:
    """Every file, without git's and ours."""
    found = (path for path in sorted(cwd.rglob("*")) if path.is_file())
    return {str(p.relative_to(cwd)): p.read_bytes() for p in found if p.relative_to(cwd).parts[0][:1] != "."}


@pytest.fixture
def repository(project: Path) -> Path:
    """Committed files, one of them changed since, and one that git does not know."""
    git(project, "init", "-q")
    for name in ("told.txt", "untold.txt", "changed.txt", "removed.txt", "sub/deep.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(f"{name}\n")
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
    """By Write, by `sed -i`, by rm, made anew: byte for byte as it was, the user's uncommitted edits too."""
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


def test_turns_without_changes_make_no_versions(repository: Path) -> None:
    """Prompts and stops of a session that only talks cost nothing in the history."""
    session = Session(repository)
    session.todos(work="in_progress")
    session.fire("Stop")
    before = succeed("show", "latest", "--json", cwd=repository).json["head"]
    for _ in range(3):
        session.fire("UserPromptSubmit", prompt="what?")
        session.fire("Stop")
    assert before == succeed("show", "latest", "--json", cwd=repository).json["head"]


def test_a_session_that_only_talks_leaves_no_run(repository: Path) -> None:
    """What was remembered at its prompt is forgotten at its end."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="hello")
    session.fire("SessionEnd", reason="exit")
    assert {"runs": []} == succeed("ls", "--json", cwd=repository).json
    assert not (repository / ".leftoff" / "pending").exists()


def test_git_is_not_touched(repository: Path) -> None:
    """Neither the index nor anything else in it changes."""
    index = repository / ".git" / "index"
    before = index.read_bytes(), os.stat(index).st_mtime_ns
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="x")
    session.writes("told.txt", "x")
    session.fire("Stop")
    assert before == (index.read_bytes(), os.stat(index).st_mtime_ns)
