"""``leftoff unblock``: what blocked a run is resolved."""

from __future__ import annotations

from leftoff.cli.arguments import step_path
from leftoff.cli.options import Spec
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

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
    from leftoff.cli.verbs.approve import who
    from leftoff.engine.steps.unblock import unblock

    target = ctx.target(args.rest[0])
    step = step_path(args.rest[1]) if len(args.rest) > 1 else None

    def find(view: View) -> RunRow:
        from leftoff.cli.execute import row_now

        return row_now(view, target.row.run)

    done = unblock(ctx.store, find, step, ctx.now, by=who(), scrubber=ctx.redactor)
    if args.json:
        ctx.emit_run(target.row.run)
    elif done.done.version is None:
        ctx.say(f"Nothing blocks run {target.row.run_id}.")
    else:
        steps = f": {', '.join(map(clean, done.steps))}" if done.steps else ""
        ctx.say(f"Unblocked{steps}. `leftoff resume {target.row.run_id}` goes on.")
    return 0
