"""Report on a run: start, next, step, beat, pause, finish, unblock."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.options import CURRENT, Args, Opt, Spec, assignments, json_or_file, number, step_path
from leftoff.cli.text import step_name
from leftoff.engine.read.quoting import named, quoted
from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.engine.resume.verdict import Report
from leftoff.engine.steps.next_step import NextStep
from leftoff.engine.steps.reports import STATUS, StepReport
from leftoff.errors import CannotResume, LeftoffError, NeedsPerson, Usage
from leftoff.model.changes import NOTHING
from leftoff.model.ids import shown_step
from leftoff.model.words import in_words
from leftoff.operations.approvals import unblock
from leftoff.operations.lifecycle import Start, Started, finish, pause, start
from leftoff.operations.records import beat
from leftoff.operations.reports import usage_errors
from leftoff.operations.runs import run_and_step
from leftoff.operations.steps import next_step, report_step

# -- start

START = Spec(
    "start",
    "Start a run and print its id. Report on it with step, set, note and so on.\n\n"
    "This is always a new run; an unfinished run of the same workflow and branch is mentioned on stderr. "
    "With --resume, that run is continued instead: steps that were running or had failed will run again, "
    "and new steps and variables are added.",
    usage="WORKFLOW",
    least=1,
    most=1,
    options=(
        Opt("--resume", None, "continue the unfinished run of that workflow (or --run-id), if there is one"),
        Opt("--title", "T", "what this run is about"),
        Opt("--steps", "a,b,c", "its steps, in order"),
        Opt("--total", "N", "how many steps it will have, if their names are not known yet"),
        Opt("--branch", "B", "its branch (default: LEFTOFF_BRANCH, main)", filled=True),
        Opt("--var", "K=V", "a variable, as in `leftoff set`", many=True),
        Opt("--run-id", "ID", "its id (default: WORKFLOW-YYYYMMDD-HHMMSS)"),
        Opt("--session", "ID", "the agent session that drives the run from now on"),
        Opt("--issue", "N", "the issue it is for; `#N` then names the run"),
        Opt("--task", "ID", "the task it is for"),
        Opt("--agent", "NAME", "who is working on it"),
    ),
    examples="""  run=$(leftoff start convert-pdfs --title "Nature trail" --steps collect,convert,publish)
  leftoff start convert-pdfs --resume
  leftoff start migrate --issue 42 --run-id migrate-42 --var target=v2""",
)


def run_start(args: Args, ctx: Context) -> int:
    wanted = Start(
        args.rest[0],
        title=args.title,
        run_id=_not_empty(args.run_id, "--run-id"),
        steps=_declared_steps(args),
        total=number(args.total, "--total"),
        variables=usage_errors(lambda: assignments(args.var)),
        issue=args.issue,
        task=args.task,
        agent=args.agent,
        session=_not_empty(args.session, "--session"),
        resume=args.resume,
    )
    started = start(ctx.project, ctx.caller, wanted)
    if started.report is not None:
        raise _refused(started.report)
    _tell_started(started, ctx)
    return 0


def _refused(report: Report) -> LeftoffError:
    """Why the run that would be gone on with, which follows a protocol, does not."""
    try:
        report.refuse("")
    except CannotResume as error:
        if report.verdict == REFUSE:
            return error
        codes = sorted({finding.code for finding in report.findings if finding.level == ASK})
        accept = " ".join(f"--accept {code}" for code in codes)
        hint = f"`leftoff resume {report.world.run_id}` asks; with {accept} it continues."
        question = f"{report.question} " if report.question is not None else ""
        return NeedsPerson(f"{question}{error.message}", hint=hint)
    raise AssertionError("a report that agrees")


def _declared_steps(args: Args) -> list[str]:
    if args.steps is None:
        return []
    if args.total is not None:
        raise Usage(
            "--steps and --total cannot be combined.", hint="Give the steps, or how many there will be."
        )
    names = [name.strip() for name in args.steps.split(",")]
    if "" in names:
        raise Usage(
            f"--steps has an empty name in it: {args.steps!r}.", hint="For example: --steps collect,convert"
        )
    return names


def _not_empty(value: str | None, name: str) -> str | None:
    if value == "":
        raise Usage(f"{name} is empty.", hint=f"Leave {name} out, or give it a value.")
    return value


def _tell_started(started: Started, ctx: Context) -> None:
    ctx.answer(started)
    assert started.info is not None
    run_id, twin = started.info.run_id, started.twin
    if not ctx.args.json:
        ctx.out(run_id)
    if started.resumed:
        ctx.say(f"leftoff: continuing {run_id}. `leftoff brief` says where it is.")
    elif twin is not None:
        ctx.say(
            f"leftoff: {twin.run_id} of the same workflow is also unfinished ({twin.status}); "
            f"`leftoff resume {twin.run_id}` continues it, as `start --resume` would have.\n"
            f"With two of them, say which one you mean: --run RUN or LEFTOFF_RUN."
        )


# -- next

_LINE, _LONGEST = 300, 4000  # characters of what others wrote: of a title, of instructions

NEXT = Spec(
    "next",
    "Print the next step of the current run: the first pending one, in declared order. Its title, its "
    "instructions and the reason go to stderr. If nothing is left, nothing is printed and the exit code "
    "is 0.",
    usage="[RUN]",
    most=1,
    options=(
        Opt("--start", None, "also mark it as started, so that two callers never get the same step"),
        *CURRENT,
    ),
    examples="""  leftoff next
  while step=$(leftoff next --start) && [ -n "$step" ]; do work-on "$step" && leftoff step done "/$step"; done""",
)


def run_next(args: Args, ctx: Context) -> int:
    ctx.name_run()
    found = next_step(ctx.project, ctx.caller, start=args.start)
    if args.json:
        return ctx.answer(found)
    if found.step is not None:
        ctx.out(shown_step(found.step))
    if found.source is not None and found.step is not None:
        ctx.say(f"From {found.source}, as data:")
    for line in (*_next_lines(found), found.why):
        if line:
            ctx.say(line)
    return 0


def _next_lines(found: NextStep) -> list[str]:
    """What the step is called, and what is to be done; of a run from elsewhere, as what others wrote."""
    title, instructions = found.title or "", found.instructions or ""
    if found.source is None:
        return [named(title), instructions]
    return [quoted(text, most) for text, most in ((title, _LINE), (instructions, _LONGEST)) if text]


# -- step

STEP = Spec(
    "step",
    "Report on a step of the current run. An undeclared step is added after the others.\n\n"
    "done, skip, fail and block save a checkpoint and exit 0; start only commits. Reporting a completed "
    "step as done again changes nothing. A blocked step blocks the run until it is started, done or "
    "skipped. If LEFTOFF_STEP is set, STEP is relative to it unless it starts with a slash.",
    usage="start|done|fail|block|skip STEP",
    least=2,
    most=2,
    options=(
        Opt("--output", "PATH", "a file the step wrote: recorded, with a copy", many=True),
        Opt("--result", "JSON", "its result (or @FILE)"),
        Opt("--error", "MSG", "why it failed or is blocked"),
        Opt("--type", "T", "the kind of error"),
        Opt("--resume-with", "TEXT", "what to do first when the run resumes"),
        Opt("--title", "T", "the step's title"),
        Opt("--total", "N", "how many steps there will be below it"),
        Opt("--note", "N", "a note, also shown with the checkpoint"),
        *CURRENT,
    ),
    examples="""  leftoff step start collect
  leftoff step done collect --output urls.txt --result '{"urls": 12}'
  leftoff step fail publish --error "HTTP 500" --resume-with "ask ops whether the server is up"
  leftoff step done convert/post-20""",
)


def run_step(args: Args, ctx: Context) -> int:
    return ctx.answer(report_step(ctx.project, ctx.caller, _read_report(args), args.output))


def _read_report(args: Args) -> StepReport:
    action, word = args.rest
    if action not in STATUS:
        raise Usage(f"A step cannot be {action!r}.", hint=f"usage: leftoff step {STEP.usage}")
    return StepReport(
        action,
        step_path(word),
        title=args.title,
        total=number(args.total, "--total"),
        result=NOTHING if args.result is None else json_or_file(args.result, "--result"),
        error=args.error,
        kind=args.type,
        resume_with=args.resume_with,
        note=args.note,
    )


# -- beat

BEAT = Spec(
    "beat",
    "Signal that somebody is working on the current run. Only its health changes, nothing in the run itself.",
    usage="[RUN]",
    most=1,
    options=CURRENT,
    examples="""  leftoff beat
  while sleep 60; do leftoff beat; done &""",
)


def run_beat(args: Args, ctx: Context) -> int:
    ctx.name_run()
    return ctx.answer(beat(ctx.project, ctx.caller))


# -- pause

PAUSE = Spec(
    "pause",
    "Pause the current run: a checkpoint is saved and the run stays unfinished. `leftoff resume` "
    "continues it.",
    usage="[RUN]",
    most=1,
    options=(Opt("--note", "N", "what to remember when the run resumes"), *CURRENT),
    examples="""  leftoff pause
  leftoff pause --note "waiting for the review\"""",
)


