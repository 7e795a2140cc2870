"""``leftoff track``: files that the work depends on, as they are now."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.workspace.tracking import Found
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "track",
    "Remember files as they are now, so that whoever goes on is told what changed since, and `leftoff rollback\n"
    "--files` can bring them back. Their content is kept too, up to [capture] max_file of leftoff.toml, unless they\n"
    "hold secrets. A file that was tracked and is gone is remembered as deleted. All of them in one commit, or none.",
    usage="[PATH…]",
    most=None,
    options=(Opt("--git", None, "every file that git calls dirty, untracked ones too"), *CURRENT),
    examples="""  leftoff track config.toml
  leftoff track src/*.py
  leftoff track --git""",
)


def run(args: Args, ctx: Context) -> int:
    if bool(args.rest) == args.git:
        raise Usage("`leftoff track` needs PATH… or --git.", hint=f"usage: {SPEC.line()}")
    from leftoff.engine.read.state import Reader

    row = ctx.current()  # nothing is kept for a run that is not there
    found = _found(args, ctx, row)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if found.news(Reader(ctx.store, tx, row.run, row.run_id), row.seq):
            found.put(changes, row.seq + 1)

    done = ctx.report(make, blobs=found.blobs)
    return ctx.told(done, files=[got.about for got in found.captured])


def _found(args: Args, ctx: Context, row: RunRow) -> Found:
    from leftoff.engine.workspace.tracking import look_at_git, track_given

    if args.git:
        return look_at_git(ctx.project.workspace(), row, always=True)
    return track_given(ctx.project.workspace(), row, args.rest)
