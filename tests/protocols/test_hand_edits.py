"""Files that a person edited: never lost, and not rewritten by a command that only reads."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.command import call, succeed


@pytest.fixture
def checkpoint(project: Path) -> Path:
    """crunch's newest checkpoint, with a person's comments and one change in it."""
    succeed("init", "--protocol", "crunch", cwd=project)
    succeed("start", "crunch", "--issue", "42", "--title", "T", cwd=project)
    succeed("save", cwd=project)
    path = next((project / ".claude/crunch/42/checkpoints").glob("CP-*.yaml"))
    text = path.read_text().replace("issue_number: 42", "issue_number: 42  # mine")
    path.write_text(text.replace("title: T", "title: Better  # since Monday"))
    return path


def test_looking_writes_nothing_anew(project: Path, checkpoint: Path) -> None:
    before = checkpoint.read_bytes()
    assert "Better" == succeed("show", "crunch-42", "--json", cwd=project).json["title"]
    succeed("log", "crunch-42", cwd=project)
    assert before == checkpoint.read_bytes()


def test_an_edit_after_an_edit_that_was_looked_at(project: Path, checkpoint: Path) -> None:
    """Also one that takes the first one back."""
    succeed("show", "crunch-42", cwd=project)
    checkpoint.write_text(checkpoint.read_text().replace("title: Better", "title: T"))
    assert "T" == succeed("show", "crunch-42", "--json", cwd=project).json["title"]


def test_what_cannot_be_read_is_kept_for_good(project: Path) -> None:
    """The message says where; the copy is there after the file was replaced."""
    succeed("init", "--protocol", "bmad", cwd=project)
    succeed("start", "w", "--run-id", "r", cwd=project)
    path = project / "_bmad-output/.runs/main/r/state.json"
    broken = path.read_text()[:40]
    path.write_text(broken)
    said = succeed("set", "a=1", cwd=project).err
    kept = project / said.rpartition("saved as ")[2].splitlines()[0]
    assert broken == kept.read_text() and 0o600 == kept.stat().st_mode & 0o777
    assert 1 == said.count("saved as") and "saved as" not in succeed("set", "a=2", cwd=project).err
    assert kept.parent == path.parent and path.read_text() != broken


def test_a_file_that_was_deleted_is_asked_about(project: Path) -> None:
    """It is told once, asked about before the run goes on, and written again when it does."""
    succeed("init", "--protocol", "claude-checkpoints", cwd=project)
    run = succeed("start", "orchestrate", "--title", "T", "--steps", "a,b", cwd=project).out.strip()
    path = project / f".claude/checkpoints/{run}.json"
    path.unlink()
    assert "was deleted" in succeed("show", run, cwd=project).err
    assert "" == succeed("show", run, cwd=project).err and not path.exists()
    asked = call("resume", run, cwd=project)
    assert 7 == asked.code and "sync.deleted" in asked.err, str(asked)
    succeed("resume", run, "--yes", cwd=project)
    assert path.exists()
    assert [] == call("verify", run, "--json", cwd=project).json["findings"]


def test_the_finding_of_a_deleted_file_has_its_old_name_too(project: Path) -> None:
    """In settings and as an answer: scripts and projects may still use it."""
    toml = '[protocol]\nname = "claude-checkpoints"\n[verify.levels]\n"mirror.deleted" = "ask"\n'
    (project / "leftoff.toml").write_text(toml)
    run = succeed("start", "orchestrate", "--title", "T", "--steps", "a,b", cwd=project).out.strip()
    path = project / f".claude/checkpoints/{run}.json"
    path.unlink()
    assert 7 == call("resume", run, cwd=project).code
    succeed("resume", run, "--accept", "mirror.deleted", cwd=project)
    assert path.exists()


@pytest.mark.parametrize("ours", [True, False])
def test_a_file_that_cannot_be_read_is_offered_to_be_deleted(project: Path, ours: bool) -> None:
    """The command that does it is named, whether the file is that of a run or a new one."""
    succeed("init", "--protocol", "claude-checkpoints", cwd=project)
    run = succeed("start", "orchestrate", "--title", "Auth", cwd=project).out.strip()
    name = f".claude/checkpoints/{run}.json" if ours else ".claude/checkpoints/other x_20260101_000000.json"
    (project / name).write_text('{"checkpoint_id": "')
    told = succeed("show", run, cwd=project).err
    assert f"`rm {shlex.quote(name)}` deletes" in told
    (project / name).unlink()
    succeed("set", "a=1", "--run", run, cwd=project)
