"""What runs on of a run whose driver is dead: nothing is put back under the hands of a step that still writes."""

from __future__ import annotations

from leftoff.cli.prompts.ask import confirm
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.operations import RunRow

_SHOWN = 6


def told(ctx: Context, row: RunRow) -> str | None:
    """The steps that run without a driver, in a sentence; None where there are none."""
    from leftoff.operations.stop import left_running

    found = left_running(ctx.project, row)
    if not found:
        return None
    names = [f"{clean(step)} (process {processes[-1].pid})" for step, processes in found.items()]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"Steps of {row.run_id} still run, though nobody drives it: {', '.join(names[:_SHOWN])}{more}."


def ended(ctx: Context, row: RunRow) -> bool:
    """End them, where that is agreed to; whether nothing runs any more."""
    what = told(ctx, row)
    if what is None:
        return True
    hint = f"--yes ends them. `leftoff resume {row.run_id}` would wait for them instead."
    if not confirm(ctx, what, hint=hint):
        return False
    from leftoff.operations.stop import end_processes

    end_processes(ctx.project, row)
    return True
