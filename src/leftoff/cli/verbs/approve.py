"""``leftoff approve``: a person says yes to a step that waits for it, or chooses one of the options it offers."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.render.text import clean, step_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.approvals import Decided

NOTE = Opt("--note", "N", "why, for the record")

SPEC = Spec(
    "approve",
    "Approve a step that is waiting for a decision: the step completes, and its result is the choice.\n\n"
    "RUN and STEP can be left out when only one is waiting. A decision is never guessed: if several steps "
    "are waiting, or the step offers several options, you are asked; without a terminal the command exits "
    "with 2 and lists them. Who decided what is recorded. This works while the run is being driven and "
    "while it is paused. Repeating a decision changes nothing; changing it is refused.",
    usage="[RUN] [STEP]",
    most=2,
    options=(Opt("--choice", "X", "which of the step's options"), NOTE, *CURRENT),
    examples="""  leftoff approve
  leftoff approve dev-story-20260131-090500 sign-off
  leftoff approve @ sign-off --choice roundtable --note "talk about the cache first\"""",
)


def run(args: Args, ctx: Context) -> int:
    return decide(args, ctx, args.choice)


def decide(args: Args, ctx: Context, choice: str | None) -> int:
    """Also what `reject` does."""
    from leftoff.operations import approvals

    done = approvals.decide(ctx.project, ctx.caller, approvals.Decision(args.rest, choice, args.note))
    ctx.answer(done)
    ctx.say(told(done))
    return 0


def told(done: Decided) -> str:
    """What was recorded, and who goes on."""
    run_id, step = done.info.run_id, step_name(done.step)
    word = (
        "rejected"
        if done.rejected
        else "approved"
        if done.choice == "approve"
        else f"approved ({clean(done.choice)})"
    )
    if not done.changed:
        return f"leftoff: {step} of {run_id} is already {word}."
    return f"leftoff: {step} of {run_id} is {word}. {done.advice}"
