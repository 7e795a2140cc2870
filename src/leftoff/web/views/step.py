"""One step: what is known of it, what it failed with, and what each attempt at it printed."""

from __future__ import annotations

from typing import Any

from leftoff.errors import NotFound
from leftoff.operations import Project
from leftoff.operations.pages.one_run import step
from leftoff.operations.watching.log_files import LogFile
from leftoff.operations.watching.logs import Choice, logs_of
from leftoff.web.asking import Asked
from leftoff.web.views.ansi import parts
from leftoff.web.views.heading import heading, number, ref_of
from leftoff.web.views.run import why
from leftoff.web.views.trees import tree

TAIL = 60_000  # bytes of a log that are shown
_SHOWN = ("step", "title", "status", "attempt", "started_at", "completed_at", "error", "result", "item")


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """``?step=``, ``?attempt=``."""
    record = step(project, asked.caller, ref_of(asked), asked.query.get("step", ""))
    error = record.get("error")
    return {
        **heading(project, asked),
        "tab": "run",
        "record": record,
        "why": why(record),
        "traceback": error.get("traceback") or error.get("tail") or "" if isinstance(error, dict) else "",
        "result": tree({"result": record["result"]}) if record.get("result") is not None else [],
        "facts": tree({key: value for key, value in record.items() if key not in _SHOWN and value}),
        "log": _log(project, asked, record["step"]),
        "is_running": record.get("status") == "running",
    }


def _log(project: Project, asked: Asked, path: str) -> dict[str, Any] | None:
    """The last of what an attempt printed."""
    chosen = number(asked.query.get("attempt"))
    try:
        found = logs_of(project, asked.caller, asked.run, Choice(path, chosen)).find()
    except NotFound:
        return None
    log = next((each for each in reversed(found.logs) if each.step == path), None)
    if log is None:
        return None
    text, cut = _tail(log.path)
    return {
        "attempt": log.attempt.number,
        "attempts": range(1, log.attempt.current + 1),
        "exit_code": log.attempt.exit_code,
        "parts": parts(project.redactor.mask(text) + log.raised),
        "cut": cut,
        "is_written": log.is_written,
        "there": log.there,
    }


def _tail(path: str | None) -> tuple[str, bool]:
    """The last bytes of a file as text, and whether there was more before them."""
    if path is None:
        return "", False
    file = LogFile(path)
    try:
        cut = file.skip_to(TAIL)
        return b"".join(file.read(ended=True)).decode(errors="replace"), cut > 0
    except OSError:
        return "", False
