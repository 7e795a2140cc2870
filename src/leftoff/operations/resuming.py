"""Continue a run, in two calls: `judge` looks, without a lease, and `apply` changes what was agreed to.

Every face calls both. The face asks the questions in between (`engine/resume_answers.py`). `apply` checks that the
run is as it was judged, in the transaction that counts; if it moved, the face judges again, and asks only what is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.engine import approvals
from leftoff.engine.commit import NO_GUARD, Guard, Make, Terms
from leftoff.engine.commit import report as write_report
from leftoff.engine.continue_run import Ending, continue_run, end_work, start_run, unfinished
from leftoff.engine.find import RESUMES, Moved, Target, need_run, need_unmoved, unmoved_run
from leftoff.engine.findings import ASK, REFUSE, Finding
from leftoff.engine.judge import CheckProvider, Verdict, judge_run
from leftoff.engine.opening import Opening
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import Answerer, Answers, ResumeRequest, keep_accepted, take_answers
from leftoff.engine.run_reader import definition_of, met, read_collection
from leftoff.engine.settings import Caller
from leftoff.engine.show import in_order
from leftoff.engine.step_lifecycle import steps_in
from leftoff.errors import (
    CannotResume,
    Conflict,
    Corrupt,
    Invalid,
    NeedsPerson,
    NoCheckpoint,
    NotFound,
    Unsupported,
    Usage,
)
from leftoff.host import user
from leftoff.model.changes import ChangeSet
from leftoff.model.ids import of_run, shown_step, slug
from leftoff.model.words import UNFINISHED
from leftoff.operations import runs
from leftoff.operations.run_reports import check_free, guard_of, session_of_caller, this_run, which_run
from leftoff.protocols.registry import protocol_checks, protocol_of, state_of
from leftoff.store.base import Tx, View
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.operations.checkpoints import History
    from leftoff.operations.workflow_runs import Execution
    from leftoff.protocols.document_draft import State
    from leftoff.protocols.protocol import Protocol
    from leftoff.workflow.driver import Driver
    from leftoff.workflow.workflow_checks import WorkflowChecks

# What came of it: the run is left as it is; ended, by its protocol or because a person starts fresh; running; to be
# continued by its program; to be driven; or it has to be judged again first.
STOPPED, OVER, RUNNING, PROGRAM, DRIVE, AGAIN = "stopped", "over", "running", "program", "drive", "again"


class Resumed(NamedTuple):
    """What came of it.

    ``changes``: the variables that were set. ``fresh``: the run that was started instead. ``driver``: drives the run.
    ``question``: what the protocol asks before the run is judged again; no means: start fresh. ``findings``: all that
    were accepted.
    """

    outcome: str
    verdict: Verdict
    changes: ChangeSet | None = None
    fresh: RunRow | None = None
    driver: Driver | None = None
    question: str | None = None
    findings: list[Finding] = []

    def refuse_program(self) -> None:
        """Raise `Conflict` if only the run's program can continue it."""
        row = self.verdict.request.target.row
        if self.outcome == PROGRAM:
            raise Conflict(
                f"Run {row.run_id} belongs to the program {row.card.get('program')}, which continues it.",
                hint="Start that program again.",
            )


# -- which run


def find(project: Project, caller: Caller, ref: str | None, checkpoint: str | None = None) -> Target:
    """Return the run that is meant, and the version to go back to; report which of several is taken."""
    which = which_run(project, caller, RESUMES)
    if checkpoint is None:
        return runs.target(project, caller, ref, which)
    if ref is not None or caller.named is not None:
        named = runs.target(project, caller, ref, which)
        found = runs.target(project, caller, of_run(named.row.run_id, checkpoint), which)
        if named.version is not None and named.seq != found.seq:
            raise Usage(
                f"Two versions are named: {ref or caller.named}, and --checkpoint {checkpoint}.",
                hint="Nothing was changed. Name one of them.",
            )
        return found
    missing = NoCheckpoint(f"There is no checkpoint {checkpoint}.")
    try:
        found = runs.target(project, caller, checkpoint, which)
    except NoCheckpoint:
        raise
    except NotFound:
        raise missing from None
    if found.version is None:
        raise missing
    return found


