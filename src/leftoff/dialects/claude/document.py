"""claude: `.claude/checkpoints/{type}_{project}_{timestamp}.json`, its phases counted from 1."""

from __future__ import annotations

import os
import re

from leftoff.clock import by_time, compact, iso
from leftoff.dialects.claude import parallel, resume
from leftoff.dialects.claude.files import FAILED, ROOTS, ClaudeFiles
from leftoff.dialects.draft import DONE, decode_counted, encode_names, numbers, passed_over, total_of
from leftoff.dialects.loose_values import Rejected, TooNew, read_stamp, run_words, shown, version_numbers
from leftoff.dialects.protocol import write
from leftoff.engine.retention.policy import kept_for
from leftoff.model.ids import slug
from leftoff.model.times import millis
from leftoff.model.words import UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.dialects.draft import Draft, State
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.retention.policy import Policy

KEYS = tuple(
    """schema_version checkpoint_id workflow_type project_name workflow_description created_at updated_at
    status current_phase total_phases completed_phases workflow_state last_error tests_passing
    plan_modification_time""".split()
)
#: what later schemas put beside them
LATER = (
    *("replanning_count", "last_replan_reason", "replan_phase_counts", "replan_history"),
    *("debug_report_path", "user_last_choice", "debug_iteration_count"),
    *("context_preservation", "spec_maintenance"),
    *("state_machine", "phase_data", "supervisor_state", "error_state", "metadata"),
)
LATER_BEGIN = ("topic_", "template_")
REQUIRED = ("checkpoint_id", "workflow_type", "project_name", "created_at", "status")
NEWEST = [2, 1]  # the schema version that is understood; older ones have less, and are read as they are
LONGEST = 80  # characters of a project's name in an id
NAMES = "phase_names"  # ours: by number, where phases have names
RETENTION = kept_for(7, 30)
STATUS = run_words({"running": "in_progress"}, {"complete": "completed"})
#: type, project and time; a number where two began in the same second
_ID = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)_(.+)_(\d{8}_\d{6})(?:-\d+)?\Z")
_STAND_INS = {
    "checkpoint_id": ("id",),
    "created_at": ("timestamp", "checkpoint_at", "saved_at"),
    "workflow_description": ("description", "message", "name"),
}
_LAST_ERROR = "last_error"


def _id_in(path: str) -> str | None:
    """The id in a file's name: `{type}_{project}_{timestamp}.json`."""
    name = path.rpartition("/")[2].removesuffix(".json")
    return name if _ID.match(name) else None


def is_key(key: str) -> bool:
    """Whether the protocol has this key at the top of a document."""
    return key in KEYS or key in LATER or key.startswith(LATER_BEGIN)


def project_in(document: dict[str, Any], given: str) -> tuple[str | None, str | None]:
    """The project, and where its name is from, if it is not at the top: `workflow_state`, else the id."""
    top, inside = document.get("project_name"), document.get("workflow_state")
    if isinstance(top, str) and top:
        return top, None
    name = inside.get("project_name") if isinstance(inside, dict) else None
    if isinstance(name, str) and name:
        return name, "workflow_state"
    match = _ID.match(given)
    return (match[2] if match else None), "the id"


