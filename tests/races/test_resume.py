"""Resuming has two halves: the verdict with its answers, then the run goes on. What was judged is what goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from leftoff.engine.commit import Terms, report
from leftoff.engine.findings import Finding
from leftoff.engine.resume_answers import CLEAR, GO_ON, Answerer, ResumeRequest
from leftoff.engine.settings import Caller
from leftoff.errors import Conflict, LeaseHeld
from leftoff.model.changes import ChangeSet
from leftoff.model.words import REPAIRED
from leftoff.operations.resuming import RUNNING, STOPPED, Resumed
from leftoff.operations.run_reports import set_variables, this_run
from leftoff.operations.runs import target
from leftoff.store.base import Tx
from leftoff.store.rows import RunRow
from tests.cli.command import succeed
from tests.races.between import Seam, here, note, notes, taken_up
from tests.resuming import resume
from tests.seams import SEAMS

ANSWERED = SEAMS["resume.take_answers"]
CARRIED_OUT = SEAMS["resume.carry_out"]


@pytest.fixture
def paused(project: Path) -> Path:
    succeed("start", "w", "--run-id", "r", "--steps", "a,b", cwd=project)
    succeed("pause", cwd=project)
    return project


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


def resumed(folder: Path, accept: Sequence[str] = ()) -> Resumed:
    with here(folder) as project:
        request = ResumeRequest(target(project, Caller(), "r"), accept=accept)
        return resume(project, Caller(), request, Answerer())


def status(folder: Path) -> str:
    return str(succeed("show", "r", "--json", cwd=folder).json["status"])


@pytest.mark.parametrize("where", [ANSWERED, CARRIED_OUT])
def test_a_report_in_between_is_taken_in(paused: Path, seam: Seam, where: str) -> None:
    """The verdict is made again, with it; then the run goes on from there."""
    seam.after(where, lambda: note(paused, "r"), 2)
    done = resumed(paused)
    assert (RUNNING, 4) == (done.outcome, done.verdict.world.row.seq)
    assert ["in between"] * 2 == notes(paused, "r")


def test_what_came_in_between_may_stand_in_the_way(paused: Path, seam: Seam) -> None:
    """A secret that was set, and not stored, while the answers were taken must be given again before it goes on."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"

    def set_it() -> None:
        with here(paused) as other:
            set_variables(other, Caller(named="r"), {"key": secret})

    seam.after(ANSWERED, set_it)
    assert STOPPED == resumed(paused).outcome
    assert "paused" == status(paused)


def test_what_came_between_our_own_commits_may_stand_in_the_way(paused: Path, seam: Seam) -> None:
    """Answers were taken, and what they settle is committed: what somebody else commits beside that is judged, too."""
    (paused / "made").write_text("made")
    succeed("step", "done", "a", "--output", "made", "--run", "r", cwd=paused)
    (paused / "made").write_text("changed")
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"

    def set_it() -> None:
        with here(paused) as other:
            set_variables(other, Caller(named="r"), {"key": secret})

    seam.after(CARRIED_OUT, set_it)
    assert STOPPED == resumed(paused, accept=["outputs.changed"]).outcome
    assert "paused" == status(paused)


def test_a_report_between_our_own_commits_is_taken_in(paused: Path, seam: Seam) -> None:
    """It stands in nobody's way: the run goes on, and nobody is asked again."""
    (paused / "made").write_text("made")
    succeed("step", "done", "a", "--output", "made", "--run", "r", cwd=paused)
    (paused / "made").write_text("changed")
    seam.after(CARRIED_OUT, lambda: note(paused, "r"))
    assert RUNNING == resumed(paused, accept=["outputs.changed"]).outcome
    assert ["in between"] == notes(paused, "r")


def test_a_driver_in_between(paused: Path, seam: Seam) -> None:
    """A lease that was taken after the verdict is seen where the run would go on."""
    seam.after(CARRIED_OUT, lambda: taken_up(paused, "r"))
    with pytest.raises(LeaseHeld):
        resumed(paused)
    assert "paused" == status(paused)


def test_one_that_never_stands_still(paused: Path, seam: Seam) -> None:
    """Somebody works on it all the time: that is told."""
    seam.after(ANSWERED, lambda: note(paused, "r"), 1000)
    with pytest.raises(Conflict, match="changed from version"):
        resumed(paused)
    assert "paused" == status(paused)


class Person(Answerer):
    """Who gives one answer to everything; ``asked``: what they saw."""

    present = True

    def __init__(self, answer: str) -> None:
        self.asked: list[str] = []
        self._answer = answer

    def show(self, group: list[Finding]) -> None:
        self.asked += [finding.message for finding in group]

    def decide(self, finding: Finding) -> str:
        return self._answer

    def tell(self, *_: object) -> None:
        """Nobody looks."""


@pytest.mark.parametrize("answer", [CLEAR, "go on without"])
@pytest.mark.parametrize(
    ("since", "told"), [("b no review", "a: no token; b: no review"), ("a no quota", "a: no quota")]
)
def test_what_blocks_it_since_is_asked_about(
    paused: Path, seam: Seam, answer: str, since: str, told: str
) -> None:
    """What somebody said of one error is said of no other, reported meanwhile: not even of the same step."""
    succeed("resume", "r", cwd=paused)
    succeed("step", "block", "a", "--error", "no token", "--run", "r", cwd=paused)
    step, _, error = since.partition(" ")
    seam.before(
        CARRIED_OUT,
        lambda: succeed("step", "block", step, "--error", error, "--run", "r", cwd=paused),
    )
    person = Person(answer)
    with here(paused) as project:
        resume(project, Caller(), ResumeRequest(target(project, Caller(), "r")), person)
    again = "b: no review" if answer == CLEAR and step == "b" else told
    assert ["The run is blocked: a: no token.", f"The run is blocked: {again}."] == person.asked


def test_what_repair_noted_since_is_not_forgotten(paused: Path, seam: Seam) -> None:
    """Somebody accepted what one repair could not prove; another one, meanwhile, is asked about."""
    salvage(paused, "One page.")
    seam.before(CARRIED_OUT, lambda: salvage(paused, "Two pages."))
    person = Person(GO_ON)
    with here(paused) as project:
        resume(project, Caller(), ResumeRequest(target(project, Caller(), "r")), person)
    told = [f"What the run did last may be lost. {pages}" for pages in ("One page.", "Two pages.")]
    assert told == person.asked


def salvage(folder: Path, told: str) -> None:
    """A repair notes what it could not prove."""
    with here(folder) as project:
        row = target(project, Caller(), "r").row

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
            changes.put("context", REPAIRED, {"message": told})

        report(project.store, this_run(row.run, "r"), make, Terms(project.now))
