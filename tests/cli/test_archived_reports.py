"""An archived run beside verbs that report and decide: they say that it is archived, and nothing of theirs is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import leftoff
from leftoff.agents.mcp_tools import Tools
from leftoff.errors import NotFound
from tests.cli.command import call, succeed

BACK = "`leftoff undelete w` brings it back"


@pytest.fixture
def archived(project: Path) -> Path:
    """A run that failed with a step left, archived; its title is another name for it."""
    succeed("start", "nightly", "--run-id", "w", "--title", "the books", "--steps", "a,b", cwd=project)
    succeed("finish", "--status", "failed", "--run", "w", cwd=project)
    succeed("archive", "w", cwd=project)
    return project


REPORTS = (
    ("step", "done", "a", "--run", "w"),
    ("set", "x=1", "--run", "w"),
    ("note", "hi", "--run", "The Books"),
    *((verb, "w") for verb in ("beat", "save", "next", "pause", "finish")),
)


def test_a_report_on_it(archived: Path) -> None:
    """Exit 3, with how to bring it back; it stays as it is."""
    for words in REPORTS:
        done = call(*words, cwd=archived)
        assert 3 == done.code and "Run w is archived." in done.err and BACK in done.err, str(done)
    assert "failed" == succeed("show", "w", "--json", cwd=archived).json["status"]
    assert [] == succeed("ls", "--json", cwd=archived).json["runs"]


def test_a_report_on_it_by_other_faces(archived: Path) -> None:
    """A model hears the same. A program reads it where it is."""
    with pytest.raises(NotFound, match="Run w is archived"):
        Tools(str(archived), None).report_step("a", "completed", run_id="w")
    with leftoff.open(archived / ".leftoff") as store:
        assert "failed" == store.get("w").status
    assert [] == succeed("ls", "--json", cwd=archived).json["runs"]


def test_a_decision_that_it_does_not_wait_for(archived: Path) -> None:
    """Nothing is to be decided, so it stays archived."""
    for verb, code in (("approve", 3), ("reject", 3), ("unblock", 0), ("stop", 0)):
        done = call(verb, "w", cwd=archived)
        assert code == done.code and "back" not in done.err, str(done)
    assert [] == succeed("ls", "--json", cwd=archived).json["runs"]


def test_undelete_brings_it_back(archived: Path) -> None:
    """By its id or another name, positionally or with --run; one that is there is not brought back again."""
    assert "w" == succeed("undelete", "--run", "The Books", "--json", cwd=archived).json["run_id"]
    succeed("step", "done", "a", "--run", "w", cwd=archived)
    done = call("undelete", "w", cwd=archived)
    assert 3 == done.code and "it is there" in done.err


def test_a_run_that_is_named_and_not_there(archived: Path) -> None:
    """Where a run can stand, a word that names none is a run that is not there."""
    for words in (("pause", "x"), ("save", "x"), ("finish", "x"), ("next", "x"), ("beat", "x")):
        assert 3 == call(*words, cwd=archived).code, words


def test_an_archived_run_of_ours(project: Path) -> None:
    """It needs no trust to be looked at; back at an older version it says what is left."""
    (project / "f.yaml").write_text("name: f\nsteps:\n  - {id: a, run: 'true'}\n  - {id: b, run: 'true'}\n")
    succeed("run", "f.yaml", "--run-id", "f", cwd=project)
    succeed("archive", "f", cwd=project)
    assert [] == succeed("verify", "f", "--json", cwd=project).json["findings"]
    done = succeed("rollback", "f~0", cwd=project)
    assert "continues from here" not in done.err
    done = succeed("rollback", "f~1", cwd=project)  # the last step was not done there
    assert "`leftoff resume f` continues from here" in done.err
    succeed("resume", "f", cwd=project)
    succeed("archive", "f", cwd=project)
    assert ["f"] == succeed("rm", "f", "--yes", "--json", cwd=project).json["removed"]
    assert [] == succeed("ls", "--all", "--json", cwd=project).json["runs"]
