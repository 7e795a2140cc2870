"""``leftoff unblock``: what blocked a run is resolved."""

from __future__ import annotations

from leftoff.cli.arguments import step_path
from leftoff.cli.options import CURRENT, Spec
from leftoff.cli.render.text import step_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "unblock",
    "Mark what blocks a run as resolved: its blocked steps, or the one you name, become pending again and "
    "their errors are cleared. A checkpoint records who did it.",
    usage="[RUN] [STEP]",
    most=2,
    options=CURRENT,
    examples="""  leftoff unblock                         everything in the only run that is blocked
  leftoff unblock release-1 build""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.approvals import unblock
    from leftoff.operations.runs import run_and_step

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
