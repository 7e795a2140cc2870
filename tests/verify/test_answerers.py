"""Who answers makes no difference to the rules: a verdict takes its answers in one place, from whoever is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leftoff.engine.find import resolve
from leftoff.engine.findings import NEVER_YES, STOP, Finding, check_by_proxy
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import RESTORE, Answerer, ResumeRequest
from leftoff.engine.settings import Caller
from leftoff.errors import NeedsPerson
from leftoff.operations.resuming import RUNNING, STOPPED, Resumed
from tests.cli.command import succeed
from tests.resuming import resume


class Person(Answerer):
    """Answers every question the same, and remembers what was asked."""

    present = True

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.asked: list[str] = []

    def decide(self, finding: Finding) -> str:
        self.asked.append(finding.code)
        return self._answer


@pytest.fixture
def work(project: Path) -> Iterator[Project]:
    """A paused run with a tracked file that was changed since: one question."""
    (project / "a.txt").write_text("one\n")
    succeed("start", "work", "--run-id", "r", "--steps", "a,b", cwd=project)
    succeed("track", "a.txt", cwd=project)
    succeed("pause", cwd=project)
    (project / "a.txt").write_text("two\n")
    made = Project(str(project))
    yield made
    made.close()


def go_on(work: Project, answerer: Answerer, *accept: str, yes: bool = False) -> Resumed:
    request = ResumeRequest(resolve(work.store, "r"), accept=accept, yes=yes)
    return resume(work, Caller(), request, answerer)


def status(work: Project) -> str:
    return str(resolve(work.store, "r").row.status)


def test_nobody_answers(work: Project) -> None:
    """What needs a person stops it, and nothing is changed."""
    done = go_on(work, Answerer())
    assert (STOPPED, 7, "paused") == (done.outcome, done.verdict.exit_code, status(work))


@pytest.mark.parametrize(("accept", "yes"), [(["files.changed"], False), ([], True)])
def test_accepted_beforehand(work: Project, accept: list[str], yes: bool) -> None:
    """What was accepted is asked of nobody, and is taken in: it is no question any more."""
    assert (RUNNING, "running") == (go_on(work, Answerer(), *accept, yes=yes).outcome, status(work))
    assert [] == go_on(work, Answerer()).verdict.findings


def test_a_person_restores(work: Project) -> None:
    """An answer is carried out before the run goes on."""
    person = Person(RESTORE)
    done = go_on(work, person)
    assert (RUNNING, ["files.changed"]) == (done.outcome, person.asked)
    assert "one\n" == (Path(work.folder) / "a.txt").read_text()


def test_a_person_stops(work: Project) -> None:
    """Whoever stops has changed nothing."""
    assert (STOPPED, "paused") == (go_on(work, Person(STOP)).outcome, status(work))


@pytest.mark.parametrize("code", NEVER_YES)
def test_what_an_agent_never_accepts(code: str) -> None:
    """Some questions only a person answers."""
    with pytest.raises(NeedsPerson, match=code):
        check_by_proxy([code], "r")
