"""What steps failed with, for people: the kind of error, its message, where in the program it was raised."""

from __future__ import annotations

from leftoff.cli.render.text import clean, crop, step_name, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.render.text import Line

MOST = 10  # failures that are told with all they have
MOST_LINES = 12  # of a traceback: its end says most
MOST_RESULT = 300  # characters of what a step returned and could not be kept


def in_words(error: Any) -> str:
    """An error in a line: its kind, and its message."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        kind = error.get("type")
        return clean(f"{kind}: {error['message']}" if isinstance(kind, str) and kind else error["message"])
    return clean(error) if isinstance(error, str) else value(error)


def failure_lines(errors: dict[str, Any], run_id: str) -> list[Line]:
    """Each by its step, with its traceback below."""
    lines: list[Line] = []
    for step, error in list(errors.items())[:MOST]:
        lines.append([(step_name(step), "id"), ("  ", ""), (in_words(error), "bad")])
        lines += [[("  ", ""), (line, "dim")] for line in _below(error)]
    if len(errors) > MOST:
        lines.append([(f"and {len(errors) - MOST} more: leftoff logs {run_id} --failed", "dim")])
    return lines


def _below(error: Any) -> list[str]:
    if not isinstance(error, dict):
        return []
    trace = str(error.get("traceback") or "").rstrip("\n").split("\n")
    told = ["  …", *trace[-MOST_LINES:]] if len(trace) > MOST_LINES else trace
    if "result" in error:
        told.append(f"it returned {crop(str(error['result']), MOST_RESULT)}")
    return [clean(line) for line in told if line]
