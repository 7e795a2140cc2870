"""Begin, pause and end a run, and decide what it waits for: start, pause, finish, stop, approve, reject, unblock."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.options import Args, assignments, number, step_path
from leftoff.cli.text import clean, step_name
from leftoff.engine.approvals import REJECT as REJECTED
from leftoff.engine.findings import ASK, REFUSE
from leftoff.engine.judge import Verdict
from leftoff.errors import CannotResume, LeftoffError, NeedsPerson, Usage, usage_errors
from leftoff.model.words import in_words
from leftoff.operations.run_lifecycle import (
    Start,
    decide_step,
    finish_run,
    pause_run,
    start_or_continue,
    unblock_run,
)
from leftoff.operations.runs import run_and_step

# -- start


def run_start(args: Args, ctx: Context) -> int:
    steps = [name.strip() for name in args.steps.split(",")] if args.steps is not None else []
    if steps and args.total is not None:
        raise args.spec.wrong("--steps and --total cannot be combined.")
    if "" in steps:
        raise Usage(
            f"--steps has an empty name in it: {args.steps!r}.", hint="For example: --steps collect,convert"
        )
    wanted = Start(
        args.rest[0],
        title=args.title,
        run_id=args.run_id,
        steps=steps,
        total=number(args.total, "--total"),
        variables=usage_errors(lambda: assignments(args.var)),
        issue=args.issue,
        task=args.task,
        agent=args.agent,
        session=args.session,
        resume=args.resume,
    )
    started = start_or_continue(ctx.project, ctx.caller, wanted)
    if started.report is not None:
        raise _refused(started.report)
    assert started.info is not None
    run_id, twin = started.info.run_id, started.twin
    ctx.answer(started.info, run_id)
    ctx.say_redacted(started.redacted)
    if started.resumed:
        ctx.say(f"leftoff: continuing {run_id}. `leftoff brief` says where it is.")
    elif twin is not None:
        ctx.say(
            f"leftoff: {twin.run_id} of the same workflow is also unfinished ({twin.state}); "
            f"`leftoff resume {twin.run_id}` continues it, as `start --resume` would have.\n"
            f"With two of them, say which one you mean: --run RUN or LEFTOFF_RUN."
        )
    return 0


def _refused(report: Verdict) -> LeftoffError:
    """Return the error for a run that should continue, but its protocol does not allow that."""
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


# -- pause


def run_pause(args: Args, ctx: Context) -> int:
    ctx.name_run()
    run, done = pause_run(ctx.project, ctx.caller, args.note)
    ctx.answer(run)
    if done.changed:
        ctx.say(f"leftoff: {run.run_id} is paused. `leftoff resume` continues it.")
    else:
        ctx.say(f"leftoff: {run.run_id} {in_words(run.status)} already.")
    return 0


# -- finish


def run_finish(args: Args, ctx: Context) -> int:
    ctx.name_run()
    status = args.status or "completed"
    run, done, stopped = finish_run(ctx.project, ctx.caller, status, args.summary)
    ctx.answer(run)
    if stopped:
        ctx.say(f"leftoff: ended: {', '.join(map(step_name, stopped))}.")
    said = f"leftoff: {run.run_id} {in_words(status)}{'' if done.changed else ' already'}"
    if done.left:
        more = " and more" if done.more else ""
        ctx.say(f"{said}; steps left: {', '.join(map(step_name, done.left))}{more}")
    else:
        ctx.say(f"{said}.")
    return 0


# -- stop


_MOST_STEPS = 6


def run_stop(args: Args, ctx: Context) -> int:
    from leftoff.operations.workflow_runs import stop_run

    done = stop_run(ctx.project, ctx.caller, ctx.word)
    run_id, ended = done.run_id, done.ended
    if done.over:
        said = f"Run {run_id} is {done.status or 'gone'}; nothing was stopped."
    else:
        status = "paused" if done.status == "running" else str(done.status)
        how = "is stopped" if done.driven or ended else f"is not being driven; it {in_words(status)}"
        more = "…" if len(ended) > _MOST_STEPS else ""
        steps = f" Ended: {', '.join(map(step_name, ended[:_MOST_STEPS]))}{more}." if ended else ""
        program = done.run.row.card.get("program") if done.run is not None else None
        then = f"`leftoff resume {run_id}` continues."
        if program is not None:
            then = f"Start the program {clean(str(program))} again to continue."
        said = f"Run {run_id} {how}. {then}{steps}"
    ctx.say(said)
    return ctx.answer(done.run) if done.run is not None else 0


# -- decide


def run_approve(args: Args, ctx: Context) -> int:
    return _decide(args, ctx, args.choice)


def run_reject(args: Args, ctx: Context) -> int:
    return _decide(args, ctx, REJECTED)


def _decide(args: Args, ctx: Context, choice: str | None) -> int:
    """Record a decision, and report who continues."""
    done = decide_step(ctx.project, ctx.caller, args.rest, choice, args.note)
    ctx.answer(done.info)
    word = "approved" if done.choice == "approve" else f"approved ({clean(done.choice)})"
    word = "rejected" if done.rejected else word
    said = f"is {word}. {done.advice}" if done.changed else f"is already {word}."
    ctx.say(f"leftoff: {step_name(done.step)} of {done.info.run_id} {said}")
    return 0


def run_unblock(args: Args, ctx: Context) -> int:
    ref, step = run_and_step(ctx.project, ctx.caller, args.rest)
    path = step_path(step) if step is not None else None
    run, was_blocked, steps = unblock_run(ctx.project, ctx.caller, ref, path)
    which = f": {', '.join(map(step_name, steps))}" if steps else ""
    said = f"Unblocked{which}. `leftoff resume {run.run_id}` continues."
    return ctx.answer(run, said=said if was_blocked else f"Nothing blocks run {run.run_id}.")