def to_go_back_to(project: Project, caller: Caller, ref: str | None, checkpoint: str | None) -> list[History]:
    """The checkpoints of the run that is meant; without a name, of every unfinished one of the branch."""
    from leftoff.operations.checkpoints import History

    named = ref is not None or checkpoint or caller.named or caller.run or caller.session
    if not named and project.store.exists():
        where = {"branch": caller.branch, "status": UNFINISHED}
        rows = project.store.read(lambda view: view.list_runs(where))
        if len(rows) > 1:
            return [History(project, Target(row, None)) for row in rows]
    return [History(project, find(project, caller, ref, checkpoint))]


def unmet_criteria(project: Project, row: RunRow) -> tuple[list[str], list[str]]:
    """The criteria of a completed run that are not met; and the steps that could meet them."""
    out: dict[str, str | None] = {}
    for key, value in read_collection(project.store, row.run, row.run_id, "criterion").items():
        if met(value.plain) is False:
            step = value.plain.get("step") if isinstance(value.plain, dict) else None
            out[key] = step if isinstance(step, str) else None
    if all(out.values()):
        return [*out], [step for step in dict.fromkeys(out.values()) if step]
    steps = read_collection(project.store, row.run, row.run_id, "step")
    return [*out], in_order({path: value.plain for path, value in steps.items()})


def subtask_for(project: Project, row: RunRow, name: str) -> tuple[str, dict[str, Any]]:
    """The step that a word means; of a criterion that a completed run does not meet, the one that could meet it: a
    subtask of that name, if none is known, which is added when the run continues."""
    if row.status != "completed" or definition_of(project.store, row) is not None:
        return name, {}
    if name in read_collection(project.store, row.run, row.run_id, "step"):
        return name, {}
    found = read_collection(project.store, row.run, row.run_id, "criterion").get(name)
    if found is None or met(found.plain) is not False:
        return name, {}
    step = found.plain.get("step") if isinstance(found.plain, dict) else None
    if isinstance(step, str):
        return step, {}
    from shlex import quote

    path = slug(name)
    how = f"Meet the criterion {name}, then report it: leftoff put criterion {quote(name)} true"
    return path, {path: {"instructions": how}}


# -- judge, then apply


def judge(project: Project, caller: Caller, request: ResumeRequest) -> Verdict:
    """Compare the world with a run: the verdict that every face goes by. Nothing is changed."""
    target = request.target
    there = project.seen_from(target.row)
    seq = target.version.seq if target.version is not None else None
    chain: list[CheckProvider] = []
    try:
        if definition_of(there.store, target.row, seq) is not None:
            from leftoff.workflow.workflow_checks import WorkflowChecks, definitions_of

            found = definitions_of(there, target, request.variables, request.workflow)
            assert found is not None
            chain.append(WorkflowChecks(found, there.store_folder, request.variables))
    except (Corrupt, Unsupported):  # the checks of its integrity report it, and nothing else can be known
        pass
    protocol = protocol_checks(there, target)
    if protocol is not None:
        chain.append(protocol)
    return judge_run(there, request, chain, session_of_caller(project, caller))


def workflow_checks_of(verdict: Verdict) -> WorkflowChecks | None:
    """Return what is known of the workflow that executes the run, None if no driver of leftoff does."""
    return next((checks for checks in verdict.providers if checks.executes), None)  # type: ignore[return-value]


def judge_to_resume(project: Project, caller: Caller, request: ResumeRequest) -> Verdict:
    """Judge a run that is to continue, in its own work tree. Raise if it could not be executed at all."""
    project.move_to_worktree(request.target.row)
    verdict = judge(project, caller, request)
    if verdict.problem is not None and verdict.exit_code == CannotResume.exit_code:
        raise verdict.problem
    return verdict


