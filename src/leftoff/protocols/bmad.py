"""BMAD: `_bmad-output/.runs/<branch>/<run>/state.json`, its steps counted from 1.

Next to it are `workflow-status.md`, a page for people, and copies of what the steps produced.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from glob import glob
from typing import Any

from leftoff.engine.findings import Finding
from leftoff.engine.redactor import is_secret_file
from leftoff.engine.retention_policy import Policy, kept_for
from leftoff.engine.run_reader import DEFINITION
from leftoff.errors import LeftoffError
from leftoff.model.codec import sha256, text
from leftoff.model.ids import slug
from leftoff.model.words import UNFINISHED
from leftoff.protocols.document_draft import (
    NUMBER,
    Draft,
    State,
    about_file,
    cell,
    gaps,
    inline,
    is_int,
    is_step_number,
    note_text,
    one_line,
    without,
)
from leftoff.protocols.loose_values import Rejected, run_words, shown_value
from leftoff.protocols.protocol import Protocol
from leftoff.protocols.sync import Sync
from leftoff.store.rows import RunRow

KEYS = tuple(
    """run_id workflow_path session_branch started_at last_checkpoint status steps_completed current_step
    total_steps resume_from_step session_variables artefacts_produced checkpoint_id issues agent_notes""".split()
)
#: fields that no other tool's files are known to have
DISTINCT = tuple(
    "session_branch steps_completed resume_from_step session_variables artefacts_produced agent_notes".split()
)
#: field: record of `run`, kind
FIELDS = {"workflow_path": ("workflow_path", "text"), "started_at": ("created_at", "iso")}
NAMES = "step_names"  # a field that leftoff adds: the names of steps by number
STATUS = run_words({"blocked": "paused", "abandoned": "failed"})
SHORT = 6  # characters of an id that the protocol's commands use
RESUMED = "▶️ Reprise du run {run_id} au step {resume_step}/{total_steps}"
ROOT = "_bmad-output/.runs"
ARCHIVE = f"{ROOT}/archive"
STATE, PAGE, COPIES = "state.json", "workflow-status.md", "artefacts"
MOST_COPIED = 16 << 20  # bytes of a file that leftoff has not captured
_ID = re.compile(r"[0-9a-f]{6}([0-9a-f]{6})?\Z")
_STAMPED = re.compile(r"(.+?)-\d{8}-\d{6}\Z")


def make_checkpoint_id(run_id: str, step: int, variables: dict[str, Any]) -> str:
    """Return the checkpoint's id by the protocol's Python recipe."""
    payload = f"{run_id}:{step}:{json.dumps(variables, sort_keys=True)}"
    return hashlib.sha256(payload.encode()).hexdigest()[:6]


def workflow_of(run_id: str) -> str:
    """Return the name before the timestamp."""
    match = _STAMPED.match(run_id)
    return match[1] if match is not None else run_id


class Bmad(Protocol):
    name = "bmad"
    about = "BMAD: _bmad-output/.runs/<branch>/<run>/state.json"
    example = (
        "_bmad-output/.runs/main/dev-story-20260227-143022/state.json",
        {
            "run_id": "dev-story-20260227-143022",
            "status": "running",
            "steps_completed": [1],
            "current_step": 2,
            "total_steps": 3,
            "session_variables": {"user": "ada"},
        },
    )
    keys = KEYS
    derived = ("current_step", "resume_from_step")
    files = r"/\.runs/(.+/)?state\.json$"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        own = sum(key in document for key in KEYS)
        if "run_id" in document and own >= 3:
            return 60 + own
        return 50 if "/.runs/" in path and own >= 2 else 0

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        return "run_id" in document or sum(key in document for key in DISTINCT) >= 2 or self.owns(path)

    def is_own_id(self, name: str) -> bool:
        return _ID.match(name) is not None

    def names(self, state: State) -> list[str]:
        return [self.encode(state)["checkpoint_id"]]

    def hints(self, path: str) -> dict[str, str]:
        """Read `.runs/<branch>/<run>/state.json` or `.runs/<run>/state.json`."""
        inside = path.rpartition("/.runs/")[2].split("/")[:-1]
        inside = inside[1:] if inside[:1] == ["archive"] else inside
        found = {"folder": inside[-1]} if inside else {}
        return {**found, "branch": inside[-2]} if len(inside) > 1 else found

    def retention(self, project: str) -> Policy:
        return kept_for(7, 30)

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        document = self.encode(state)
        total = document["total_steps"]
        number = min(document["resume_from_step"], total) if total else document["resume_from_step"]
        return [RESUMED.format(run_id=state.run_id, resume_step=number, total_steps=total)]

    def findings(self, state: State, project: str, now: int) -> Iterable[Finding]:
        return state.passed_over()

    # -- documents

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        given, hints = draft.text(document, "run_id"), draft.source.hints
        if given is None:
            given = hints.get("folder")
            if not given:
                raise Rejected(f"{draft.source.path} is no bmad state: it has no run_id.")
            draft.repairs.add(f"run_id is missing; the folder's name is taken: {given}.")
        draft.name(given)
        draft.run("workflow", workflow_of(draft.run_id))
        draft.run("title", workflow_of(draft.run_id))
        draft.run("branch", draft.text(document, "session_branch") or hints.get("branch", "main"))
        draft.run("status", draft.status(STATUS, document, "status", "running"))
        draft.fields(document, FIELDS)
        draft.at = draft.time(document, "last_checkpoint")
        done = draft.ordinals(document, "steps_completed")
        total, current = draft.number(document, "total_steps"), draft.number(document, "current_step")
        if gaps(done):
            draft.repairs.add(f"steps_completed has gaps: {shown_value(gaps(done))} are still to be done.")
        draft.run("total", total)
        draft.counted(done, total, current, names=document.get(NAMES))
        draft.put_all("variable", document, "session_variables")
        known = draft.known.numbered if draft.known is not None else {}
        for entry in draft.entries(document, "artefacts_produced"):
            if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
                draft.as_written("artefacts_produced", entry, "names no file")
                continue
            step, name = entry.get("step"), entry.get("name")
            about = {**entry, "step": known.get(step, str(step))} if is_int(step) else dict(entry)
            draft.put_free("artifact", name if isinstance(name, str) and name else entry["path"], about)
        given = draft.text(document, "checkpoint_id") or ""
        draft.alias(given)
        if _ID.match(given) and len(given) > SHORT:
            draft.alias(given[:SHORT])
        draft.issues(draft.entries(document, "issues"), "issue")
        draft.notes(draft.text(document, "agent_notes"))
        if isinstance(document.get("summary"), str):
            draft.run("summary", document["summary"])

    def encode(self, state: State) -> dict[str, Any]:
        total, place = state.total, state.numbers
        # the step that is running, else the first pending one, else the last
        current = min(max(place.values(), default=0) + 1, total) if total else 0
        for words in (("pending",), ("running", "waiting", "blocked", "failed")):
            left = [place[path] for path, step in state.leaves if step.get("status") in words]
            current = min(left, default=current)
        artefacts: list[dict[str, Any]] = []
        for key, about in state.of("artifact").items():
            if isinstance(about, dict) and isinstance(about.get("path"), str):
                said = about_file(about)
                step = said.get("step")
                if isinstance(step, str):
                    step = place.get(step, int(step) if is_step_number(step) else step)
                number = {"step": step} if step is not None else {}
                artefacts.append({**number, "name": said.get("name") or key, **without(said, "step", "name")})
        artefacts.sort(key=lambda e: (e["step"] if is_int(e.get("step")) else 0, str(e["name"])))
        variables, summary = state.of("variable"), state.run("summary")
        return {
            "run_id": state.run_id,
            "workflow_path": state.run("workflow_path") or state.about(DEFINITION).get("path"),
            "session_branch": state.run("branch", "main"),
            "started_at": state.run("created_at"),
            "last_checkpoint": state.updated_at,
            "status": STATUS.write(state.status),
            "steps_completed": state.done,
            "current_step": current,
            "total_steps": total,
            "resume_from_step": max(state.done, default=0) + 1,
            "session_variables": dict(variables),
            "artefacts_produced": artefacts,
            "checkpoint_id": state.alias or make_checkpoint_id(state.run_id, current, variables),
            "issues": state.issues(),
            "agent_notes": state.notes(),
            **({"summary": summary} if isinstance(summary, str) else {}),
            **state.step_names(NAMES),
        }

    # -- files

    def present(self, project: str) -> list[str]:
        found = [*glob(f"{ROOT}/*/{STATE}", root_dir=project), *glob(f"{ROOT}/*/*/{STATE}", root_dir=project)]
        return sorted(path for path in found if not path.startswith(f"{ARCHIVE}/"))

    def places(self, sync: Sync, row: RunRow, state: State) -> dict[str, str | None]:
        branch = slug(str(state.run("branch", "main")))
        own = f"{ROOT}/{branch}/{row.run_id}/{STATE}"
        home = self.home(state, own)
        return {own if home.startswith(f"{ARCHIVE}/") and state.status in UNFINISHED else home: None}

    def before(self, sync: Sync, row: RunRow) -> None:
        """Move the folder of a run back that came back from the archive."""
        place = os.path.dirname(next(iter(self.places(sync, row, sync.state(row)))))
        old = f"{ARCHIVE}/{row.run_id}"
        if old != place and sync.files.is_folder(old) and sync.files.stat(place) is None:
            sync.move(old, place)

    def after(self, sync: Sync, row: RunRow, state: State) -> None:
        folder = os.path.dirname(next(iter(self.places(sync, row, state))))
        sync.put_bytes(f"{folder}/{PAGE}", page(state).encode())
        made = sync.base.runs.setdefault(state.run_id, {}).setdefault("copies", {})
        for name, about in copies(state).items():
            path = f"{folder}/{COPIES}/{name}"
            if made.get(path) == about["hash"] and sync.files.is_file(path):
                continue
            content = _content(sync, about)
            if content is not None:
                sync.put_bytes(path, content)
                made[path] = about["hash"]

    def leave(self, sync: Sync, path: str, run_id: str) -> None:
        """Remove the whole folder of a run."""
        super().leave(sync, path, run_id)
        folder = os.path.dirname(path)
        if os.path.basename(folder) == run_id and folder.startswith(f"{ROOT}/"):
            sync.remove_folder(folder)

    def archive(self, sync: Sync, path: str, run_id: str) -> None:
        """Move the run's folder to `.runs/archive/`."""
        sync.base.forget(path)
        folder, place = os.path.dirname(path), f"{ARCHIVE}/{run_id}"
        if os.path.basename(folder) == run_id and folder != place and sync.files.is_folder(folder):
            sync.remove_folder(place)  # as it was archived before
            sync.move(folder, place)

    def ignored(self, project: str) -> list[str]:
        return [f"{ROOT}/"]


