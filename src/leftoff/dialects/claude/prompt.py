"""The resume prompt in the words of the claude protocol: what was found, how far it is, and four choices."""

from __future__ import annotations

from leftoff.engine.read.show import inner_steps
from leftoff.model.times import ago, millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RESUME, FRESH, VIEW, DELETE = "resume", "start", "view", "delete"
CHOICES = (RESUME, FRESH, VIEW, DELETE)
QUESTION = "Choice [r/s/v/d]: "
_TO_DO = ("running", "waiting", "failed", "pending")


def text(found: dict[str, Any], now: int, counted: str | None, clean: Callable[[str], str]) -> str:
    """What is shown of a run. ``found``: its `show` document at the version in question.

    ``counted``: what the project's protocol calls a step, where it counts them. ``clean``: how a foreign text is shown.
    """
    steps = found["steps"]
    created = millis(found["created_at"])
    age = f" ({ago(created, now, words=True)})" if created is not None else ""
    done = steps["completed"] + steps["skipped"]
    how_far = (
        f"{counted or 'Step'} {done} of {steps['total']} completed"
        if steps["total"]
        else "no steps are declared"
    )
    return f"""Found existing checkpoint for "{clean(found["title"] or found["workflow"])}"
Created: {clean(found["created_at"][:19].replace("T", " "))}{age}
Progress: {how_far}
Run: {found["run_id"]}@{found["version"]["seq"]} ({clean(found["status"])}, {found["health"]})

Options:
  (r)esume - {clean(_continuing(found, counted))}
  (s)tart fresh - Mark it abandoned and start over
  (v)iew details - Show everything it holds
  (d)elete - Remove it without starting
"""


def _continuing(found: dict[str, Any], counted: str | None) -> str:
    """What resuming does: the first step that is to be done, which a failed one is again."""
    records = found["step_records"]
    inner = inner_steps(record["step"] for record in records)
    leaves = [record for record in records if record["step"] not in inner]
    for number, record in enumerate(leaves, 1):
        if record["status"] in _TO_DO:
            return f"Continue from {f'{counted} {number}' if counted else record['step']}"
    return "Continue"


def removing(run_id: str) -> str:
    """The second question before a run is removed."""
    return f"Remove run {run_id} and all its checkpoints for good? [y/N]: "
