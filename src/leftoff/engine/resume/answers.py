"""Taking answers to a verdict: what refuses ends it, what asks is asked once, what is only worth a word is said.

The rules are here; who answers is an `Answerer`: a person at a terminal, or nobody, where only what was accepted
beforehand goes on. The answers are of one kind either way: a code that is accepted, steps to do again, files to
restore, values to go on with. Whoever carries the run on asks nothing twice.
"""

from __future__ import annotations

from leftoff.engine.resume.finding import (
    ASK,
    BRING_BACK,
    CODES,
    NEVER_YES,
    REFUSE,
    STOP,
    UNAPPROVED,
    WAITING,
    WARN,
    check_codes,
)
from leftoff.errors import Conflict, NeedsPerson, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.engine.resume.verdict import Report

TOGETHER = 5  # more findings of one code than this are one question
AGAIN, RESTORE, CLEAR = "run the step again", "restore from the checkpoint", "clear them"
GO_ON = "go on"
# Whoever asked for it knows the one; what goes without that person is done in spite of the other.
_NOT_TOLD = ("step.again", "step.waiting")


class Answerer:
    """Who answers. This one is nobody: nothing is asked, and nothing that was not accepted beforehand goes on."""

    #: whether somebody can be asked
    present = False

    def tell(self, findings: list[Finding], report: Report) -> None:
        """What is worth a word, or stands in the way."""

    def say(self, text: str) -> None:
        """What came of an answer."""

    def restored(self, paths: list[str]) -> None:
        """Files were brought back."""

    def stopped(self, report: Report) -> None:
        """A person must decide, and none is there."""

    def show(self, group: list[Finding]) -> None:
        """What the next question is about: findings of one code."""

    def decide(self, finding: Finding) -> str:
        """One of its choices; `GO_ON` or `STOP` where it has none."""
        raise NotImplementedError

    def agrees(self, what: str, hint: str, *, again: bool) -> bool:
        """Whether to go on. ``again``: that is, whether a step may run again."""
        raise NotImplementedError

    def says_yes(self, question: str, *, default: bool) -> bool:
        """A question in the words of a protocol. ``default``: what no more than Enter means."""
        raise NotImplementedError

    def value(self, name: str) -> str:
        """A secret that was not stored; it is not shown."""
        raise NotImplementedError


class Answers:
    """What was agreed to. ``fresh``: to begin anew rather than to go on."""

    def __init__(self, accepted: Collection[str] = ()) -> None:
        self.accepted: set[str] = set(accepted)
        self.again: set[str] = set()  # steps to be done once more
        self.restore = False  # tracked files are brought back
        self.bring_back: set[str] = set()  # outputs of which a copy was kept
        self.unblock = False  # the errors that block the run are cleared
        self.values: dict[str, Any] = {}  # values that were not stored
        self.approved: dict[str, str] = {}  # phases of a protocol, and what was chosen
        self.fresh = False

    def keep(self, finding: Finding) -> bool:
        """Whether what was found is how it shall be from now on."""
        if finding.code == "files.changed":
            return not self.restore
        if finding.code == "outputs.changed":
            return finding.subject not in self.again
        return finding.code.startswith("issue.") or bool(finding.clears)


def take_answers(
    report: Report, request: ResumeRequest, answerer: Answerer, quiet: Collection[str] = ()
) -> Answers | None:
    """What to go on with; ``None``: it does not go on, and was said why. ``quiet``: codes that somebody else tells."""
    if request.seen is not None and report.stamp != request.seen:
        raise Conflict(
            f"What stands in the way of run {report.world.run_id} is not what was shown.",
            hint="Nothing was changed. Look at it again, then answer.",
        )
    answers = Answers(request.accept)
    report.accept({*answers.accepted, "step.waiting"})  # what goes without that person is done
    if request.answers and not _take_given(report, request.answers, answers):
        answerer.say("Nothing was changed.")
        return None
    if request.yes:
        _say_yes(report, answers)
    if report.verdict == REFUSE or (report.verdict == ASK and not answerer.present):
        answerer.tell(report.findings, report)
        if report.verdict == ASK:
            answerer.stopped(report)
        return None
    if report.question is not None and report.verdict == ASK:
        answerer.tell(report.findings, report)
        if answerer.says_yes(report.question, default=False):
            answers.fresh = True
            return answers
        _say_yes(report, answers)  # who does not start fresh goes on with it as it is
    else:
        quiet = (*quiet, *_NOT_TOLD)
        answerer.tell([f for f in report.findings if f.level == WARN and f.code not in quiet], report)
    for group in _groups(report):
        if not _ask(answerer, group, answers):
            answerer.say("Nothing was changed.")
            return None
    return answers


def foresee_answers(report: Report, request: ResumeRequest) -> None:
    """For whoever only looks: what was answered beforehand is so in the verdict, and in the plan."""
    answers = Answers(request.accept)
    report.accept(answers.accepted)
    if _take_given(report, request.answers, answers) and request.yes:
        _say_yes(report, answers)
    report.selection = report.selection._replace(repeat=report.selection.repeat | answers.again)