def snake(text: str) -> str:
    """A project's name as ids carry it."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower())[:LONGEST].strip("_") or "project"


class Claude(ClaudeFiles):
    name = "claude"
    about = "Claude checkpoints: .claude/checkpoints/{type}_{project}_{timestamp}.json"
    starts = 'leftoff start TYPE --title "What it is about" --steps a,b,c'
    example = (
        ".claude/checkpoints/implement_dark_mode_20251003_192230.json",
        {
            "checkpoint_id": "implement_dark_mode_20251003_192230",
            "workflow_type": "implement",
            "project_name": "dark_mode",
            "status": "in_progress",
            "completed_phases": [1],
            "total_phases": 3,
        },
    )
    keys = KEYS
    marks = ("id", "timestamp", "checkpoint_at", "saved_at", *parallel.KEYS)
    derived = {"current_phase": ("completed_phases",)}
    fixed_ids = False
    counted = "Phase"
    files = r"/\.claude/(data/)?checkpoints/(.+/)?[^/]+\.(json|ya?ml)$"

    def retention(self, project: str) -> Policy:
        return RETENTION

    def recognise(self, document: dict[str, Any], path: str) -> int:
        if "workflow_type" in document and "checkpoint_id" in document:
            return 75
        if all(key in document for key in ("operation_type", "plan_path", "operations")):
            return 70
        inside = "/.claude/checkpoints/" in f"/{path}" or "/.claude/data/checkpoints/" in f"/{path}"
        named = _id_in(path) is not None and any(key in document for key in REQUIRED)
        return 40 if inside and (named or "checkpoint_id" in document or "id" in document) else 0

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        return self.recognise(document, f"/{ROOTS[0]}/{os.path.basename(path)}") > 0

    def names(self, state: State) -> list[str]:
        return [state.run_id + ".json"]

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        """`{type}_{project}_{timestamp}`."""
        project = str(given.get("title") or given["workflow"])
        return make_id(slug(given["workflow"]), project, now), []

    def findings(self, state: State, project: str, now: int) -> Iterator[Finding]:
        """What it wants to be in order before it resumes without asking, as far as its document says anything of it.

        Its status and its age are checked of every run.
        """
        yield from resume.findings(write(self, state), state, project)
        if state.run(parallel.KIND) is None:
            yield from passed_over(state)

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        _check_schema(document, draft.source.path)
        said = self._stand_ins(draft, document)
        given = self._id(draft, said)
        draft.run("created_at", draft.iso(said, "created_at"))
        draft.run("branch", "main")
        if parallel.is_parallel(document):
            draft.at = millis(draft.records.get(("run", "created_at")))
            return parallel.decode(draft, document, given)
        self._names(draft, said, given)
        draft.run("title", draft.text(said, "workflow_description"))
        status = self._status(draft, said)
        if draft.source.hints.get("given_up") and status in UNFINISHED and status != "failed":
            draft.repairs.add(
                f"it lies in {FAILED}/; the status {shown(said.get('status'))} is read as abandoned."
            )
            status = "abandoned"
        draft.run("status", status)
        draft.at = draft.time(document, "updated_at")
        if draft.at is None:
            draft.at = millis(draft.records.get(("run", "created_at")))
        self._phases(draft, document)
        for key, value in draft.mapping(document, "workflow_state").items():
            draft.put("variable", key, value)
        if document.get(_LAST_ERROR) is not None:
            error = document[_LAST_ERROR]
            draft.put("error", _LAST_ERROR, error if isinstance(error, dict) else {"message": error})

    @staticmethod
    def _id(draft: Draft, document: dict[str, Any]) -> str:
        """The checkpoint's id; it is found by the name of its file, too."""
        given = draft.text(document, "checkpoint_id")
        if given is None:
            given = _id_in(draft.source.path)
            if given is None:
                raise Rejected(f"{draft.source.path} is no claude checkpoint: it has no checkpoint_id.")
            draft.repairs.add(f"checkpoint_id is missing; the file's name is taken: {given}.")
        draft.name(given)
        for name in (given, draft.source.name, draft.source.name.removesuffix(".json")):
            draft.alias(name)
        return given

    @staticmethod
    def _stand_ins(draft: Draft, document: dict[str, Any]) -> dict[str, Any]:
        """What is known under another name."""
        out = dict(document)
        for key, others in _STAND_INS.items():
            for other in others:
                if out.get(key) is None and isinstance(document.get(other), (str, int, float)):
                    out[key] = document[other]
                    draft.repairs.add(f"{key} is missing; {other} is taken for it.")
        return out

    @staticmethod
    def _names(draft: Draft, document: dict[str, Any], given: str) -> None:
        """Type and project: as they are written, else from the id."""
        match = _ID.match(given)
        kind = draft.text(document, "workflow_type")
        if kind is None:
            kind = match[1] if match else "checkpoint"
            draft.repairs.add(f"workflow_type is missing; read as {kind}.")
        draft.run("workflow", kind)
        project, where = project_in({**document, "project_name": draft.text(document, "project_name")}, given)
        if where is not None:
            project = project or snake(given)
            draft.repairs.add(f"project_name is missing; taken from {where}: {project}.")
        draft.run("project", project)
        stamp = read_stamp(match[3]) if match else None
        if stamp is not None and ("run", "created_at") not in draft.records:
            draft.run("created_at", iso(stamp))
            draft.repairs.add("created_at is missing; the time is in the id.")

    @staticmethod
    def _status(draft: Draft, document: dict[str, Any]) -> str:
        if document.get("status") is None:
            draft.repairs.add("status is missing; read as paused.")
            return "paused"
        return draft.status(STATUS, document, "status", "running")

    @staticmethod
    def _phases(draft: Draft, document: dict[str, Any]) -> None:
        done = draft.ordinals(document, "completed_phases")
        total, current = draft.number(document, "total_phases"), draft.number(document, "current_phase")
        draft.run("total", total)
        if len(set(done)) != len(done):
            draft.repairs.add(f"completed_phases: {shown(done)} has a phase twice.")
        if total is not None and max([*done, current or 0]) > total:
            draft.repairs.add(
                f"there are phases beyond total_phases, which is {total}: {shown([*done, current])}."
            )
        decode_counted(draft, done, total, current, names=document.get(NAMES))

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        if state.run(parallel.KIND) is not None:
            return parallel.encode(state)
        leaves = state.leaves()
        place, (done, total) = numbers(leaves), phases(state)
        left = sorted(place[path] for path, step in leaves if step.get("status") not in DONE)
        return {
            "checkpoint_id": state.run_id,
            "workflow_type": str(state.run("workflow", "implement")),
            "project_name": project_of(state),
            "workflow_description": state.run("title"),
            "created_at": state.run("created_at"),
            "updated_at": state.updated_at,
            "status": status_word(state),
            "current_phase": left[0] if left else min(max(place.values(), default=0) + 1, total),
            "total_phases": total,
            "completed_phases": done,
            "workflow_state": dict(state.of("variable")),
            "last_error": _last_error(state),
            **encode_names(NAMES, leaves),
        }


