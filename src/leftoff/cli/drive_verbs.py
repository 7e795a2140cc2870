"""Run a workflow file, or continue a run: run, resume.

The person at the terminal answers the questions (``Terminal``). With ``--detach`` the command runs in the background
once its run has begun; until then it reports errors and asks at the terminal.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from leftoff.cli.context import YES, Context, answer, choose, pick
from leftoff.cli.events import LOG, Observer, observer_for
from leftoff.cli.options import Args, assignments, positive, step_path
from leftoff.cli.screen import Screen
from leftoff.cli.text import Line, clean, clean_lines, columns, step_name
from leftoff.cli.verdict_verbs import finding_lines, show_verdict
from leftoff.clock import ago, millis
from leftoff.engine.approvals import REJECT
from leftoff.engine.attempt_logs import failures
from leftoff.engine.find import Target
from leftoff.engine.findings import ASK, REFUSE, STOP, Finding, check_codes
from leftoff.engine.judge import Verdict
from leftoff.engine.resume_answers import (
    GO_ON,
    TOGETHER,
    Answerer,
    Answers,
    ResumeRequest,
    foresee_answers,
    take_answers,
)
from leftoff.engine.show import inner_steps
from leftoff.errors import BadDefinition, Conflict, NeedsPerson, StoreUnavailable, Usage, usage_errors
from leftoff.model.ids import as_word, check_run_id, issue_id
from leftoff.operations import resuming
from leftoff.operations import workflow_runs as execution
from leftoff.operations.checkpoints import brief_run, show
from leftoff.operations.resuming import Resumed, find, judge, subtask_for, to_go_back_to, unmet_criteria
from leftoff.operations.run_lifecycle import decide_step, questions_of
from leftoff.operations.run_reports import step_named
from leftoff.operations.runs import info_of
from leftoff.operations.store_upkeep import discard_runs, prune_by_itself
from leftoff.operations.workflow_runs import (
    Execution,
    RunRequest,
    check_step_agents,
    definition_of_twin,
    foresee_run,
)
from leftoff.protocols.registry import followed_protocol
from leftoff.store.rows import RunRow
from leftoff.workflow.definition import Graph, Workflow
from leftoff.workflow.driver import Driver
from leftoff.workflow.parse_definition import review

# -- run


def run_run(args: Args, ctx: Context) -> int:
    for one, other in (("check", "graph"), ("resume", "fresh"), ("detach", "check"), ("detach", "graph")):
        if getattr(args, one) and getattr(args, other):
            raise Usage(f"--{one} and --{other} cannot be combined.", hint="Give one of them.")
    given = usage_errors(lambda: assignments(args.var))
    try:
        workflow, doubts = review(args.rest[0], given=given)
    except BadDefinition:
        # A variable that the run has which is to be resumed is as good as given.
        if not (args.resume or args.yes) or args.check or args.graph:
            raise
        known = definition_of_twin(ctx.project, ctx.caller, args.rest[0], given)
        if known is None:
            raise
        workflow, doubts = known, []
    if args.check or args.graph:
        check_step_agents(ctx.project, workflow)
        return _show_definition(args, ctx, workflow, doubts)
    positive(args.max_parallel, "--max-parallel")
    request = RunRequest(
        workflow,
        given,
        title=args.title,
        issue=issue_id(args.issue),
        run_id=args.run_id,
        resume=bool(args.resume),
        fresh=bool(args.fresh),
        reuse=bool(args.reuse),
    )
    if args.dry_run:  # what each step would do, and why
        plan = foresee_run(ctx.project, request)
        if args.json:
            about = {"workflow": workflow.name, "dry_run": True, "plan": [one.to_json() for one in plan]}
            return ctx.answer(about)
        rows = [(f"{one.action:<4}", step_name(one.step), clean(one.why)) for one in plan]
        ctx.out("\n".join(columns(rows)))
        return 0
    if args.detach:
        code = detach(ctx)
        if code is not None:
            return code
    return execute(ctx, request)


def _show_definition(args: Args, ctx: Context, workflow: Workflow, doubts: list[str]) -> int:
    graph = Graph(workflow)
    batches = graph.batches()
    if args.json:
        document: dict[str, Any] = {
            "ok": True,
            "workflow": workflow.name,
            "steps": len(graph.leaves),
            "batches": batches,
        }
        if args.graph:
            document["before"] = {path: sorted(graph.before[path]) for path in graph.leaves}
        ctx.emit({**document, "warnings": doubts})
        return 0
    for doubt in doubts:
        ctx.say(f"leftoff: {clean(doubt)}")
    size = f"{_count(len(graph.leaves), 'step')} in {_count(len(batches), 'batch', 'batches')}"
    if args.check:
        ctx.out(f"{clean(workflow.path)}: ok, {size}")
        return 0
    ctx.out(f"{clean(workflow.name)}: {size}")
    wide = len(str(len(batches)))
    for number, batch in enumerate(batches, 1):
        for index, path in enumerate(batch):
            step = workflow.by_path[path]
            told: list[str] = [step.kind] if step.kind in ("approval", "manual", "agent") else []
            told += [f"for each {step.item_name}"] if step.foreach is not None else []
            told += ["when"] if step.when else []
            remark = f"  ({', '.join(told)})" if told else ""
            ctx.out(f"{number if index == 0 else '':>{wide}}  {clean(path)}{remark}")
    return 0


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


# -- resume


def run_resume(args: Args, ctx: Context) -> int:
    positive(args.max_parallel, "--max-parallel")
    accepted = check_codes(args.accept)
    if args.from_step is not None and (args.only or args.failed):
        raise Usage(
            f"--from-step and {'--only' if args.only else '--failed'} cannot be combined.",
            hint="--from-step STEP runs it and every later step again; --only STEP… runs these and no others.",
        )
    named = ctx.word
    if args.list:
        from leftoff.cli.history_verbs import show_logs

        return show_logs(to_go_back_to(ctx.project, ctx.caller, named, args.checkpoint), ctx)
    target = find(ctx.project, ctx.caller, named, args.checkpoint)
    # A word may name several steps with commas between. An item as it is shown may have commas in it.
    words = [each for word in args.only for each in ([word] if "[" in word else word.split(",")) if each]
    named_steps = [step_named(ctx.project, target.row, step_path(each)) for each in words]
    only = [subtask_for(ctx.project, target.row, each) for each in named_steps]
    first = args.from_step
    answers = {}
    for word in args.answer:  # a subject may have an equals sign in it, and a choice has none
        name, _, choice = word.rpartition("=")
        if not name or not choice:
            raise Usage(
                f"--answer takes CODE=CHOICE, not {word!r}.",
                hint="For example: --answer files.changed=restore",
            )
        check_codes([name.partition(":")[0]])
        answers[name] = choice
    request = ResumeRequest(
        target,
        only=[step for step, _ in only],
        adds={path: how for _, new in only for path, how in new.items()},
        from_step=step_named(ctx.project, target.row, step_path(first)) if first is not None else None,
        failed=bool(args.failed),
        variables=assignments(args.var),
        accept=accepted,
        answers=answers,
        yes=bool(args.yes),
        restart=bool(args.restart),
    )
    if not args.dry_run and request.over is None:
        return resume(ctx, request)
    report = judge(ctx.project, ctx.caller, request)
    if not args.dry_run:
        report.accept(accepted)
        return _finished(report, ctx)
    foresee_answers(report)
    return show_verdict(ctx, report, plan=True)


def _finished(report: Verdict, ctx: Context) -> int:
    """Report that a completed run has nothing left, even if its outputs have changed."""
    row = report.world.row
    if report.verdict == REFUSE:
        Terminal(ctx).tell(report.findings, report)
        if ctx.args.json:
            emit_end(ctx, row, exit=report.exit_code)
        return report.exit_code
    unmet, steps = unmet_criteria(ctx.project, row)
    if ctx.args.json:
        emit_end(ctx, row, brief="", **({"unmet": unmet, "could_meet": steps} if unmet else {}))
        return 0
    ctx.out(report.over or "")
    if unmet:
        ctx.out(
            f"Not met: {', '.join(map(clean, unmet))}.\n"
            f"`leftoff resume {row.run_id} --only {clean(unmet[0])}` runs the step for it, or adds one.\n"
            "`--from-step STEP` does a step and the later ones again, `--only STEP` one alone. "
            f"Steps: {', '.join(map(step_name, steps)) or 'none'}."
        )
    return 0


# -- to execute a workflow file

_COMPLETED, _FAILED, _WAITS = 0, 1, 7  # exit codes of a run; the last one: it waits for a person


def execute(ctx: Context, request: RunRequest) -> int:
    """Execute a definition that is in order; or continue the unfinished run of it, as was asked for or is answered."""
    named, workflow = request.run_id, request.workflow
    if named is not None:
        usage_errors(lambda: check_run_id(named))
    twins = execution.find_twins(ctx.project, ctx.caller, request)
    twin = twins[0] if twins else None
    choice = _choice(ctx, request, twin) if twin is not None else "start"
    if choice == "resume" and twin is not None:
        yes, given = bool(ctx.args.yes), request.variables
        return resume(ctx, ResumeRequest(Target(twin, None), variables=given, yes=yes, workflow=workflow))
    if choice == "delete" and twin is not None:
        from leftoff.cli.keep_verbs import tell_removed

        return tell_removed(ctx, discard_runs(ctx.project, twin))
    execution.check_executable(ctx.project, workflow)
    secrets = _requirements(ctx, execution.requirements(ctx.project, workflow))

    def begin(how: Execution) -> Driver:
        return execution.start_workflow(ctx.project, ctx.caller, request, how, twins)

    driven = _drive(ctx, "leftoff run", secrets, begin)
    assert driven is not None
    return _after(ctx, *driven, Answers(), ())


def _choice(ctx: Context, request: RunRequest, twin: RunRow) -> str:
    """Return what to do about an unfinished run: as told, or as the person at the terminal says."""
    if request.fresh:
        return "start"
    if request.resume or ctx.args.yes:
        return "resume"
    if not ctx.can_ask():
        call = f"leftoff run {as_word(ctx.args.rest[0])}"
        raise NeedsPerson(
            f"Run {twin.run_id} of this workflow is unfinished ({info_of(ctx.project, twin).state}).",
            hint=f"`{call} --resume` continues it, `{call} --fresh` starts over.",
        )
    return _ask_about_run(ctx, Target(twin, None), show(ctx.project, ctx.caller, twin.run_id))


def _requirements(ctx: Context, lacking: list[Finding]) -> dict[str, str]:
    """Ask about what a new run needs and lacks. Return the secrets that were typed."""
    secrets: dict[str, str] = {}
    for finding in lacking:
        if finding.code == "prerequisite.missing" and ctx.args.yes:
            continue
        if not ctx.can_ask():
            raise NeedsPerson(finding.message, hint=finding.hint)
        if finding.secrets:
            secrets.update((name, Terminal(ctx).value(name)) for name in finding.secrets)
        elif answer(f"{finding.message} Go on? [y/N]: ", finding.hint).lower() not in YES:
            raise NeedsPerson(finding.message, hint=finding.hint)
    return secrets


# -- continuing a run


def resume(ctx: Context, request: ResumeRequest, answers: Answers | None = None) -> int:
    """Judge, ask what must be asked, and continue. If the run moves meanwhile, judge again and ask only what is new."""
    project, caller, person = ctx.project, ctx.caller, Terminal(ctx)
    answers = answers or Answers()
    while True:
        verdict = resuming.judge_to_resume(project, caller, request)
        checks = resuming.workflow_checks_of(verdict)
        # The driver reports a changed definition.
        if not take_answers(verdict, answers, person, ("definition.changed",) if checks is not None else ()):
            if ctx.args.json:
                _emit_end(ctx, request.target.row, verdict.exit_code)
            return verdict.exit_code
        if checks is None or checks.new is None:
            done = resuming.apply(project, caller, verdict, answers)
        else:
            ending: list[Resumed] = []

            def begin(
                how: Execution, verdict: Verdict = verdict, ending: list[Resumed] = ending
            ) -> Driver | None:
                ending.append(resuming.apply(project, caller, verdict, answers, how))
                return ending[0].driver

            driven = _drive(ctx, "leftoff resume", answers.values, begin)
            if driven is not None:
                return _after(ctx, *driven, answers, request.accept)
            done = ending[0]
        if done.outcome != resuming.AGAIN:
            break
        if done.question is not None and person.present and not person.says_yes(done.question, default=True):
            answers.fresh = True
    row = request.target.row
    if done.changes is not None:
        ctx.say_redacted(done.changes.redacted)
    if done.outcome == resuming.OVER and done.fresh is None:
        if ctx.args.json:
            _emit_end(ctx, row, 0)
    elif done.outcome != resuming.PROGRAM:
        row = done.fresh or row
        text = brief_run(project, caller, row.run_id)["text"]
        if ctx.args.json:
            emit_end(ctx, row, brief=text)
        else:
            ctx.out(clean_lines(text))
    else:
        if ctx.args.json:
            emit_end(ctx, row, brief="")
        program = clean(str(row.card.get("program")))
        ctx.say(
            f"Run {row.run_id} belongs to the program {program}: start your program again, and it continues from here."
        )
    return 0


def _emit_end(ctx: Context, row: RunRow, code: int) -> None:
    ctx.emit({"event": "end", "run": info_of(ctx.project, row).to_json(), "exit": code})


def emit_end(ctx: Context, row: RunRow, **more: object) -> None:
    """Emit the last event of a run that is not driven from here, which is also the run."""
    run = info_of(ctx.project, row).to_json()
    ctx.emit({**run, "event": "end", "run": run, "exit": 0, **more})


# -- driving


def _drive(
    ctx: Context, who: str, secrets: Mapping[str, str], begin: Callable[[Execution], Driver | None]
) -> tuple[int, Driver] | None:
    """Drive a run to its end. Return the exit code, and its driver; None if there is nothing to drive."""
    most = positive(ctx.args.max_parallel, "--max-parallel")
    with interruptible() as early, observer_for(ctx) as watching:
        driver = begin(Execution(watching, secrets, most, who, early.wait))
        if driver is None:
            return None
        code = drive(ctx, driver, watching, early)
    if code == _COMPLETED and watching.lost:
        what = (
            f"Run {driver.run_id} is completed, but not all that happened could be written: {watching.lost}."
        )
        raise StoreUnavailable(what, hint=f"Nothing of the run is lost: `leftoff show {driver.run_id}`.")
    return code, driver


def _after(ctx: Context, code: int, driver: Driver, answers: Answers, accept: Collection[str]) -> int:
    """Ask about what failed, or waits for a decision, and continue the run with the answer."""
    failed = driver.undecided() if code in (_FAILED, _WAITS) else []
    choice = _ask_about(ctx, driver.run_id, failed)
    if choice is None and code == _WAITS and _decide(ctx, driver):
        choice = RETRY
    if choice == SKIP:
        execution.skip_failed(ctx.project, driver, failed)
    elif choice != RETRY:
        return code
    more = Answers()
    more.know_as(answers)
    target = Target(info_of(ctx.project, driver).row, None)
    return resume(ctx, ResumeRequest(target, accept=accept, yes=bool(ctx.args.yes)), more)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heeded() -> list[signal.Signals]:
    """The signals that end a run; not those that whoever started us wants ignored, as `nohup` does."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


