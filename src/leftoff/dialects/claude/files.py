"""claude's files: one per checkpoint; deleted when the workflow succeeds, moved to `failed/` when it is given up."""

from __future__ import annotations

import os
from glob import glob

from leftoff.dialects.claude.parallel import FOLDER
from leftoff.dialects.protocol import Dialect
from leftoff.engine.workspace.project_files import ProjectFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.draft import State
    from leftoff.dialects.mirror.mirror import Mirror
    from leftoff.store.rows import RunRow

ROOTS = (".claude/checkpoints", ".claude/data/checkpoints")
FAILED = "failed"
SCRIPTS = ("save-checkpoint", "load-checkpoint", "list-checkpoints", "cleanup-checkpoints")
SCRIPT = """#!/bin/sh
# made by leftoff: the checkpoints of this project are in its store, and in step with their files
exec leftoff compat {name} "$@"
"""


class ClaudeFiles(Dialect):
    def root(self, project: str) -> str:
        later = os.path.join(project, ROOTS[1])
        return ROOTS[1] if os.path.isdir(later) else ROOTS[0]

    def present(self, project: str) -> list[str]:
        found = [f"{root}{below}/*.json" for root in ROOTS for below in ("", f"/{FOLDER}", f"/{FAILED}")]
        return sorted(path for pattern in found for path in glob(pattern, root_dir=project))

    def given_up(self, path: str) -> bool:
        return os.path.basename(os.path.dirname(path)) == FAILED

    def hints(self, path: str) -> dict[str, str]:
        return {"given_up": "yes"} if self.given_up(path) else {}

    def places(self, mirror: Mirror, row: RunRow, state: State) -> dict[str, str | None]:
        path = self.place(mirror.project, state)
        return {path: None} if path is not None else {}

    def place(self, project: str, state: State, status: str | None = None) -> str | None:
        """Where a run's checkpoint is, or would be with that status; ``None``: nowhere, it succeeded."""
        status = status or state.status
        if status == "completed":
            return None
        path = self.home(state, f"{self.root(project)}/{state.run_id}.json")
        folder, name = os.path.dirname(path), os.path.basename(path)
        folder = folder.removesuffix(f"/{FAILED}")
        return f"{folder}/{FAILED}/{name}" if status in ("failed", "abandoned") else f"{folder}/{name}"

    def retire(self, project: str, run_id: str, branch: str, now: int, *, removed: bool) -> None:
        """After their time, the files of workflows that failed go."""
        roots = [f"{root}{below}" for root in ROOTS for below in ("", f"/{FOLDER}")]
        for root in roots if removed else ():
            for place in (f"{root}/{FAILED}/{run_id}.json", f"{root}/{run_id}.json"):
                ProjectFiles(project).remove(place)

    def utilities(self) -> dict[str, str]:
        return {f".claude/utils/{name}.sh": SCRIPT.format(name=name) for name in SCRIPTS}

    def ignored(self, project: str) -> list[str]:
        return [".claude/checkpoints/"]
