"""Track files and bring them back: track, cat, restore, rollback."""

from __future__ import annotations

import sys

from leftoff.cli.context import Context
from leftoff.cli.options import Args
from leftoff.cli.text import clean, step_name, visible
from leftoff.engine.workspace.restoring import PlanEntry, RestoreOutcome, RestorePlan
from leftoff.host import Process
from leftoff.model.ids import split_path
from leftoff.model.words import FINISHED
from leftoff.operations.run_files import (
    Rollback,
    RolledBack,
    file_at,
    plan_rollback,
    restore_files,
    restore_words,
    rollback_run,
    track_files,
)

# -- track


def run_track(args: Args, ctx: Context) -> int:
    if bool(args.rest) == args.git:
        raise args.spec.wrong("`leftoff track` needs PATH… or --git.")
    return ctx.answer(track_files(ctx.project, ctx.caller, args.rest, git=args.git))


# -- cat


def run_cat(args: Args, ctx: Context) -> int:
    ref, path = split_path(args.rest[0])
    if not path or args.rest[0].startswith(":"):
        raise args.spec.wrong("`leftoff cat` needs REF:PATH, or a PATH.")
    found = file_at(ctx.project, ctx.caller, ref, path)
    if args.json:
        ctx.emit(found.to_json())
        return 0
    if sys.stdout.isatty():
        sys.stdout.write(visible(b"".join(found.chunks()).decode("utf-8", "backslashreplace")))
        return 0
    for chunk in found.chunks():
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
    return 0


# -- restore


def run_restore(args: Args, ctx: Context) -> int:
    ref, paths = restore_words(ctx.project, ctx.caller, args.rest)
    done = restore_files(ctx.project, ctx.caller, ref, paths, lambda plan: _agree(ctx, plan))
    if not done.outcome.done:
        return ctx.said_no()
    plan = done.outcome.plan
    if done.outcome.completed and not args.json:
        ctx.say("leftoff: a restore that had been cut short is now complete.")
    elif not args.json:
        number = len(plan.touched)
        ctx.say(f"leftoff: {f'{number} of {done.named} files' if number else 'nothing was'} restored.")
    return ctx.answer(done)


# -- rollback

_MOST_STEPS = 6  # steps that still run


def run_rollback(args: Args, ctx: Context) -> int:
    if not args.rest and not args.good and args.run is None:
        raise args.spec.wrong("`leftoff rollback` needs REF, or --good.")
    wanted = Rollback(ctx.word, good=args.good, files=args.files)
    if args.dry_run:
        return _plan_only(ctx, wanted)

    def end_steps(run_id: str, running: dict[str, list[Process]]) -> bool:
        hint = f"--yes ends them. `leftoff resume {run_id}` would wait for them instead."
        return ctx.confirm(_running_steps(run_id, running), hint=hint)

    done = rollback_run(ctx.project, ctx.caller, wanted, end_steps, lambda plan: _agree(ctx, plan))
    if not done.done:
        return ctx.said_no()
    _tell_rollback(ctx, done)
    if done.lost is None:
        return 0
    ctx.say(f"leftoff: {done.lost.message}\n{done.lost.hint}")
    return done.lost.exit_code


def _running_steps(run_id: str, running: dict[str, list[Process]]) -> str:
    """The steps that run without a driver, in a sentence."""
    names = [f"{step_name(step)} (process {processes[-1].pid})" for step, processes in running.items()]
    more = f" and {len(names) - _MOST_STEPS} more" if len(names) > _MOST_STEPS else ""
    return f"Steps of {run_id} are still running, though nobody drives it: {', '.join(names[:_MOST_STEPS])}{more}."


def _plan_only(ctx: Context, wanted: Rollback) -> int:
    found = plan_rollback(ctx.project, ctx.caller, wanted)
    run_id = found.target.row.run_id
    if ctx.args.json:
        files = {"files": _plan_document(found.files)} if found.files is not None else {}
        ctx.emit({"run_id": run_id, "seq": found.target.seq, **files})
        return 0
    ctx.say(f"leftoff: run {run_id} would go back to version {found.target.seq}.")
    if found.running:
        ctx.say(f"{_running_steps(run_id, found.running)} They are ended first.")
    if found.files is not None:
        _show_plan(ctx, found.files)
    return 0


