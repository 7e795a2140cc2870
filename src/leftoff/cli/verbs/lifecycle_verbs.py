"""Begin, pause and end a run, and decide what it waits for: start, pause, finish, stop, approve, reject, unblock."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.options import (
    Args,
    Opt,
    assignments,
    number,
    step_path,
)
from leftoff.cli.text import clean, step_name
from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.engine.resume.verdict import Report
from leftoff.engine.steps.approvals import REJECT as REJECTED
from leftoff.errors import CannotResume, LeftoffError, NeedsPerson, Usage, usage_errors
from leftoff.model.words import in_words
from leftoff.operations.run_lifecycle import (
    DecidedStep,
    Start,
    StartedRun,
    decide_step,
    finish_run,
    pause_run,
    start_or_continue,
    unblock_run,
)
from leftoff.operations.runs import run_and_step
from leftoff.operations.workflow_runs import StoppedRun, stop_run

# -- start


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
    started = start_or_continue(ctx.project, ctx.caller, wanted)
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


def _tell_started(started: StartedRun, ctx: Context) -> None:
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


def run_pause(args: Args, ctx: Context) -> int:
    ctx.name_run()
    done = pause_run(ctx.project, ctx.caller, args.note)
    ctx.answer(done)
    if done.changed:
        ctx.say(f"leftoff: {done.info.run_id} is paused. `leftoff resume` continues it.")
    else:
        ctx.say(f"leftoff: {done.info.run_id} {in_words(done.info.status)} already.")
    return 0


# -- finish

ENDINGS = ("completed", "failed", "abandoned")


def run_finish(args: Args, ctx: Context) -> int:
    ctx.name_run()
    status = args.status or "completed"
    done = finish_run(ctx.project, ctx.caller, status, args.summary)
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


_MOST_STEPS = 6


def run_stop(args: Args, ctx: Context) -> int:
    done = stop_run(ctx.project, ctx.caller, ctx.word)
    ctx.say(_stopped(done))
    return ctx.answer(done.run) if done.run is not None else 0


def _stopped(done: StoppedRun) -> str:
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


def run_approve(args: Args, ctx: Context) -> int:
    return _decide(args, ctx, args.choice)


def _decide(args: Args, ctx: Context, choice: str | None) -> int:
    """Also what `reject` does."""
    done = decide_step(ctx.project, ctx.caller, args.rest, choice, args.note)
    ctx.answer(done)
    ctx.say(_decided(done))
    return 0


def _decided(done: DecidedStep) -> str:
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


def run_reject(args: Args, ctx: Context) -> int:
    return _decide(args, ctx, REJECTED)


# -- unblock


def run_unblock(args: Args, ctx: Context) -> int:
    ref, step = run_and_step(ctx.project, ctx.caller, args.rest)
    done = unblock_run(ctx.project, ctx.caller, ref, step_path(step) if step is not None else None)
    if args.json:
        return ctx.answer(done)
    if not done.changed:
        ctx.say(f"Nothing blocks run {done.info.run_id}.")
    else:
        steps = f": {', '.join(map(step_name, done.steps))}" if done.steps else ""
        ctx.say(f"Unblocked{steps}. `leftoff resume {done.info.run_id}` continues.")
    return 0
