"""Home: every run of everything that is served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leftoff.operations import Project
from leftoff.operations.runs import Wanted, list_runs
from leftoff.web.asking import Asked
from leftoff.web.projects import Served

PAGE = 50


def view(places: Sequence[tuple[Served, Project]], asked: Asked) -> dict[str, Any]:
    """The newest runs of each project."""
    found = [(served, list_runs(project, Wanted(limit=PAGE))) for served, project in places]
    return {"groups": [(served, listed.to_json()["runs"]) for served, listed in found]}
