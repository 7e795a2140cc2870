"""Answers to a verdict. A refusal ends it, a question is asked once, a warning is only reported.

The rules are here, and are the same for every face. An `Answerer` answers: a person at a terminal, or only the answers
that were given beforehand. The face judges, takes the answers, then applies both. Nothing is changed
before that.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.engine.commit import Seal, Terms, report
from leftoff.engine.find import TRIES, Moved, Target, is_seen, need_run
from leftoff.engine.findings import (
    ASK,
    BRING_BACK,
    NEVER_YES,
    REFUSE,
    STOP,
    UNAPPROVED,
    WAITING,
    WARN,
    Finding,
)
from leftoff.engine.show import in_order, inner_steps
from leftoff.engine.tracking import Workspace, capture, capture_paths, known_to
from leftoff.errors import Conflict, NotFound, Usage
from leftoff.model.changes import ChangeSet
from leftoff.model.ids import ancestors, shown_step, step_word
from leftoff.model.words import FINISHED, in_words
from leftoff.store.base import Tx
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.engine.judge import Verdict
    from leftoff.engine.project import Project
    from leftoff.engine.run_checks import World

DONE = ("completed", "skipped")


class ResumeRequest(NamedTuple):
    """How a run is to continue. Every face asks in this shape.

    ``target``: the run, and the version to go back to if that is an older one. ``from_step``: this step and every
    later one run again. ``only``: nothing but these steps runs, finished ones again (``None``: all that is left);
    ``failed``: failed steps are among them; ``adds``: those of them that are new, with their records. ``repeat``:
    single steps that run once more; ``whys``: why, by step, if the user did not name it. ``variables``: values that
    are set first. ``accept``: codes of findings that are accepted; ``answers``: a choice by code, or by
    code:subject; ``yes``: the answer to most other questions. ``restart``: a step that still runs is ended, not
    followed. ``workflow``: the definition from now on, if its file was given. ``deep``: every file is hashed. Not
    ``resumes``: the user only looks. ``seen``: the stamp of the questions that were shown, if the answers are about
    those.
    """

    target: Target
    from_step: str | None = None
    only: Collection[str] | None = None
    adds: Mapping[str, dict[str, Any]] = {}
    failed: bool = False
    repeat: frozenset[str] = frozenset()
    whys: Mapping[str, str] = {}
    variables: Mapping[str, Any] = {}
    accept: Collection[str] = ()
    yes: bool = False
    restart: bool = False
    workflow: Any = None
    deep: bool = False
    resumes: bool = True
    answers: Mapping[str, str] = {}
    seen: str | None = None

    @property
    def goes_on(self) -> bool:
        """Return whether the run only continues from where it is: nothing is set or done again."""
        other = self.from_step is not None or self.only or self.failed or self.repeat or self.variables
        return self.target.version is None and not other

    @property
    def over(self) -> str | None:
        """Return what to say if the run is completed and nothing is to run again."""
        again = self.from_step is not None or self.only or self.repeat
        return nothing_left(self.target) if self.target.row.status == "completed" and not again else None

    @property
    def seq(self) -> int | None:
        """Return the version to go back to, None if the run continues from its head."""
        version = self.target.version
        return version.seq if version is not None and version.seq != self.target.row.seq else None

    def repeated(self, steps: Mapping[str, Any]) -> set[str]:
        """Return all steps that run once more, with the steps that contain them."""
        found = with_outer(steps, self.repeat)
        if self.from_step is not None:
            found |= set(from_step(steps, self.from_step, self.target.row.run_id))
        return found

    @property
    def why(self) -> str | None:
        """Return why the run continues, if the user gave an option that says so."""
        if self.seq is not None:
            return f"you asked to go back to version {self.seq}"
        options = (("--from-step", self.from_step), ("--failed", self.failed), ("--only", self.only))
        return next((f"you asked with {name}" for name, given in options if given), None)

    def why_again(self, path: str) -> str:
        """Return why a step runs once more."""
        return self.whys.get(path, self.why or "you asked with --only")

    def seal(self) -> Seal | None:
        """Return how going back to do steps again is sealed."""
        if self.from_step is not None:
            return Seal("rollback", self.from_step, f"again from {shown_step(self.from_step)}")
        if not self.repeat:
            return None
        single = sorted(self.repeat)
        names = ", ".join(map(shown_step, single[:5]))
        return Seal("rollback", single[0], f"once more: {names}{'…' if len(single) > 5 else ''}")


def nothing_left(target: Target) -> str | None:
    """Return what to say of a finished run, unless an older version of it is meant."""
    row = target.row
    if row.status not in FINISHED or target.version is not None:
        return None
    return f"Run {row.run_id} is {row.status}: nothing is left to do."


class Selection(NamedTuple):
    """The steps that a request means: those that run once more, and the only ones to run (``None``: all)."""

    repeat: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    restart: bool = False
    resumes: bool = True

    def leaves_out(self, path: str) -> bool:
        return self.only is not None and path not in self.only


def select(world: World, request: ResumeRequest) -> Selection:
    """Work out what a request means for the steps of a run."""
    steps, restart = world.steps, request.restart
    if request.from_step is not None:
        repeat = from_step(steps, request.from_step, world.run_id)
        return Selection(frozenset(repeat), restart=restart, resumes=request.resumes)
    named = [*(request.only or ())]
    if request.failed:
        named += [path for path in world.leaves() if steps[path].get("status") == "failed"]
        if not named:
            raise NotFound(
                f"No step of run {world.run_id} has failed.", hint="Leave out --failed to continue."
            )
    if not named:
        return Selection(restart=restart, resumes=request.resumes)
    for step in named:
        from_step(steps, step, world.run_id)  # raises if there is no such step
    wanted = with_outer(steps, named)
    needs = world.needs()
    for path in sorted(wanted):
        for other in needs.get(path, ()):
            status = world.steps.status(other) or "completed"
            if other not in wanted and status not in DONE:
                raise Conflict(
                    f"Step {shown_step(path)} needs {shown_step(other)}, which {in_words(status)}.",
                    hint=f"Name it too: --only {step_word(other)} {step_word(path)}",
                )
    done = {path for path in named if steps.get(path, {}).get("status") in DONE}
    again = with_outer(steps, done) & set(world.leaves()) if done else ()
    return Selection(frozenset(again), frozenset(wanted), restart, request.resumes)


def from_step(steps: Mapping[str, Any], step: str, run_id: str) -> list[str]:
    """Return the step, the steps below it, every later one in declared order, and the steps that contain it."""
    ordered = in_order(steps)
    first = next((i for i, path in enumerate(ordered) if path == step or path.startswith(step + "/")), None)
    if first is None:
        named = ", ".join(map(shown_step, ordered[:20])) or "none yet"
        raise NotFound(f"Run {run_id} has no step {shown_step(step)}.", hint=f"Its steps: {named}.")
    return [path for i, path in enumerate(ordered) if i >= first or step.startswith(path + "/")]


def with_outer(steps: Mapping[str, Any], some: Collection[str]) -> set[str]:
    """Return these steps, the steps below them, and the steps that contain them."""
    wanted = set(some)
    outer = inner_steps(wanted)
    return {path for path in steps if path in outer or not wanted.isdisjoint((path, *ancestors(path)))}


TOGETHER = 5  # more findings of one code than this are one question
AGAIN, RESTORE, CLEAR = "run the step again", "restore from the checkpoint", "clear them"
GO_ON = "go on"
# The user who asked for it knows the one; what goes without that person is done in spite of the other.
_NOT_TOLD = ("step.again", "step.waiting")
_OF_ISSUE = ("issue.labels", "issue.body", "issue.closed")


class Answerer:
    """Who answers. This one uses only the answers that were given beforehand."""

    #: whether a person can be asked
    present = False

    def tell(self, findings: list[Finding], verdict: Verdict) -> None:
        """Report warnings, or the obstacles."""

    def say(self, text: str) -> None:
        """Say what came of an answer."""

    def stopped(self, verdict: Verdict) -> None:
        """Say that a person must decide, and none is there."""

    def show(self, group: list[Finding]) -> None:
        """Show what the next question is about: findings of one code."""

    def decide(self, finding: Finding) -> str:
        """Return one of its choices; `GO_ON` or `STOP` if it has none."""
        raise NotImplementedError

    def says_yes(self, question: str, *, default: bool) -> bool:
        """Ask a question in the words of a protocol. ``default``: the answer of a bare Enter."""
        raise NotImplementedError

    def value(self, name: str) -> str:
        """Ask for a secret that was not stored; it is not shown."""
        raise NotImplementedError


class Answers:
    """The answers to a verdict, and what is known of them when the run moved and is judged again."""

    def __init__(self) -> None:
        self.again: dict[str, str] = {}  # steps to run once more, and why
        self.restore = False  # tracked files are restored
        self.bring_back: set[str] = set()  # outputs to restore from their copies
        self.unblock = False  # the errors that block the run are cleared
        self.values: dict[str, Any] = {}  # secrets that were typed
        self.approved: dict[str, str] = {}  # phases of a protocol, and what was chosen
        self.fresh = False  # start fresh instead
        self.greeted: tuple[int, bytes] | None = None  # the version that the protocol's greeting was about
        self.asked: set[tuple[Any, ...]] = set()  # findings that asked, with any answer
        self.carried: set[tuple[Any, ...]] = set()  # findings whose answers were carried out
        self._known: set[tuple[Any, ...]] = set()  # findings that were answered or told
        self._moves = 0

    def keeps(self, finding: Finding) -> bool:
        """Return whether the run takes the present of this finding as it is."""
        if finding.code == "files.changed":
            return not self.restore
        if finding.code == "outputs.changed":
            return finding.subject not in self.again
        return finding.code.startswith("issue.") or bool(finding.clears)

    def is_known(self, finding: Finding) -> bool:
        return finding.asked in self._known

    def know(self, findings: Iterable[Finding]) -> None:
        """Ask and tell these findings no more."""
        self._known.update(finding.asked for finding in findings)

    def know_as(self, other: Answers) -> None:
        """Know what was answered when the run was continued before."""
        self._known |= other._known

    def moved(self, error: Moved) -> None:
        """The run moved: it is judged again, and only what is new is asked. A decision of a person is about the run as
        they saw it, so that is asked again. A run that never stands still is an error."""
        self._moves += 1
        if self._moves >= TRIES:
            raise error
        self.fresh = False
        self.approved.clear()
        self._known = {asked for asked in self._known if asked[0] not in (UNAPPROVED, WAITING)}

    def final(self, verdict: Verdict) -> ResumeRequest:
        """Return what was asked for, with the answers in it."""
        request, selection = verdict.request, verdict.selection
        single = selection.repeat if request.from_step is None else frozenset()
        typed = {name: value for name, value in self.values.items() if name in verdict.world.redacted}
        return request._replace(
            variables={**request.variables, **typed},
            repeat=frozenset(self.again) | single,
            whys=self.again,
            only=selection.only,
        )


def take_answers(verdict: Verdict, answers: Answers, answerer: Answerer, quiet: Collection[str] = ()) -> bool:
    """Ask what must be asked. Return False if the run does not continue, and print why.

    ``quiet``: codes that the driver reports.
    """
    request = verdict.request
    if request.seen is not None and not answers.carried and verdict.stamp != request.seen:
        raise Conflict(
            f"The obstacles of run {verdict.world.run_id} are not what was shown.",
            hint="Nothing was changed. Look at it again, then answer.",
        )
    answers.asked.update(finding.asked for finding in verdict.findings if finding.level == ASK)
    verdict.accept({*request.accept, "step.waiting"})  # what goes without that person is done
    for finding in verdict.findings:
        if finding.level == ASK and answers.is_known(finding):
            finding.level = WARN
    if not _take_given(verdict, answers):
        answerer.say("Nothing was changed.")
        return False
    if verdict.verdict == REFUSE or (verdict.verdict == ASK and not answerer.present):
        answerer.tell(verdict.findings, verdict)
        if verdict.verdict == ASK:
            answerer.stopped(verdict)
        return False
    if verdict.question is not None and verdict.verdict == ASK:
        answerer.tell(verdict.findings, verdict)
        if answerer.says_yes(verdict.question, default=False):
            answers.fresh = True
            return True
        _say_yes(verdict, answers)  # who does not start fresh continues with it as it is
    else:
        unsaid = (*quiet, *_NOT_TOLD)
        warnings = [f for f in verdict.findings if f.level == WARN and f.code not in unsaid]
        answerer.tell([f for f in warnings if not answers.is_known(f)], verdict)
    by_code: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        if finding.level == ASK:
            by_code.setdefault(finding.code, []).append(finding)
    groups: list[list[Finding]] = []  # one question per finding, or one for many of a kind
    for found in by_code.values():
        groups += [found] if len(found) > TOGETHER else [[finding] for finding in found]
    for group in groups:
        answerer.show(group)
        finding = group[0]
        if finding.secrets and not finding.choices:
            chosen = GO_ON
        else:
            chosen = answerer.decide(finding)
            _keep(group, chosen, answers)
        for name in finding.secrets if chosen != STOP else ():
            answers.values[name] = answerer.value(name)
            if not answers.values[name]:
                chosen = STOP
        if chosen == STOP:
            answerer.say("Nothing was changed.")
            return False
    answers.know(verdict.findings)
    return True


def foresee_answers(verdict: Verdict) -> None:
    """Put what was answered beforehand into the verdict and the plan, for a user who only looks."""
    answers = Answers()
    verdict.accept(verdict.request.accept)
    _take_given(verdict, answers)
    repeat = verdict.selection.repeat | answers.again.keys()
    verdict.selection = verdict.selection._replace(repeat=repeat)


def _take_given(verdict: Verdict, answers: Answers) -> bool:
    """Take the answers that were given beforehand, finding by finding. Return False if one of them is to stop."""
    request = verdict.request
    given = request.answers
    for finding in verdict.findings if given else ():
        said = given.get(f"{finding.code}:{finding.subject}", given.get(finding.code))
        if said is None or finding.level != ASK or finding.code == "variables.redacted":
            continue
        chosen = _choice(finding, said)
        if chosen == STOP:
            return False
        _keep([finding], chosen, answers)
        finding.level = WARN
    if request.yes:
        _say_yes(verdict, answers)
    return True


def _choice(finding: Finding, said: str) -> str:
    """Return the choice that was meant, by its beginning."""
    choices = finding.choices or (GO_ON, STOP)
    fits = [choice for choice in choices if choice == said] or [
        choice for choice in choices if choice.startswith(said)
    ]
    if len(fits) != 1 or not said:
        raise Usage(
            f"{said!r} is not an answer to {finding.code}.",
            hint=f"Nothing was changed. Answers: {', '.join(choices)}.",
        )
    return fits[0]


def _say_yes(verdict: Verdict, answers: Answers) -> None:
    """Answer as `--yes` does: what is gone is restored, or made again if no copy was kept; what differs stays as it is;
    some questions it never answers."""
    may_repeat = "step.not_idempotent" in verdict.request.accept
    for finding in verdict.findings:
        made_again = finding.code == "outputs.missing" and finding.subject is not None
        if finding.level != ASK or finding.code in NEVER_YES:
            continue
        if BRING_BACK in finding.choices:
            answers.bring_back.update(finding.paths)
        elif made_again:
            if not may_repeat and verdict.runs_once(str(finding.subject)):
                continue  # it would run a second time
            answers.again[str(finding.subject)] = _why(finding)
        finding.level = WARN


def _why(finding: Finding) -> str:
    """Return why the step of a finding runs again."""
    what = {"outputs.missing": "was missing", "outputs.changed": "had changed"}.get(finding.code)
    if what and finding.paths:
        return f"output {next(iter(finding.paths))} {what}"
    return (
        "its definition had changed" if finding.code == "definition.changed" else "you asked to run it again"
    )


def _keep(group: list[Finding], chosen: str, answers: Answers) -> None:
    """Keep what was chosen for findings of one code."""
    if chosen == AGAIN:
        answers.again.update({f.subject: _why(f) for f in group if f.subject is not None})
    answers.restore |= chosen == RESTORE
    if chosen == BRING_BACK:
        answers.bring_back.update(path for finding in group for path in finding.paths)
    answers.unblock |= chosen == CLEAR
    for finding in group:
        if finding.code in (UNAPPROVED, WAITING) and finding.subject is not None and chosen != STOP:
            answers.approved[finding.subject] = chosen


# -- the present as what the run knows


def keep_accepted(project: Project, verdict: Verdict, answers: Answers) -> bool:
    """Record the present of what was accepted, in one commit, so that it is not asked again. Return whether there was
    something to record."""
    world, at, redactor = verdict.world, project.now, project.redactor
    todo = [finding for finding in verdict.findings if finding.asked not in answers.carried]
    kept = [finding for finding in todo if answers.keeps(finding)]
    if any(finding.code == "files.half_restored" for finding in todo):
        from leftoff.engine.restoring import discard_new_files

        discard_new_files(world.project, known_to(world.store, world.row))
    if not world.is_head or not kept:
        return False
    workspace = Workspace(world.store, world.project, redactor, world.settings.files, at)
    codes = ("files.changed", "outputs.changed")
    changed = {code: [p for f in kept if f.code == code for p in f.paths] for code in codes}
    tracked = capture_paths(workspace, world.row, changed["files.changed"])
    outputs = []
    for key, about in world.artifacts.items() if changed["outputs.changed"] else ():
        path = about.get("path")
        full = os.path.join(world.project, path) if isinstance(path, str) else ""
        if path in changed["outputs.changed"] and os.path.isfile(full):
            name = key if key != path else None
            outputs.append(capture(workspace, full, step=about.get("step"), name=name))
    seen: dict[str, Any] = {}
    if any(finding.code in _OF_ISSUE for finding in kept):
        from leftoff.engine.issue_tracker import take_issue

        branch = world.facts.get("git_branch")
        seen = take_issue(world.settings, world.project, str(world.facts.get("issue") or ""), branch, at)
    cleared = [finding.clears for finding in kept if finding.clears]
    if not (tracked.captured or outputs or seen or cleared):
        return False

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        tracked.put(changes, row.seq + 1)
        for got in outputs:
            got.put(changes)
        if seen:
            from leftoff.engine.issue_tracker import put_issue

            put_issue(changes, seen)
        for collection, key in cleared:
            known = tx.row(row.run, collection, key) is not None
            if known and is_seen(tx, row.run, collection, key, world.row.seq):
                changes.delete(collection, key)

    blobs = [*tracked.blobs, *(got.blob for got in outputs if got.blob is not None)]
    run, run_id = world.row.run, world.run_id
    terms = Terms(at, blobs=blobs)
    report(world.store, lambda view: need_run(view, run, run_id), make, terms, scrubber=redactor)
    return True
