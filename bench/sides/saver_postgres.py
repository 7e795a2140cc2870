"""LangGraph's PostgresSaver, called as a graph calls it; `saver` says what is left out in its favour."""

from __future__ import annotations

from typing import Any

import psycopg
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from bench.sides import saver


class Graph(saver.Graph):
    """The same loop on a server."""

    def connect(self, place: str) -> BaseCheckpointSaver[Any]:
        """As `PostgresSaver.from_conn_string` does."""
        self._conn = psycopg.connect(place, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        found = PostgresSaver(self._conn)
        found.setup()
        return found

    def facts(self) -> dict[str, object]:
        """The settings that decide durability, read back."""
        return {
            name: self._conn.execute(f"SHOW {name}".encode()).fetchone()[name]  # type: ignore[index]
            for name in ("fsync", "synchronous_commit")
        }

    def close(self) -> int:
        """What it takes is the server's to say."""
        self._conn.close()
        return 0


class Commits(saver.Commits):
    """Ten channels, two of which change per step."""

    graph = Graph


class Steps(Commits):
    """The same as a compiled graph does it: what the task wrote is saved first, then the checkpoint."""

    def commit(self, changed: dict[str, object]) -> None:
        self._graph.put_writes(changed)
        super().commit(changed)


class Grown(saver.Grown):
    """A list channel that gets one item per step."""

    graph = Graph
