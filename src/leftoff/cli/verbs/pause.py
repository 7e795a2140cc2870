"""``leftoff pause``: enough for now."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.model.words import in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "pause",
    "Pause the current run: a checkpoint is saved and the run stays unfinished. `leftoff resume` "
    "continues it.",
    usage="[RUN]",
    most=1,
    options=(Opt("--note", "N", "what to remember when the run resumes"), *CURRENT),
    examples="""  leftoff pause
  leftoff pause --note "waiting for the review\"""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.lifecycle import pause

    ctx.name_run()
    done = pause(ctx.project, ctx.caller, args.note)
    ctx.answer(done)
    if done.changed:
        ctx.say(f"leftoff: {done.info.run_id} is paused. `leftoff resume` continues it.")
    else:
        ctx.say(f"leftoff: {done.info.run_id} {in_words(done.info.status)} already.")
    return 0
