"""``leftoff track``: files that the work depends on, as they are now."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "track",
    "Remember files as they are now, so that whoever goes on is told what changed since. Their content is kept too,\n"
    "up to [capture] max_file of leftoff.toml, unless they hold secrets. All of them in one commit, or none.",
    usage="PATH…",
    least=1,
    most=None,
    options=CURRENT,
    examples="""  leftoff track config.toml
  leftoff track src/*.py""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.artifacts import capture

    at, most = ctx.now, ctx.settings.capture.max_file
    ctx.current()  # nothing is kept for a run that is not there
    files = [capture(ctx.store, ctx.project, path, ctx.redactor, at, most=most) for path in args.rest]

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        for got in files:
            got.put(changes, "file")

    done = ctx.report(make, at=at, blobs=[got.blob for got in files if got.blob is not None])
    return ctx.told(done, files=[got.about for got in files])
