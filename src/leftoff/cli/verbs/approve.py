"""``leftoff approve``: a person says yes to a step that waits for it, or chooses one of the options it offers."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.render.text import clean, step_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.approvals import Decided

NOTE = Opt("--note", "N", "why, for whoever reads the record later")

SPEC = Spec(
    "approve",
    "Decide a step that waits for an approval: it is completed, and its result is the choice. RUN and STEP may be\n"
    "left out where only one waits; a decision is never guessed: of several you are asked on a terminal, and told\n"
    "without one. So it is with the options, where the step offers several. Who decided what is recorded. Works\n"
    "beside whoever drives the run, or while it is paused. The same once more changes nothing, another is refused.",
    usage="[RUN] [STEP]",
    most=2,
    options=(Opt("--choice", "X", "which of the options that the step offers"), NOTE, *CURRENT),
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
        return f"leftoff: {step} of {run_id} is {word} already."
    if done.driven:
        return f"leftoff: {step} of {run_id} is {word}. Whoever drives the run goes on with it."
    return f"leftoff: {step} of {run_id} is {word}. `leftoff resume {run_id}` goes on."
