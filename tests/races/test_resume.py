"""Resuming has two halves: the verdict with its answers, then the run goes on. What was judged is what goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from leftoff.engine.config.caller import Caller
from leftoff.engine.resume.answers import CLEAR, Answerer
from leftoff.engine.resume.finding import Finding
from leftoff.engine.resume.request import ResumeRequest
from leftoff.errors import Conflict, LeaseHeld
from leftoff.operations.records import set_variables
from leftoff.operations.resume.resume import RUNNING, STOPPED, Resumed, resume
from leftoff.operations.runs import target
from tests.cli.command import succeed
from tests.races.between import Seam, here, note, notes, taken_up

ANSWERED = "leftoff.operations.resume.resume.take_answers"
CARRIED_OUT = "leftoff.operations.resume.resume.carry_out"


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
    assert (RUNNING, 4) == (done.outcome, done.report.world.row.seq)
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
    with pytest.raises(Conflict, match="went on"):
        resumed(paused)
    assert "paused" == status(paused)


class Clears(Answerer):
    """A person who says that what blocks the run is resolved; ``asked``: what they saw."""

    present = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def show(self, group: list[Finding]) -> None:
        self.asked += [finding.message for finding in group]

    def decide(self, finding: Finding) -> str:
        return CLEAR


def test_what_blocks_it_since_is_not_cleared(paused: Path, seam: Seam) -> None:
    """Somebody said that one thing is resolved; another one, reported meanwhile, is asked about."""
    succeed("resume", "r", cwd=paused)
    succeed("step", "block", "a", "--error", "no token", "--run", "r", cwd=paused)
    seam.before(
        CARRIED_OUT,
        lambda: succeed("step", "block", "b", "--error", "no review", "--run", "r", cwd=paused),
    )
    person = Clears()
    with here(paused) as project:
        resume(project, Caller(), ResumeRequest(target(project, Caller(), "r")), person)
    assert ["The run is blocked: a: no token.", "The run is blocked: b: no review."] == person.asked
