"""Begin, pause and end a run, and decide what it waits for: start, pause, finish, stop, approve, reject, unblock."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.options import (
    CURRENT,
    Args,
    Opt,
    Spec,
    assignments,
    number,
    step_path,
)
from leftoff.cli.text import clean, step_name
from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.engine.resume.verdict import Report
from leftoff.engine.steps.approvals import REJECT as REJECTED
from leftoff.errors import CannotResume, LeftoffError, NeedsPerson, Usage
from leftoff.model.words import in_words
from leftoff.operations import approvals
from leftoff.operations.approvals import Decided, unblock
from leftoff.operations.execution.stop import Stopped, stop
from leftoff.operations.lifecycle import Start, Started, finish, pause, start
from leftoff.operations.reports import usage_errors
from leftoff.operations.runs import run_and_step

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


# -- stop

STOP = Spec(
    "stop",
    "Stop a run from another shell: its driver saves a checkpoint, ends the processes of its steps and "
    "releases the run. Steps that were running will run again; `leftoff resume` continues.",
    usage="[RUN]",
    most=1,
    options=CURRENT,
    examples="""  leftoff stop                            the only run that is running
  leftoff stop dev-story-20260102-030405""",
)


_MOST_STEPS = 6


def run_stop(args: Args, ctx: Context) -> int:
    done = stop(ctx.project, ctx.caller, ctx.word)
    ctx.say(_stopped(done))
    return ctx.answer(done.run) if done.run is not None else 0


def _stopped(done: Stopped) -> str:
    run_id, ended = done.run_id, done.ended
    if done.over:
        return f"Run {run_id} is {done.status or 'gone'}; nothing was stopped."
    if done.driven or ended:
        what = f"Run {run_id} is stopped"
    else:
        status = "paused" if done.status == "running" else str(done.status)
        what = f"Run {run_id} is not being driven; it {in_words(status)}"
    more = "…" if len(ended) > _MOST_STEPS else ""
    steps = f" Ended: {', '.join(map(step_name, ended[:_MOST_STEPS]))}{more}."
    return f"{what}. `leftoff resume {run_id}` continues.{steps if ended else ''}"


# -- approve

_NOTE = Opt("--note", "N", "why, for the record")

APPROVE = Spec(
    "approve",
    "Approve a step that is waiting for a decision: the step completes, and its result is the choice.\n\n"
    "RUN and STEP can be left out when only one is waiting. A decision is never guessed: if several steps "
    "are waiting, or the step offers several options, you are asked; without a terminal the command exits "
    "with 2 and lists them. Who decided what is recorded. This works while the run is being driven and "
    "while it is paused. Repeating a decision changes nothing; changing it is refused.",
    usage="[RUN] [STEP]",
    most=2,
    options=(Opt("--choice", "X", "which of the step's options"), _NOTE, *CURRENT),
    examples="""  leftoff approve
  leftoff approve dev-story-20260131-090500 sign-off
  leftoff approve @ sign-off --choice roundtable --note "talk about the cache first\"""",
)


def run_approve(args: Args, ctx: Context) -> int:
    return _decide(args, ctx, args.choice)


def _decide(args: Args, ctx: Context, choice: str | None) -> int:
    """Also what `reject` does."""
    done = approvals.decide(ctx.project, ctx.caller, approvals.Decision(args.rest, choice, args.note))
    ctx.answer(done)
    ctx.say(_decided(done))
    return 0


def _decided(done: Decided) -> str:
    """What was recorded, and who goes on."""
    run_id, step = done.info.run_id, step_name(done.step)
    word = (
        "rejected"
        if done.rejected
        else "approved"
        if done.choice == "approve"
        else f"approved ({clean(done.choice)})"
    )
    if not done.changed:
        return f"leftoff: {step} of {run_id} is already {word}."
    return f"leftoff: {step} of {run_id} is {word}. {done.advice}"


# -- reject

REJECT = Spec(
    "reject",
    "Reject a step that is waiting for a decision: the step fails with an error of type `rejected` that "
    "says who rejected it and why. Works from anywhere, like `leftoff approve`.",
    usage="[RUN] [STEP]",
    most=2,
    options=(_NOTE, *CURRENT),
    examples="""  leftoff reject dev-story-20260131-090500 sign-off
  leftoff reject @ sign-off --note "the cache is not thought through\"""",
)


def run_reject(args: Args, ctx: Context) -> int:
    return _decide(args, ctx, REJECTED)


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
