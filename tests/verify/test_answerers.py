"""Who answers makes no difference to the rules: a verdict takes its answers in one place, from whoever is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leftoff.engine.config.caller import Caller
from leftoff.engine.config.project import Project
from leftoff.engine.read.find import resolve
from leftoff.engine.resume.answers import GO_ON, RESTORE, Answerer, LateQuestions, check_by_proxy
from leftoff.engine.resume.finding import NEVER_YES, STOP, Finding
from leftoff.engine.resume.request import ResumeRequest
from leftoff.errors import NeedsPerson
from leftoff.operations.resume.resume import RUNNING, STOPPED, Resumed, resume
from tests.cli.command import succeed


class Person(Answerer):
    """Answers every question the same, and remembers what was asked."""

    present = True

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.asked: list[str] = []

    def decide(self, finding: Finding) -> str:
        self.asked.append(finding.code)
        return self._answer

    def agrees(self, what: str, hint: str, *, again: bool) -> bool:
        self.asked.append(what)
        return self._answer == GO_ON


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
    assert (STOPPED, 7, "paused") == (done.outcome, done.report.exit_code, status(work))


@pytest.mark.parametrize(("accept", "yes"), [(["files.changed"], False), ([], True)])
def test_accepted_beforehand(work: Project, accept: list[str], yes: bool) -> None:
    """What was accepted is asked of nobody, and is taken in: it is no question any more."""
    assert (RUNNING, "running") == (go_on(work, Answerer(), *accept, yes=yes).outcome, status(work))
    assert [] == go_on(work, Answerer()).report.findings


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
def test_what_yes_never_answers(code: str) -> None:
    """Some questions are a person's, or are accepted by their code."""
    nobody = LateQuestions(Answerer(), {}, yes=True)
    with pytest.raises(NeedsPerson, match="it waits"):
        nobody(code, "it waits", "")
    assert LateQuestions(Answerer(), {}, [code])(code, "it waits", "")
    with pytest.raises(NeedsPerson, match=code):
        check_by_proxy([code], "r")


def test_yes_answers_the_others() -> None:
    """Nobody is asked what `--yes` answers."""
    person = Person(STOP)
    assert LateQuestions(person, {}, yes=True)("prerequisite.missing", "no tool", "")
    assert [] == person.asked
