"""``leftoff finish``: the end of a run."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.model.words import in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

STATUS = ("completed", "failed", "abandoned")

SPEC = Spec(
    "finish",
    "End the current run. Unfinished steps do not prevent that: they are listed on stderr and stay as "
    "they are.",
    usage="[RUN]",
    most=1,
    options=(
        Opt("--status", "S", f"{STATUS[0]} (the default), {STATUS[1]} or {STATUS[2]}", choices=STATUS),
        Opt("--summary", "S", "the result in a few words"),
        *CURRENT,
    ),
    examples="""  leftoff finish --summary "12 pages published"
  leftoff finish --status abandoned""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.cli.render.text import step_name
    from leftoff.operations.lifecycle import finish

    ctx.name_run()
    status = args.status or "completed"
    done = finish(ctx.project, ctx.caller, status, args.summary)
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