def _tell_rollback(ctx: Context, done: RolledBack) -> None:
    if ctx.args.json:
        ctx.answer(done)
        return
    now, target, outcome = done.run, done.target, done.outcome
    seq = outcome.seq if outcome is not None else target.seq
    if not done.changed:
        ctx.out(f"Run {now.run_id} is at version {seq}; nothing was changed.")
        ctx.say(f"leftoff: it was already there. `leftoff log {now.run_id}` lists what to go back to.")
        return
    own = target.version is not None and target.version.seq == seq and target.version.id
    ctx.out(f"Run {now.run_id} is back at {own or f'version {seq}'}, as version {now.row.seq}.")
    if outcome is not None:
        _tell_files(ctx, now.run_id, outcome)
    if seq == target.row.seq:
        ctx.say("leftoff: it was already there.")
    else:
        over = done.run.status in FINISHED
        more = "" if over else f"; `leftoff resume {now.run_id}` continues from here"
        ctx.say(f"leftoff: `leftoff log {now.run_id}` lists the earlier history{more}.")
        if over:
            again = f"`leftoff resume {now.run_id} --from-step STEP` runs steps again"
            ctx.say(f"leftoff: the run is {now.status} at that version; {again}.")


def _tell_files(ctx: Context, run_id: str, outcome: RestoreOutcome) -> None:
    if outcome.completed:
        ctx.say("leftoff: a rollback that had been cut short is now complete.")
    restored, deleted = len(outcome.plan.of("restore")), len(outcome.plan.of("delete"))
    whole = outcome.saved is not None and not outcome.completed
    undo = f" `leftoff rollback {run_id}@{outcome.saved} --files` undoes that." if whole else ""
    ctx.say(f"leftoff: {restored} files restored, {deleted} deleted.{undo}")


_MOST_LINES = 200  # lines of a plan, before it is carried out
_RESTORE_HINT = "--yes restores them; the current content is saved first, as a checkpoint."


def _agree(ctx: Context, plan: RestorePlan) -> bool:
    """Show the plan; whether to do it. What somebody changed is shown, and needs a yes."""
    _show_plan(ctx, plan, _MOST_LINES)
    if not plan.changed:
        return True
    _show_changes(ctx, plan)
    names = ", ".join(entry.path for entry in plan.changed[:5])
    more = len(plan.changed) - 5
    what = f"Changed since they were last recorded: {clean(names)}{f' and {more} more' if more > 0 else ''}."
    return ctx.confirm(what, hint=_RESTORE_HINT)


def _show_plan(ctx: Context, plan: RestorePlan, most: int | None = None) -> None:
    """One line for each file: what is done with it, and why."""
    for entry in plan.entries[:most]:
        mark = ", and has changed since it was last recorded" if entry.changed else ""
        ctx.say(f"{entry.action:<7} {clean(entry.path)}  ({clean(entry.why)}{mark})")
    if most is not None and len(plan.entries) > most:
        ctx.say(f"… and {len(plan.entries) - most} more; --dry-run shows all.")
    if not plan.entries:
        ctx.say("leftoff: every tracked file is already as it was.")
    if plan.unseen:
        ctx.say(f"leftoff: {plan.unseen}")


def _show_changes(ctx: Context, plan: RestorePlan) -> None:
    for text in _differences(plan.changed[:_MOST_LINES], plan).values():
        ctx.say(text.expandtabs())


def _differences(entries: list[PlanEntry], plan: RestorePlan) -> dict[str, str]:
    return {entry.path: plan.difference(entry) for entry in entries}


def _plan_document(plan: RestorePlan) -> dict[str, object]:
    """A plan as JSON, with what somebody changed as diffs."""
    out: dict[str, object] = plan.to_json()
    out["diffs"] = _differences(plan.changed, plan)
    return out
