"""bmad: `state.json` in a folder per run, its steps counted from 1 (BM-06, BM-16, BM-26)."""

from __future__ import annotations

import hashlib
import json
import re

from leftoff.dialects.bmad.files import BmadFiles
from leftoff.dialects.draft import (
    DONE,
    about_file,
    decode_counted,
    decode_issues,
    decode_notes,
    encode_issues,
    encode_names,
    encode_notes,
    gaps,
    numbers,
    passed_over,
    step_of,
    total_of,
)
from leftoff.dialects.loose_values import Rejected, run_words, shown
from leftoff.engine.read.definition import KEY as DEFINITION
from leftoff.engine.retention.policy import kept_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from leftoff.dialects.draft import Draft, State
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.retention.policy import Policy

KEYS = tuple(
    """run_id workflow_path session_branch started_at last_checkpoint status steps_completed current_step
    total_steps resume_from_step session_variables artefacts_produced checkpoint_id issues agent_notes""".split()
)
#: those that no other tool's files are known to have
DISTINCT = tuple(
    "session_branch steps_completed resume_from_step session_variables artefacts_produced agent_notes".split()
)
NAMES = "step_names"  # ours: by number, where steps have names
RETENTION = kept_for(7, 30)
STATUS = run_words({"blocked": "paused", "abandoned": "failed"})
_ID = re.compile(r"[0-9a-f]{6}([0-9a-f]{6})?\Z")
SHORT = 6  # characters of an id that the protocol's commands go by
RESUMED = "▶️ Reprise du run {run_id} au step {resume_step}/{total_steps}"
_STAMPED = re.compile(r"(.+?)-\d{8}-\d{6}\Z")


def make_checkpoint_id(run_id: str, step: int, variables: dict[str, Any]) -> str:
    """The protocol's recipe, in its Python form."""
    payload = f"{run_id}:{step}:{json.dumps(variables, sort_keys=True)}"
    return hashlib.sha256(payload.encode()).hexdigest()[:6]


def workflow_of(run_id: str) -> str:
    """The name before the timestamp."""
    match = _STAMPED.match(run_id)
    return match[1] if match is not None else run_id


