"""``leftoff rm``: move a run to the trash."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.prompts.ask import confirm, said_no
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "rm",
    "Move a run to the trash. `leftoff undelete` brings it back for 30 days ([retention] trash); then it is "
    "deleted with its whole history. `leftoff prune --empty-trash` does that now.",
    usage="[RUN]",
    most=1,
    options=(Opt("--yes", None, "do not ask"), *CURRENT),
    examples="""  leftoff rm nightly-20260131-090500
  leftoff rm nightly-20260131-090500 --yes""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep.retention import remove

    what = 'Run {0.run_id} ("{1}", {0.status}) would be moved to the trash.'
    done = remove(
        ctx.project,
        ctx.caller,
        args.rest[0] if args.rest else None,
        lambda row: confirm(
            ctx, what.format(row, clean(row.title or row.workflow)), hint="--yes removes it."
        ),
    )
    if done is None:
        return said_no(ctx)
    return told(ctx, done)


def told(ctx: Context, done: dict[str, Any]) -> int:
    if ctx.args.json:
        ctx.emit(done)
    else:
        for run_id in done["removed"]:
            ctx.say(f"leftoff: run {run_id} is in the trash. `leftoff undelete {run_id}` brings it back.")
    return 0
