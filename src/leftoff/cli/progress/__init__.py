"""What `run` and `resume` show while they work: the driver tells an observer what happens, event by event.

An observer is a callable that takes one event, a dict (its ``event`` says what kind; docs/events.md lists them).

- ``wants_output``: whether it is to be given ``output`` events, what steps print.
- ``every``: after how many seconds at most ``tick()`` wants to be called, events or no events; ``None``: never.
- ``close()``: the end, however it came; the terminal is left as it was. It may be called twice, and is what the end of
  a ``with`` block does.

Observers are called from one thread, never from a signal handler. They never raise because their output cannot be
written: the work matters more than the talk about it. They neither start threads nor catch signals, so that Ctrl-C
is the driver's alone. Each event costs microseconds; a terminal is drawn at most ten times a second.
"""

from __future__ import annotations

import sys

from leftoff.cli.progress.base import Observer
from leftoff.cli.progress.info import Info, Leaf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.progress.base import Event

__all__ = ["Info", "Leaf", "Observer", "observer"]


def observer(ctx: Context, info: Info) -> Observer:
    """The one that fits: events as JSON for a program, live on a terminal, a line per event everywhere else."""
    if ctx.away is not None:
        from leftoff.cli.detach import Away
        from leftoff.cli.progress.plain import Plain

        return Away(ctx, Plain(info, sys.stdout, ctx.project.clock, output=False))
    if ctx.args.json:
        return Events(ctx)
    screen = ctx.screen()
    if screen.fancy:
        from leftoff.cli.progress.live import Live

        return Live(info, screen.stream, ctx.project.clock)
    from leftoff.cli.progress.plain import Plain

    verbose = True if getattr(ctx.args, "verbose", False) else None
    return Plain(info, screen.stream, ctx.project.clock, output=verbose)


class Events(Observer):
    """For programs: every event as JSON, one per line, each written out at once."""

    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self._emit = ctx.emit

    def handle(self, event: Event) -> None:
        self._emit(event)
