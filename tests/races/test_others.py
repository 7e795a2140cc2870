"""The other operations of several transactions: forks, imports, the trash, pruning, giving up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leftoff.engine.agent_turns import AgentTurn
from leftoff.engine.retention_policy import Policy
from leftoff.engine.run_reader import Reader
from leftoff.engine.sessions import Who, end_session, report_session, session_opening
from leftoff.engine.settings import Caller
from leftoff.errors import Conflict, NoCheckpoint
from leftoff.host import this_process
from leftoff.model.changes import ChangeSet
from leftoff.operations.checkpoints import fork_run
from leftoff.operations.run_transfer import import_runs
from leftoff.operations.runs import target
from leftoff.operations.store_upkeep import undelete_run
from leftoff.operations.workflow_runs import give_up
from leftoff.protocols.project_retention import Retention, prune_project
from leftoff.store.base import Tx
from leftoff.store.rows import RunRow
from tests.cli.command import succeed
from tests.races.between import Seam, here, note, notes, taken_up
from tests.seams import SEAMS

NOBODY = Caller()


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


@pytest.fixture
def failed(project: Path) -> Path:
    """A run that failed, in a project that removes such runs at once."""
    (project / "leftoff.toml").write_text(
        '[protocol]\nname = "bmad"\n[retention]\nfailed = "0s"\nauto = false\n'
    )
    succeed("start", "w", "--run-id", "r", cwd=project)
    succeed("finish", "--status", "failed", cwd=project)
    return project


# -- retention and the trash


def test_a_run_that_goes_on_is_not_removed(failed: Path, seam: Seam) -> None:
    """Between the plan and the trash, somebody reported: it stays, and that is told."""
    seam.after(SEAMS["retention.plan"], lambda: note(failed, "r"))
    with here(failed) as project:
        done = prune_project(project)
    assert ([], True) == (done.removed, any("r stays" in line for line in done.warnings))
    assert ["in between"] == notes(failed, "r")


def test_a_run_that_is_taken_up_is_not_removed(failed: Path, seam: Seam) -> None:
    """The lease is looked at in the transaction that takes it out of sight."""
    seam.after(SEAMS["retention.plan"], lambda: taken_up(failed, "r"))
    with here(failed) as project:
        assert [] == prune_project(project).removed
    assert "failed" == succeed("show", "r", "--json", cwd=failed).json["status"]


def test_brought_back_while_the_trash_is_emptied(failed: Path, seam: Seam) -> None:
    """What was chosen to go for good, and is back by then, stays."""
    with here(failed) as project:
        assert 1 == len(prune_project(project).removed)

    def back() -> None:
        with here(failed) as other:
            undelete_run(other, "r")

    seam.after("leftoff.engine.run_states.in_trash", back)
    with here(failed) as project:
        retention = Retention(project, rules=Policy())
        retention.look(empty=True)
        retention.carry_out()
    assert "failed" == succeed("show", "r", "--json", cwd=failed).json["status"]


def test_a_commit_while_versions_are_pruned(project: Path, seam: Seam) -> None:
    """What is committed after the prune began is kept, and all that it sees."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    for number in range(3):
        succeed("set", f"x={number}", cwd=project)
    seam.before(SEAMS["Orphans.drop"], lambda: note(project, "r"))
    with here(project) as here_:
        row = target(here_, NOBODY, "r").row
        here_.store.prune(row.run, [])
    assert {"x": 2} == succeed("show", f"r@{row.seq}", "--json", cwd=project).json["variables"]
    assert ["in between"] == notes(project, "r")


# -- forks


