"""``leftoff artifact``: a file that a step produced."""

from __future__ import annotations

from leftoff.cli.arguments import own_step, step_path
from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "artifact",
    "Keep a file of the current run: its path, hash and size, and a copy of it as it is now.\n"
    "A file that holds secrets (.env, *.pem, …) is hashed, and not copied.",
    usage="PATH",
    least=1,
    most=1,
    options=(
        Opt("--name", "N", "what it is called (default: its path)"),
        Opt("--step", "STEP", "the step that made it (default: LEFTOFF_STEP)"),
        *CURRENT,
    ),
    examples="""  leftoff artifact report.pdf --step publish
  leftoff artifact out/site.zip --name site""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.cli.arguments import asked
    from leftoff.engine.steps.artifacts import capture
    from leftoff.engine.steps.reports import add_output

    at = ctx.now
    step = step_path(args.step) if args.step else own_step()
    ctx.current()  # nothing is kept for a run that is not there
    got = capture(
        ctx.store, ctx.project.folder, args.rest[0], ctx.redactor, at, step=step, name=args.name or None
    )

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        asked(lambda: got.put(changes))
        if step is not None:
            add_output(ctx.store, tx, row, changes, step, got.about["path"])

    done = ctx.report(make, at=at, blobs=[got.blob] if got.blob is not None else [])
    return ctx.told(done, artifact={"name": got.key, **got.about})
