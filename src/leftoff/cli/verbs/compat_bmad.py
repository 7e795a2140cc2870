"""bmad's events: what `workflow.xml` says of a run, read on stdin."""

from __future__ import annotations

from leftoff.cli.arguments import read_text
from leftoff.dialects.bmad_events import parse
from leftoff.dialects.loose_values import shown
from leftoff.errors import Usage
from leftoff.operations.protocols.bmad import take_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context


def event(ctx: Context, rest: list[str]) -> int:
    """All the events on stdin, in order; nothing is done where one of them cannot be read."""
    found = parse(read_text("-"))
    if not found:
        raise Usage(
            "There is no event on stdin.", hint="For example: <checkpoint-close><status>completed</status>…"
        )
    for each in found:
        if each.aliases:
            ctx.say(f"leftoff: the id {shown(each.aliases[0])} is kept as {each.run_id}.")
    for each in found:
        last = take_event(ctx.project, ctx.caller, each)
    return ctx.answer(last)
