"""What failed under `on_failure: ask`: whoever sits at the terminal says what becomes of it."""

from __future__ import annotations

from leftoff.cli.prompts.ask import can_ask, choose
from leftoff.cli.render.text import clean
from leftoff.errors import NeedsPerson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context

RETRY, SKIP, QUIT = "retry", "skip", "quit"
SHOWN = 5


def ask(ctx: Context, run_id: str, failed: list[tuple[str, str]]) -> str:
    """Whether to try again what failed (and why), to go on without it, or to leave it at that."""
    if not failed or not can_ask(ctx) or ctx.args.yes:
        return QUIT
    for path, why in failed[:SHOWN]:
        ctx.say(f"{clean(path)} failed: {clean(why)}")
    if len(failed) > SHOWN:
        ctx.say(f"and {len(failed) - SHOWN} more")
    hint = f"`leftoff resume {run_id}` tries again what failed."
    try:
        return choose("(r)etry, (s)kip and go on, (q)uit: ", (RETRY, SKIP, QUIT), hint)
    except NeedsPerson:
        return QUIT
