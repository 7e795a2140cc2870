"""One run, as it is now."""

from __future__ import annotations

from typing import Any

from leftoff.operations import Project
from leftoff.operations.runs import info, target
from leftoff.web.asking import Asked


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """The run's own facts."""
    return {"run": info(project, target(project, asked.caller, asked.run).row).to_json()}
