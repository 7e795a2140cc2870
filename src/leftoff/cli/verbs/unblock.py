"""``leftoff unblock``: what blocked a run is resolved."""

from __future__ import annotations

from leftoff.cli.arguments import step_path
from leftoff.cli.options import Spec
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "unblock",
    "Say that what blocks a run is resolved: its blocked steps, or the one that is named, are to be done again, and\n"
    "their errors are cleared. A checkpoint says who did it.",
    usage="RUN [STEP]",
    least=1,
    most=2,
    examples="""  leftoff unblock @                       everything that is blocked in the current run
  leftoff unblock release-1 build""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.steps.unblock import unblock
    from leftoff.host import user
    from leftoff.operations.reports import this_run

    row = ctx.target(args.rest[0]).row
    step = step_path(args.rest[1]) if len(args.rest) > 1 else None

    done = unblock(ctx.store, this_run(row.run, row.run_id), step, ctx.now, by=user(), scrubber=ctx.redactor)
    if args.json:
        ctx.emit_run(row.run)
    elif done.done.version is None:
        ctx.say(f"Nothing blocks run {row.run_id}.")
    else:
        steps = f": {', '.join(map(clean, done.steps))}" if done.steps else ""
        ctx.say(f"Unblocked{steps}. `leftoff resume {row.run_id}` goes on.")
    return 0
