"""``leftoff pause``: enough for now."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "pause",
    "Stop working on the current run for now: it is sealed and stays unfinished. `leftoff resume` goes on with it.",
    usage="[RUN]",
    most=1,
    options=(Opt("--note", "N", "what to remember when going on"), *CURRENT),
    examples="""  leftoff pause
  leftoff pause --note "waiting for the review\"""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.lifecycle import pause

    ctx.name_run()
    done = pause(ctx.project, ctx.caller, args.note)
    ctx.answer(done)
    if done.changed:
        ctx.say(f"leftoff: {done.info.run_id} is paused. `leftoff resume` goes on with it.")
    else:
        ctx.say(f"leftoff: {done.info.run_id} is {done.info.status} already.")
    return 0
