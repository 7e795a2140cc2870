"""What claude wants to be in order before a workflow goes on: its tests, its last error, the plan that it works by."""

from __future__ import annotations

import os

from leftoff.dialects.draft import one_line
from leftoff.engine.resume.finding import Finding
from leftoff.model.codec import text
from leftoff.model.times import DAY_MS, millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.dialects.draft import State

STALE_MS = 7 * DAY_MS
_MOST = 300  # characters of an error


def findings(document: dict[str, Any], state: State, project: str) -> Iterator[Finding]:
    if document.get("tests_passing") is False:
        message = "The checkpoint says that its tests were not passing."
        hint = "Look at them, then resume with --accept prerequisite.missing."
        yield Finding("prerequisite.missing", message, hint, "tests_passing")
    if state.status != "blocked" and document.get("last_error") is not None:
        yield Finding(
            "blocked.errors",
            f"The last error is still open: {_told(document['last_error'])}.",
            f"Once it is resolved: `leftoff unblock {state.run_id}`. --accept blocked.errors continues without.",
            "last_error",
            choices=("clear them", "go on without", "stop"),
        )
    yield from _plan(document, project)


def _plan(document: dict[str, Any], project: str) -> Iterator[Finding]:
    """The plan that it works by: gone, or changed since."""
    path = _plan_path(document)
    if path is None:
        return
    changed = _plan_changed(project, path)
    if changed is None:
        message = f"{path}, the plan it works by, is missing."
        hint = "Restore it, or resume with --accept prerequisite.missing."
        yield Finding("prerequisite.missing", message, hint, path)
    elif _differs(document, changed):
        message = f"{path}, the plan that it works by, was changed since."
        yield Finding(
            "files.changed", message, "Does it still fit? --accept files.changed resumes anyway.", path
        )


def _plan_path(document: dict[str, Any]) -> str | None:
    state = document.get("workflow_state")
    path = state.get("plan_path") if isinstance(state, dict) else None
    return path if isinstance(path, str) and path and "\0" not in path else None


def _plan_changed(project: str, path: str) -> int | None:
    """When the plan's file was changed, in seconds; ``None`` where there is none."""
    try:
        return int(os.stat(os.path.join(project, path)).st_mtime)
    except OSError:
        return None


def _told(error: Any) -> str:
    """An error in words, however a document has it."""
    if not isinstance(error, dict):
        return one_line(error)[:_MOST]
    message = error.get("message") or error.get("error")
    if not isinstance(message, str):
        return one_line(text(error))[:_MOST]
    kind = error.get("type")
    return one_line(f"{kind}: {message}" if isinstance(kind, str) else message)[:_MOST].rstrip(".")


def why_ask(document: dict[str, Any], project: str, now: int) -> str | None:
    """Why a person should look before this is resumed; ``None`` where it is safe. The first reason counts."""
    if document.get("tests_passing") not in (None, True):
        return "tests were not passing"
    if document.get("last_error") is not None:
        return f"the last error is open: {_told(document['last_error'])}"
    if document.get("status") != "in_progress":
        return f"its status is {document.get('status')}"
    updated = millis(document.get("updated_at") or document.get("created_at"))
    if updated is None or now - updated > STALE_MS:
        return "it is older than 7 days"
    path = _plan_path(document)
    if path is not None and _differs(document, _plan_changed(project, path)):
        return "the plan file was changed since"
    return None


def _differs(document: dict[str, Any], changed: int | None) -> bool:
    """Whether the plan is another one than the checkpoint knew."""
    known = document.get("plan_modification_time")
    return changed is not None and isinstance(known, (int, float)) and int(known) != changed