def resume_unasked(project: Project, caller: Caller, request: ResumeRequest) -> Resumed:
    """Continue a run that an agent or a person reports on, for a face that asks nothing by itself."""
    answers, accepted = Answers(), dict[Any, Finding]()
    while True:
        verdict = judge_to_resume(project, caller, request)
        if not take_answers(verdict, answers, Answerer()):
            return Resumed(STOPPED, verdict)
        accepted.update((finding.asked, finding) for finding in verdict.findings)
        done = apply(project, caller, verdict, answers)
        if done.outcome != AGAIN:
            return done._replace(findings=[*accepted.values()])


def apply(
    project: Project, caller: Caller, verdict: Verdict, answers: Answers, how: Execution | None = None
) -> Resumed:
    """Do what was agreed to, and continue the run. ``how``: it is executed, if it is a run of a workflow file.

    The first write to an archived run makes it active.
    """
    try:
        done = _apply(project, caller, verdict, answers, how)
    except Moved as error:
        answers.moved(error)
        return Resumed(AGAIN, verdict)
    if done.outcome != AGAIN:
        runs.say_active_again(project, verdict.request.target.row)
    return done


def _apply(
    project: Project, caller: Caller, verdict: Verdict, answers: Answers, how: Execution | None
) -> Resumed:
    row, request, checks = verdict.world.row, verdict.request, workflow_checks_of(verdict)
    here = (row.seq, row.digest)
    if answers.fresh and answers.greeted in (None, here):
        project.store.read(lambda view: need_unmoved(view, row))
        return Resumed(OVER, verdict, fresh=_start_over(project, caller, row, driven=checks is not None))
    protocol = protocol_of(row, project.folder, project.settings)
    if protocol is not None and not answers.carried and answers.greeted != here:
        answers.fresh = False
        _approve(project, Target(row, request.target.version), answers.approved, protocol)
        state, row = _greet(project, protocol, request.target)
        if protocol.is_over(state):
            return Resumed(OVER, verdict)
        answers.greeted = (row.seq, row.digest)
        return Resumed(AGAIN, verdict, question=None if request.yes else protocol.question(state))
    final = answers.final(verdict)
    if checks is not None:  # take the lease, carry out the answers under it, and return the run's driver
        from leftoff.operations.workflow_runs import check_executable, secrets_of, setting_of
        from leftoff.workflow.parse_definition import check_given
        from leftoff.workflow.take_up import TakeUp

        assert how is not None
        new = checks.new
        if new is None:
            raise checks.problem or NotFound("The run no longer has its definition.")
        check_executable(project, new, fresh=False)
        check_given(new, final.variables, read_collection(project.store, row.run, row.run_id, "variable"))
        setting = setting_of(project, how, secrets_of(new, answers.values), row.issue)
        taken = TakeUp(setting, verdict, checks, answers, final)
        try:
            taken.take()
            carry_out(project, caller, verdict, answers, taken.guard)
            return Resumed(DRIVE, verdict, driver=taken.put_back())
        except BaseException:
            taken.let_go()
            raise
    session = session_of_caller(project, caller)
    check_free(project, caller, final.target)  # a question may have been open for long
    program = request.target.row.card.get("program") is not None
    if program and final.goes_on and not verdict.findings:
        return Resumed(PROGRAM, verdict)
    if carry_out(project, caller, verdict, answers):
        return Resumed(AGAIN, verdict)  # other processes may have committed next to it
    try:
        changes = continue_run(
            project.store,
            final,
            Terms(project.now, guard_of(caller)),
            decided=row,
            scrubber=project.redactor,
            session=session,
        )
    except Invalid as error:  # a variable that cannot be kept
        hint = error.hint or "Nothing was changed; give something else."
        raise Usage(error.message, hint=hint) from None
    sync_issue(project, request.target.row)
    return Resumed(PROGRAM if program else RUNNING, verdict, changes)