def test_the_source_is_pruned_while_it_is_forked(project: Path, seam: Seam) -> None:
    """A copy of a file that went with its version: that is told as what it is, no damage, and nothing is left."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    (project / "file").write_text("content" * 1000)
    succeed("artifact", "file", "--name", "kept", cwd=project)
    succeed("save", cwd=project)
    (project / "file").write_text("other")
    succeed("artifact", "file", "--name", "kept", cwd=project)
    succeed("save", cwd=project)

    def prune() -> None:
        with here(project) as other:
            other.store.prune(target(other, NOBODY, "r").row.run, [3])

    seam.after(SEAMS["fork.copied_records"], prune)
    with here(project) as here_, pytest.raises(NoCheckpoint, match="pruned"):
        fork_run(here_, NOBODY, "r@3", run_id="copy")
    with here(project) as here_:
        assert None is here_.store.read(lambda view: view.find_run("copy", hidden=True))


# -- imports


def documents_of(folder: Path, number: int) -> list[str]:
    """Checkpoints of as many runs."""
    paths = []
    for name in range(number):
        id = f"w_p{name}_20260101_000000"
        about = {
            "checkpoint_id": id,
            "workflow_type": "w",
            "project_name": f"p{name}",
            "status": "in_progress",
        }
        path = folder / f"{id}.json"
        path.write_text(json.dumps({**about, "created_at": "2026-01-01T00:00:00Z", "total_phases": 2}))
        paths.append(str(path))
    return paths


def test_two_who_import_the_same(project: Path, seam: Seam) -> None:
    """What somebody else took in meanwhile is compared, and the others of the batch come in all the same."""
    paths = documents_of(project, 3)

    def other() -> None:
        with here(project) as also:
            import_runs(also, paths[1:2], "claude")

    seam.before(SEAMS["documents.create_runs"], other)
    with here(project) as here_:
        done = import_runs(here_, paths, "claude")
    assert [] == done.rejected
    assert [True, False, True] == [about["new"] for about in done.imported]
    assert 3 == len(succeed("ls", "--json", cwd=project).json["runs"])


# -- giving up


def test_a_run_that_ended_is_not_given_up(project: Path) -> None:
    """Whoever chose to start afresh chose that of an unfinished run: one that was completed since stays so."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    with here(project) as here_:
        row = target(here_, NOBODY, "r").row
    succeed("finish", "--run", "r", cwd=project)
    with here(project) as here_, pytest.raises(Conflict, match="changed from version"):
        give_up(here_, row)
    assert "completed" == succeed("show", "r", "--json", cwd=project).json["status"]


# -- sessions that only talked


def talk(folder: Path) -> None:
    """A session that is asked something, answers, and ends."""
    with here(folder) as project:
        who = Who("s1", "claude", this_process())

        def asked(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
            AgentTurn(Reader(project.store, tx, row.run, row.run_id), row, changes, 1).open(who, "Hello?")

        def answered(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
            AgentTurn(Reader(project.store, tx, row.run, row.run_id), row, changes, 2).end(
                "completed", "Hello."
            )

        report_session(project, who, asked, session_opening(who, "main", "Hello?", {}), [])
        report_session(project, who, answered, None, [])
        end_session(project, who, "it is over", lambda tx, row, changes: None, [])


def test_talk_that_became_work(project: Path, seam: Seam) -> None:
    """A session that only talked leaves no run, unless somebody reports on that before it goes."""
    talk(project)
    assert [] == succeed("ls", "--all", "--json", cwd=project).json["runs"]

    def reported() -> None:
        (run,) = succeed("ls", "--all", "--json", cwd=project).json["runs"]
        note(project, run["run_id"])

    seam.before(SEAMS["sessions.drop_talk"], reported)
    talk(project)
    (left,) = succeed("ls", "--all", "--json", cwd=project).json["runs"]
    assert ["in between"] == notes(project, left["run_id"])


# -- reports that look around first


@pytest.mark.parametrize("words", ["save", "step done x", "step start x --output f", "track f", "artifact f"])
def test_another_run_is_meant_by_then(project: Path, seam: Seam, words: str) -> None:
    """A report is on the run that was meant when its files were looked at, not on the next one with such a step."""
    succeed("start", "w", "--run-id", "a", "--steps", "x", cwd=project)
    (project / "f").write_text("made")

    def next_one() -> None:
        succeed("finish", "--run", "a", cwd=project)
        succeed("start", "v", "--run-id", "b", "--steps", "x", cwd=project)

    seam.before(SEAMS["run_reports.report"], next_one)
    before = succeed("show", "a", "--json", cwd=project).json["head"]["seq"]
    succeed(*words.split(), cwd=project)
    assert 1 == succeed("show", "b", "--json", cwd=project).json["head"]["seq"]
    assert before + 1 < succeed("show", "a", "--json", cwd=project).json["head"]["seq"]
