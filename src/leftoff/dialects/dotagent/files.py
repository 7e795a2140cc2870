"""dotagent's files: the state of the workflow at work; others, and what is over, in `.archive/` (the last 5)."""

from __future__ import annotations

import os
from stat import S_ISDIR

from leftoff.clock import compact
from leftoff.dialects.core.base import Dialect
from leftoff.model.words import UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.draft import State
    from leftoff.dialects.mirror.mirror import Mirror
    from leftoff.store.rows import RunRow

ROOT = "memory/state"
PARTS = {f"{ROOT}/phase.json": "phase", f"{ROOT}/execution.json": "execution"}
ARCHIVE = f"{ROOT}/.archive"
KEPT = 5
SAFE = "interruption_safe"


class DotagentFiles(Dialect):
    def includes(self, row: RunRow) -> bool:
        return bool(row.workflow == "dotagent")

    def present(self, project: str) -> list[str]:
        return [path for path in PARTS if os.path.isfile(os.path.join(project, path))]

    def part_of(self, path: str) -> str | None:
        return PARTS.get(path)

    def places(self, mirror: Mirror, row: RunRow, state: State) -> dict[str, str | None]:
        """Only one workflow is at work: the one that was started last."""
        if state.status not in UNFINISHED:
            return {}
        rows = mirror.store.read(lambda view: view.list_runs({"workflow": self.name, "status": UNFINISHED}))
        return dict(PARTS) if max((each.run for each in rows), default=row.run) == row.run else {}

    def complete(self, document: dict[str, Any], part: str | None) -> dict[str, Any]:
        return {**document, SAFE: True} if part == "phase" else document

    def underway(self, document: dict[str, Any], part: str | None) -> dict[str, Any] | None:
        """`interruption_safe` is false until both files are there."""
        return {**document, SAFE: False} if part == "phase" else None

    def before(self, mirror: Mirror, row: RunRow) -> bool:
        """Whatever another workflow left there is archived first."""
        other = [
            path for path in PARTS if mirror.memory.files.get(path, {}).get("run", row.run_id) != row.run_id
        ]
        state = mirror.state(row)
        if other and self.places(mirror, row, state):
            for path in other:
                self._archive(mirror, path, mirror.memory.files[path]["run"])
        return False

    def leave(self, mirror: Mirror, path: str, run_id: str) -> None:
        self._archive(mirror, path, run_id)

    def _archive(self, mirror: Mirror, path: str, run_id: str) -> None:
        """`.archive/{workflow_id}_{timestamp}/`; both files of a workflow into one folder."""
        row = mirror.store.read(lambda view: view.find_run(run_id))
        folder = f"{ARCHIVE}/{run_id}_{compact(row.updated_at if row is not None else mirror.clock())}"
        mirror.memory.forget(path)
        if mirror.files.is_file(path):
            mirror.move(path, f"{folder}/{os.path.basename(path)}")
        self._thin_out(mirror)

    @staticmethod
    def _thin_out(mirror: Mirror) -> None:
        found = [(st.st_mtime_ns, name) for name, st in mirror.files.list(ARCHIVE) if S_ISDIR(st.st_mode)]
        for _, name in sorted(found, reverse=True)[KEPT:]:
            mirror.remove_folder(f"{ARCHIVE}/{name}")

    def ignored(self, project: str) -> list[str]:
        return [f"{ROOT}/"]