def phases(state: State) -> tuple[list[int], int]:
    """The numbers of the phases that are done, and how many there are."""
    leaves = state.leaves()
    if state.run(parallel.KIND) is not None:  # its operations have names
        leaves = [(str(number), step) for number, (_, step) in enumerate(leaves, 1)]
    place = numbers(leaves)
    done = sorted(place[path] for path, step in leaves if step.get("status") in DONE)
    return done, total_of(leaves, state.run("total"))


def project_of(state: State) -> str:
    return str(state.run("project") or snake(str(state.run("title") or state.run("workflow", "implement"))))


def status_word(state: State) -> str:
    words = parallel.STATUS if state.run(parallel.KIND) is not None else STATUS
    return words.write(state.status)


def _last_error(state: State) -> Any:
    """The newest error that is open: a text where nothing else is known of it."""
    errors = state.of("error")
    if not errors:
        return None
    about = errors.get(_LAST_ERROR)
    if about is None:
        about = max(errors.values(), key=lambda e: by_time(e.get("at")) if isinstance(e, dict) else "")
    if isinstance(about, dict) and list(about) == ["message"] and not isinstance(about["message"], dict):
        return about["message"]
    return about


def _check_schema(document: dict[str, Any], path: str) -> None:
    """A newer schema is refused with its version named."""
    version = document.get("schema_version")
    if version is None:
        return
    numbers = version_numbers(version)
    if numbers is None:
        raise Rejected(f"{path}: {shown(version)} is no schema version.")
    if numbers[:2] > NEWEST:
        newest = ".".join(map(str, NEWEST))
        raise TooNew(f"{path} has schema version {version}; this leftoff knows up to {newest}.")


def make_id(kind: str, project: str, at: int) -> str:
    """`{workflow_type}_{project_name}_{timestamp}`."""
    return f"{kind}_{snake(project)}_{compact(at).replace('-', '_')}"


DIALECT = Claude()
