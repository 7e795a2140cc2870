"""bmad's files: `state.json`, `workflow-status.md` and copies of what the steps produced, in a folder per run."""

from __future__ import annotations

import os
import shutil
from glob import glob

from leftoff.dialects.base import Dialect
from leftoff.dialects.draft import DONE
from leftoff.dialects.notes import text_of
from leftoff.errors import LeftoffError
from leftoff.model.ids import slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import State
    from leftoff.dialects.mirror import Mirror
    from leftoff.store.rows import RunRow

ROOT = "_bmad-output/.runs"
ARCHIVE = f"{ROOT}/archive"
STATE, PAGE, COPIES = "state.json", "workflow-status.md", "artefacts"


class BmadFiles(Dialect):
    def present(self, project: str) -> list[str]:
        found = [*glob(f"{ROOT}/*/{STATE}", root_dir=project), *glob(f"{ROOT}/*/*/{STATE}", root_dir=project)]
        return sorted(path for path in found if not path.startswith(f"{ARCHIVE}/"))

    def places(self, mirror: Mirror, row: RunRow, state: State) -> dict[str, str | None]:
        branch = slug(str(state.run("branch", "main")))
        return {self.home(state, f"{ROOT}/{branch}/{row.run_id}/{STATE}"): None}

    def after(self, mirror: Mirror, row: RunRow, state: State) -> None:
        folder = os.path.dirname(next(iter(self.places(mirror, row, state))))
        mirror.put_text(f"{folder}/{PAGE}", page(state))
        self._copies(mirror, f"{folder}/{COPIES}", state)

    @staticmethod
    def _copies(mirror: Mirror, folder: str, state: State) -> None:
        """`artefacts/step-NN-…`: what the steps produced, as it was kept."""
        places = {path: number for number, (path, _) in enumerate(state.leaves(), 1)}
        for about in state.of("artifact").values():
            step = about.get("step") if isinstance(about, dict) else None
            if step not in places or not about.get("captured") or not isinstance(about.get("path"), str):
                continue
            path = f"{folder}/step-{places[step]:02d}-{os.path.basename(about['path'])}"
            if not os.path.exists(mirror.desk.full(path)):
                try:
                    content = b"".join(mirror.store.load_blob(bytes.fromhex(about["hash"].partition(":")[2])))
                except (LeftoffError, ValueError):
                    continue
                mirror.put_bytes(path, content)

    def leave(self, mirror: Mirror, path: str, run_id: str) -> None:
        """The folder of a run that is gone goes as a whole."""
        super().leave(mirror, path, run_id)
        folder = os.path.dirname(mirror.desk.full(path))
        if os.path.basename(folder) == run_id and "/.runs/" in folder and not os.path.islink(folder):
            shutil.rmtree(folder, ignore_errors=True)

    def retire(self, project: str, run_id: str, branch: str, now: int, *, removed: bool) -> None:
        """The run's folder moves to `.runs/archive/`, or goes."""
        for folder in (f"{ROOT}/{slug(branch)}/{run_id}", f"{ROOT}/{run_id}"):
            full = os.path.join(project, folder)
            if os.path.isfile(os.path.join(full, STATE)) and not os.path.islink(full):
                if removed:
                    shutil.rmtree(full, ignore_errors=True)
                else:
                    place = os.path.join(project, ARCHIVE)
                    os.makedirs(place, exist_ok=True)
                    target = os.path.join(place, run_id)
                    if not os.path.lexists(target):
                        os.rename(full, target)

    def ignored(self) -> list[str]:
        return [f"{ROOT}/"]


def page(state: State) -> str:
    """The status of a run for people."""
    leaves = state.leaves()
    done = sum(step.get("status") in DONE for _, step in leaves)
    total = max(len(leaves), state.run("total") if isinstance(state.run("total"), int) else 0)
    lines = [f"# {state.run('title') or state.run('workflow')}", "", f"- Run: `{state.run_id}`"]
    lines += [f"- Status: {state.status}", f"- Step: {min(done + 1, total) if total else 0}/{total}"]
    lines += [f"- Updated: {state.updated_at}", "", "| # | Step | Status | Started | Completed |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for number, (path, step) in enumerate(leaves, 1):
        cells = (path, step.get("status"), step.get("started_at") or "", step.get("completed_at") or "")
        lines.append(f"| {number} | " + " | ".join(_cell(cell) for cell in cells) + " |")
    lines += _listed("Artefacts", [_artefact(about) for about in state.of("artifact").values()])
    lines += _listed("Issues", [_issue(about) for about in state.of("error").values()])
    lines += _listed("Notes", [text_of(value) for value in state.of("note").values()])
    left = next((path for path, step in leaves if step.get("status") not in DONE), None)
    return "\n".join([*lines, "", f"Next: {left or 'nothing is left'}", ""])


def _cell(value: Any) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def _listed(title: str, entries: list[str]) -> list[str]:
    return (
        ["", f"## {title}", "", *(f"- {_cell(entry)}" for entry in entries if entry)] if any(entries) else []
    )


def _artefact(about: Any) -> str:
    return f"{about.get('name') or about.get('path')}: {about.get('path')}" if isinstance(about, dict) else ""


def _issue(about: Any) -> str:
    return str(about.get("message", about)) if isinstance(about, dict) else str(about)