class Early:
    """A signal before a run is driven. There is nothing to settle, so it ends the command, as Ctrl-C does; from the
    moment in which a new run may be there, the first one waits until that run is driven, and then stops it in order."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._waits = False

    def wait(self) -> None:
        self._waits = True

    def __call__(self, number: int, frame: object) -> None:
        if not self._waits or self.number is not None:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def interruptible() -> Iterator[Early]:
    """What asks for the end is heeded from here on."""
    early = Early()
    before = {number: signal.signal(number, early) for number in heeded()}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, before)  # who held them back had another program in mind
    try:
        yield early
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def drive(ctx: Context, runner: Driver, observer: Observer, early: Early) -> int:
    """To the end; signals stop it in order. The last event has the run as it is then."""

    def heed(number: int, frame: object) -> None:
        runner.interrupt(number)

    for number in heeded():
        signal.signal(number, heed)
    if early.number is not None:
        heed(early.number, None)
    code = runner.drive()
    prune_by_itself(ctx.project)
    failed = code in (_FAILED, _WAITS)
    told = failures(ctx.project.store, runner.run, runner.run_id) if failed else {}
    observer({"event": "end", "run": info_of(ctx.project, runner).to_json(), "exit": code, **told})
    return code


def _decide(ctx: Context, runner: Driver) -> bool:
    """Ask the person at the terminal what only a person decides; whether anything is decided, or asked again."""
    if ctx.away is not None or not ctx.can_ask():
        return False
    moved = False
    row = info_of(ctx.project, runner).row
    for path, asked in questions_of(ctx.project, row).items():
        options = [*asked.offered, REJECT]
        wait = [LATER] if LATER not in options else []  # else it is an answer like the others
        listed = [(option, "", "", 0) for option in (*options, *wait)]
        step = step_name(path)
        try:
            choice = pick(f"{step} is waiting for a decision: {asked.ask}", listed, ctx.project.now)
        except NeedsPerson:
            break
        if choice in wait:
            continue
        try:
            decide_step(ctx.project, ctx.caller, (runner.run_id, path), choice, seen=asked.stamp)
        except Conflict as error:  # somebody else decided it meanwhile, or put another question: look again
            ctx.say(f"leftoff: {clean(error.message)}")
        moved = True
    return moved


LATER = "later"  # the run waits
RETRY, SKIP, QUIT = "retry", "skip", "quit"
_SHOWN = 5


def _ask_about(ctx: Context, run_id: str, failed: list[tuple[str, str]]) -> str | None:
    """Ask whether to retry what failed (and why), to skip it, or to quit. Return ``None`` if nothing was asked."""
    if not failed or not ctx.can_ask() or ctx.args.yes:
        return None
    for path, why in failed[:_SHOWN]:
        ctx.say(f"{step_name(path)} failed: {clean(why)}")
    if len(failed) > _SHOWN:
        ctx.say(f"and {len(failed) - _SHOWN} more")
    hint = f"`leftoff resume {run_id}` retries what failed."
    try:
        return choose("(r)etry, (s)kip and continue, (q)uit: ", (RETRY, SKIP, QUIT), hint)
    except NeedsPerson:
        return QUIT


def detach(ctx: Context) -> int | None:
    """In the process that goes on: None. In the one that was called: the exit code, once the other has begun a run."""
    ctx.close()  # a store that is open is not taken along
    sys.stdout.flush()
    sys.stderr.flush()
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hear)
        ctx.away = say
        return None
    os.close(say)
    with os.fdopen(hear, "rb") as channel:
        run_id = channel.read().decode()
    if not run_id:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ctx.args.json:
        ctx.emit({"run_id": run_id, "detached": True, "log": os.path.join(ctx.project.store_folder, LOG)})
        return 0
    ctx.out(run_id)
    ctx.say(
        f"leftoff: it runs in the background. `leftoff logs -f {run_id}` shows it, `leftoff stop {run_id}` ends it."
    )
    return 0


# -- the person at the terminal

ACCEPT_HINT = "--accept CODE answers in advance."
PROTOCOL_HINT = "--yes continues with it as it is."


class Terminal(Answerer):
    """The person at the terminal, who answers a verdict. Without a terminal or with --json, no person is present."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.present = ctx.can_ask()
        self.say = ctx.say  # type: ignore[method-assign]

    def tell(self, findings: list[Finding], verdict: Verdict) -> None:
        """Print findings on stderr; with --json, emit the whole verdict as an event."""
        if not findings:
            return
        if self._ctx.args.json:
            self._ctx.emit({"event": "verdict", **verdict.to_json()})
        else:
            self._show(findings)

    def _show(self, findings: list[Finding], more: int = 0) -> None:
        screen = Screen(sys.stderr, self._ctx.project.now)
        lines: list[Line] = [line for found in findings for line in finding_lines(found, screen.columns)]
        if more > 0:
            lines.append([(f"    … and {more} more like these", "dim")])
        screen.show(lines)

    def stopped(self, verdict: Verdict) -> None:
        codes = dict.fromkeys(finding.code for finding in verdict.findings if finding.level == ASK)
        if verdict.question is not None:
            self._ctx.say(verdict.question)
        words = " ".join(f"--accept {code}" for code in codes)
        self._ctx.say(f"leftoff: a person must decide. {words} continues.")

    def show(self, group: list[Finding]) -> None:
        self._show(group[:TOGETHER], len(group) - TOGETHER)

    def decide(self, finding: Finding) -> str:
        if finding.choices and len({choice[0] for choice in finding.choices}) < len(finding.choices):
            listed = [(choice, "", "", 0) for choice in finding.choices]
            return pick("What is your decision?", listed, self._ctx.project.now)
        if finding.choices:
            offered = ", ".join(f"({choice[0]}){choice[1:]}" for choice in finding.choices)
            return choose(f"{offered}: ", finding.choices, ACCEPT_HINT)
        question = "Run it again" if finding.code.startswith("step.") else "Continue anyway"
        return GO_ON if answer(f"{question}? [y/N]: ", ACCEPT_HINT).lower() in YES else STOP

    def says_yes(self, question: str, *, default: bool) -> bool:
        given = answer(f"{question} ", PROTOCOL_HINT).lower()
        return given in YES or (default and not given)

    def value(self, name: str) -> str:
        from getpass import getpass

        return getpass(f"{clean(name)} (not stored): ", sys.stderr)


