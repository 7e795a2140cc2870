"""LangGraph's SqliteSaver, called as a graph calls it: one `put` per step, with new channel versions.

A real graph also calls `put_writes` for every task; leaving that out favours the peer.
"""

from __future__ import annotations

import random
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from bench import work
from bench.places import allocated
from bench.sides.committing import Committing


class Graph:
    """The part of a graph's loop that ends in `put`."""

    def __init__(self, place: str, values: dict[str, object]) -> None:
        """`place`: the folder that it works in."""
        self.values = values
        self._saver: BaseCheckpointSaver[Any] = self.connect(place)
        self._step = 0
        self._versions: dict[str, str | int | float] = {}
        self._config: dict[str, dict[str, str]] = {
            "configurable": {"thread_id": "bench", "checkpoint_ns": ""}
        }
        self.put(list(values))

    def connect(self, place: str) -> BaseCheckpointSaver[Any]:
        """As `SqliteSaver.from_conn_string` does; WAL comes from the saver, FULL is the default."""
        self.folder = Path(place)
        self._db = sqlite3.connect(f"{place}/saver.db", check_same_thread=False)
        return SqliteSaver(self._db)

    def put(self, changed: list[str]) -> None:
        """Save the channels after a step that wrote `changed`."""
        self._step += 1
        version = self._saver.get_next_version(self._versions.get(changed[0]), None)
        new = dict.fromkeys(changed, version)
        self._versions.update(new)
        self._config = self._saver.put(
            self._config,
            self._checkpoint(changed),
            {"source": "loop", "step": self._step, "parents": {}},
            new,
        )

    def put_writes(self, changed: dict[str, object]) -> None:
        """Save what a task wrote, before the checkpoint that follows from it."""
        self._saver.put_writes(self._config, list(changed.items()), str(uuid6(clock_seq=self._step)))

    def _checkpoint(self, changed: list[str]) -> Checkpoint:
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=self._step))
        checkpoint["ts"] = datetime.now(UTC).isoformat()
        checkpoint["channel_values"] = self.values.copy()
        checkpoint["channel_versions"] = self._versions.copy()
        checkpoint["versions_seen"] = {"node": {name: self._versions[name] for name in changed}}
        checkpoint["updated_channels"] = changed
        return checkpoint

    def facts(self) -> dict[str, object]:
        """The settings that decide durability, read back."""
        return {
            name: self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        }

    def close(self) -> int:
        """Bytes allocated once the connection is closed."""
        self._db.close()
        return allocated(self.folder)


class Commits(Committing):
    """Ten channels, two of which change per step."""

    graph: type[Graph] = Graph

    def __init__(self, folder: str, url: str = "") -> None:
        super().__init__()
        self._graph = self.graph(url or folder, work.variables())

    def commit(self, changed: dict[str, object]) -> None:
        """One checkpoint."""
        self._graph.values.update(changed)
        self._graph.put(list(changed))

    def facts(self) -> dict[str, object]:
        """See `Graph.facts`."""
        return self._graph.facts()


class Grown:
    """A list channel that gets one item per step."""

    graph: type[Graph] = Graph

    def __init__(self, folder: str, url: str = "") -> None:
        self._graph = self.graph(url or folder, {"x": []})

    def grow(self, count: int) -> dict[str, object]:
        """Seconds of each step, and the bytes allocated at the end."""
        items: list[object] = []
        taken = []
        for n in range(count):
            fresh = work.item(n)
            began = time.perf_counter()
            items.append(fresh)
            self._graph.values["x"] = items
            self._graph.put(["x"])
            taken.append(time.perf_counter() - began)
        return {"taken": taken, "bytes": self._graph.close()}


class Reassigned:
    """The same list as a channel value, with one random edit per step."""

    def __init__(self, folder: str, kind: str = "fresh") -> None:
        """`kind` is leftoff's distinction; the saver serialises everything either way."""
        self._graph = Graph(folder, {"x": []})
        self._items: list[dict[str, object]] = []
        self._random = random.Random(1)
        self._n = 0

    def grow(self, count: int) -> None:
        """Reach `count` items, one more and one edited per step."""
        for n in range(count):
            self._items.append(work.item(n))
            self._edit()
            self._graph.put(["x"])

    def round(self, size: int) -> float:
        """Seconds for `size` steps with one edit each."""
        taken = 0.0
        for _ in range(size):
            self._edit()
            began = time.perf_counter()
            self._graph.put(["x"])
            taken += time.perf_counter() - began
        return taken

    def close(self) -> int:
        """Bytes allocated at the end."""
        return self._graph.close()

    def _edit(self) -> None:
        self._n += 1
        self._items[self._random.randrange(len(self._items))] = work.item(1_000_000 + self._n)
        self._graph.values["x"] = self._items
