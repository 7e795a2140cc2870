"""bmad's files: `state.json`, `workflow-status.md` and copies of what the steps produced, in a folder per run."""

from __future__ import annotations

import os
from glob import glob

from leftoff.dialects.draft import DONE, NUMBER, cell, inline, numbers, one_line, text_of, total_of
from leftoff.dialects.mirror.memory import digest
from leftoff.dialects.protocol import Dialect
from leftoff.engine.redaction.credentials import is_secret_file
from leftoff.engine.workspace.project_files import ProjectFiles
from leftoff.errors import LeftoffError
from leftoff.model.codec import text
from leftoff.model.ids import slug
from leftoff.model.words import UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import State
    from leftoff.dialects.mirror.mirror import Mirror
    from leftoff.store.rows import RunRow

ROOT = "_bmad-output/.runs"
ARCHIVE = f"{ROOT}/archive"
STATE, PAGE, COPIES = "state.json", "workflow-status.md", "artefacts"
MOST_COPIED = 16 << 20  # bytes of a file that leftoff has no copy of itself


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
        old = f"{ARCHIVE}/{row.run_id}"
        if old != place and mirror.files.is_folder(old) and mirror.files.stat(place) is None:
            mirror.move(old, place)
        return False

    def after(self, mirror: Mirror, row: RunRow, state: State) -> None:
        folder = os.path.dirname(next(iter(self.places(mirror, row, state))))
        mirror.put_text(f"{folder}/{PAGE}", page(state))
        self._copies(mirror, f"{folder}/{COPIES}", state)

    def _copies(self, mirror: Mirror, folder: str, state: State) -> None:
        """`artefacts/step-NN-…`: what the steps produced, as it was last kept."""
        made = mirror.memory.runs.setdefault(state.run_id, {}).setdefault("copies", {})
        for name, about in copies(state).items():
            path = f"{folder}/{name}"
            if made.get(path) == about["hash"] and mirror.files.is_file(path):
                continue
            content = self._content(mirror, about)
            if content is not None:
                mirror.put_bytes(path, content)
                made[path] = about["hash"]

    @staticmethod
    def _content(mirror: Mirror, about: dict[str, Any]) -> bytes | None:
        """What an artifact held: as it was kept; of one that a document named, what is there, if it is the same."""
        hash, path = about["hash"].partition(":")[2], about["path"]
        if not about.get("captured"):
            there = mirror.files.stat(path)
            if (
                "seen" in about
                or is_secret_file(path.lower())
                or there is None
                or there.st_size > MOST_COPIED
            ):
                return None  # leftoff chose not to keep it, or it is not the project's
            content = mirror.memory.read(path)
            return content if content is not None and digest(content) == hash else None
        try:
            return b"".join(mirror.store.load_blob(bytes.fromhex(hash)))
        except (LeftoffError, ValueError):
            return None

    def leave(self, mirror: Mirror, path: str, run_id: str) -> None:
        """The folder of a run that is gone goes as a whole."""
        super().leave(mirror, path, run_id)
        folder = os.path.dirname(path)
        if os.path.basename(folder) == run_id and folder.startswith(f"{ROOT}/"):
            mirror.remove_folder(folder)

    def retire(self, project: str, run_id: str, branch: str, now: int, *, removed: bool) -> None:
        """The run's folder moves to `.runs/archive/`, or goes."""
        files = ProjectFiles(project)
        for folder in (f"{ROOT}/{slug(branch)}/{run_id}", f"{ROOT}/{run_id}"):
            if not files.is_file(f"{folder}/{STATE}"):
                continue
            if removed:
                files.remove_folder(folder)
            else:
                files.remove_folder(f"{ARCHIVE}/{run_id}")  # as it was archived before
                files.move(folder, f"{ARCHIVE}/{run_id}")

    def ignored(self, project: str) -> list[str]:
        return [f"{ROOT}/"]


def copies(state: State) -> dict[str, dict[str, Any]]:
    """The artifacts of steps by the names of their copies; of two of one name, the second has its folders in it."""
    place = numbers(state.leaves())
    out: dict[str, dict[str, Any]] = {}
    for about in state.of("artifact").values():
        path, step = (about.get("path"), about.get("step")) if isinstance(about, dict) else (None, None)
        if not isinstance(path, str) or step not in place or not isinstance(about.get("hash"), str):
            continue
        name = f"step-{place[step]:02d}-{os.path.basename(path)}"
        if name in out and out[name]["path"] != path:
            name = f"step-{place[step]:02d}-{slug(path.replace('/', '-'))}"
        out[name] = about
    return out


def page(state: State) -> str:
    """The status of a run for people."""
    leaves = state.leaves()
    done = sum(step.get("status") in DONE for _, step in leaves)
    total, place = total_of(leaves, state.run("total")), numbers(leaves)
    lines = [
        f"# {inline(state.run('title') or state.run('workflow'))}",
        "",
        f"- Run: `{one_line(state.run_id)}`",
    ]
    lines += [f"- Status: {state.status}", f"- Step: {min(done + 1, total) if total else 0}/{total}"]
    if state.run("summary"):
        lines.append(f"- Summary: {inline(state.run('summary'))}")
    lines += [f"- Updated: {state.updated_at}", "", "| # | Step | Status | Started | Completed |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for path, step in leaves:
        number = place[path]
        cells = (path, step.get("status"), step.get("started_at") or "", step.get("completed_at") or "")
        lines.append(f"| {number} | " + " | ".join(map(cell, cells)) + " |")
    lines += _listed("Artefacts", [_artefact(about) for about in state.of("artifact").values()])
    lines += _listed("Issues", [_issue(about) for about in state.of("error").values()])
    lines += _listed("Notes", [text_of(value) for value in state.of("note").values()])
    over = state.status not in UNFINISHED
    left = next((path for path, step in leaves if step.get("status") not in DONE and not over), None)
    return "\n".join([*lines, "", f"Next: {inline(left or 'nothing is left')}", ""])


def _listed(title: str, entries: list[str]) -> list[str]:
    return (
        ["", f"## {title}", "", *(f"- {inline(entry)}" for entry in entries if entry)] if any(entries) else []
    )


def _artefact(about: Any) -> str:
    return f"{about.get('name') or about.get('path')}: {about.get('path')}" if isinstance(about, dict) else ""


def _issue(about: Any) -> str:
    if not isinstance(about, dict):
        return str(about)
    known = {key: value for key, value in about.items() if key != NUMBER}
    return str(known.get("message") or text(known))
