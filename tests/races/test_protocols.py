"""Going on by the rules of a protocol: what it asks, ends and settles is about the run as it was looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine.findings import Finding
from leftoff.engine.resume_answers import Answerer, ResumeRequest
from leftoff.engine.settings import Caller
from leftoff.operations.resuming import Resumed
from leftoff.operations.run_lifecycle import Start, start_or_continue
from leftoff.operations.run_reports import set_variables
from leftoff.operations.runs import target
from tests.cli.command import succeed
from tests.protocols.test_resume import workflow
from tests.protocols.test_start_resume import follow
from tests.races.between import Seam, here, note, notes
from tests.resuming import resume
from tests.seams import SEAMS

RUN = "checkout-flow"
FIRST, SECOND = "REQUIREMENTS", "ARCHITECTURE"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"


class Person(Answerer):
    """Who begins anew rather than to go on; ``meanwhile``: what somebody else does while they are first asked."""

    present = True

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.asked: list[str] = []
        self._meanwhile = [meanwhile]

    def tell(self, *words: Any) -> None:
        """Nobody looks."""

    def says_yes(self, question: str, *, default: bool) -> bool:
        self.asked.append(question)
        while self._meanwhile:
            self._meanwhile.pop()()
        return False


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


def resumed(folder: Path, answerer: Answerer, accept: tuple[str, ...] = ()) -> Resumed:
    with here(folder) as project:
        request = ResumeRequest(target(project, Caller(), RUN), accept=accept)
        return resume(project, Caller(), request, answerer)


def test_a_report_while_somebody_is_asked_whether_to_begin_anew(project: Path) -> None:
    """They are asked again, before the run on which somebody works is given up."""
    workflow(project, "ARCHITECTURE", ["REQUIREMENTS"])
    person = Person(lambda: note(project, RUN))
    resumed(project, person)
    assert ["Resume workflow from ARCHITECTURE? [Y/n]"] * 2 == person.asked
    assert ["in between"] == notes(project, RUN)


def test_a_run_that_goes_on_while_it_ends(project: Path, seam: Seam) -> None:
    """An output says that it is over, and somebody begins its last phase once more: it is not completed then."""
    workflow(project, "REFLECTION", ["REQUIREMENTS", "ARCHITECTURE", "IMPLEMENTATION", "VERIFICATION"])
    succeed("step", "start", "REFLECTION", "--run", RUN, cwd=project)
    (project / "memory/reports/reflection-1.md").write_text("Learned a lot.\n")

    def again() -> None:
        (project / "memory/reports/reflection-1.md").unlink()
        succeed("step", "start", "REFLECTION", "--run", RUN, cwd=project)

    seam.before(SEAMS["resume.end_work"], again)
    resumed(project, Answerer(), accept=("outputs.missing", "outputs.changed"))
    assert "running" == succeed("show", RUN, "--json", cwd=project).json["status"]


def test_a_report_behind_the_greeting(project: Path, seam: Seam) -> None:
    """`start --resume`: what came up since the verdict is told, and the run does not go on."""
    workflow(project, "ARCHITECTURE", ["REQUIREMENTS"])

    def set_it() -> None:
        with here(project) as other:
            set_variables(other, Caller(named=RUN), {"key": SECRET})

    seam.after(SEAMS["resume._greet"], set_it)
    with here(project) as ours:
        done = start_or_continue(ours, Caller(), Start("dotagent", resume=True))
    assert done.report is not None
    assert ["variables.redacted"] == [found.code for found in done.report.findings if found.level == "ask"]


class Approver(Answerer):
    """Who approves whatever is asked, and goes on; ``asked``: what they saw."""

    present = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def tell(self, *words: Any) -> None:
        """Nobody looks."""

    def show(self, group: list[Finding]) -> None:
        self.asked += [str(finding.subject) for finding in group]

    def decide(self, finding: Finding) -> str:
        return "approve"

    def says_yes(self, question: str, *, default: bool) -> bool:
        return True


@pytest.fixture
def unapproved(project: Path) -> Path:
    """Two phases are complete, and a person has to approve them."""
    follow(project, "dotagent")
    with (project / "leftoff.toml").open("a") as file:
        file.write('approvals = ["REQUIREMENTS", "ARCHITECTURE"]\n')
    succeed("start", "dotagent", "--run-id", RUN, cwd=project)
    for phase in (FIRST, SECOND):
        succeed("step", "done", phase, cwd=project)
    return project


@pytest.mark.parametrize(
    ("number", "asked"),
    [(1, [FIRST, SECOND, FIRST, SECOND]), (2, [FIRST, SECOND, SECOND]), (3, [FIRST, SECOND])],
)
def test_a_report_before_an_approval(unapproved: Path, seam: Seam, number: int, asked: list[str]) -> None:
    """What somebody approves is what they saw; of two that were asked together, the second goes on from the first."""
    calls: list[None] = []

    def meanwhile() -> None:
        calls.append(None)
        if len(calls) == number:
            note(unapproved, RUN)

    seam.before(SEAMS["approvals.decide"], meanwhile, 3)
    person = Approver()
    resumed(unapproved, person)
    assert asked == person.asked
    found = succeed("show", RUN, "--json", cwd=unapproved).json["records"]["approval"]
    assert {FIRST: "approved", SECOND: "approved"} == {
        phase: about["status"] for phase, about in found.items()
    }
