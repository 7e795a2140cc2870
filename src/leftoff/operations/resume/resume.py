"""Going on with a run: the verdict on it, the answers that it takes, and what is done about them.

Every face goes this way; they differ only in who answers. A run that somebody reports on is running again when `resume`
returns; one of a workflow file is agreed on, and `operations.workflow_runs` drives it.
"""

from __future__ import annotations

from shlex import quote
from typing import NamedTuple

from leftoff.dialects.protocol import state_at
from leftoff.dialects.verdict import dialect_of, state_of
from leftoff.engine.lifecycle.opening import Opening
from leftoff.engine.lifecycle.reported_runs import Ending, end_work, start_run, unfinished
from leftoff.engine.read.find import RESUMES, Target
from leftoff.engine.read.show import in_order
from leftoff.engine.read.state import met, read
from leftoff.engine.resume.answers import take_answers
from leftoff.engine.resume.continue_run import continue_run
from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.engine.resume.request import ResumeRequest
from leftoff.engine.steps.lifecycle import steps_in
from leftoff.engine.write.commit import Terms
from leftoff.engine.write.head import need_run
from leftoff.engine.write.report import report as write_report
from leftoff.engine.write.unmoved import Moved, need_unmoved, unmoved_run, until_unmoved
from leftoff.errors import CannotResume, Conflict, Invalid, NeedsPerson, NoCheckpoint, NotFound, Usage
from leftoff.model.ids import of_run, shown_step, slug
from leftoff.model.words import UNFINISHED
from leftoff.operations.checkpoints import History
from leftoff.operations.resume.verdict import verify
from leftoff.operations.run_reports import check_free, guard_of, session_of_caller, this_run, which_run
from leftoff.operations.runs import say_active_again, target
from leftoff.operations.workflow_runs import give_up, is_driven

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import State
    from leftoff.dialects.protocol import Dialect
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.resume.answers import Answerer, Answers
    from leftoff.engine.resume.verdict import Report
    from leftoff.engine.write.commit import Guard, Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

STOPPED, GIVEN_UP, AGREED, RUNNING = "stopped", "given up", "agreed", "running"
PROGRAM = "program"  # whoever started it goes on with it when it is started again


class Resumed(NamedTuple):
    """What came of it: it does not go on (left as it is, or given up because a person said so), is to be driven by
    whoever asked, or is running.

    ``request``: what was asked for, with what was answered. ``changes``: the variables that were given. ``fresh``: the
    run that was begun instead.
    """

    outcome: str
    report: Report
    request: ResumeRequest
    answers: Answers | None = None
    changes: ChangeSet | None = None
    fresh: RunRow | None = None

    def refuse_program(self) -> None:
        """For those who cannot start the program that alone goes on with the run."""
        row = self.request.target.row
        if self.outcome == PROGRAM:
            raise Conflict(
                f"Run {row.run_id} belongs to the program {row.card.get('program')}, which continues it.",
                hint="Start that program again.",
            )


# -- which run


def find(project: Project, caller: Caller, ref: str | None, checkpoint: str | None = None) -> Target:
    """The run that is meant, and the version to go back to; which of several is taken is said."""
    if checkpoint is not None:
        return _find_checkpoint(project, caller, ref, checkpoint)
    return target(project, caller, ref, which_run(project, caller, RESUMES))


def _find_checkpoint(project: Project, caller: Caller, ref: str | None, checkpoint: str) -> Target:
    which = which_run(project, caller, RESUMES)
    if ref is not None or caller.named is not None:
        named = target(project, caller, ref, which)
        found = target(project, caller, of_run(named.row.run_id, checkpoint), which)
        if named.version is not None and named.seq != found.seq:
            raise Usage(
                f"Two versions are named: {ref or caller.named}, and --checkpoint {checkpoint}.",
                hint="Nothing was changed. Name one of them.",
            )
        return found
    missing = NoCheckpoint(f"There is no checkpoint {checkpoint}.")
    try:
        found = target(project, caller, checkpoint, which)
    except NoCheckpoint:
        raise
    except NotFound:
        raise missing from None
    if found.version is None:
        raise missing
    return found


