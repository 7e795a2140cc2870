"""What resuming would do: for each step run, skip, adopt, reattach or ask, and why."""

from __future__ import annotations

from leftoff.engine.verify.finding import ASK, REFUSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from leftoff.engine.verify.finding import Finding
    from leftoff.engine.verify.world import World

_OF_A_STEP = ("outputs.missing", "outputs.changed", "step.not_idempotent", "step.elsewhere")


def make_plan(
    world: World, findings: Iterable[Finding], known: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """One entry per leaf step, in declared order. ``known``: what a runner knows of steps that were in flight."""
    asked = {
        finding.subject: finding
        for finding in findings
        if finding.subject is not None and finding.code in _OF_A_STEP and finding.level in (ASK, REFUSE)
    }
    return [_entry(world, path, asked.get(path), known.get(path)) for path in world.leaves()]


def _entry(world: World, path: str, asked: Finding | None, known: tuple[str, str] | None) -> dict[str, Any]:
    record = world.steps[path]
    status = record.get("status")
    if asked is not None:
        action, why = "ask", asked.message
    elif known is not None:
        action, why = known
    elif status in ("completed", "skipped"):
        when = record.get("completed_at")
        action, why = "skip", f"it is {status}" + (f" since {when}" if when else "")
    elif status == "failed":
        action, why = "run", f"it failed: {_message(record)}"
    elif status == "running":
        action, why = "run", "it was in flight, and nobody knows how it ended"
    elif status == "waiting":
        kind = "a decision" if record.get("kind") == "approval" else "a person"
        action, why = "ask", f"it waits for {kind}"
    elif status == "blocked":
        action, why = "ask", f"it is blocked: {_message(record)}"
    else:
        action, why = "run", "it is to be done"
    return {"step": path, "action": action, "why": why}


def _message(record: Mapping[str, Any]) -> str:
    error = record.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or "no reason was given")


def resume_from(plan: list[dict[str, Any]]) -> str | None:
    """The first step that something would happen to."""
    return next((entry["step"] for entry in plan if entry["action"] != "skip"), None)
