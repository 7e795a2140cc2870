"""dotagent's files: the state of the workflow at work; others, and what is over, in `.archive/` (the last 5)."""

from __future__ import annotations

import os
from glob import glob
from stat import S_ISDIR

from leftoff.clock import compact
from leftoff.dialects.protocol import Dialect, write
from leftoff.model.words import UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import State
    from leftoff.dialects.mirror.mirror import Mirror
    from leftoff.store.rows import RunRow

ROOT = "memory/state"
NAMES = {"phase.json": "phase", "execution.json": "execution"}
PARTS = {f"{ROOT}/{name}": part for name, part in NAMES.items()}
ARCHIVE = f"{ROOT}/.archive"
KEPT = 5
SAFE = "interruption_safe"


class DotagentFiles(Dialect):
    shows_all = False
    by_time = False  # which one is at work is said by where its files lie

    def includes(self, row: RunRow) -> bool:
        return bool(row.workflow == "dotagent")

    def present(self, project: str) -> list[str]:
        """Those in the archive come first: of several workflows that are unfinished, the latest is at work."""
        archived = sorted(glob(f"{ARCHIVE}/*/*.json", root_dir=project))
        known = [path for path in archived if os.path.basename(path) in NAMES]
        return known + [path for path in PARTS if os.path.isfile(os.path.join(project, path))]

    def part_of(self, path: str) -> str | None:
        return NAMES.get(os.path.basename(path))

    def places(self, mirror: Mirror, row: RunRow, state: State) -> dict[str, str | None]:
        """Only one workflow is at work: the one that was started last. Others, if unfinished, go on in the archive."""
        if state.status not in UNFINISHED:
            return {}
        rows = mirror.store.read(lambda view: view.list_runs({"workflow": self.name, "status": UNFINISHED}))
        if max((each.run for each in rows), default=row.run) == row.run:
            return dict(PARTS)
        folder = self._folder(mirror, row, state)
        return {f"{folder}/{name}": part for name, part in NAMES.items()}

    def _folder(self, mirror: Mirror, row: RunRow, state: State) -> str:
        """`.archive/{workflow_id}_{timestamp}/`, the same one as before while it is there."""
        about = mirror.memory.runs.setdefault(row.run_id, {})
        found = os.path.dirname(self.home(state, ""))
        if not mirror.files.is_folder(str(about.get("archive"))):
            own = f"{ARCHIVE}/{row.run_id}_{compact(row.updated_at)}"
            about["archive"] = found if found.startswith(f"{ARCHIVE}/") else own
        return str(about["archive"])

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
        """What is over stays in the archive; what is at work again is there no more."""
        if path in PARTS:
            self._archive(mirror, path, run_id)
            return
        row = mirror.store.read(lambda view: view.find_run(run_id))
        mirror.memory.forget(path)
        if row is not None and row.status in UNFINISHED:
            mirror.remove(path)
            mirror.remove_empty_folder(os.path.dirname(path))

    def _archive(self, mirror: Mirror, path: str, run_id: str) -> None:
        """Both files of a workflow go into one folder; those of an unfinished one are followed there."""
        row = mirror.store.read(lambda view: view.find_run(run_id))
        data, part = mirror.memory.read(path), PARTS[path]
        mirror.memory.forget(path)
        if data is not None:
            folder = f"{ARCHIVE}/{run_id}_{compact(mirror.clock())}"
            folder = self._folder(mirror, row, mirror.state(row)) if row is not None else folder
            new = f"{folder}/{os.path.basename(path)}"
            mirror.move(path, new)
            if row is not None:
                mirror.memory.remember(new, data, run_id, part)
            if row is not None and row.status not in UNFINISHED:
                self._close(mirror, row, new, part)
        self._thin_out(mirror)

    def _close(self, mirror: Mirror, row: RunRow, path: str, part: str) -> None:
        """The last word on a workflow that is over; from then on its file is history."""
        document = write(self, mirror.state(row))
        if part in document:
            mirror.put(path, self.complete(document[part], part), row, part)
        mirror.memory.forget(path)

    @staticmethod
    def _thin_out(mirror: Mirror) -> None:
        found = [(st.st_mtime_ns, name) for name, st in mirror.files.list(ARCHIVE) if S_ISDIR(st.st_mode)]
        for _, name in sorted(found, reverse=True)[KEPT:]:
            folder = f"{ARCHIVE}/{name}"
            mirror.remove_folder(folder)
            for path in [path for path in mirror.memory.files if path.startswith(f"{folder}/")]:
                mirror.memory.forget(path)

    def ignored(self, project: str) -> list[str]:
        return [f"{ROOT}/"]
