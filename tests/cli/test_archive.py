"""`leftoff archive`: a run is not listed any more, and every name of it still finds it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.terminal import Terminal


@pytest.fixture
def archived(project: Path) -> Path:
    """A finished run in the archive."""
    succeed("start", "w", "--run-id", "old", "--var", "x=1", "--steps", "a,b", cwd=project)
    succeed("step", "done", "a", cwd=project)
    succeed("finish", "--status", "failed", cwd=project)
    succeed("archive", "old", cwd=project)
    return project


def test_listed_no_more(archived: Path) -> None:
    """Only `ls --all` lists it, and says that it is archived."""
    assert [] == succeed("ls", "--json", cwd=archived).json["runs"]
    (run,) = succeed("ls", "--all", "--json", cwd=archived).json["runs"]
    assert ("old", True, "failed") == (run["run_id"], run["archived"], run["status"])
    succeed("start", "new", "--run-id", "new", cwd=archived)
    listed = [line.split() for line in succeed("ls", "--all", "--long", cwd=archived).out.splitlines()]
    assert [["new", "running"], ["old", "failed"]] == [words[:2] for words in listed[1:]]
    assert "archived" == listed[2][2]


def test_show_and_log_look_into_it(archived: Path) -> None:
    """Every byte is there; looking changes nothing."""
    assert {"x": 1} == succeed("show", "old", "--json", cwd=archived).json["variables"]
    assert {"x": 1} == succeed("show", "old@1", "--json", cwd=archived).json["variables"]
    assert 2 == len(succeed("log", "old", "--json", cwd=archived).json["checkpoints"])
    assert stays(archived)


def test_resume_takes_it_back(archived: Path) -> None:
    """It is active again."""
    succeed("resume", "old", "--yes", cwd=archived)
    assert ["old"] == [run["run_id"] for run in succeed("ls", "--json", cwd=archived).json["runs"]]
    assert "b" == succeed("next", "--run", "old", "--json", cwd=archived).json["step"]


def test_a_run_in_progress_is_not_archived(project: Path) -> None:
    """Only one that is over."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    assert 5 == call("archive", "r", cwd=project).code
    assert 3 == call("archive", "nobody", cwd=project).code
    succeed("save", cwd=project)
    assert 2 == call("archive", "r~0", cwd=project).code


def test_a_fork_leaves_it_there(project: Path) -> None:
    """The fork is active, and the archived run stays as it is."""
    succeed("start", "flow", "--run-id", "old", cwd=project)
    succeed("finish", "--run", "old", cwd=project)
    succeed("archive", "old", cwd=project)
    made = succeed("fork", "old", "--branch", "other", cwd=project).out.split()[0]
    assert made in succeed("ls", "--branch", "other", cwd=project).out
    assert stays_beside(project, made)


def stays(folder: Path) -> bool:
    """Whether the run is still archived, and no other one is active."""
    return stays_beside(folder)


def stays_beside(folder: Path, *others: str) -> bool:
    """Whether the run is still archived, and only the others are active."""
    runs = succeed("ls", "--all", "--json", cwd=folder).json["runs"]
    active = [run["run_id"] for run in runs if not run.get("archived")]
    return "old" in {run["run_id"] for run in runs} - set(active) and [*others] == active


def test_who_says_no_to_resume_leaves_it_there(archived: Path) -> None:
    """A question that nobody answers, a refusal, nothing left to do: it is back only once it goes on."""
    succeed("undelete", "old", cwd=archived)
    (archived / "made").write_text("made\n")
    succeed("step", "done", "c", "--output", "made", "--run", "old", cwd=archived)
    succeed("archive", "old", cwd=archived)
    (archived / "made").unlink()
    asked = call("resume", "old", "--json", cwd=archived)
    assert 7 == asked.code and '"event":"end","exit":7,' in asked.out and stays(archived), str(asked)
    assert 7 == call("resume", "old~1", cwd=archived).code and stays(archived)
    for words in (("--only", "nothing"), ("--from-step", "nothing")):
        assert 3 == call("resume", "old", *words, cwd=archived).code and stays(archived), words
    done = succeed("resume", "old", "--accept", "outputs.missing", cwd=archived)
    assert "it is back in the store" in done.err and not stays(archived)


