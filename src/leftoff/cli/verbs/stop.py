"""``leftoff stop``: end the work on a run from another shell."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec
from leftoff.cli.render.text import step_name
from leftoff.model.words import in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.execution.stop import Stopped

SPEC = Spec(
    "stop",
    "Stop a run from another shell: its driver saves a checkpoint, ends the processes of its steps and "
    "releases the run. Steps that were running will run again; `leftoff resume` continues.",
    usage="[RUN]",
    most=1,
    options=CURRENT,
    examples="""  leftoff stop                            the only run that is running
  leftoff stop dev-story-20260102-030405""",
)


_SHOWN = 6


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.execution.stop import stop

    done = stop(ctx.project, ctx.caller, args.rest[0] if args.rest else None)
    ctx.say(_told(done))
    return ctx.answer(done.run) if done.run is not None else 0


def _told(done: Stopped) -> str:
    run_id, ended = done.run_id, done.ended
    if done.over:
        return f"Run {run_id} is {done.status or 'gone'}; nothing was stopped."
    if done.driven or ended:
        what = f"Run {run_id} is stopped"
    else:
        status = "paused" if done.status == "running" else str(done.status)
        what = f"Run {run_id} is not being driven; it {in_words(status)}"
    steps = f" Ended: {', '.join(step_name(path) for path in ended[:_SHOWN])}{'…' if len(ended) > _SHOWN else ''}."
    return f"{what}. `leftoff resume {run_id}` continues.{steps if ended else ''}"
