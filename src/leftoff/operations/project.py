"""The project that an operation works in: its folder, settings, store, clock and redactor; each found when asked for.

Every face makes one per call and closes it at the end. Opening the store takes in what others did to the files of a
protocol that the project follows; closing it brings the page up to date that follows the store.
"""

from __future__ import annotations

from leftoff.clock import SYSTEM
from leftoff.engine.config import project as places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.clock import Clock
    from leftoff.dialects.core.base import Dialect
    from leftoff.engine.config.settings import Settings
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow


class Project:
    """One folder, for the length of one call. ``store``: where it is, if somebody said; ``say``: who hears what could
    not be done beside the work."""

    def __init__(
        self,
        folder: str,
        store: str | None = None,
        say: Callable[[str], None] = places.say,
        clock: Clock = SYSTEM,
    ) -> None:
        self.folder = folder
        self.say = say
        self.clock = clock
        self.at = clock.now()  # when the call began
        self.looks = True  # whether what others did to the files of a protocol is taken in first
        self._given = store
        self._settings: Settings | None = None
        self._store: Store | None = None
        self._aside: Any = None  # the folder of a store that is gone after the call

    @property
    def now(self) -> int:
        return self.clock.now()

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            from leftoff.engine.config.settings import load

            self._settings = load(self.folder)
        return self._settings

    def forget_settings(self) -> None:
        """They were changed."""
        self._settings = None

    @property
    def redactor(self) -> Redactor:
        return self.settings.redactor()

    @property
    def limits(self) -> tuple[int, int]:
        """After how many milliseconds without a sign of life a run is quiet, and stalled."""
        beat = self.settings.heartbeat
        return int(beat.quiet * 1000), int(beat.stalled * 1000)

    @property
    def dialect(self) -> Dialect | None:
        """The protocol that the project follows."""
        if not self.settings.section("mirror"):
            return None
        from leftoff.dialects.core.project import mirrored

        return mirrored(self.folder, self.settings)

    @property
    def store(self) -> Store:
        if self._store is None:
            location = places.store_location(self.folder, self._given, self.settings.store)
            self._store = places.open_followed(self.folder, location, self.settings, self.clock, self.say)
            if self._store.follower is not None and self.looks:
                self._store.follower.look()
        return self._store

    def look_into(self, store: Store, folder: Any) -> None:
        """From now on another store is meant, which is gone with its folder when the call ends."""
        self.store.close(soon=True)
        self._store, self._aside = store, folder

    def at_home(self, row: RunRow) -> None:
        """From now on the folder is where the run's files are: a run keeps to its own work tree."""
        home = places.home_of(row.card, self.folder, getattr(self.store, "folder", None))
        if home != self.folder:
            self.say(f"leftoff: {row.run_id} belongs to the work tree {home}.")
            self.folder, self._settings = home, None

    def git_facts(self) -> dict[str, Any]:
        """What a new run remembers of git."""
        return places.git_facts(self.folder)

    def surroundings(self, issue: str | None, branch: str | None) -> dict[str, Any]:
        """What a new run remembers of the world around it: what is not committed, and its issue."""
        from leftoff.engine.workspace.surroundings import DIRTY, dirty_paths

        dirty = dirty_paths(self.folder)
        known: dict[str, Any] = {DIRTY: dirty} if dirty is not None else {}
        if issue:
            from leftoff.engine.workspace.issues import take

            known |= take(self.settings.section("issues"), self.folder, issue, branch, self.now)
        return known

    # -- beside the work

    def upkeep(self) -> None:
        """Retention by itself, once a day, where the project wants it. Never on verbs that agents call often."""
        if not (self.settings.section("retention") or self.settings.section("mirror")):
            return
        from leftoff.dialects.retention import Upkeep
        from leftoff.errors import LeftoffError

        try:
            Upkeep(self.store, self.folder, self.settings, self.now, self.limits).by_itself()
        except (LeftoffError, OSError) as error:
            self.say(f"leftoff: retention did not run: {getattr(error, 'message', error)}")

    def close(self) -> None:
        """The end of the call: pages that follow the store are brought up to date if anything was written."""
        if self._store is not None:
            if self._store.wrote and self._aside is None:
                self.update_page()
            self._store.close(soon=True)
        if self._aside is not None:
            self._aside.cleanup()

    def update_page(self) -> None:
        """Keep the table current that `[status] file` names; a page that cannot be written undoes nothing."""
        if not self.settings.section("status"):
            return
        from leftoff.dialects.sitebuilder import board
        from leftoff.errors import LeftoffError

        try:
            path = board.page_path(self.folder, self.settings)
            if path is not None and self.store.exists():
                board.keep_current(path, lambda: board.table(self.store, self.now, self.limits))
        except (LeftoffError, OSError) as error:
            why = error.message if isinstance(error, LeftoffError) else str(error)
            self.say(f"leftoff: the page of `[status] file` is not up to date: {why}")
