"""`run FILE` where there are runs already: the question, its answers, and ids that are given."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.cli.command import LEFTOFF, call, environment, succeed
from tests.workflow.flows import lines, refused, run, runs, write

TEXT = """
name: again
steps:
  - {id: a, run: echo a >> trace}
  - {id: b, run: "echo b >> trace; test -e ready"}
  - {id: c, run: echo c >> trace}
"""


def test_an_unfinished_run_needs_an_answer(project: Path) -> None:
    """Without a terminal, `run` where an unfinished run exists exits with 7 and names both ways on; nothing changes."""
    first = run(project, TEXT, code=1)
    called = refused(project, code=7)
    assert all(word in called.err for word in (first.id, "--resume", "--fresh"))
    assert {first.id: "failed"} == runs(project)
    document = call("run", "flow.yaml", "--json", cwd=project)
    assert 7 == document.code and "needs_person" == document.json["error"]["code"]
    assert ["a", "b"] == lines(project, "trace")


def test_resume_and_yes_go_on_with_it(project: Path) -> None:
    """`--resume`, and `--yes`, do what is left of the unfinished run, and nothing that is done."""
    first = run(project, TEXT, code=1)
    second = run(project, "", "--resume", code=1)
    (project / "ready").touch()
    third = run(project, "", "--yes")
    assert first.id == second.id == third.id
    assert ["a", "b", "b", "b", "c"] == lines(project, "trace")
    assert {first.id: "completed"} == runs(project)


def test_resume_without_such_a_run_starts_one(project: Path) -> None:
    """`--resume` goes on with the unfinished run if there is one; else it starts."""
    (project / "ready").touch()
    assert "completed" == run(project, TEXT, "--resume").run["status"]
    assert "completed" == run(project, "", "--resume").run["status"]
    assert 2 == len(runs(project))


def test_fresh_abandons_it(project: Path) -> None:
    """`--fresh` marks the old run abandoned, keeps it, says so, and begins anew."""
    first = run(project, TEXT, code=1)
    (project / "ready").touch()
    called = succeed("run", "flow.yaml", "--fresh", cwd=project)
    assert f"{first.id} is abandoned" in called.err
    assert {"abandoned", "completed"} == set(runs(project).values())
    assert "abandoned" == runs(project)[first.id]
    assert ["a", "b", "a", "b", "c"] == lines(project, "trace")


def test_another_workflow_branch_or_title_is_another_run(project: Path) -> None:
    """An unfinished run asks only for its own workflow and branch, and title or issue where one is given."""
    run(project, TEXT, "--title", "one", "--issue", "7", code=1)
    (project / "ready").touch()
    assert "completed" == run(project, "", "--branch", "other").run["status"]
    assert "completed" == run(project, "", "--title", "two").run["status"]
    assert "completed" == run(project, "", "--issue", "8").run["status"]
    refused(project, "", "--title", "one", code=7)
    refused(project, "", "--issue", "#7", code=7)
    assert "completed" == run(project, TEXT.replace("again", "third")).run["status"]


def test_a_finished_run_asks_nothing(project: Path) -> None:
    """After a run that is completed, the next one simply starts, with another id."""
    (project / "ready").touch()
    assert run(project, TEXT).id != run(project).id


def test_an_id_that_is_given(project: Path) -> None:
    """A new `--run-id` asks nothing; one that exists is a conflict, finished or not; a bad one is wrong usage."""
    first = run(project, TEXT, "--run-id", "mine", code=1)
    assert "mine" == first.id
    assert 5 == refused(project, "", "--run-id", "mine", code=5).code
    (project / "ready").touch()
    assert "second" == run(project, "", "--run-id", "second").id
    said = refused(project, "", "--run-id", "second", code=5).err
    assert "second" in said
    assert "mine" == run(project, "", "--run-id", "mine", "--resume").id
    assert {"mine": "completed", "second": "completed"} == runs(project)
    refused(project, "", "--run-id", "no blanks", "--fresh", code=2)
    assert {"mine": "completed", "second": "completed"} == runs(project)


def test_a_fresh_run_with_an_id_abandons_the_old_one_too(project: Path) -> None:
    """`--fresh` means the same with an id."""
    run(project, TEXT, "--run-id", "old", code=1)
    (project / "ready").touch()
    run(project, "", "--run-id", "new", "--fresh")
    assert {"old": "abandoned", "new": "completed"} == runs(project)


def test_a_run_that_somebody_drives_is_left_alone(project: Path) -> None:
    """While another process drives the run, neither --resume nor --fresh touches it: exit 5."""
    write(project, 'name: held\nsteps: [{id: a, run: "touch up; until [ -e go ]; do sleep 0.02; done"}]\n')
    other = subprocess.Popen(
        [str(LEFTOFF), "run", "flow.yaml"],
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        while not (project / "up").exists():
            assert other.poll() is None
            time.sleep(0.02)
        for word in ("--resume", "--fresh", "--yes"):
            said = refused(project, "", word, code=5).err
            assert "drive" in said
    finally:
        (project / "go").touch()
        said_by_other, _ = other.communicate(timeout=60)
    assert 0 == other.returncode, said_by_other
    assert {"completed"} == set(runs(project).values())


def test_what_is_given_is_on_the_run(project: Path) -> None:
    """`--title`, `--issue`, `--branch` and `--var` are facts of the run."""
    (project / "ready").touch()
    ran = run(project, TEXT, "--title", "T", "--issue", "#42", "--branch", "side", "--var", "x=1")
    assert {"title": "T", "issue": "42", "branch": "side", "workflow": "again"}.items() <= ran.run.items()
    assert {"x": 1} == ran.variables()
    assert "completed" == succeed("show", "#42", "--json", cwd=project).json["status"]
