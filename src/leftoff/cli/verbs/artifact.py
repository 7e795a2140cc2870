"""``leftoff artifact``: a file that a step produced."""

from __future__ import annotations

from leftoff.cli.arguments import step_path
from leftoff.cli.options import CURRENT, Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "artifact",
    "Record a file in the current run: its path, hash and size, and a copy of its content. A file that "
    "holds secrets (.env, *.pem, …) is hashed but not copied.",
    usage="PATH",
    least=1,
    most=1,
    options=(
        Opt("--name", "N", "its name (default: its path)"),
        Opt("--step", "STEP", "the step that made it (default: LEFTOFF_STEP)"),
        *CURRENT,
    ),
    examples="""  leftoff artifact report.pdf --step publish
  leftoff artifact out/site.zip --name site""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.records import Artifact, keep_artifact

    step = step_path(args.step) if args.step else None
    return ctx.answer(keep_artifact(ctx.project, ctx.caller, Artifact(args.rest[0], args.name, step)))
