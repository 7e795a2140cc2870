"""``leftoff stop``: end the work on a run from another shell."""

from __future__ import annotations

from leftoff.cli.options import Spec
from leftoff.cli.render.text import clean
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


_SHOWN = 6


def run(args: Args, ctx: Context) -> int:
    from leftoff.workflow.run.stop import end_attempts, pause, stop_driver

    row = ctx.target(args.rest[0]).row
    grace = ctx.settings.run.grace
    stopped = stop_driver(ctx.store, row, ctx.now, grace)
    ended = end_attempts(ctx.store, row, ctx.project.store_folder, grace)
    now = ctx.store.read(lambda view: view.run_row(row.run))
    if now is None or now.status in FINISHED:
        _tell(
            args, ctx, row.run, f"Run {row.run_id} is {now.status if now else 'gone'}; nothing was stopped."
        )
        return 0
    if now.status == "running" or ended:
        pause(ctx.store, now, ctx.now, project=ctx.project.folder, scrubber=ctx.redactor, note="stopped")
    _tell(args, ctx, row.run, _told(row.run_id, stopped, ended, now.status))
    return 0


def _told(run_id: str, stopped: bool, ended: list[str], before: str) -> str:
    if stopped or ended:
        what = f"Run {run_id} is stopped"
    else:
        what = f"Nobody drives run {run_id}; it is {'paused' if before == 'running' else before}"
    steps = (
        f" Ended: {', '.join(clean(path) for path in ended[:_SHOWN])}{'…' if len(ended) > _SHOWN else ''}."
    )
    return f"{what}. `leftoff resume {run_id}` goes on.{steps if ended else ''}"


def _tell(args: Args, ctx: Context, run: int, text: str) -> None:
    ctx.say(text)
    if args.json:
        ctx.emit_run(run)
