"""``leftoff undelete``: bring back a run from the trash or the archive."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "undelete",
    "Bring back a run that `rm` or retention removed. It stays in the trash for 30 days ([retention] trash), "
    "with its whole history. A run that is archived comes back, too. Without a name, list the trash.",
    usage="[RUN]",
    most=1,
    options=CURRENT,
    examples="""  leftoff undelete                           what can be brought back
  leftoff undelete nightly-20260131-090500""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep.retention import trash, undelete

    name = args.rest[0] if args.rest else ctx.caller.named
    if name is not None:
        found = undelete(ctx.project, name)
        if args.json:
            ctx.emit(found.to_json())
        else:
            ctx.say(f"leftoff: run {found.run_id} is back ({found.status}).")
        return 0
    there = trash(ctx.project)
    if args.json:
        ctx.emit({"trash": there})
        return 0
    for each in there:
        title = clean(each["title"] or each["workflow"])
        ctx.out(f"{each['run_id']}  {clean(each['status'])}, removed {each['removed_at']}  {title}")
    if not there:
        ctx.say("The trash is empty.")
    return 0
