"""What only a person decides: approvals, and that what blocked a run is resolved."""

from __future__ import annotations

from leftoff.clock import millis
from leftoff.engine.read.find import Target
from leftoff.engine.read.which import Deciding, Fit
from leftoff.engine.steps.approvals import REJECT, ask_again, waiting
from leftoff.engine.steps.reports import known_step
from leftoff.errors import Ambiguous, NotFound, Usage
from leftoff.host import user
from leftoff.model.fields import Fields
from leftoff.model.ids import given_step, shown_step
from leftoff.model.words import FINISHED
from leftoff.operations.reports import guard_of, step_of, this_run, usage_errors
from leftoff.operations.runs import info, run_and_step, say_active_again, target, whole_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.write.audit import Audit
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow


class Decision(Fields):
    """A decision to record. ``words``: the run and the step, as far as somebody named them. ``choice``: without one,
    the only option that does not reject, or `approve`; of others a person chooses. ``seen``: what stands for the
    question that they were shown. ``audit``: recorded in the same commit."""

    words: Sequence[str] = ()
    choice: str | None = None
    note: str | None = None
    seen: str | None = None
    audit: Audit | None = None


class Decided(Fields):
    """What is decided, whether it was not before, and whether somebody drives the run, who goes on with it.
    ``left``: whether anything is left to do in spite of a rejection; ``None`` where no runner executes the run."""

    info: RunInfo
    step: str
    choice: str
    rejected: bool
    changed: bool
    driven: bool
    left: bool | None = None

    @property
    def advice(self) -> str:
        """Return what to do now, in a sentence."""
        resume, again = f"`leftoff resume {self.info.run_id}`", f"`{ask_again(self.info.run_id, self.step)}`"
        if self.driven:
            return "The process that drives the run continues with it."
        if self.left is None:
            return f"{resume} continues."
        return f"{resume} continues without it; {again} asks again." if self.left else f"{again} asks again."

    def to_json(self) -> dict[str, Any]:
        return self.info.to_json()


def decide(project: Project, caller: Caller, decision: Decision) -> Decided:
    """Decide a step that waits for an approval, or a phase that a protocol has approved."""
    from leftoff.engine.steps import approvals
    from leftoff.engine.write.lease import state
    from leftoff.operations.execution.workflow_file import is_driven

    found, step = _asked(project, caller, decision.words)
    row = found.row
    if found.version is not None:
        raise Usage(
            f"{decision.words[0]} is one version of run {row.run_id}; a decision is about the run as it is now.",
            hint=f"Name the run alone: {row.run_id}.",
        )
    if step is None:
        step, seen = _only_step(project, caller, row)
        decision = decision.but(seen=decision.seen or seen)
    step = step_of(project, row, step)
    note = project.redactor.mask(decision.note) if decision.note else None
    options = _phase_options(project, row, step)
    choice, seen = _chosen(project, caller, row, step, decision, options)
    said = approvals.Decision(choice, user(), project.now, note, options, seen, decision.audit)

    find, guard = this_run(row.run, row.run_id), guard_of(caller)
    done = approvals.decide(project.store, find, step, said, scrubber=project.redactor, guard=guard)
    say_active_again(project, row)
    row = done.row
    driven = state(project.store.read(lambda view: view.lease(row.run)), project.now) in ("alive", "unknown")
    left = (
        _is_left(project, caller, row) if done.rejected and not driven and is_driven(project, row) else None
    )
    return Decided(info(project, row), done.step, done.choice, done.rejected, done.changed, driven, left)


def questions_of(project: Project, run: int, run_id: str) -> list[tuple[Decision, str, list[str]]]:
    """The steps of a run that wait for an approval: each as a decision to be taken, its question, and all answers that
    it takes."""
    row = project.store.read(this_run(run, run_id))
    found = project.store.read(lambda view: waiting(project.store, view, row))
    return [
        (Decision((run_id, step), seen=asked.stamp), asked.ask, [*asked.offered, REJECT])
        for step, asked in found.items()
    ]


def _is_left(project: Project, caller: Caller, row: RunRow) -> bool:
    """Whether resuming would do anything."""
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.operations.resume.resuming import judge

    now = Target(project.store.read(this_run(row.run, row.run_id)), None)
    plan = judge(project, caller, ResumeRequest(now, resumes=False)).plan
    return any(entry["action"] != "skip" for entry in plan)


def _asked(project: Project, caller: Caller, words: Sequence[str]) -> tuple[Target, str | None]:
    """The run and the step that are meant. One word may be either; one that could be both is not guessed."""
    word, named = run_and_step(project, caller, words)
    if named is not None or word is None or caller.named is not None:
        step = _step_path(named) if named is not None else None
        return _waiting_run(project, caller, word, step), step
    try:
        found = _waiting_run(project, caller, word, None)
    except NotFound as error:
        try:
            step = _step_path(word)
            return _waiting_run(project, caller, None, step, strict=True), step
        except (NotFound, Usage) as other:
            raise (other if isinstance(other, Ambiguous) else error) from None
    steps = project.store.read(lambda view: [*waiting(project.store, view, found.row)])
    if word in steps and steps != [word]:
        raise Usage(
            f"{word} is a run and a step that is waiting for a decision.",
            hint=f"Nothing was changed. `leftoff approve {found.row.run_id} STEP` says which is meant.",
        )
    return found, None


