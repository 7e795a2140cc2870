"""The same rows as leftoff's, written with hand-made SQL through apsw."""

from __future__ import annotations

import apsw

from bench.sides.committing import Committing
from bench.sides.rows import SETTINGS, Rows


class Commits(Committing):
    """apsw in autocommit mode, its statement cache doing its work."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._db = apsw.Connection(f"{folder}/handmade.db")
        for setting in SETTINGS:
            list(self._db.execute(setting))
        self._rows = Rows(self._db.execute)

    def commit(self, changed: dict[str, object]) -> None:
        """One transaction."""
        self._rows.commit(changed)

    def facts(self) -> dict[str, object]:
        """The settings that decide durability, read back."""
        return {name: self._db.pragma(name) for name in ("journal_mode", "synchronous")}
