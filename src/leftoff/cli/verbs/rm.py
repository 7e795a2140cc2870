"""``leftoff rm``: forget a run."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.prompts.ask import confirm
from leftoff.cli.render.text import clean
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.read.find import Target

SPEC = Spec(
    "rm",
    "Remove a run for good: its records, its checkpoints, and the copies of files that only it has.",
    usage="RUN",
    least=1,
    most=1,
    options=(Opt("--yes", None, "do not ask"), *CURRENT),
    examples="""  leftoff rm nightly-20260131-090500
  leftoff rm nightly-20260131-090500 --yes""",
)


def run(args: Args, ctx: Context) -> int:
    target = ctx.target(args.rest[0])
    row = target.row
    if target.version is not None:
        raise Usage(
            f"{args.rest[0]} is one version of run {row.run_id}; rm removes a whole run.",
            hint=f"`leftoff rm {row.run_id}` removes all of it.",
        )
    from leftoff.engine.retention.prune import check_removable

    check_removable(ctx.store, row.run_id, ctx.now)
    about = (
        f'Run {row.run_id} ("{clean(row.title or row.workflow)}", {row.status}) would be removed for good.'
    )
    if not confirm(ctx, about, hint="--yes removes it."):
        ctx.say("Nothing was changed.")
        return 0
    return remove_run(target, ctx)


def remove_run(target: Target, ctx: Context) -> int:
    from leftoff.engine.retention.prune import remove

    freed = remove(ctx.store, target.row.run_id, ctx.now)
    if ctx.args.json:
        ctx.emit({"removed": [target.row.run_id], "bytes_freed": freed})
    else:
        ctx.say(f"leftoff: run {target.row.run_id} is removed.")
    return 0
