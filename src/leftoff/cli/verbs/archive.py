"""``leftoff archive``: archive a run that is over."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "archive",
    "Archive a run that is over. `ls` no longer lists it, `ls --all` does. "
    "Naming it still works: `show` and `log` look into it, `resume` makes it active again.",
    usage="[RUN]",
    most=1,
    options=CURRENT,
    examples="""  leftoff archive nightly-20260131-090500
  leftoff show nightly-20260131-090500""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep.retention import archive

    done = archive(ctx.project, ctx.caller, args.rest[0] if args.rest else None)
    if args.json:
        ctx.emit(done.info.to_json())
    else:
        ctx.out(done.info.run_id)
        how = "was archived already" if done.already else "is archived"
        ctx.say(f"leftoff: run {done.info.run_id} {how}.")
    return 0
