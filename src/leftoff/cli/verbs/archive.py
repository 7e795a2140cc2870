"""``leftoff archive``: a run that is over becomes one file beside the store."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec
from leftoff.errors import Conflict, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "archive",
    "Move a run into one bundle in the archive of the store. It is listed no more, except by `ls --all`; whoever\n"
    "names it opens it again: `show` and `log` look into the bundle, `resume` takes it back into the store.",
    usage="RUN",
    least=1,
    most=1,
    options=CURRENT,
    examples="""  leftoff archive nightly-20260131-090500
  leftoff show nightly-20260131-090500""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.retention.archive import archive
    from leftoff.engine.retention.policy import IN_PROGRESS

    target = ctx.target(args.rest[0])
    row = target.row
    if target.version is not None:
        raise Usage(
            f"{args.rest[0]} is one version of run {row.run_id}.", hint=f"leftoff archive {row.run_id}"
        )
    if row.status in IN_PROGRESS:
        raise Conflict(
            f"Run {row.run_id} is {row.status}; only a run that is over is archived.",
            hint=f"`leftoff finish --run {row.run_id}` ends it.",
        )
    path, about, _ = archive(ctx.store, row, ctx.now, ctx.limits)
    _retire(ctx, row)
    if args.json:
        ctx.emit(about)
    else:
        ctx.out(path)
        ctx.say(f"leftoff: run {row.run_id} is archived.")
    return 0


def _retire(ctx: Context, row: RunRow) -> None:
    """The files of a dialect go where its protocol archives them."""
    if ctx.settings.section("mirror"):
        from leftoff.dialects.core.project import mirrored

        dialect = mirrored(ctx.project.folder, ctx.settings)
        if dialect is not None:
            dialect.retire(ctx.project.folder, row.run_id, row.branch, ctx.now, removed=False)