def to_go_back_to(project: Project, caller: Caller, ref: str | None, checkpoint: str | None) -> list[History]:
    """The checkpoints of the run that is meant; where none is named, of every unfinished one of the branch."""
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
    for key, value in read(project.store, row.run, row.run_id, "criterion").items():
        if met(value.plain) is False:
            step = value.plain.get("step") if isinstance(value.plain, dict) else None
            out[key] = step if isinstance(step, str) else None
    if all(out.values()):
        return [*out], [step for step in dict.fromkeys(out.values()) if step]
    steps = read(project.store, row.run, row.run_id, "step")
    return [*out], in_order({path: value.plain for path, value in steps.items()})


def subtask_for(project: Project, row: RunRow, name: str) -> tuple[str, dict[str, Any]]:
    """The step that a word means; of a criterion that a completed run does not meet, the one that could meet it: a
    subtask of that name, where none is known, which is to be added when the run goes on."""
    if row.status != "completed" or is_driven(project, row):
        return name, {}
    if name in read(project.store, row.run, row.run_id, "step"):
        return name, {}
    found = read(project.store, row.run, row.run_id, "criterion").get(name)
    if found is None or met(found.plain) is not False:
        return name, {}
    step = found.plain.get("step") if isinstance(found.plain, dict) else None
    if isinstance(step, str):
        return step, {}
    path = slug(name)
    how = f"Meet the criterion {name}, then report it: leftoff put criterion {quote(name)} true"
    return path, {path: {"instructions": how}}


# -- the verdict, and going on


def resume(project: Project, caller: Caller, request: ResumeRequest, answerer: Answerer) -> Resumed:
    """Check the world, take the answers that it needs, and continue. If another process reports meanwhile, the verdict
    was about another state: it is made again. The first write to an archived run makes it active."""
    done = until_unmoved(lambda: _resume(project, caller, request, answerer))
    say_active_again(project, request.target.row)
    return done


class Judgement(NamedTuple):
    """A verdict, with the answers that it took."""

    report: Report
    answers: Answers | None


def _judgement(project: Project, caller: Caller, request: ResumeRequest, answerer: Answerer) -> Judgement:
    row = request.target.row
    project.move_to_worktree(row)
    report = verify(project, caller, request)
    if report.problem is not None and report.exit_code == CannotResume.exit_code:
        raise report.problem
    quiet = ("definition.changed",) if is_driven(project, row) else ()  # whoever drives it tells that
    return Judgement(report, take_answers(report, request, answerer, quiet))


def _resume(project: Project, caller: Caller, request: ResumeRequest, answerer: Answerer) -> Resumed:
    judged = _judgement(project, caller, request, answerer)
    report, answers, row = judged.report, judged.answers, request.target.row
    driven = is_driven(project, row)
    decided = report.world.row
    if answers is not None and not driven:  # a question may have been open for long
        project.store.read(lambda view: need_unmoved(view, decided))
    if answers is None:
        return Resumed(STOPPED, report, request)
    if answers.fresh:
        return Resumed(GIVEN_UP, report, request, fresh=_start_over(project, caller, decided))
    dialect = dialect_of(row, project.folder, project.settings)
    if dialect is not None:
        _approve(project, Target(decided, request.target.version), answers.approved, dialect)
        state, greeted = _greet(project, dialect, request.target)
        if dialect.is_over(state):
            return Resumed(GIVEN_UP, report, request)
        if not _goes_on(dialect, state, request, answerer):
            return Resumed(GIVEN_UP, report, request, fresh=_start_over(project, caller, greeted))
    agreed = Resumed(AGREED, report, _with_answers(request, judged), answers)
    return agreed if driven else _go_on(project, caller, agreed, answerer)


def _with_answers(request: ResumeRequest, judged: Judgement) -> ResumeRequest:
    selection, answers = judged.report.selection, judged.answers
    assert answers is not None
    single = selection.repeat if request.from_step is None else frozenset()
    return request._replace(
        variables={**request.variables, **answers.values},
        repeat=frozenset(answers.again) | single,
        only=selection.only,
        accept=tuple(answers.accepted),
        shown=next((finding.digest for finding in judged.report.findings if finding.digest), ""),
    )