def carry_out(
    project: Project, caller: Caller, verdict: Verdict, answers: Answers, guard: Guard = NO_GUARD
) -> bool:
    """Restore files, clear errors, and record the present of what was accepted. Return whether something was written.

    ``guard``: of the driver, if there is one by now.
    """
    target, found = verdict.request.target, verdict.findings
    todo = [finding for finding in found if finding.asked not in answers.carried]
    written = False
    if answers.restore or answers.bring_back:
        from leftoff.operations.run_files import restorer_of

        paths = sorted(answers.bring_back)
        paths += [p for f in todo if f.code == "files.changed" and answers.restore for p in f.paths]
        hand = restorer_of(project, caller, target, guard if guard.epoch is not None else None)
        hand.outputs = frozenset(answers.bring_back)
        hand.restore(paths, lambda plan: True)
        left = hand.plan(paths).entries
        if left:
            raise NeedsPerson(
                f"{left[0].path} was not restored: {left[0].why}.",
                hint="The run was not continued. `leftoff verify` says what else can be done.",
            )
        project.say(f"leftoff: restored {', '.join(paths[:_SHOWN])}{'…' if len(paths) > _SHOWN else ''}.")
        written = True
    if answers.unblock:
        find = this_run(target.row.run, target.row.run_id)
        approvals.clear_blocks(
            project.store, find, None, project.now, seen=verdict.seq, scrubber=project.redactor
        )
        written = True
    follower = project.store.follower
    if follower is not None and any(finding.code == "sync.deleted" for finding in todo):
        follower.write_again(target.row.run)
        written = True
    written |= keep_accepted(project, verdict, answers)
    answers.restore = answers.unblock = False
    answers.bring_back.clear()
    answers.carried.update(finding.asked for finding in found)
    return written


_SHOWN = 5


# -- by the rules of a protocol: what it settles, says and asks


def sync_issue(project: Project, row: RunRow) -> None:
    """Set a protocol's label of the issue to the run's state. Labels that a person changed were adopted before. If the
    tracker fails, that stops nothing."""
    protocol = protocol_of(row, project.folder, project.settings) if row.issue else None
    if protocol is None:
        return
    from leftoff.engine import issue_tracker as issues

    wanted = protocol.state_label(state_of(project.store, Target(row, None), protocol))
    try:
        had = issues.set_state(project.settings, project.folder, str(row.issue), wanted) if wanted else None
    except issues.Offline as error:
        project.say(f"leftoff: issue #{row.issue} was not updated: {error}.")
        return
    if had is None:
        return
    project.say(f"leftoff: issue #{row.issue} is {wanted} now; it was {had}.")
    branch = row.card.get("git_branch")
    taken = issues.take_issue(project.settings, project.folder, str(row.issue), branch, project.now)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        issues.put_issue(changes, taken)

    _report(project, row, make)


def _report(project: Project, row: RunRow, make: Make) -> None:
    find = this_run(row.run, row.run_id)
    write_report(project.store, find, make, Terms(project.now), scrubber=project.redactor)


def _approve(project: Project, target: Target, approved: dict[str, str], protocol: Protocol) -> None:
    """Record what a person said of the protocol's phases, of the run as they saw it: else ``Moved``."""
    row = target.row
    for phase, choice in [*approved.items()]:
        options = protocol.options(phase, state_of(project.store, target, protocol), project.folder)
        if choice in options:
            said = approvals.StepDecision(choice, user(), project.now, options=options)
            done = approvals.record_decision(
                project.store, unmoved_run(row), phase, said, scrubber=project.redactor
            )
            row = done.left
        approved.pop(phase)


def _greet(project: Project, protocol: Protocol, target: Target) -> tuple[State, RunRow]:
    """Settle what an output settles, and print the protocol's greeting. Return the state and the run that it is about.
    A run with nothing left ends, unless another process continues it in the meantime: ``Moved``."""
    last = state_of(project.store, target, protocol).at
    if target.version is None:
        _settle(project, protocol, target.row)
    row = project.store.read(this_run(target.row.run, target.row.run_id))
    state = state_of(project.store, target, protocol)
    state.at = last  # what was settled just now is not activity of the run
    if protocol.is_over(state):
        ending = Ending("completed", project.folder)
        end_work(project.store, unmoved_run(row), ending, Terms(project.now), project.redactor)
        project.say(f"leftoff: {target.row.run_id} is complete: nothing is left to do.")
        return state, row
    for line in protocol.greeting(state, project.folder, project.now):
        project.say(line)
    return state, row