def test_who_says_no_to_rollback_leaves_it_there(archived: Path) -> None:
    """A version that no name tells, none that was good, files that would be overwritten."""
    succeed("undelete", "old", cwd=archived)
    (archived / "a").write_text("then\n")
    succeed("track", "a", "--run", "old", cwd=archived)
    succeed("save", "--run", "old", cwd=archived)
    succeed("archive", "old", cwd=archived)
    (archived / "a").write_text("now\n")
    asked = call("rollback", "old~0", "--files", cwd=archived)
    assert 7 == asked.code and "-then\n+now\n" in asked.err and stays(archived), str(asked)
    assert 3 == call("rollback", "old@1", "--good", cwd=archived).code and stays(archived)
    done = succeed("rollback", "old~0", "--files", "--yes", cwd=archived)
    assert "it is back in the store" in done.err and not stays(archived)
    assert "then\n" == (archived / "a").read_text()


def test_archived_twice(archived: Path) -> None:
    """The command says so; one version of it is not a run."""
    done = succeed("archive", "old", cwd=archived)
    assert "run old was archived already" in done.err and "old\n" == done.out
    assert succeed("archive", "--run", "old", "--json", cwd=archived).json["archived"] and stays(archived)
    assert 2 == call("archive", "old@1", cwd=archived).code


def test_what_was_answered_in_the_archive_holds(project: Path) -> None:
    """Nobody is asked twice, and what was agreed to is done in the project: by a workflow, and by who reports."""
    (project / "f.yaml").write_text(
        "name: f\nsteps:\n  - {id: a, run: echo a > made, outputs: [made]}\n  - {id: b, run: test -e there}\n"
    )
    assert 1 == call("run", "f.yaml", "--run-id", "old", cwd=project).code
    succeed("start", "w", "--run-id", "other", "--steps", "a,b", cwd=project)
    succeed("step", "done", "a", "--output", "made", "--run", "other", cwd=project)
    succeed("finish", "--status", "failed", "--run", "other", cwd=project)
    (project / "there").touch()
    for run in ("old", "other"):
        succeed("archive", run, cwd=project)
        (project / "made").unlink()
        with Terminal("resume", run, cwd=project) as terminal:
            terminal.expect("(b)ring the copy back")
            terminal.type("b\n")
            assert 0 == terminal.end(), terminal.shown
        assert "a\n" == (project / "made").read_text()


def test_a_file_that_changed_while_it_was_archived_is_asked_about(project: Path) -> None:
    """That the run is looked at, or comes back, is no sign of life: what was changed before that, it has not done."""
    (project / "f").write_text("then")
    succeed("start", "w", "--run-id", "old", "--steps", "a", cwd=project)
    succeed("track", "f", cwd=project)
    succeed("finish", "--status", "failed", cwd=project)
    succeed("archive", "old", cwd=project)
    (project / "f").write_text("now")
    time.sleep(0.05)  # more than a tick
    assert 7 == call("verify", "old", cwd=project).code
    assert 7 == call("resume", "old", cwd=project).code and stays(project)


def test_a_checkpoint_is_found_by_its_id(project: Path) -> None:
    """Alone, whole or shortened, as one of any other run; one that nobody has is not there."""
    succeed("start", "w", "--run-id", "old", "--var", "x=1", cwd=project)
    first = succeed("save", cwd=project).out.strip()
    succeed("set", "x=2", cwd=project)
    succeed("finish", cwd=project)
    succeed("archive", "old", cwd=project)
    succeed("start", "w", "--run-id", "new", cwd=project)
    letter = next(at for at, digit in enumerate(first) if digit.isalpha()) + 1
    for ref in (first, first[: max(6, letter)]):
        assert "1" == succeed("get", "x", ref, cwd=project).out.strip(), ref
    other = "".join("a" if digit != "a" else "b" for digit in first)
    assert 3 == call("show", other, cwd=project).code
    assert "old" == succeed("resume", first, "--dry-run", "--json", cwd=project).json["run_id"]
    assert stays_beside(project, "new")
