"""What resuming would do: for each step run, skip, adopt, reattach or ask, and why."""

from __future__ import annotations

from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.engine.steps.lifecycle import why_failed
from leftoff.model.ids import parent_of, with_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Protocol

    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.request import Selection

    class Layout(Protocol):
        """A run's steps, and those of them that something is done with, in order."""

        @property
        def steps(self) -> Mapping[str, Mapping[str, Any]]: ...

        def leaves(self) -> list[str]: ...


_OF_A_STEP = ("outputs.missing", "outputs.changed", "step.not_idempotent", "step.elsewhere")
_DONE = ("completed", "skipped")


def make_plan(
    layout: Layout,
    findings: Iterable[Finding],
    known: Mapping[str, tuple[str, str]],
    selection: Selection,
) -> list[dict[str, Any]]:
    """One entry per leaf step, in declared order. ``known``: what a runner knows of steps that were in flight."""
    asked = {
        finding.subject: finding
        for finding in findings
        if finding.subject is not None and finding.code in _OF_A_STEP and finding.level in (ASK, REFUSE)
    }
    plan, steps = [], layout.steps
    for path in layout.leaves():
        question = asked.get(path)
        record = steps.get(path, {})
        action, why = _intent(record, question, known.get(path))
        if path in selection.repeat and question is None:
            action, why = "run", "it will run again"
        elif selection.leaves_out(path) and question is None and action in ("run", "ask"):
            action, why = "skip", "it was not asked for"
        above = steps.get(parent_of(path))
        plan.append(with_item({"step": path, "action": action, "why": why}, path, record, above))
    return plan


def _intent(
    record: Mapping[str, Any], asked: Finding | None, known: tuple[str, str] | None
) -> tuple[str, str]:
    status = record.get("status")
    if asked is not None:
        return "ask", asked.message
    if known is not None:
        return ("run" if known[0] == "ask" else known[0]), known[1]  # what was asked about was accepted
    if status in _DONE:
        when = record.get("completed_at")
        return "skip", f"it is {status}" + (f" since {when}" if when else "")
    if status == "failed":
        return "run", f"it failed: {why_failed(record)}"
    if status == "running":
        return "run", "it was running, and nobody knows how it ended"
    if status == "waiting":
        return "ask", f"it is waiting for {'a decision' if record.get('kind') == 'approval' else 'a person'}"
    if status == "blocked":
        return "ask", f"it is blocked: {why_failed(record)}"
    return "run", "it is next"


def resume_from(plan: list[dict[str, Any]]) -> str | None:
    """The first step that something would happen to."""
    return next((entry["step"] for entry in plan if entry["action"] != "skip"), None)
