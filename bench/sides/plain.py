"""The same rows again, through the standard library's `sqlite3`."""

from __future__ import annotations

import sqlite3

from bench.sides.committing import Committing
from bench.sides.rows import SETTINGS, Rows


class Commits(Committing):
    """`sqlite3` with transactions by hand, so that both hand-made sides issue the same statements."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._db = sqlite3.connect(f"{folder}/plain.db", isolation_level=None)
        for setting in SETTINGS:
            self._db.execute(setting).fetchall()
        self._rows = Rows(self._db.execute)

    def commit(self, changed: dict[str, object]) -> None:
        """One transaction."""
        self._rows.commit(changed)

    def facts(self) -> dict[str, object]:
        """The settings that decide durability, read back."""
        return {
            name: self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        }
