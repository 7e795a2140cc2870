"""``leftoff rm``: forget a run."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.prompts.ask import confirm, said_no
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.upkeep.retention import Removed

SPEC = Spec(
    "rm",
    "Delete a run for good: its records, its checkpoints, and copies of files that no other run has.",
    usage="[RUN]",
    most=1,
    options=(Opt("--yes", None, "do not ask"), *CURRENT),
    examples="""  leftoff rm nightly-20260131-090500
  leftoff rm nightly-20260131-090500 --yes""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.upkeep.retention import remove

    what = 'Run {0.run_id} ("{1}", {0.status}) would be deleted for good.'
    done = remove(
        ctx.project,
        ctx.caller,
        args.rest[0] if args.rest else None,
        lambda row: confirm(
            ctx, what.format(row, clean(row.title or row.workflow)), hint="--yes deletes it."
        ),
    )
    if done is None:
        return said_no(ctx)
    return told(ctx, done)


def told(ctx: Context, done: Removed) -> int:
    if ctx.args.json:
        ctx.emit(done.to_json())
    else:
        later = f"; {done.waiting:,} more within the hour, as the store is in use" if done.waiting else ""
        ctx.say(f"leftoff: run {done.run_id} is deleted, {done.freed:,} bytes freed{later}.")
    return 0
