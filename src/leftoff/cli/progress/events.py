"""For programs: every event as JSON, one per line, each written out at once."""

from __future__ import annotations

from leftoff.cli.progress.base import Observer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.progress.base import Event


class Events(Observer):
    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self._emit = ctx.emit

    def handle(self, event: Event) -> None:
        self._emit(event)
