"""One run: where it stands, its steps by the page, its variables; now, or at a version."""

from __future__ import annotations

from typing import Any

from leftoff.model.times import millis
from leftoff.model.words import STEP_STATUS
from leftoff.operations import Project
from leftoff.operations.pages.one_run import StepsWanted, kept, steps
from leftoff.web.asking import Asked
from leftoff.web.views.heading import heading, ref_of
from leftoff.web.views.trees import tree

PAGE = 50


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """``?status=``, ``?text=``, ``?after=``: which steps."""
    status = asked.query.get("status", "")
    order, _, path = asked.query.get("after", "").partition("|")
    wanted = StepsWanted(
        status=(status,) if status in STEP_STATUS else (),
        text=asked.query.get("text", "").strip(),
        after=(order, path),
        limit=PAGE,
    )
    ref = ref_of(asked)
    found = steps(project, asked.caller, ref, wanted)
    others = kept(project, asked.caller, ref, "variable", "note")
    at = asked.query.get("at")
    more = {"status": status, "text": wanted.text, "at": at, "after": "|".join(found.next or ())}
    return {
        **heading(project, asked),
        "tab": "run",
        "steps": [_step(record, project.now) for record in found.steps],
        "more": more if found.next else None,
        "counts": found.counts,
        "wanted": wanted,
        "statuses": STEP_STATUS,
        "variables": tree(others["variable"]),
        "notes": [_note(note) for note in list(others["note"].values())[-5:]],
    }


def _step(record: dict[str, Any], now: int) -> dict[str, Any]:
    """A step with how long it took, and what that is of its estimate."""
    began, ended = millis(record.get("started_at")), millis(record.get("completed_at"))
    if began is None or record.get("status") in ("pending", "skipped"):
        took = None
    elif ended is not None:
        took = (ended - began) / 1000
    else:
        took = (now - began) / 1000 if record.get("status") == "running" else None
    estimate = record.get("estimate")
    if not isinstance(estimate, (int, float)) or isinstance(estimate, bool) or estimate <= 0:
        estimate = None
    share = round(100 * took / estimate) if estimate is not None and took is not None else None
    return {**record, "took": took, "estimate": estimate, "share": share, "why": why(record)}


def why(record: dict[str, Any]) -> str:
    """What a step failed with, in a line."""
    error = record.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or "")
    return str(error or "")


def _note(note: Any) -> str:
    return str(note.get("text") or "") if isinstance(note, dict) else str(note)