def _go_on(project: Project, caller: Caller, agreed: Resumed, answerer: Answerer) -> Resumed:
    """A run that somebody reports on: it is running again, and what was in flight or failed is to be done."""
    request, session = agreed.request, session_of_caller(project, caller)
    check_free(project, caller, request.target)  # a question may have been open for long
    program = request.target.row.card.get("program") is not None
    if program and request.goes_on and not agreed.report.findings:
        return agreed._replace(outcome=PROGRAM)
    decided = agreed.report.world.row
    carry_out(project, caller, agreed, answerer)
    ours = agreed.report.findings or dialect_of(decided, project.folder, project.settings) is not None
    if ours:  # some of it was committed just now, by us; what others committed meanwhile is judged, too
        decided = _judged_again(project, caller, agreed)
    request = request._replace(decided=decided)
    try:
        changes = continue_run(
            project.store,
            request,
            project.now,
            scrubber=project.redactor,
            session=session,
            guard=guard_of(caller),
        )
    except Invalid as error:  # a variable that cannot be kept
        hint = error.hint or "Nothing was changed; give something else."
        raise Usage(error.message, hint=hint) from None
    sync_issue(project, request.target.row)
    return agreed._replace(outcome=PROGRAM if program else RUNNING, changes=changes)


def _judged_again(project: Project, caller: Caller, agreed: Resumed) -> RunRow:
    """The run as what was agreed to has left it. ``Moved`` where something stands in its way by now that nobody was
    asked about."""
    known = {finding.asked for finding in agreed.report.findings}
    now = verify(project, caller, agreed.request)
    for finding in now.findings:
        if finding.level in (ASK, REFUSE) and finding.asked not in known:
            raise Moved(f"Somebody worked on run {now.world.run_id} meanwhile: {finding.message}")
    return now.world.row


def sync_issue(project: Project, row: RunRow) -> None:
    """A protocol's issue says where the work stands: what it says is brought up to date when a run goes on. Labels that
    somebody changed were adopted before. What goes wrong with the tracker stops nothing."""
    dialect = dialect_of(row, project.folder, project.settings) if row.issue else None
    if dialect is None:
        return
    from leftoff.engine.workspace import issue_tracker as issues

    wanted = dialect.state_label(state_of(project.store, Target(row, None), dialect))
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

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        issues.put_issue(changes, taken)
        return None

    write_report(
        project.store, this_run(row.run, row.run_id), make, Terms(project.now), scrubber=project.redactor
    )


class Judged(NamedTuple):
    """What `start --resume` would go on with, as it was judged: ``None``, where there was nothing. ``report``: what
    keeps it from going on. ``asks``: whether any other run has to be judged first, too."""

    row: RunRow | None
    report: Report | None = None
    asks: bool = True

    def need(self, view: View, there: RunRow) -> None:
        """Raise ``Moved`` where this run is not the one that was judged, or has moved since."""
        if not self.asks:
            return
        if self.row is None or self.row.run != there.run:
            raise Moved(f"Run {there.run_id} was begun meanwhile.")
        need_unmoved(view, self.row)


def judge(project: Project, caller: Caller, opening: Opening) -> Judged:
    """For `start --resume`, which asks nothing: the verdict, where it keeps the unfinished run from going on.

    A run that follows a protocol goes on by its rules, and is greeted in its words; any other just does, unless no
    person can be behind it: a model is told what `resume` would ask.
    """
    store = project.store
    row = (
        store.read(lambda view: unfinished(view, store.follower, opening, project.now))
        if store.exists()
        else None
    )
    dialect = dialect_of(row, project.folder, project.settings) if row is not None else None
    if row is None or row.workflow != opening.workflow or (dialect is None and caller.person):
        return Judged(row, asks=not caller.person)
    target = Target(row, None)
    project.move_to_worktree(row)
    found = _verified(project, caller, target)
    if found.verdict in (ASK, REFUSE) or dialect is None:
        return _judged(found)
    store.read(lambda view: need_unmoved(view, found.world.row))
    _greet(project, dialect, target)  # which may settle what an output settles
    now = store.read(this_run(row.run, row.run_id))
    if now.seq == found.world.row.seq or now.status not in UNFINISHED:
        return Judged(now)
    return _judged(_verified(project, caller, target))  # with that, and with what others reported meanwhile


def _verified(project: Project, caller: Caller, target: Target) -> Report:
    found = verify(project, caller, ResumeRequest(target))
    # start looks itself at who drives it
    found.findings = [finding for finding in found.findings if not finding.code.startswith("lease.")]
    return found


def _judged(found: Report) -> Judged:
    row = found.world.row
    return Judged(row, found) if found.verdict in (ASK, REFUSE) else Judged(row)


