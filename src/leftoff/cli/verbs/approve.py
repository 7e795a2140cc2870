"""``leftoff approve``: a person says yes to a step that waits for it, or chooses one of the options it offers."""

from __future__ import annotations

from leftoff.cli.arguments import asked
from leftoff.cli.options import Opt, Spec
from leftoff.cli.render.text import clean
from leftoff.engine.write.head import need_run
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.steps.approvals import Decided
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

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
    from leftoff.engine.steps import approvals
    from leftoff.host import user

    row = _run(args, ctx)
    done = approvals.decide(
        ctx.store,
        lambda view: _again(view, row),
        _step(args.rest[1]),
        choice,
        user(),
        ctx.now,
        note=ctx.redactor.mask(args.note) if args.note else None,
        scrubber=ctx.redactor,
        guard=ctx.guard(),
    )
    if args.json:
        ctx.emit_run(done.row.run)
    ctx.say(told(done, ctx))
    return 0


def _run(args: Args, ctx: Context) -> RunRow:
    target = ctx.target(args.rest[0])
    if target.version is not None:
        raise Usage(
            f"{args.rest[0]} is one version of run {target.row.run_id}; a decision is about the run as it is now.",
            hint=f"Name the run alone: {target.row.run_id}.",
        )
    return target.row


def _again(view: View, row: RunRow) -> RunRow:
    """The run as it is in the transaction that decides."""
    return need_run(view, row.run, row.run_id)


def _step(word: str) -> str:
    """The whole path: whoever decides is not inside the step that LEFTOFF_STEP names."""
    from leftoff.model.ids import check_step

    return asked(lambda: check_step(word.removeprefix("/")))


def told(done: Decided, ctx: Context) -> str:
    """What was recorded, and who goes on."""
    from leftoff.engine.write.lease import state

    run_id, step = done.row.run_id, clean(done.step)
    word = (
        "rejected"
        if done.rejected
        else "approved"
        if done.choice == "approve"
        else f"approved ({clean(done.choice)})"
    )
    if not done.changed:
        return f"leftoff: {step} of {run_id} is {word} already."
    driven = state(ctx.store.read(lambda view: view.lease(done.row.run)), ctx.now)
    if driven in ("alive", "unknown"):
        return f"leftoff: {step} of {run_id} is {word}. Whoever drives the run goes on with it."
    return f"leftoff: {step} of {run_id} is {word}. `leftoff resume {run_id}` goes on."
