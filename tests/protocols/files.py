"""The files of a project that follows a protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leftoff.protocols.document_yaml import dump_yaml
from tests.protocols.examples import BMAD, CLAUDE, CRUNCH, DOTAGENT, SITEBUILDER

BMAD_STATE = "_bmad-output/.runs/main/dev-story-20260227-143022/state.json"
CRUNCH_PLACE = ".claude/crunch/42/checkpoints"
SITEBUILDER_FILE = "progress/checkpoints/migration-T060.json"
CLAUDE_FILE = ".claude/checkpoints/orchestrate_auth_system_20251003_184530.json"


def put(path: Path, document: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = dump_yaml(document) if path.suffix == ".yaml" else json.dumps(document, indent=2)
    path.write_text(text)
    return path


def later(document: dict[str, Any]) -> dict[str, Any]:
    """A crunch checkpoint one batch after the example."""
    graph = {**document["execution_graph"], "completed_batches": [1, 2, 3], "current_batch": 4}
    again = {**document, "checkpoint_id": "CP-enrich-20250114-b4c5", "created_at": "2025-01-14T10:30:00Z"}
    return {**again, "execution_graph": graph}


def crunch(project: Path) -> None:
    """Two checkpoints, their index, and the symlink to the latest."""
    place = project / CRUNCH_PLACE
    first, second = CRUNCH["full"], later(CRUNCH["full"])
    entries = []
    for document, trigger in ((first, "phase_transition"), (second, "batch_complete")):
        put(place / f"{document['checkpoint_id']}.yaml", document)
        about = {"checkpoint_id": document["checkpoint_id"], "created_at": document["created_at"]}
        entries.append({**about, "trigger": trigger, "phase": "enrich", "can_resume": True})
    index = {
        "issue_number": 42,
        "checkpoints": entries,
        "latest": second["checkpoint_id"],
        "total_checkpoints": 2,
    }
    put(place / "index.yaml", index)
    (place / "latest").symlink_to("CP-enrich-20250114-b4c5.yaml")


def everything(project: Path) -> None:
    """One run of each protocol."""
    put(project / BMAD_STATE, BMAD["state"])
    crunch(project)
    for part, document in DOTAGENT["with tasks"].items():
        put(project / f"memory/state/{part}.json", document)
    put(project / SITEBUILDER_FILE, SITEBUILDER["schema"])
    put(project / CLAUDE_FILE, CLAUDE["format"])
