"""``leftoff rollback``: a run's records as they were, as a new checkpoint; and its files, if asked to."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.prompts.ask import confirm, said_no
from leftoff.cli.render.text import step_name
from leftoff.errors import Usage
from leftoff.model.words import FINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.workspace.restoring import RestoreOutcome
    from leftoff.host import Process
    from leftoff.operations.files import Rollback, RolledBack

_SHOWN = 6  # steps that still run

SPEC = Spec(
    "rollback",
    "Return a run to an older version, as a new checkpoint. Nothing is erased: the present is saved "
    "first, so rolling back to that undoes it.\n\n"
    "Files stay as they are unless you pass --files: then tracked files are restored and those created "
    "since are deleted, after the current ones were saved.",
    usage="REF",
    most=1,
    options=(
        Opt("--files", None, "restore the tracked files, too"),
        Opt("--good", None, "to the newest checkpoint (of REF) without failed steps or unmet criteria"),
        Opt("--dry-run", None, "only show what would be done"),
        Opt(
            "--yes",
            None,
            "do not ask: overwrite files changed since they were last recorded, end running steps",
        ),
        *CURRENT,
    ),
    examples="""  leftoff rollback @~1             the current run, one checkpoint back
  leftoff rollback 3f9a            to a checkpoint
  leftoff rollback RUN@7 --files   to a version, with its files
  leftoff rollback --good          to the last known good state""",
)


def run(args: Args, ctx: Context) -> int:
    if not args.rest and not args.good and args.run is None:
        raise Usage("`leftoff rollback` needs REF, or --good.", hint=f"usage: {SPEC.line()}")
    from leftoff.cli.file_plan import agree
    from leftoff.operations.files import Rollback, rollback

    wanted = Rollback(args.rest[0] if args.rest else None, good=args.good, files=args.files)
    if args.dry_run:
        return _dry_run(ctx, wanted)

    def end_steps(run_id: str, running: dict[str, list[Process]]) -> bool:
        hint = f"--yes ends them. `leftoff resume {run_id}` would wait for them instead."
        return confirm(ctx, _running(run_id, running), hint=hint)

    done = rollback(ctx.project, ctx.caller, wanted, end_steps, lambda plan: agree(ctx, plan))
    if not done.done:
        return said_no(ctx)
    _told(ctx, done)
    if done.lost is None:
        return 0
    ctx.say(f"leftoff: {done.lost.message}\n{done.lost.hint}")
    return done.lost.exit_code


def _running(run_id: str, running: dict[str, list[Process]]) -> str:
    """The steps that run without a driver, in a sentence."""
    names = [f"{step_name(step)} (process {processes[-1].pid})" for step, processes in running.items()]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"Steps of {run_id} are still running, though nobody drives it: {', '.join(names[:_SHOWN])}{more}."


def _dry_run(ctx: Context, wanted: Rollback) -> int:
    from leftoff.cli.file_plan import document, show
    from leftoff.operations.files import plan_rollback

    found = plan_rollback(ctx.project, ctx.caller, wanted)
    run_id = found.target.row.run_id
    if ctx.args.json:
        files = {"files": document(ctx, found.files)} if found.files is not None else {}
        ctx.emit({"run_id": run_id, "seq": found.target.seq, **files})
        return 0
    ctx.say(f"leftoff: run {run_id} would go back to version {found.target.seq}.")
    if found.running:
        ctx.say(f"{_running(run_id, found.running)} They are ended first.")
    if found.files is not None:
        show(ctx, found.files)
    return 0


def _told(ctx: Context, done: RolledBack) -> None:
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
        _told_files(ctx, now.run_id, outcome)
    if seq == target.row.seq:
        ctx.say("leftoff: it was already there.")
    else:
        over = done.run.status in FINISHED
        more = "" if over else f"; `leftoff resume {now.run_id}` continues from here"
        ctx.say(f"leftoff: `leftoff log {now.run_id}` lists the earlier history{more}.")
        if over:
            again = f"`leftoff resume {now.run_id} --from-step STEP` runs steps again"
            ctx.say(f"leftoff: the run is {now.status} at that version; {again}.")


def _told_files(ctx: Context, run_id: str, outcome: RestoreOutcome) -> None:
    if outcome.completed:
        ctx.say("leftoff: a rollback that had been cut short is now complete.")
    restored, deleted = len(outcome.plan.of("restore")), len(outcome.plan.of("delete"))
    whole = outcome.saved is not None and not outcome.completed
    undo = f" `leftoff rollback {run_id}@{outcome.saved} --files` undoes that." if whole else ""
    ctx.say(f"leftoff: {restored} files restored, {deleted} deleted.{undo}")