def copies(state: State) -> dict[str, dict[str, Any]]:
    """Return the artifacts of steps by the names of their copies. A second one of the same name gets its folders."""
    place = state.numbers
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


def _content(sync: Sync, about: dict[str, Any]) -> bytes | None:
    """Return the content of an artifact: the captured one, else that of the file if it is still the same."""
    hash, path = about["hash"].partition(":")[2], about["path"]
    if about.get("captured"):
        try:
            return b"".join(sync.store.load_blob(bytes.fromhex(hash)))
        except (LeftoffError, ValueError):
            return None
    there = sync.files.stat(path)
    if "seen" in about or is_secret_file(path.lower()) or there is None or there.st_size > MOST_COPIED:
        return None  # leftoff chose not to capture it, or it is not in the project
    content = sync.base.read(path)
    return content if content is not None and sha256(content).hexdigest() == hash else None


def page(state: State) -> str:
    """Return `workflow-status.md`."""
    total, done = state.total, len(state.done)
    lines = [
        f"# {inline(state.run('title') or state.run('workflow'))}",
        "",
        f"- Run: `{one_line(state.run_id)}`",
        f"- Status: {state.status}",
        f"- Step: {min(done + 1, total) if total else 0}/{total}",
        *([f"- Summary: {inline(state.run('summary'))}"] if state.run("summary") else []),
        f"- Updated: {state.updated_at}",
        "",
        "| # | Step | Status | Started | Completed |",
        "| --- | --- | --- | --- | --- |",
    ]
    for path, step in state.leaves:
        cells = (path, step.get("status"), step.get("started_at") or "", step.get("completed_at") or "")
        lines.append(f"| {state.numbers[path]} | " + " | ".join(map(cell, cells)) + " |")
    made = [about for about in state.of("artifact").values() if isinstance(about, dict)]
    lists = {
        "Artefacts": [f"{about.get('name') or about.get('path')}: {about.get('path')}" for about in made],
        "Issues": [
            str(about.get("message") or text(without(about, NUMBER)))
            if isinstance(about, dict)
            else str(about)
            for about in state.of("error").values()
        ],
        "Notes": [note_text(value) for value in state.of("note").values()],
    }
    for title, entries in lists.items():
        if any(entries):
            lines += ["", f"## {title}", "", *(f"- {inline(entry)}" for entry in entries if entry)]
    left = state.left() if state.status in UNFINISHED else []
    return "\n".join([*lines, "", f"Next: {inline(left[0] if left else 'nothing is left')}", ""])


PROTOCOL = Bmad()
