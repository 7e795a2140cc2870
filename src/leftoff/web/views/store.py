"""The store of a project: what it is, which runs take its room, what retention would let go, which settings hold."""

from __future__ import annotations

from typing import Any

from leftoff.operations import Project
from leftoff.operations.pages.actions import plan_to_prune
from leftoff.operations.run_list import Wanted, list_runs
from leftoff.operations.settings.in_force import in_force
from leftoff.operations.upkeep.retention import prune, trash
from leftoff.operations.upkeep.stores import info
from leftoff.web.asking import Asked

LARGEST = 15
SIZED = 500  # runs whose bytes are asked for
SHOWN = 50


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """``?preview=1``: with what retention would let go."""
    about = info(project)
    found = list_runs(project, Wanted(limit=SIZED, sizes=True)) if about.exists else None
    runs = sorted(found.runs, key=lambda run: -found.sizes.get(run.run_id, 0)) if found is not None else []
    sizes = found.sizes if found is not None else {}
    most = max(sizes.values(), default=0) or 1
    pruned = prune(project, dry=True) if about.exists and asked.query.get("preview") else None
    return {
        "about": about.to_json(),
        "facts": [(name.replace("_", " "), value) for name, value in about.about.items()],
        "bytes": about.about.get("bytes"),
        "runs": [
            (run, sizes.get(run.run_id, 0), 100 * sizes.get(run.run_id, 0) // most) for run in runs[:LARGEST]
        ],
        "more_runs": found is not None and found.more,
        "pruned": pruned,
        "removed": pruned.removed[:SHOWN] if pruned is not None else [],
        "plan": plan_to_prune(pruned) if pruned is not None else "",
        "trash": trash(project) if about.exists else [],
        "settings": in_force(project),
        "fsck": asked.query.get("fsck"),
    }
