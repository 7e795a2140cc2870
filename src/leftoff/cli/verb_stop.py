"""``leftoff stop``: end the work on a run from another shell."""

from __future__ import annotations

from leftoff.cli.options import Spec
from leftoff.model.words import FINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "stop",
    "Stop the work on a run from another shell: whoever drives it seals a checkpoint, ends the processes of its\n"
    "steps and frees the lease. What was in flight is to be done again; `leftoff resume` goes on.",
    usage="RUN",
    least=1,
    most=1,
    examples="""  leftoff stop @                          the current run
  leftoff stop dev-story-20260102-030405""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.workflow.stop import end_attempts, stop_driver

    row = ctx.target(args.rest[0]).row
    stopped = stop_driver(ctx.store, row, ctx.now)
    ended = end_attempts(ctx.store, row, ctx.now)
    now = ctx.store.read(lambda view: view.run_row(row.run))
    if now is None or now.status in FINISHED:
        _tell(args, ctx, row.run, f"Run {row.run_id} is {now.status if now else 'gone'}; nothing was stopped.")
        return 0
    if now.status == "running":
        _pause(ctx, row.run, "stopped")
    what = f"Run {row.run_id} is stopped" if stopped or ended else f"Nobody drives run {row.run_id}; it is paused"
    steps = f" Ended: {', '.join(ended)}." if ended else ""
    _tell(args, ctx, row.run, f"{what}. `leftoff resume {row.run_id}` goes on.{steps}")
    return 0


def _pause(ctx: Context, run: int, note: str) -> None:
    """Its driver died without a word, or had none: the run is paused, and a checkpoint says when."""
    from leftoff.cli.execute import row_now
    from leftoff.engine.settle import settle

    settle(
        ctx.store,
        lambda view: row_now(view, run),
        "paused",
        ctx.now,
        project=ctx.project,
        scrubber=ctx.redactor,
        note=note,
    )


def _tell(args: Args, ctx: Context, run: int, text: str) -> None:
    ctx.say(text)
    if args.json:
        ctx.emit_run(run)
