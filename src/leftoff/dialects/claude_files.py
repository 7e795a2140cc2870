"""claude's files: one per checkpoint; deleted when the workflow succeeds, moved to `failed/` when it is given up."""

from __future__ import annotations

import os
from glob import glob

from leftoff.dialects.base import Dialect
from leftoff.dialects.claude_parallel import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.draft import State
    from leftoff.dialects.mirror import Mirror
    from leftoff.store.rows import RunRow

ROOTS = (".claude/checkpoints", ".claude/data/checkpoints")
FAILED = "failed"


class ClaudeFiles(Dialect):
    def _root(self, project: str) -> str:
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
        if state.status == "completed":
            return {}
        path = self.home(state, f"{self._root(mirror.project)}/{row.run_id}.json")
        folder, name = os.path.dirname(path), os.path.basename(path)
        given_up = state.status in ("failed", "abandoned")
        if given_up and os.path.basename(folder) != FAILED:
            return {f"{folder}/{FAILED}/{name}": None}
        return {path if given_up else f"{folder.removesuffix(f'/{FAILED}')}/{name}": None}

    def retire(self, project: str, run_id: str, branch: str, now: int, *, removed: bool) -> None:
        """After their time, the files of workflows that failed go."""
        roots = [f"{root}{below}" for root in ROOTS for below in ("", f"/{FOLDER}")]
        for root in roots if removed else ():
            for place in (f"{root}/{FAILED}/{run_id}.json", f"{root}/{run_id}.json"):
                full = os.path.join(project, place)
                if os.path.isfile(full):
                    os.unlink(full)

    def ignored(self) -> list[str]:
        return [".claude/checkpoints/"]
