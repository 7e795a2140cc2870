"""``leftoff archive``: a run that is over becomes one file beside the store."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "archive",
    "Move a run into the archive of the store. `ls` no longer lists it, `ls --all` does. "
    "Naming it still works: `show` and `log` look into it, `resume` moves it back into the store.",
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
        ctx.emit(done.about)
    else:
        ctx.out(done.path or done.about["run_id"])
        how = "was archived already" if done.already else "is archived"
        gone = f" What its steps printed is gone ({done.logs:,} bytes)." if done.logs else ""
        ctx.say(f"leftoff: run {done.about['run_id']} {how}.{gone}")
    return 0
