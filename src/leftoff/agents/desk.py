"""Where an agent's face works: the project, its settings, its store, the branch. Found when they are asked for."""

from __future__ import annotations

from leftoff.clock import SYSTEM
from leftoff.engine.config import project as places
from leftoff.engine.config.caller import CALLER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.engine.config.settings import Settings
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.store.base import Store


class Desk:
    """One call, of a hook or of a tool. ``say``: who is told what could not be done beside it (stderr)."""

    def __init__(
        self, project: str, store: str | None = None, say: Callable[[str], None] = places.say
    ) -> None:
        self.project = project
        self._say = say
        self.clock = SYSTEM
        self.at = SYSTEM.now()
        self._given = store
        self._settings: Settings | None = None
        self._store: Store | None = None

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            from leftoff.engine.config.settings import load

            self._settings = load(self.project)
        return self._settings

    @property
    def store(self) -> Store:
        if self._store is None:
            location = places.store_location(self.project, self._given, self.settings.store)
            self._store = places.open_followed(self.project, location, self.settings, self.clock, self._say)
            if self._store.follower is not None:
                self._store.follower.look()
        return self._store

    @property
    def redactor(self) -> Redactor:
        return self.settings.redactor()

    @property
    def branch(self) -> str:
        return CALLER.branch

    @property
    def limits(self) -> tuple[int, int]:
        """After how many milliseconds without a sign of life a run is quiet, and stalled."""
        beat = self.settings.heartbeat
        return int(beat.quiet * 1000), int(beat.stalled * 1000)

    def git_facts(self) -> dict[str, Any]:
        """What a new run remembers of git."""
        return places.git_facts(self.project)

    def close(self) -> None:
        if self._store is not None:
            if self._store.wrote and self.settings.section("status"):
                self._board()
            self._store.close(soon=True)

    def _board(self) -> None:
        """Keep the table current that `[status] file` names."""
        from leftoff.dialects.sitebuilder import board

        path = board.page_path(self.project, self.settings)
        if path is not None and self.store.exists():
            board.keep_current(path, lambda: board.table(self.store, self.at, self.limits))
