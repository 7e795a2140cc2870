"""``leftoff approve``: a person says yes to a step that waits for it, or chooses one of the options it offers."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.approvals import Decided

NOTE = Opt("--note", "N", "why, for whoever reads the record later")
BRANCH = Opt("--branch", "B", "the branch on which @ is looked for (default: LEFTOFF_BRANCH, main)")

SPEC = Spec(
    "approve",
    "Decide a step that waits for an approval: it is completed, and its result is the choice; without --choice the\n"
    "first option that is not reject. Who decided, when and what is recorded. Works from anywhere, beside whoever\n"
    "drives the run or while it is paused. Deciding the same again changes nothing, another decision is refused.",
    usage="RUN STEP",
    least=2,
    most=2,
    options=(Opt("--choice", "X", "which of the options that the step offers"), NOTE, BRANCH),
    examples="""  leftoff approve dev-story-20260131-090500 sign-off
  leftoff approve @ sign-off --choice roundtable --note "talk about the cache first\"""",
)


def run(args: Args, ctx: Context) -> int:
    return decide(args, ctx, args.choice)


def decide(args: Args, ctx: Context, choice: str | None) -> int:
    """Also what `reject` does."""
    from leftoff.operations import approvals

    ref, word = args.rest
    step = word.removeprefix(
        "/"
    )  # the whole path: whoever decides is not inside the step that LEFTOFF_STEP names
    done = approvals.decide(ctx.project, ctx.caller, approvals.Decision(ref, step, choice, args.note))
    ctx.answer(done)
    ctx.say(told(done))
    return 0


def told(done: Decided) -> str:
    """What was recorded, and who goes on."""
    run_id, step = done.info.run_id, clean(done.step)
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
