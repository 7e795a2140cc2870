"""``leftoff brief``: what an agent must know to go on."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec
from leftoff.cli.render.text import clean_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "brief",
    "Print what an agent needs to know to continue the current run, or REF: facts, most important first, "
    "in at most 8,000 characters. Instructions left for the resume come first; what changed since then "
    "comes last.",
    usage="[REF]",
    most=1,
    options=CURRENT,
    examples="""  leftoff brief
  leftoff brief convert-pdfs
  leftoff brief @~1 --json""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.checkpoints import brief

    found = brief(ctx.project, ctx.caller, args.rest[0] if args.rest else None)
    if not args.json:
        ctx.out(clean_lines(found.text))
    return ctx.answer(found)
