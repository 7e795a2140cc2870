"""GSD: `.planning/STATE.md`, a page for people and agents; its phases are steps, counted from 1.

Two of its sections are read and kept in step: the position (phase, plan, status, last activity, progress) and where the
last session stopped. A project has one run, `gsd`.
"""

from __future__ import annotations

import os
import re

from leftoff.dialects.core.base import Dialect
from leftoff.dialects.core.draft import DONE, MOST_STEPS
from leftoff.dialects.core.repairs import Rejected, Repairs, shown
from leftoff.dialects.core.times import read_time
from leftoff.model.words import UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.draft import Draft, State
    from leftoff.dialects.mirror.mirror import Mirror
    from leftoff.store.rows import RunRow

FILE = ".planning/STATE.md"
POSITION, SESSION = "Current Position", "Session Continuity"
NOT_STARTED = "Not started"
#: lines of the last session that are context of the run
CONTEXT = {"Stopped at": "stopped_at", "Resume file": "resume_file"}
_PHASE = re.compile(
    r"(\d{1,4}(?:\.\d{1,3})?)(?![\d.])(?:\s+of\s+(\d{1,4}(?:\.\d{1,3})?))?(?:\s*\(([^()]*)\))?"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?")
#: what its words mean, the first that is found; anything else is work
_WORDS = (
    ("completed", ("complete", "shipped", "verified", "done", "✅")),
    ("blocked", ("blocked",)),
    ("paused", ("paused", "on hold")),
    ("failed", ("failed",)),
    ("pending", ("ready", "not started", "pending", "planned", "to plan", "defining")),
)
_SAID = {"completed": "Phase complete", "blocked": "Blocked", "paused": "Paused", "failed": "Failed"}
_BAR = 10  # blocks of the bar of progress


class Gsd(Dialect):
    name = "gsd"
    about = "GSD: .planning/STATE.md"
    starts = "leftoff start gsd --total 5"
    shows_all = False
    page = True
    stamped = False
    files = r"/\.planning/STATE\.md$"
    keys = (POSITION, SESSION)
    counted = "Phase"
    stamps = ("Last activity", "Last session")
    example = (
        FILE,
        {
            POSITION: {
                "Phase": "2 of 5 (Prompts)",
                "Plan": "1 of 3",
                "Status": "In progress",
                "Progress": "20%",
            }
        },
    )

    def recognise(self, document: dict[str, Any], path: str) -> int:
        position = document.get(POSITION)
        return 70 if isinstance(position, dict) and _PHASE.match(str(position.get("Phase", ""))) else 0

    # -- its files

    def includes(self, row: RunRow) -> bool:
        return bool(row.workflow == self.name)

    def present(self, project: str) -> list[str]:
        return [FILE] if os.path.isfile(os.path.join(project, FILE)) else []

    def places(self, mirror: Mirror, row: RunRow, state: State) -> dict[str, str | None]:
        """The page shows the run that was started last."""
        rows = mirror.store.read(lambda view: view.list_runs({"workflow": self.name}))
        return {FILE: None} if max((each.run for each in rows), default=row.run) == row.run else {}

    def leave(self, mirror: Mirror, path: str, run_id: str) -> None:
        """The page is its person's: it stays."""
        mirror.memory.forget(path)

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        return (self.name if given["workflow"] == self.name else None), []

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        position, session = draft.mapping(document, POSITION), draft.mapping(document, SESSION)
        found = _PHASE.match(str(position.get("Phase", "")))
        if found is None:
            raise Rejected(f"{draft.source.path} names no phase below {POSITION!r}.")
        draft.name(self.name)
        draft.run("workflow", self.name)
        draft.run("title", "GSD")
        draft.run("branch", "main")
        for time in (position.get("Last activity"), session.get("Last session")):
            match = _TIME.search(str(time)) if time and draft.at is None else None
            if match is not None:
                draft.at = read_time(match[0], Repairs(), "Last activity", draft.source.modified or None)
        status = self._steps(draft, found, str(position.get("Status", "")))
        draft.run("status", status)
        if position.get("Plan"):
            draft.run("plan", {"phase": found[1], "said": str(position["Plan"])})
        for line, key in CONTEXT.items():
            if session.get(line) and str(session[line]).lower() != "none":
                draft.put("context", key, session[line])

    @staticmethod
    def _steps(draft: Draft, found: re.Match[str], said: str) -> str:
        """The phases up to the last one; what came before the current one is done. The status of the run."""
        current, last = found[1], found[2] or found[1]
        whole = {str(number) for number in range(1, min(int(float(last)), MOST_STEPS) + 1)}
        phases = sorted({*whole, current}, key=float)
        status = meaning(said)
        for order, phase in enumerate(phases):
            before = float(phase) < float(current)
            own = status if phase == current and status != "paused" else "pending"
            record: dict[str, Any] = {"status": "completed" if before else own, "order": order}
            if phase == current and found[3]:
                record["title"] = found[3]
            draft.put("step", phase, record)
        draft.run("total", len(phases))
        if len(phases) > MOST_STEPS:
            draft.repairs.add(f"Phase: {shown(last)} is more than can be steps.")
        over = status == "completed" and phases[-1] == current
        return "completed" if over else status if status in ("blocked", "failed", "paused") else "running"

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        leaves = state.leaves()
        done = [path for path, step in leaves if step.get("status") in DONE]
        left = [(path, step) for path, step in leaves if step.get("status") not in DONE]
        total = max(len(leaves), state.run("total") if isinstance(state.run("total"), int) else 0)
        path, step = left[0] if left else leaves[-1] if leaves else ("1", {})
        if not left and len(leaves) < total:
            path, step = str(len(leaves) + 1), {}
        name = f" ({step['title']})" if step.get("title") else ""
        percent = len(done) * 100 // total if total else 0
        bar = "█" * (percent * _BAR // 100)
        position = {
            "Phase": f"{path} of {max(total, 1)}{name}",
            "Plan": _plan(state, path),
            "Status": _said(state, step),
            "Last activity": state.updated_at[:10],
            "Progress": f"[{bar}{'░' * (_BAR - len(bar))}] {percent}%",
        }
        session = {line: state.of("context").get(key) for line, key in CONTEXT.items()}
        known = {line: value for line, value in session.items() if isinstance(value, str)}
        return {POSITION: position, **({SESSION: known} if known else {})}


def meaning(said: str) -> str:
    """A step's status in our words."""
    low = said.lower()
    return next((ours for ours, words in _WORDS if any(word in low for word in words)), "running")


def _plan(state: State, phase: str) -> str:
    """What the page says of plans counts for the phase that it was said of."""
    known = state.run("plan")
    said = known.get("said") if isinstance(known, dict) and known.get("phase") == phase else None
    return str(said or NOT_STARTED)


def _said(state: State, step: dict[str, Any]) -> str:
    status = str(step.get("status", "pending"))
    if state.status not in UNFINISHED:
        return "Complete" if state.status == "completed" else state.status.capitalize()
    if state.status in _SAID:
        return _SAID[state.status]
    return _SAID.get(status, "Ready to plan" if status == "pending" else "In progress")


DIALECT = Gsd()
