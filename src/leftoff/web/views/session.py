"""The session of an agent: each prompt, what it said and did, the files it changed, and what that cost."""

from __future__ import annotations

from typing import Any

from leftoff.model.times import millis
from leftoff.operations import Project
from leftoff.operations.pages.one_run import kept
from leftoff.web.asking import Asked
from leftoff.web.views.heading import heading, ref_of

PAGE = 100
SHOWN = 20  # files of a turn


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """The newest turns first."""
    found = kept(project, asked.caller, ref_of(asked), "turn", "context", "run")
    turns = [(key, turn) for key, turn in found["turn"].items() if isinstance(turn, dict)]
    shown = [_turn(key, turn) for key, turn in reversed(turns)]
    return {
        **heading(project, asked),
        "tab": "session",
        "turns": shown[:PAGE],
        "left_out": max(0, len(shown) - PAGE),
        "spent": _spent(found),
        "agents": sorted({str(turn["agent"]) for _, turn in turns if turn.get("agent")}),
    }


def _turn(key: str, turn: dict[str, Any]) -> dict[str, Any]:
    began, ended = millis(turn.get("started_at")), millis(turn.get("ended_at"))
    files = [str(path) for path in turn.get("files") or []]
    error = turn.get("error")
    return {
        "number": key.lstrip("0") or key,
        "prompt": str(turn.get("prompt") or ""),
        "said": str(turn.get("said") or ""),
        "status": str(turn.get("status") or ""),
        "agent": str(turn.get("agent") or ""),
        "began": turn.get("started_at"),
        "took": (ended - began) / 1000 if began is not None and ended is not None else None,
        "files": files[:SHOWN],
        "more_files": max(0, len(files) - SHOWN) + int(turn.get("more_files") or 0),
        "failed": [each for each in turn.get("failed") or [] if isinstance(each, dict)],
        "error": str(error.get("message") or error.get("type") or "") if isinstance(error, dict) else "",
        "seq": turn.get("seq"),
    }


def _spent(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the agents of all its steps cost, as far as they said so."""
    cost, turns = 0.0, 0
    for about in found["context"].values():
        spent = about.get("spent") if isinstance(about, dict) else None
        if isinstance(spent, dict):
            cost += float(spent.get("cost_usd") or 0)
            turns += int(spent.get("turns") or 0)
    return {"cost": cost, "turns": turns}