def _settle(project: Project, protocol: Protocol, row: RunRow) -> None:
    """End the steps in flight whose output says how they ended, unless they were reported on since."""
    from leftoff.protocols.protocol import state_at

    store = project.store
    state = store.read(lambda view: state_at(store, view, row, protocol))
    ended = protocol.settled(state, project.folder)
    settled: dict[str, dict[str, Any]] = {}

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        steps, before = steps_in(store, tx, row, changes, project.now), state.of("step")
        settled.clear()
        settled.update((path, record) for path, record in ended.items() if steps.get(path) == before[path])
        for path, record in settled.items():
            steps.move(path, record)

    if ended:
        _report(project, row, make)
    for path, record in settled.items():
        project.say(f"leftoff: {shown_step(path)} is {record['status']}: its output says so.")


def _start_over(project: Project, caller: Caller, row: RunRow, *, driven: bool) -> RunRow | None:
    """Abandon the run, and start another of the same work. A run of a workflow file, or of a program, is started by its
    driver."""
    from leftoff.operations.workflow_runs import give_up

    give_up(project, row)
    if driven or row.card.get("program") is not None:
        project.say(f"leftoff: {row.run_id} is abandoned; nothing of it was deleted.")
        return None
    facts = {key: row.card.get(key) for key in ("issue", "task", "agent")}
    facts |= {**project.git_facts(), "session_id": session_of_caller(project, caller)}
    opening = Opening(
        row.workflow, title=row.title if row.title != row.run_id else None, branch=row.branch, facts=facts
    )
    begun = start_run(project.store, opening, project.now, scrubber=project.redactor)
    project.say(f"leftoff: {row.run_id} is abandoned and archived; {begun.run_id} starts fresh.")
    return project.store.read(lambda view: need_run(view, begun.run, begun.run_id))


# -- `start --resume`, which asks nothing


class JudgedTwin(NamedTuple):
    """The unfinished run that `start --resume` would continue, as it was judged, or None. ``verdict``: what keeps it
    from continuing. ``asks``: whether another run must also be judged first."""

    row: RunRow | None
    verdict: Verdict | None = None
    asks: bool = True

    def need(self, view: View, there: RunRow) -> None:
        """Raise ``Moved`` if this run is not the one that was judged, or has moved since."""
        if not self.asks:
            return
        if self.row is None or self.row.run != there.run:
            raise Moved(f"Run {there.run_id} was begun meanwhile.")
        need_unmoved(view, self.row)


def judge_twin(project: Project, caller: Caller, opening: Opening) -> JudgedTwin:
    """Judge the unfinished run that `start --resume` would continue.

    A run that follows a protocol continues by its rules, and is greeted in its words. Any other just continues, unless
    a model asks: it gets what `resume` would ask.
    """
    store, row = project.store, None
    if store.exists():
        row = store.read(lambda view: unfinished(view, store.follower, opening, project.now))
    protocol = protocol_of(row, project.folder, project.settings) if row is not None else None
    if row is None or row.workflow != opening.workflow or (protocol is None and caller.person):
        return JudgedTwin(row, asks=not caller.person)
    project.move_to_worktree(row)
    target = Target(row, None)
    for greeted in (False, True):
        verdict = judge(project, caller, ResumeRequest(target))
        # start looks itself at who drives it
        verdict.findings = [found for found in verdict.findings if not found.code.startswith("lease.")]
        if verdict.verdict in (ASK, REFUSE):
            return JudgedTwin(verdict.world.row, verdict)
        if protocol is None or greeted:
            break
        judged = verdict.world.row
        store.read(unmoved_run(judged))
        _greet(project, protocol, target)  # which may settle what an output settles
        now = store.read(this_run(row.run, row.run_id))
        if now.seq == judged.seq or now.status not in UNFINISHED:
            return JudgedTwin(now)
    return JudgedTwin(verdict.world.row)
