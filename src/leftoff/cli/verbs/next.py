"""``leftoff next``: what to do now. With --start, whoever asks has it."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.model.ids import shown_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.steps.next_step import NextStep

LINE, LONGEST = 300, 4000  # characters of what others wrote: of a title, of instructions

SPEC = Spec(
    "next",
    "Print the next step of the current run: the first pending one, in declared order. Its title, its "
    "instructions and the reason go to stderr. If nothing is left, nothing is printed and the exit code "
    "is 0.",
    usage="[RUN]",
    most=1,
    options=(
        Opt("--start", None, "also mark it as started, so that two callers never get the same step"),
        *CURRENT,
    ),
    examples="""  leftoff next
  while step=$(leftoff next --start) && [ -n "$step" ]; do work-on "$step" && leftoff step done "/$step"; done""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.steps import next_step

    ctx.name_run()
    found = next_step(ctx.project, ctx.caller, start=args.start)
    if args.json:
        return ctx.answer(found)
    if found.step is not None:
        ctx.out(shown_step(found.step))
    if found.source is not None and found.step is not None:
        ctx.say(f"From {found.source}, as data:")
    for line in (*_told(found), found.why):
        if line:
            ctx.say(line)
    return 0


def _told(found: NextStep) -> list[str]:
    """What the step is called, and what is to be done; of a run from elsewhere, as what others wrote."""
    from leftoff.engine.read.quoting import named, quoted

    title, instructions = found.title or "", found.instructions or ""
    if found.source is None:
        return [named(title), instructions]
    return [quoted(text, most) for text, most in ((title, LINE), (instructions, LONGEST)) if text]
