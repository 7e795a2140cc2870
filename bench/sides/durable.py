"""DBOS on SQLite: a workflow of trivial steps, with its defaults (its system database on the same disk)."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from dbos import DBOS, DBOSConfig


def _trivial(number: int) -> int:
    """A step that costs nothing but its durability."""
    return number


trivial: Callable[[int], int] = DBOS.step()(_trivial)


def _flow(size: int) -> float:
    """Seconds from the first step's call to the last one's return."""
    began = time.perf_counter()
    for number in range(size):
        trivial(number)
    return time.perf_counter() - began


flow: Callable[[int], float] = DBOS.workflow()(_flow)


def launch(folder: str) -> str:
    """Start DBOS as an application would; the path of its database."""
    path = f"{folder}/dbos.sqlite"
    DBOS(
        config=DBOSConfig(
            name="bench",
            system_database_url=f"sqlite:///{path}",
            log_level="ERROR",
            application_version="1",
            executor_id="local",
        )
    )
    DBOS.launch()
    return path


class Steps:
    """One workflow per round."""

    def __init__(self, folder: str) -> None:
        self._path = launch(folder)

    def round(self, size: int) -> float:
        """Seconds for a workflow's `size` steps; its start and end are not counted."""
        return flow(size)

    def facts(self) -> dict[str, object]:
        """What the database file says of itself; DBOS sets no `synchronous`, so the library's default holds."""
        db = sqlite3.connect(self._path)
        facts = {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
        db.close()
        return facts
