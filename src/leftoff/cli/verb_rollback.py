"""``leftoff rollback``: a run's records as they were, as a new checkpoint."""

from __future__ import annotations

import os

from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "rollback",
    "Go back to an older version of a run: a new checkpoint that equals it. Nothing is erased: the present is sealed\n"
    "first, and `leftoff rollback` to that undoes it. Files stay as they are.",
    usage="REF",
    least=1,
    most=1,
    options=(
        Opt("--yes", None, "accepted for scripts; nothing is asked, because nothing is erased"),
        *CURRENT,
    ),
    examples="""  leftoff rollback @~1        the current run, one checkpoint back
  leftoff rollback 3f9a       to a checkpoint
  leftoff rollback RUN@7      to a version""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.pickup import go_back

    target = ctx.target(args.rest[0])
    session = os.environ.get("LEFTOFF_SESSION") or None
    go_back(ctx.store, target, ctx.now, session=session, guard=ctx.guard())
    now = ctx.info(target.row)
    if args.json:
        ctx.emit(now.to_json())
        return 0
    was = target.version.id if target.version is not None and target.version.id else f"version {target.seq}"
    ctx.out(f"Run {now.run_id} is back at {was}, as version {now.row.seq}.")
    if target.seq == target.row.seq:
        ctx.say("leftoff: that is where it was already.")
    else:
        ctx.say(
            f"leftoff: `leftoff log {now.run_id}` lists what was before; `leftoff resume` goes on from here."
        )
    return 0