def _waiting_run(
    project: Project, caller: Caller, ref: str | None, step: str | None, *, strict: bool = False
) -> Target:
    """The run in which something waits for a decision: the step, where one is named. ``strict``: none else will do."""
    store = project.store

    def fits(view: View, row: RunRow) -> bool:
        if row.status in FINISHED:
            return False
        found = waiting(store, view, row)
        named = known_step(view, row.run, step) if step else None
        return (named in found or bool(_phase_options(project, row, named))) if named else bool(found)

    what = f"decision on {shown_step(step)}" if step else "decision"
    fit = Fit(fits, f"is waiting for a {what}", f"are waiting for a {what}")
    found = target(project, caller, ref, Deciding(caller, project.now, fit))
    if strict and not project.store.read(lambda view: fits(view, found.row)):
        raise NotFound(
            f"Nothing is called {shown_step(step or '')}: no run, and no step that is waiting for a decision."
        )
    return found


def _step_path(word: str) -> str:
    """The whole path: whoever decides is not inside the step that LEFTOFF_STEP names."""
    return usage_errors(lambda: given_step(word.removeprefix("/")))


def _only_step(project: Project, caller: Caller, row: RunRow) -> tuple[str, str | None]:
    """The only step of a run that waits for a decision; of several, the one that a person picks, and what stands for
    the question that they saw."""
    found = project.store.read(lambda view: waiting(project.store, view, row))
    if len(found) == 1:
        return next(iter(found)), None
    if not found:
        raise NotFound(
            f"Nothing in run {row.run_id} is waiting for a decision.",
            hint=f"`leftoff show {row.run_id} --steps` lists its steps.",
        )
    listed = [
        (step, asked.ask, "waiting", millis(asked.approval.get("asked_at")) or 0)
        for step, asked in found.items()
    ]
    error = Ambiguous(
        f"{len(found)} steps of run {row.run_id} are waiting for a decision.",
        listed=listed,
        hint=f"A decision is never guessed: `leftoff approve {row.run_id} STEP`.",
    )
    picked = caller.pick(error.message, listed) if caller.pick is not None else None
    if picked is None:
        raise error
    return picked, found[picked].stamp


def _chosen(
    project: Project, caller: Caller, row: RunRow, step: str, decision: Decision, options: Sequence[str]
) -> tuple[str | None, str | None]:
    """The choice that was named; else, where the step or phase offers several, the one that a person picks. And what
    stands for the question that they saw."""
    if decision.choice is not None or caller.pick is None:
        return decision.choice, decision.seen
    asked = project.store.read(lambda view: waiting(project.store, view, row).get(step))
    offered = asked.choices() if asked is not None else options
    if len(offered) < 2:
        return decision.choice, decision.seen
    told = f"Step {shown_step(step)} of run {row.run_id} offers several choices."
    picked = caller.pick(told, [(option, "", "", 0) for option in [*offered, REJECT]])
    return picked, decision.seen or (asked.stamp if asked is not None else None)


def _phase_options(project: Project, row: RunRow, step: str) -> list[str]:
    """What can be chosen where this is a phase of a protocol that a person approves."""
    from leftoff.dialects.verdict import dialect_of, state_of

    dialect = dialect_of(row, project.folder, project.settings)
    if dialect is None or step not in dialect.approved_phases:
        return []
    state = state_of(project.store, Target(row, None), dialect)
    return dialect.options(step, state, project.folder)


class Unblocked(Fields):
    """The run, whether anything blocked it, and the steps that are to be done again."""

    info: RunInfo
    changed: bool
    steps: list[str]

    def to_json(self) -> dict[str, Any]:
        return self.info.to_json()


def unblock(
    project: Project,
    caller: Caller,
    ref: str | None = None,
    step: str | None = None,
    seen: int | None = None,
    audit: Audit | None = None,
) -> Unblocked:
    """What blocks a run, or one step of it, is resolved. ``seen``: as far as it was there at that version."""
    from leftoff.engine.steps.unblock import unblock as clear

    blocked = Fit(
        lambda view, row: row.status == "blocked" or view.leaf(row.run, "blocked") is not None,
        "is blocked",
        "are blocked",
    )
    found = whole_run(project, caller, ref, Deciding(caller, project.now, blocked))
    path = step_of(project, found.row, step) if step else None
    find = this_run(found.row.run, found.row.run_id)
    done = clear(project.store, find, path, project.now, seen=seen, scrubber=project.redactor, audit=audit)
    say_active_again(project, found.row)
    return Unblocked(info(project, done.done.row), done.done.version is not None, done.steps)
