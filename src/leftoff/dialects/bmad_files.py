"""bmad's files: `state.json`, `workflow-status.md` and copies of what the steps produced, in a folder per run."""

from __future__ import annotations

import os
import shutil
from glob import glob

from leftoff.dialects.base import Dialect
from leftoff.dialects.desk import digest
from leftoff.dialects.draft import DONE
from leftoff.dialects.issues import NUMBER
from leftoff.dialects.notes import text_of
from leftoff.dialects.ordinals import numbers, total_of
from leftoff.errors import LeftoffError
from leftoff.model.codec import text
from leftoff.model.ids import slug
from leftoff.model.words import UNFINISHED

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
        own = f"{ROOT}/{branch}/{row.run_id}/{STATE}"
        home = self.home(state, own)
        return {own if home.startswith(f"{ARCHIVE}/") and state.status in UNFINISHED else home: None}

    def before(self, mirror: Mirror, row: RunRow) -> bool:
        """A run that came back from the archive brings its folder along."""
        place = os.path.dirname(next(iter(self.places(mirror, row, mirror.state(row)))))
        old, new = mirror.desk.full(f"{ARCHIVE}/{row.run_id}"), mirror.desk.full(place)
        if old != new and os.path.isdir(old) and not os.path.lexists(new):
            os.makedirs(os.path.dirname(new), exist_ok=True)
            os.rename(old, new)
        return False

    def after(self, mirror: Mirror, row: RunRow, state: State) -> None:
        folder = os.path.dirname(next(iter(self.places(mirror, row, state))))
        mirror.put_text(f"{folder}/{PAGE}", page(state))
        self._copies(mirror, f"{folder}/{COPIES}", state)

    @staticmethod
    def _copies(mirror: Mirror, folder: str, state: State) -> None:
        """`artefacts/step-NN-…`: what the steps produced, as it was kept."""
        places, taken = numbers(state.leaves()), set()
        for about in state.of("artifact").values():
            step = about.get("step") if isinstance(about, dict) else None
            if step not in places or not about.get("captured") or not isinstance(about.get("path"), str):
                continue
            name = os.path.basename(about["path"])
            if (step, name) in taken:  # of another folder
                name = slug(about["path"].replace("/", "-"))
            taken.add((step, name))
            path = f"{folder}/step-{places[step]:02d}-{name}"
            hash = about["hash"].partition(":")[2]
            if digest(mirror.desk.read(mirror.desk.full(path)) or b"") != hash:
                try:
                    content = b"".join(mirror.store.load_blob(bytes.fromhex(hash)))
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
                    if os.path.isdir(target) and not os.path.islink(target):  # as it was archived before
                        shutil.rmtree(target, ignore_errors=True)
                    os.rename(full, target)

    def ignored(self) -> list[str]:
        return [f"{ROOT}/"]


def page(state: State) -> str:
    """The status of a run for people."""
    leaves = state.leaves()
    done = sum(step.get("status") in DONE for _, step in leaves)
    total, place = total_of(leaves, state.run("total")), numbers(leaves)
    lines = [f"# {state.run('title') or state.run('workflow')}", "", f"- Run: `{state.run_id}`"]
    lines += [f"- Status: {state.status}", f"- Step: {min(done + 1, total) if total else 0}/{total}"]
    lines += [f"- Updated: {state.updated_at}", "", "| # | Step | Status | Started | Completed |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for path, step in leaves:
        number = place[path]
        cells = (path, step.get("status"), step.get("started_at") or "", step.get("completed_at") or "")
        lines.append(f"| {number} | " + " | ".join(_cell(cell) for cell in cells) + " |")
    lines += _listed("Artefacts", [_artefact(about) for about in state.of("artifact").values()])
    lines += _listed("Issues", [_issue(about) for about in state.of("error").values()])
    lines += _listed("Notes", [text_of(value) for value in state.of("note").values()])
    over = state.status not in UNFINISHED
    left = next((path for path, step in leaves if step.get("status") not in DONE and not over), None)
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
    if not isinstance(about, dict):
        return str(about)
    known = {key: value for key, value in about.items() if key != NUMBER}
    return str(known.get("message") or text(known))