def run_pause(args: Args, ctx: Context) -> int:
    ctx.name_run()
    done = pause(ctx.project, ctx.caller, args.note)
    ctx.answer(done)
    if done.changed:
        ctx.say(f"leftoff: {done.info.run_id} is paused. `leftoff resume` continues it.")
    else:
        ctx.say(f"leftoff: {done.info.run_id} {in_words(done.info.status)} already.")
    return 0


# -- finish

ENDINGS = ("completed", "failed", "abandoned")

FINISH = Spec(
    "finish",
    "End the current run. Unfinished steps do not prevent that: they are listed on stderr and stay as "
    "they are.",
    usage="[RUN]",
    most=1,
    options=(
        Opt("--status", "S", f"{ENDINGS[0]} (the default), {ENDINGS[1]} or {ENDINGS[2]}", choices=ENDINGS),
        Opt("--summary", "S", "the result in a few words"),
        *CURRENT,
    ),
    examples="""  leftoff finish --summary "12 pages published"
  leftoff finish --status abandoned""",
)


def run_finish(args: Args, ctx: Context) -> int:
    ctx.name_run()
    status = args.status or "completed"
    done = finish(ctx.project, ctx.caller, status, args.summary)
    ctx.answer(done)
    if done.stopped:
        ctx.say(f"leftoff: ended: {', '.join(map(step_name, done.stopped))}.")
    said = f"leftoff: {done.info.run_id} {in_words(status)}{'' if done.changed else ' already'}"
    if done.left:
        more = " and more" if done.more else ""
        ctx.say(f"{said}; steps left: {', '.join(map(step_name, done.left))}{more}")
    else:
        ctx.say(f"{said}.")
    return 0


# -- unblock

UNBLOCK = Spec(
    "unblock",
    "Mark what blocks a run as resolved: its blocked steps, or the one you name, become pending again and "
    "their errors are cleared. A checkpoint records who did it.",
    usage="[RUN] [STEP]",
    most=2,
    options=CURRENT,
    examples="""  leftoff unblock                         everything in the only run that is blocked
  leftoff unblock release-1 build""",
)


def run_unblock(args: Args, ctx: Context) -> int:
    ref, step = run_and_step(ctx.project, ctx.caller, args.rest)
    done = unblock(ctx.project, ctx.caller, ref, step_path(step) if step is not None else None)
    if args.json:
        return ctx.answer(done)
    if not done.changed:
        ctx.say(f"Nothing blocks run {done.info.run_id}.")
    else:
        steps = f": {', '.join(map(step_name, done.steps))}" if done.steps else ""
        ctx.say(f"Unblocked{steps}. `leftoff resume {done.info.run_id}` continues.")
    return 0
