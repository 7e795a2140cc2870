"""LangGraph with SqliteSaver and `durability="sync"`."""

from __future__ import annotations

from bench.compare.players import langgraph_default
from bench.compare.players.langgraph_default import drive, found, grow, read, versions

__all__ = ["drive", "found", "grow", "read", "versions"]

langgraph_default.OPTIONS["durability"] = "sync"