class Bmad(BmadFiles):
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
    derived = {"current_step": ("steps_completed",), "resume_from_step": ("steps_completed",)}
    files = r"/\.runs/(.+/)?state\.json$"

    def is_own_id(self, name: str) -> bool:
        return _ID.match(name) is not None

    def hints(self, path: str) -> dict[str, str]:
        """`.runs/<branch>/<run>/state.json`, or `.runs/<run>/state.json`."""
        inside = path.rpartition("/.runs/")[2].split("/")[:-1]
        inside = inside[1:] if inside[:1] == ["archive"] else inside
        found = {"folder": inside[-1]} if inside else {}
        return {**found, "branch": inside[-2]} if len(inside) > 1 else found

    def names(self, state: State) -> list[str]:
        return [self.encode(state)["checkpoint_id"]]

    def retention(self, project: str) -> Policy:
        return RETENTION

    def recognise(self, document: dict[str, Any], path: str) -> int:
        own = sum(key in document for key in KEYS)
        if "run_id" in document and own >= 3:
            return 60 + own
        return 50 if "/.runs/" in path and own >= 2 else 0

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        return "run_id" in document or sum(key in document for key in DISTINCT) >= 2 or self.owns(path)

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        document = self.encode(state)
        total = document["total_steps"]
        number = min(document["resume_from_step"], total) if total else document["resume_from_step"]
        return [RESUMED.format(run_id=state.run_id, resume_step=number, total_steps=total)]

    def findings(self, state: State, project: str, now: int) -> Iterable[Finding]:
        return passed_over(state)

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        self._name(draft, document)
        workflow = workflow_of(draft.run_id)
        draft.run("workflow", workflow)
        draft.run("title", workflow)
        draft.run("workflow_path", draft.text(document, "workflow_path"))
        draft.run(
            "branch", draft.text(document, "session_branch") or draft.source.hints.get("branch", "main")
        )
        draft.run("status", draft.status(STATUS, document, "status", "running"))
        draft.run("created_at", draft.iso(document, "started_at"))
        draft.at = draft.time(document, "last_checkpoint")
        self._steps(draft, document)
        for key, value in draft.mapping(document, "session_variables").items():
            draft.put("variable", key, value)
        self._artefacts(draft, document)
        given = draft.text(document, "checkpoint_id") or ""
        draft.alias(given)
        if _ID.match(given) and len(given) > SHORT:
            draft.alias(given[:SHORT])
        decode_issues(draft, draft.entries(document, "issues"), "issue")
        decode_notes(draft, draft.text(document, "agent_notes"))
        if isinstance(document.get("summary"), str):
            draft.run("summary", document["summary"])

    def _name(self, draft: Draft, document: dict[str, Any]) -> None:
        given = draft.text(document, "run_id")
        if given is None and draft.source.hints.get("folder"):
            given = draft.source.hints["folder"]
            draft.repairs.add(f"run_id is missing; the folder's name is taken: {given}.")
        if given is None:
            raise Rejected(f"{draft.source.path} is no bmad state: it has no run_id.")
        draft.name(given)

    def _steps(self, draft: Draft, document: dict[str, Any]) -> None:
        done = draft.ordinals(document, "steps_completed")
        total = draft.number(document, "total_steps")
        current = draft.number(document, "current_step")
        missing = gaps(done)
        if missing:
            draft.repairs.add(f"steps_completed has gaps: {shown(missing)} are still to be done.")
        draft.run("total", total)
        decode_counted(draft, done, total, current, names=document.get(NAMES))

    def _artefacts(self, draft: Draft, document: dict[str, Any]) -> None:
        for entry in draft.entries(document, "artefacts_produced"):
            if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
                draft.repairs.add(f"artefacts_produced: {shown(entry)} names no file; kept as it is written.")
                continue
            about = dict(entry)
            step = entry.get("step")
            if isinstance(step, int) and not isinstance(step, bool):
                about["step"] = self._step_at(draft, step)
            name = entry.get("name")
            draft.put_free("artifact", name if isinstance(name, str) and name else entry["path"], about)

    @staticmethod
    def _step_at(draft: Draft, number: int) -> str:
        return step_of(draft.known.leaves() if draft.known is not None else [], number)

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        leaves = state.leaves()
        place = numbers(leaves)
        done = sorted(place[path] for path, step in leaves if step.get("status") in DONE)
        total = total_of(leaves, state.run("total"))
        current = _current(leaves, total)
        variables, summary = state.of("variable"), state.run("summary")
        return {
            "run_id": state.run_id,
            "workflow_path": state.run("workflow_path") or _file(state),
            "session_branch": state.run("branch", "main"),
            "started_at": state.run("created_at"),
            "last_checkpoint": state.updated_at,
            "status": STATUS.write(state.status),
            "steps_completed": done,
            "current_step": current,
            "total_steps": total,
            "resume_from_step": max(done, default=0) + 1,
            "session_variables": dict(variables),
            "artefacts_produced": _artefacts(state, place),
            "checkpoint_id": state.alias or make_checkpoint_id(state.run_id, current, variables),
            "issues": encode_issues(state),
            "agent_notes": encode_notes(state),
            **({"summary": summary} if isinstance(summary, str) else {}),
            **encode_names(NAMES, leaves),
        }


def _file(state: State) -> Any:
    """The workflow file of a run that leftoff executes."""
    known = state.of("context").get(DEFINITION)
    return known.get("path") if isinstance(known, dict) else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _current(leaves: list[tuple[str, dict[str, Any]]], total: int) -> int:
    """The step that is at work, else the first that is to be done, else the last."""
    place = numbers(leaves)
    for words in (("running", "waiting", "blocked", "failed"), ("pending",)):
        left = [place[path] for path, step in leaves if step.get("status") in words]
        if left:
            return min(left)
    return min(max(place.values(), default=0) + 1, total) if total else 0


def _artefacts(state: State, place: dict[str, int]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for key, about in state.of("artifact").items():
        if isinstance(about, dict) and isinstance(about.get("path"), str):
            said = about_file(about)
            entry = {"step": _ordinal(said.get("step"), place), "name": said.get("name") or key}
            entry |= {name: value for name, value in said.items() if name not in entry}
            out.append({name: value for name, value in entry.items() if name != "step" or value is not None})
    return sorted(out, key=lambda entry: (_whole(entry.get("step")), str(entry["name"])))


def _ordinal(step: Any, place: dict[str, int]) -> Any:
    """A step by its number."""
    if isinstance(step, str):
        return place.get(step, int(step) if _is_number(step) else step)
    return step


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6


DIALECT = Bmad()