def _take_given(report: Report, given: Mapping[str, str], answers: Answers) -> bool:
    """What was answered beforehand, finding by finding; whether to go on."""
    for finding in report.findings:
        said = given.get(f"{finding.code}:{finding.subject}", given.get(finding.code))
        if said is None or finding.level != ASK or finding.code == "variables.redacted":
            continue
        chosen = _choice(finding, said)
        if chosen == STOP:
            return False
        _keep([finding], chosen, answers)
        finding.level = WARN
    return True


def _choice(finding: Finding, said: str) -> str:
    """The choice that was meant, by its beginning."""
    choices = finding.choices or (GO_ON, STOP)
    fits = [choice for choice in choices if choice == said] or [
        choice for choice in choices if choice.startswith(said)
    ]
    if len(fits) != 1 or not said:
        raise Usage(
            f"{said!r} is no answer to {finding.code}.",
            hint=f"Nothing was changed. Answers: {', '.join(choices)}.",
        )
    return fits[0]


def _say_yes(report: Report, answers: Answers) -> None:
    """`--yes`: what is gone is brought back, or made again where no copy was kept; what differs stays as it is; some
    questions it never answers."""
    may_repeat = "step.not_idempotent" in answers.accepted
    for finding in report.findings:
        if BRING_BACK in finding.choices and finding.level == ASK:
            finding.level = WARN
            answers.accepted.add(finding.code)
            answers.bring_back.update(finding.paths)
            continue
        made_again = finding.code == "outputs.missing" and finding.subject is not None
        if made_again and not may_repeat and report.runs_once(str(finding.subject)):
            continue  # it would run a second time
        if finding.level == ASK and finding.code not in NEVER_YES:
            finding.level = WARN
            answers.accepted.add(finding.code)
            if made_again:
                answers.again.add(str(finding.subject))


def _groups(report: Report) -> list[list[Finding]]:
    """The questions: one per finding, or one for many of a kind."""
    by_code: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.level == ASK:
            by_code.setdefault(finding.code, []).append(finding)
    groups: list[list[Finding]] = []
    for found in by_code.values():
        groups += [found] if len(found) > TOGETHER else [[finding] for finding in found]
    return groups


def _ask(answerer: Answerer, group: list[Finding], answers: Answers) -> bool:
    """One question; whether to go on."""
    finding = group[0]
    answerer.show(group)
    if finding.code == "variables.redacted":
        return _ask_value(answerer, finding, answers)
    chosen = answerer.decide(finding)
    _keep(group, chosen, answers)
    return chosen != STOP


def _keep(group: list[Finding], chosen: str, answers: Answers) -> None:
    """What was chosen for findings of one code."""
    answers.accepted.add(group[0].code)
    if chosen == AGAIN:
        answers.again.update(shown.subject for shown in group if shown.subject is not None)
    answers.restore |= chosen == RESTORE
    if chosen == BRING_BACK:
        answers.bring_back.update(path for shown in group for path in shown.paths)
    answers.unblock |= chosen == CLEAR
    for finding in group:
        if finding.code in (UNAPPROVED, WAITING) and finding.subject is not None and chosen != STOP:
            answers.approved[finding.subject] = chosen


def _ask_value(answerer: Answerer, finding: Finding, answers: Answers) -> bool:
    """A value that was not stored is given again; an empty one ends it."""
    if finding.subject is None or finding.choices:
        return True  # a secret of the workflow: it is asked for where it is used
    value = answers.values[finding.subject] = answerer.value(finding.subject)
    return bool(value)


class LateQuestions:
    """Questions that nobody could foresee, put while a run is taken up: the same rules, and the same answerer.

    ``levels``: how bad the project finds what.
    """

    def __init__(
        self,
        answerer: Answerer,
        levels: Mapping[str, str],
        accepted: Collection[str] = (),
        *,
        yes: bool = False,
    ) -> None:
        self.answerer = answerer
        self.levels = levels
        self._accepted = frozenset(accepted)
        self._yes = yes

    def level(self, code: str) -> str:
        """How bad a finding is by now: one that was accepted is worth a word."""
        level = self.levels.get(code, CODES[code])
        return WARN if level == ASK and code in self._accepted else level

    def __call__(self, code: str, what: str, hint: str) -> bool:
        """Whether to go on; `NeedsPerson` where nobody can say."""
        persons = code in NEVER_YES
        if code in self._accepted or (self._yes and not persons):
            return True
        if not self.answerer.present:
            raise NeedsPerson(what, hint=hint)
        return code != "variables.redacted" and self.answerer.agrees(what, hint, again=persons)


def check_by_proxy(codes: Collection[str], run_id: str) -> None:
    """Codes that an agent accepts on behalf of a person: some only that person can."""
    for code in check_codes(codes):
        if code in NEVER_YES:
            raise NeedsPerson(
                f"{code} cannot be accepted here.",
                hint=f"A person decides it, in a shell: leftoff resume {run_id}",
            )
