"""The life of a run: it is started, paused, finished and handed over; a person decides what it waits for.

Agents call `start`, `pause` and `finish` in every session, so the modules that know workflows, which are slow to
import, are imported late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from leftoff.clock import millis
from leftoff.engine.approvals import (
    REJECT,
    PendingApproval,
    StepDecision,
    ask_again,
    clear_blocks,
    record_decision,
    waiting,
)
from leftoff.engine.commit import Audit, Seal, Terms, report
from leftoff.engine.continue_run import EndedWork, Ending, end_work, start_run
from leftoff.engine.find import Deciding, Fit, Target, unmoved_run, until_unmoved
from leftoff.engine.judge import Verdict
from leftoff.engine.lease import refuse_driven
from leftoff.engine.lease import state as lease_state
from leftoff.engine.opening import Opening
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import ResumeRequest
from leftoff.engine.run_info import RunInfo
from leftoff.engine.run_reader import Reader, definition_of
from leftoff.engine.settings import Caller
from leftoff.engine.step_lifecycle import known_step
from leftoff.errors import Ambiguous, NotFound, Usage, usage_errors
from leftoff.host import ALIVE, UNKNOWN, user
from leftoff.model.changes import ChangeSet
from leftoff.model.ids import given_step, issue_id, shown_step
from leftoff.model.words import FINISHED
from leftoff.operations.run_reports import guard_of, session_of_caller, step_named, this_run, which_run
from leftoff.operations.runs import info_of, run_and_step, say_active_again, target, whole_run
from leftoff.operations.store_upkeep import prune_by_itself, say_outside
from leftoff.protocols.registry import protocol_of, state_of
from leftoff.store.base import Tx, View
from leftoff.store.rows import Holder, RunRow

# -- start


class Start(NamedTuple):
    """A run to start, on the caller's branch.

    ``total``: how many steps it will have, if they are not known yet. ``session``: the agent's session that drives it
    from now on; a session that the environment names is bound, and drives nothing. ``resume``: continue the unfinished
    run of the same work, if there is one.
    """

    workflow: str
    title: str | None = None
    run_id: str | None = None
    steps: Sequence[Any] = ()
    total: int | None = None
    variables: Mapping[str, Any] | None = None
    issue: str | None = None
    task: str | None = None
    agent: str | None = None
    session: str | None = None
    resume: bool = False


class StartedRun(NamedTuple):
    """The run, whether it was there before, and the unfinished ``twin`` of a new run.

    ``report``: why the unfinished run cannot be continued; then nothing was started. ``redacted``: the variables whose
    values were not stored, because they look like secrets.
    """

    info: RunInfo | None
    resumed: bool = False
    twin: RunInfo | None = None
    report: Verdict | None = None
    redacted: Sequence[str] = ()


def start_or_continue(project: Project, caller: Caller, wanted: Start) -> StartedRun:
    """Start a run, or continue the unfinished one. If that moves meanwhile, it is judged again."""
    return until_unmoved(lambda: _start(project, caller, wanted))


def _start(project: Project, caller: Caller, wanted: Start) -> StartedRun:
    store = project.store  # an error in the settings is not wrong usage
    git, issue = project.git_facts(), issue_id(wanted.issue)
    facts = {
        **git,
        "issue": issue,
        "task": wanted.task,
        "agent": wanted.agent,
        "session_id": wanted.session or session_of_caller(project, caller),
        "total": wanted.total,
    }
    opening = usage_errors(
        lambda: Opening(
            wanted.workflow,
            title=wanted.title,
            branch=caller.branch,
            run_id=wanted.run_id,
            steps=wanted.steps,
            variables=dict(wanted.variables or {}),
            facts=facts,
            context=project.surroundings(issue, git.get("git_branch")),
        )
    )
    judged = None
    if wanted.resume:
        from leftoff.operations.resuming import judge_twin

        judged = judge_twin(project, caller, opening)
    if judged is not None and judged.verdict is not None:
        return StartedRun(None, report=judged.verdict)
    need = judged.need if judged is not None else None
    named = wanted.session
    scrubber, now = project.redactor, project.now
    session = Holder("session", None, named, wanted.agent or f"session {named}", now) if named else None
    done = usage_errors(
        lambda: start_run(store, opening, now, scrubber=scrubber, resume=need, session=session)
    )
    twin = info_of(project, done.twin) if done.twin is not None else None
    started = StartedRun(info_of(project, done), done.resumed, twin, redacted=done.redacted)
    if done.resumed:
        from leftoff.operations.resuming import sync_issue

        sync_issue(project, store.read(this_run(done.run, done.run_id)))
    else:
        say_outside(project, done.run_id)
    prune_by_itself(project)
    return started


# -- pause and finish

ENDS = ("completed", "failed", "abandoned")


def pause_run(project: Project, caller: Caller, note: str | None = None) -> tuple[RunInfo, EndedWork]:
    """Seal a run that is worked on later."""
    done = _end(project, caller, "paused", note=note)
    return info_of(project, done.row), done


def finish_run(
    project: Project, caller: Caller, status: str = "completed", summary: str | None = None
) -> tuple[RunInfo, EndedWork, list[str]]:
    """End a run; steps that are left stay as they are. Return also the steps that a dead driver had left running."""
    if status not in ENDS:
        raise Usage(
            f"A run cannot be finished as {status!r}.", hint=f"status: {', '.join(ENDS[:2])} or {ENDS[2]}."
        )
    done = _end(project, caller, status, summary=summary)
    stopped: list[str] = []
    if status == "abandoned":
        from leftoff.operations.workflow_runs import forsake

        stopped = forsake(project, done.row)
    info = info_of(project, done.row)
    prune_by_itself(project)
    return info, done, stopped


def _end(project: Project, caller: Caller, status: str, **words: str | None) -> EndedWork:
    masked = {key: project.redactor.mask(text) for key, text in words.items() if text}
    ending = Ending(status, project.folder, session_of_caller(project, caller), **masked)
    terms = Terms(project.now, guard_of(caller))
    return end_work(project.store, which_run(project, caller), ending, terms, project.redactor)


# -- handover

_LOOKED_AT = 200  # checkpoints, for a session of the agent


def session_of_agent(project: Project, row: RunRow, agent: str) -> str | None:
    """Return the latest session of an agent that worked on a run: of its head, else of an older version."""
    if row.card.get("agent") == agent and row.session:
        return str(row.session)

    def look(view: View) -> str | None:
        for version in view.versions(row.run, sealed=True, limit=_LOOKED_AT):
            known = Reader(project.store, view, row.run, row.run_id, version.seq).plain("run")
            if known.get("agent") == agent and isinstance(known.get("session_id"), str):
                return str(known["session_id"])
        return None

    return project.store.read(look)


def hand_over_run(project: Project, caller: Caller, row: RunRow, agent: str, session: str | None) -> None:
    """Record in a checkpoint that another agent works on a run from now on. ``session``: its own earlier one, if any.

    Raise if the run is driven, or has changed since the agent's brief was made.
    """
    at, ours = project.now, session_of_caller(project, caller)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        refuse_driven(tx, row.run, row.run_id, at, ours)
        changes.put("run", "agent", agent)
        if session:
            changes.put("run", "session_id", session)
        elif row.session:
            changes.delete("run", "session_id")  # it was another agent's; the new one reports its own
        return Seal("manual", note=f"handed over to {agent}")

    report(project.store, unmoved_run(row), make, Terms(at), scrubber=project.redactor)


# -- approve and reject


class DecidedStep(NamedTuple):
    """What was decided, whether it was not decided before, and whether the run is driven.

    ``left``: whether anything is left to do in spite of a rejection; ``None`` if no driver executes the run.
    """

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


def decide_step(
    project: Project,
    caller: Caller,
    words: Sequence[str] = (),
    choice: str | None = None,
    note: str | None = None,
    seen: str | None = None,
    audit: Audit | None = None,
) -> DecidedStep:
    """Decide a step that waits for an approval, or a phase that a protocol has approved.

    ``words``: the run and the step, if the user named them. ``choice``: by default the only option that does not
    reject, or `approve`; if there are others, the user picks. ``seen``: the stamp of the question that the user was
    shown. ``audit`` is recorded in the same commit.
    """
    found, step = _meant(project, caller, words, "reject RUN" if choice == REJECT else "approve RUN")
    row = found.row
    if found.version is not None:
        raise Usage(
            f"{words[0]} is one version of run {row.run_id}; a decision is about the run as it is now.",
            hint=f"Name the run alone: {row.run_id}.",
        )
    questions = questions_of(project, row)
    if step is None:
        step = _only_step(caller, row, questions)
        seen = seen or (questions[step].stamp if len(questions) > 1 else None)
    step = step_named(project, row, step)
    options, asked = _phase_options(project, row, step), questions.get(step)
    offered = asked.approving if asked is not None else options
    if choice is None and caller.pick is not None and len(offered) > 1:
        told = f"Step {shown_step(step)} of run {row.run_id} offers several choices."
        choice = caller.pick(told, [(option, "", "", 0) for option in [*offered, REJECT]])
        seen = seen or (asked.stamp if asked is not None else None)
    masked = project.redactor.mask(note) if note else None
    said = StepDecision(choice, user(), project.now, masked, options, seen, audit)
    find, guard = this_run(row.run, row.run_id), guard_of(caller)
    done = record_decision(project.store, find, step, said, scrubber=project.redactor, guard=guard)
    say_active_again(project, row)
    lease = project.store.read(lambda view: view.lease(row.run))
    driven, left = lease_state(lease, project.now) in (ALIVE, UNKNOWN), None
    if done.rejected and not driven and definition_of(project.store, done.row) is not None:
        from leftoff.operations.resuming import judge

        now = Target(project.store.read(find), None)
        plan = judge(project, caller, ResumeRequest(now, resumes=False)).plan
        left = any(entry["action"] != "skip" for entry in plan)
    return DecidedStep(
        info_of(project, done.row), done.step, done.choice, done.rejected, done.changed, driven, left
    )


def questions_of(project: Project, row: RunRow) -> dict[str, PendingApproval]:
    """Return the questions of a run that wait for a decision, by step."""
    return project.store.read(lambda view: waiting(project.store, view, row))


def _meant(project: Project, caller: Caller, words: Sequence[str], call: str) -> tuple[Target, str | None]:
    """Return the run and the step that are meant. One word may be either; if it could be both, it is not guessed.

    A step is named by its whole path: a person who decides is not inside the step that LEFTOFF_STEP names.
    """

    def path_of(word: str) -> str:
        return usage_errors(lambda: given_step(word.removeprefix("/")))

    word, named = run_and_step(project, caller, words)
    if named is not None or word is None or caller.named is not None:
        step = path_of(named) if named is not None else None
        return _waiting_run(project, caller, word, step, call), step
    try:
        found = _waiting_run(project, caller, word, None, call)
    except NotFound as error:
        try:
            step = path_of(word)
            return _waiting_run(project, caller, None, step, call, strict=True), step
        except (NotFound, Usage) as other:
            raise (other if isinstance(other, Ambiguous) else error) from None
    steps = [*questions_of(project, found.row)]
    if word in steps and steps != [word]:
        raise Usage(
            f"{word} is a run and a step that is waiting for a decision.",
            hint=f"Nothing was changed. `leftoff approve {found.row.run_id} STEP` says which is meant.",
        )
    return found, None


def _waiting_run(
    project: Project, caller: Caller, ref: str | None, step: str | None, call: str, *, strict: bool = False
) -> Target:
    """Return the run in which the step (without one, any step) waits for a decision. ``strict``: accept no other."""

    def fits(view: View, row: RunRow) -> bool:
        if row.status in FINISHED:
            return False
        found = waiting(project.store, view, row)
        named = known_step(view, row.run, step) if step else None
        return (named in found or bool(_phase_options(project, row, named))) if named else bool(found)

    what = f"decision on {shown_step(step)}" if step else "decision"
    fit = Fit(fits, f"is waiting for a {what}", f"are waiting for a {what}", call)
    found = target(project, caller, ref, Deciding(caller, project.now, fit))
    if strict and not project.store.read(lambda view: fits(view, found.row)):
        raise NotFound(
            f"Nothing is called {shown_step(step or '')}: no run, and no step that is waiting for a decision."
        )
    return found


def _only_step(caller: Caller, row: RunRow, questions: Mapping[str, PendingApproval]) -> str:
    """Return the only step of a run that waits for a decision; of several the one that the user picks."""
    if len(questions) == 1:
        return next(iter(questions))
    if not questions:
        raise NotFound(
            f"Nothing in run {row.run_id} is waiting for a decision.",
            hint=f"`leftoff show {row.run_id} --steps` lists its steps.",
        )
    listed = [
        (step, asked.ask, "waiting", millis(asked.approval.get("asked_at")) or 0)
        for step, asked in questions.items()
    ]
    error = Ambiguous(
        f"{len(questions)} steps of run {row.run_id} are waiting for a decision.",
        listed=listed,
        hint=f"Name the step: `leftoff approve {row.run_id} STEP`.",
    )
    picked = caller.pick(error.message, listed) if caller.pick is not None else None
    if picked is None:
        raise error
    return picked


def _phase_options(project: Project, row: RunRow, step: str) -> list[str]:
    """Return what can be chosen if this is a phase of a protocol that a person approves."""
    protocol = protocol_of(row, project.folder, project.settings)
    if protocol is None or step not in protocol.approved_phases:
        return []
    state = state_of(project.store, Target(row, None), protocol)
    return protocol.options(step, state, project.folder)


# -- unblock


def unblock_run(
    project: Project,
    caller: Caller,
    ref: str | None = None,
    step: str | None = None,
    seen: int | None = None,
    audit: Audit | None = None,
) -> tuple[RunInfo, bool, list[str]]:
    """Clear what blocks a run, or one step of it. Return it, whether anything blocked it, and the steps to do again.

    ``seen``: clear only what blocked it at that version.
    """
    blocked = Fit(
        lambda view, row: row.status == "blocked" or view.leaf(row.run, "blocked") is not None,
        "is blocked",
        "are blocked",
        "unblock RUN",
    )
    found = whole_run(project, caller, ref, Deciding(caller, project.now, blocked))
    path = step_named(project, found.row, step) if step else None
    find = this_run(found.row.run, found.row.run_id)
    store, redactor = project.store, project.redactor
    done, steps = clear_blocks(store, find, path, project.now, seen=seen, scrubber=redactor, audit=audit)
    say_active_again(project, found.row)
    return info_of(project, done.row), done.version is not None, steps
