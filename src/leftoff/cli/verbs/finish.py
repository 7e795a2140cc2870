"""``leftoff finish``: the end of a run."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.store.rows import RunRow

STATUS = ("completed", "failed", "abandoned")

SPEC = Spec(
    "finish",
    "End the current run. It does not insist: steps that are left are named on stderr, and left as they are.",
    options=(
        Opt("--status", "S", f"{STATUS[0]} (the default), {STATUS[1]} or {STATUS[2]}", choices=STATUS),
        Opt("--summary", "S", "what came of it"),
        *CURRENT,
    ),
    examples="""  leftoff finish --summary "12 pages published"
  leftoff finish --status abandoned""",
)


def _end_steps(ctx: Context, row: RunRow) -> None:
    """What a dead driver left running of a run that is given up."""
    from leftoff.engine.read.definition import definition_of

    if definition_of(ctx.store, row) is None:
        return
    from leftoff.cli.render.text import clean
    from leftoff.workflow.run.stop import forsake_attempts

    ended = forsake_attempts(ctx.store, row, ctx.project.store_folder, ctx.settings.run.grace)
    if ended:
        ctx.say(f"leftoff: ended: {clean(', '.join(ended))}.")


def run(args: Args, ctx: Context) -> int:
    status = args.status or "completed"
    summary = ctx.redactor.mask(args.summary) if args.summary else None
    done = ctx.settle(status, summary=summary)
    if status == "abandoned":
        _end_steps(ctx, done.row)
    said = f"leftoff: {done.row.run_id} is {status}{'' if done.changed else ' already'}"
    if done.left:
        from leftoff.cli.render.text import clean

        more = " and more" if done.more else ""
        ctx.say(f"{said}; steps left: {clean(', '.join(done.left))}{more}")
    else:
        ctx.say(f"{said}.")
    from leftoff.operations.upkeep import by_itself

    by_itself(ctx.project)
    return 0