RESUME_HINT = "--yes resumes without asking."


_TO_DO = ("running", "waiting", "failed", "pending")


def _ask_about_run(ctx: Context, target: Target, found: dict[str, Any]) -> str:
    """Ask what to do with an unfinished run, in the words of the claude protocol: ``resume``, ``start``, ``delete``.

    ``found`` is its `show` document.
    """
    from leftoff.cli.show_verbs import show_page

    protocol = followed_protocol(ctx.project.folder, ctx.project.settings)
    counted = protocol.counted if protocol is not None else None
    steps = found["steps"]
    created = millis(found["created_at"])
    age = f" ({ago(created, ctx.project.now, words=True)})" if created is not None else ""
    done = steps["completed"] + steps["skipped"]
    how_far = (
        f"{counted or 'Step'} {done} of {steps['total']} completed"
        if steps["total"]
        else "no steps are declared"
    )
    inner = inner_steps(record["step"] for record in found["step_records"])
    leaves = [record for record in found["step_records"] if record["step"] not in inner]
    left = ((n, each) for n, each in enumerate(leaves, 1) if each["status"] in _TO_DO)
    number, first = next(left, (0, None))  # the first step that is left, which may have failed
    going = f" from {f'{counted} {number}' if counted else first['step']}" if first is not None else ""
    question = f"""Found existing checkpoint for "{clean(found["title"] or found["workflow"])}"
Created: {clean(found["created_at"][:19].replace("T", " "))}{age}
Progress: {how_far}
Run: {found["run_id"]}@{found["version"]["seq"]} ({clean(found["state"])})

Options:
  (r)esume - {clean(f"Continue{going}")}
  (s)tart fresh - Mark it abandoned and start over
  (v)iew details - Show everything it holds
  (d)elete - Remove it without starting
"""
    while True:
        ctx.say(question)
        choice = choose("Choice [r/s/v/d]: ", ("resume", "start", "view", "delete"), RESUME_HINT)
        if choice == "view":
            screen = Screen(sys.stderr, ctx.project.now)
            screen.show([*show_page(found, screen), []])
        elif choice != "delete":
            return choice
        else:
            sure = f"Move run {target.row.run_id} to the trash? [y/N]: "
            if answer(sure, RESUME_HINT).lower() in YES:
                return choice