def carry_out(
    project: Project, caller: Caller, agreed: Resumed, answerer: Answerer, guard: Guard | None = None
) -> None:
    """Before the run goes on: files are as they were, errors are resolved, what was accepted is taken in.

    ``guard``: of whoever drives it by now.
    """
    report, answers, target = agreed.report, agreed.answers, agreed.request.target
    assert answers is not None
    if answers.restore or answers.bring_back:
        from leftoff.operations.run_files import restorer_of

        changed = [found for found in report.findings if found.code == "files.changed" and answers.restore]
        paths = [*sorted(answers.bring_back), *(path for found in changed for path in found.paths)]
        hand = restorer_of(project, caller, target, guard)
        hand.outputs = frozenset(answers.bring_back)
        hand.restore(paths, lambda plan: True)
        left = hand.plan(paths).entries
        if left:
            raise NeedsPerson(
                f"{left[0].path} was not restored: {left[0].why}.",
                hint="The run was not continued. `leftoff verify` says what else can be done.",
            )
        answerer.restored(paths)
    if answers.unblock:
        from leftoff.engine.steps.approvals import clear_blocks

        find, seen = this_run(target.row.run, target.row.run_id), report.world.row.seq
        clear_blocks(project.store, find, None, project.now, seen=seen, scrubber=project.redactor)
    if project.store.follower is not None and any(
        found.code == "mirror.deleted" for found in report.findings
    ):
        project.store.follower.write_again(target.row.run)
    if report.findings:
        from leftoff.engine.resume.accepted import keep_accepted

        keep_accepted(project, report, answers)


# -- by the rules of a protocol: what it settles, says and asks


def _goes_on(dialect: Dialect, state: State, request: ResumeRequest, answerer: Answerer) -> bool:
    """Whether to go on, now that nothing stands in the way: a person may rather begin anew."""
    question = dialect.question(state)
    if question is None or request.yes or not answerer.present:
        return True
    return answerer.says_yes(question, default=True)


def _approve(project: Project, target: Target, approved: dict[str, str], dialect: Dialect) -> None:
    """What a person said of the protocol's phases when asked, of the run as they saw it: else ``Moved``."""
    from leftoff.engine.steps import approvals
    from leftoff.host import user

    row = target.row
    for phase, choice in approved.items():
        options = dialect.options(phase, state_of(project.store, target, dialect), project.folder)
        if choice in options:
            said = approvals.StepDecision(choice, user(), project.now, options=options)
            done = approvals.record_decision(
                project.store, unmoved_run(row), phase, said, scrubber=project.redactor
            )
            row = done.left


def _greet(project: Project, dialect: Dialect, target: Target) -> tuple[State, RunRow]:
    """Settle what an output settles, and say in the protocol's words what goes on; that, and the run that it is about.
    One that is over ends, if nobody goes on with it meanwhile: ``Moved``."""
    last = state_of(project.store, target, dialect).at
    if target.version is None:
        _settle(project, dialect, target.row)
    row = project.store.read(this_run(target.row.run, target.row.run_id))
    state = state_of(project.store, target, dialect)
    state.at = last  # what was settled just now is no activity of the run
    if dialect.is_over(state):
        ending = Ending("completed", project.folder)
        end_work(project.store, unmoved_run(row), ending, Terms(project.now), project.redactor)
        project.say(f"leftoff: {target.row.run_id} is complete: nothing is left to do.")
        return state, row
    for line in dialect.greeting(state, project.folder, project.now):
        project.say(line)
    return state, row


def _settle(project: Project, dialect: Dialect, row: RunRow) -> None:
    """What was in flight and left an output that says how it ended, ended so; unless somebody reported on it since."""
    store = project.store
    state = store.read(lambda view: state_at(store, view, row, dialect))
    ended = dialect.settled(state, project.folder)
    settled: dict[str, dict[str, Any]] = {}

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        steps, before = steps_in(store, tx, row, changes, project.now), state.of("step")
        settled.clear()
        settled.update((path, record) for path, record in ended.items() if steps.get(path) == before[path])
        for path, record in settled.items():
            steps.move(path, record)
        return None

    write_report(store, this_run(row.run, row.run_id), make, Terms(project.now), scrubber=project.redactor)
    for path, record in settled.items():
        project.say(f"leftoff: {shown_step(path)} is {record['status']}: its output says so.")


def _start_over(project: Project, caller: Caller, row: RunRow) -> RunRow | None:
    """Start fresh: the run is abandoned, its files are archived, and another of the same work begins.

    One of a workflow file, or of a program, is begun by whoever drives it.
    """
    give_up(project, row)
    if is_driven(project, row) or row.card.get("program") is not None:
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
