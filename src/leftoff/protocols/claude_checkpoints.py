"""Claude checkpoints: `.claude/checkpoints/{type}_{project}_{timestamp}.json`, phases counted from 1.

A file is deleted when the workflow succeeds, and moves to `failed/` when it is given up. `parallel_ops/*.json` hold
operations on several parts of a plan at once, one step each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from glob import glob
from typing import Any

from leftoff.clock import DAY_MS, by_time, compact, iso, millis
from leftoff.engine.findings import Finding
from leftoff.engine.project import Project
from leftoff.engine.project_files import ProjectFiles
from leftoff.engine.retention_policy import REMOVE, Policy, kept_for
from leftoff.errors import LeftoffError
from leftoff.model.codec import text
from leftoff.model.ids import slug, unquote_part
from leftoff.model.words import UNFINISHED
from leftoff.protocols.document_draft import (
    DONE,
    STEP_FIELDS,
    Draft,
    Source,
    State,
    fit_id,
    one_line,
    without,
)
from leftoff.protocols.import_documents import Importer
from leftoff.protocols.loose_values import (
    Rejected,
    Repairs,
    TooNew,
    read_stamp,
    run_words,
    shown_value,
    step_words,
    version_numbers,
)
from leftoff.protocols.project_retention import Retention
from leftoff.protocols.protocol import Protocol, decode_document, state_at, write
from leftoff.protocols.sync import Sync
from leftoff.store.rows import RunRow

KEYS = tuple(
    """schema_version checkpoint_id workflow_type project_name workflow_description created_at updated_at
    status current_phase total_phases completed_phases workflow_state last_error tests_passing
    plan_modification_time""".split()
)
#: fields that later schemas added
LATER = (
    *("replanning_count", "last_replan_reason", "replan_phase_counts", "replan_history"),
    *("debug_report_path", "user_last_choice", "debug_iteration_count"),
    *("context_preservation", "spec_maintenance"),
    *("state_machine", "phase_data", "supervisor_state", "error_state", "metadata"),
)
LATER_BEGIN = ("topic_", "template_")
REQUIRED = ("checkpoint_id", "workflow_type", "project_name", "created_at", "status")
NEWEST = [2, 1]  # the newest schema version that is understood
LONGEST = 80  # characters of a project's name in an id
NAMES = "phase_names"  # a field that leftoff adds: the names of phases by number
STATUS = run_words({"running": "in_progress"}, {"complete": "completed"})
ROOTS = (".claude/checkpoints", ".claude/data/checkpoints")
FAILED, PARALLEL = "failed", "parallel_ops"
#: run records of a parallel operation, and their fields
KIND, PLAN = "operation_type", "plan_path"
PARALLEL_STATUS = run_words({"paused": "pre_execution", "running": "in_progress"})
OPERATIONS = step_words({"running": "in_progress"})
STALE_MS = 7 * DAY_MS
SCRIPTS = ("save-checkpoint", "load-checkpoint", "list-checkpoints", "cleanup-checkpoints")
SCRIPT = """#!/bin/sh
# made by leftoff: the checkpoints of this project are in its store, and in step with their files
exec leftoff compat {name} "$@"
"""
#: type, project and time; a number if two began in the same second
_ID = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)_(.+)_(\d{8}_\d{6})(?:-\d+)?\Z")
_PARALLEL_ID = re.compile(r"parallel_([a-z]+)_(.+)_\d{8}_\d{6}\Z")
_STAND_INS = {
    "checkpoint_id": ("id",),
    "created_at": ("timestamp", "checkpoint_at", "saved_at"),
    "workflow_description": ("description", "message", "name"),
}
_LAST_ERROR = "last_error"


def _id_in(path: str) -> str | None:
    """Return the id in a file's name."""
    name = path.rpartition("/")[2].removesuffix(".json")
    return name if _ID.match(name) else None


def project_in(document: dict[str, Any], given: str) -> tuple[str | None, str | None]:
    """Return the project, and where its name is from if it is not at the top: `workflow_state`, else the id."""
    top, inside = document.get("project_name"), document.get("workflow_state")
    if isinstance(top, str) and top:
        return top, None
    name = inside.get("project_name") if isinstance(inside, dict) else None
    if isinstance(name, str) and name:
        return name, "workflow_state"
    match = _ID.match(given)
    return (match[2] if match else None), "the id"


def snake(name: str) -> str:
    """Return a project's name as ids carry it."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower())[:LONGEST].strip("_") or "project"


def make_id(kind: str, project: str, at: int) -> str:
    """Return `{workflow_type}_{project_name}_{timestamp}`."""
    return f"{kind}_{snake(project)}_{compact(at).replace('-', '_')}"


class Claude(Protocol):
    name = "claude-checkpoints"
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
    marks = ("id", "timestamp", "checkpoint_at", "saved_at", KIND, PLAN, "operations")
    derived = ("current_phase",)
    fixed_ids = False
    counted = "Phase"
    files = r"/\.claude/(data/)?checkpoints/(.+/)?[^/]+\.(json|ya?ml)$"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        if "workflow_type" in document and "checkpoint_id" in document:
            return 75
        if all(key in document for key in (KIND, PLAN, "operations")):
            return 70
        inside = any(f"/{root}/" in f"/{path}" for root in ROOTS)
        named = _id_in(path) is not None and any(key in document for key in REQUIRED)
        return 40 if inside and (named or "checkpoint_id" in document or "id" in document) else 0

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        return self.recognise(document, f"/{ROOTS[0]}/{os.path.basename(path)}") > 0

    def names(self, state: State) -> list[str]:
        return [state.run_id + ".json"]

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        project = str(given.get("title") or given["workflow"])
        return make_id(slug(given["workflow"]), project, now), []

    def retention(self, project: str) -> Policy:
        return kept_for(7, 30)

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        path, said = draft.source.path, dict(document)
        for key, others in _STAND_INS.items():
            for other in others:
                if said.get(key) is None and isinstance(document.get(other), (str, int, float)):
                    said[key] = document[other]
                    draft.repairs.add(f"{key} is missing; {other} is taken for it.")
        version = document.get("schema_version")
        schema = version_numbers(version) if version is not None else []
        if schema is None:
            raise Rejected(f"{path}: {shown_value(version)} is no schema version.")
        if schema[:2] > NEWEST:
            newest = ".".join(map(str, NEWEST))
            raise TooNew(f"{path} has schema version {version}; this leftoff knows up to {newest}.")
        given = draft.text(said, "checkpoint_id")
        if given is None:
            given = _id_in(path)
            if given is None:
                raise Rejected(f"{path} is no claude checkpoint: it has no checkpoint_id.")
            draft.repairs.add(f"checkpoint_id is missing; the file's name is taken: {given}.")
        draft.name(given)
        for name in (given, draft.source.name, draft.source.name.removesuffix(".json")):
            draft.alias(name)
        draft.run("created_at", draft.iso(said, "created_at"))
        draft.run("branch", "main")
        if KIND in document and "workflow_type" not in document:
            draft.at = millis(draft.records.get(("run", "created_at")))
            match = _PARALLEL_ID.match(given)
            draft.run("workflow", "parallel")
            draft.fields(document, {KIND: (KIND, "text"), PLAN: (PLAN, "text")})
            plan = draft.records.get(("run", PLAN))
            draft.run("title", f"{document.get(KIND)} {plan}" if plan else None)
            if match:
                draft.run("project", match[2])
            draft.run("status", draft.status(PARALLEL_STATUS, document, "status", "paused"))
            entries = draft.entries(document, "operations")
            draft.items(entries, "operation", OPERATIONS, key="item_id")
            return
        match = _ID.match(given)
        kind = draft.text(said, "workflow_type")
        if kind is None:
            kind = match[1] if match else "checkpoint"
            draft.repairs.add(f"workflow_type is missing; read as {kind}.")
        draft.run("workflow", kind)
        project, where = project_in({**said, "project_name": draft.text(said, "project_name")}, given)
        if where is not None:
            project = project or snake(given)
            draft.repairs.add(f"project_name is missing; taken from {where}: {project}.")
        draft.run("project", project)
        stamp = read_stamp(match[3]) if match else None
        if stamp is not None and ("run", "created_at") not in draft.records:
            draft.run("created_at", iso(stamp))
            draft.repairs.add("created_at is missing; the time is in the id.")
        draft.run("title", draft.text(said, "workflow_description"))
        if said.get("status") is None:
            draft.repairs.add("status is missing; read as paused.")
            status = "paused"
        else:
            status = draft.status(STATUS, said, "status", "running")
        if draft.source.hints.get("given_up") and status in UNFINISHED and status != "failed":
            draft.repairs.add(
                f"it lies in {FAILED}/; the status {shown_value(said.get('status'))} is read as abandoned."
            )
            status = "abandoned"
        draft.run("status", status)
        draft.at = draft.time(document, "updated_at")
        if draft.at is None:
            draft.at = millis(draft.records.get(("run", "created_at")))
        done = draft.ordinals(document, "completed_phases")
        total, current = draft.number(document, "total_phases"), draft.number(document, "current_phase")
        draft.run("total", total)
        if len(set(done)) != len(done):
            draft.repairs.add(f"completed_phases: {shown_value(done)} has a phase twice.")
        if total is not None and max([*done, current or 0]) > total:
            draft.repairs.add(
                f"there are phases beyond total_phases, which is {total}: {shown_value([*done, current])}."
            )
        draft.counted(done, total, current, names=document.get(NAMES))
        draft.put_all("variable", document, "workflow_state")
        error = document.get(_LAST_ERROR)
        if error is not None:
            draft.put("error", _LAST_ERROR, error if isinstance(error, dict) else {"message": error})

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        leaves = state.leaves
        if state.run(KIND) is not None:
            begun = any(step.get("status") != "pending" for _, step in leaves)
            return {
                "checkpoint_id": state.run_id,
                KIND: state.run(KIND),
                PLAN: state.run(PLAN),
                "created_at": state.run("created_at"),
                "operations": [
                    {
                        "item_id": unquote_part(path),
                        **without(step, *STEP_FIELDS),
                        **({"status": OPERATIONS.write(str(step.get("status")))} if begun else {}),
                    }
                    for path, step in leaves
                ],
                "status": PARALLEL_STATUS.write(state.status),
            }
        place, done, total = state.numbers, state.done, state.total
        left = sorted(place[path] for path in state.left())
        return {
            "checkpoint_id": state.run_id,
            "workflow_type": str(state.run("workflow", "implement")),
            "project_name": project_of(state),
            "workflow_description": state.run("title"),
            "created_at": state.run("created_at"),
            "updated_at": state.updated_at,
            "status": STATUS.write(state.status),
            "current_phase": left[0] if left else min(max(place.values(), default=0) + 1, total),
            "total_phases": total,
            "completed_phases": done,
            "workflow_state": dict(state.of("variable")),
            _LAST_ERROR: _last_error(state),
            **state.step_names(NAMES),
        }

    # -- resuming

    def findings(self, state: State, project: str, now: int) -> Iterator[Finding]:
        """Check tests, the last error and the plan. Status and age are checked of every run."""
        document = write(self, state)
        if document.get("tests_passing") is False:
            message = "The checkpoint says that its tests were not passing."
            hint = "Look at them, then resume with --accept prerequisite.missing."
            yield Finding("prerequisite.missing", message, hint, "tests_passing")
        if state.status != "blocked" and document.get(_LAST_ERROR) is not None:
            yield Finding(
                "blocked.errors",
                f"The last error is still open: {_told(document[_LAST_ERROR])}.",
                f"Once it is resolved: `leftoff unblock {state.run_id}`. "
                "--accept blocked.errors continues without.",
                _LAST_ERROR,
                choices=("clear them", "go on without", "stop"),
            )
        path = _plan_path(document)
        if path is not None and not os.path.exists(os.path.join(project, path)):
            message = f"{path}, the plan it works by, is missing."
            hint = "Restore it, or resume with --accept prerequisite.missing."
            yield Finding("prerequisite.missing", message, hint, path)
        elif _plan_differs(document, project):
            message = f"{path}, the plan that it works by, was changed since."
            hint = "Does it still fit? --accept files.changed resumes anyway."
            yield Finding("files.changed", message, hint, path)
        if state.run(KIND) is None:
            yield from state.passed_over()

    # -- files

    def root(self, project: str) -> str:
        return ROOTS[1] if os.path.isdir(os.path.join(project, ROOTS[1])) else ROOTS[0]

    def present(self, project: str) -> list[str]:
        found = [f"{root}{below}/*.json" for root in ROOTS for below in ("", f"/{PARALLEL}", f"/{FAILED}")]
        return sorted(path for pattern in found for path in glob(pattern, root_dir=project))

    def given_up(self, path: str) -> bool:
        return os.path.basename(os.path.dirname(path)) == FAILED

    def hints(self, path: str) -> dict[str, str]:
        return {"given_up": "yes"} if self.given_up(path) else {}

    def places(self, sync: Sync, row: RunRow, state: State) -> dict[str, str | None]:
        path = self.place(sync.project, state)
        return {path: None} if path is not None else {}

    def place(self, project: str, state: State, status: str | None = None) -> str | None:
        """Return the path of a run's checkpoint, now or with that status; ``None``: it succeeded."""
        status = status or state.status
        if status == "completed":
            return None
        path = self.home(state, f"{self.root(project)}/{state.run_id}.json")
        folder, name = os.path.dirname(path), os.path.basename(path)
        folder = folder.removesuffix(f"/{FAILED}")
        return f"{folder}/{FAILED}/{name}" if status in ("failed", "abandoned") else f"{folder}/{name}"

    def remove_files(self, project: str, run_id: str) -> None:
        """Remove the checkpoint files of a run, if no sync does so."""
        for root in (f"{root}{below}" for root in ROOTS for below in ("", f"/{PARALLEL}")):
            for place in (f"{root}/{FAILED}/{run_id}.json", f"{root}/{run_id}.json"):
                ProjectFiles(project).remove(place)

    def utilities(self) -> dict[str, str]:
        return {f".claude/utils/{name}.sh": SCRIPT.format(name=name) for name in SCRIPTS}

    def ignored(self, project: str) -> list[str]:
        return [".claude/checkpoints/"]


def phases(state: State) -> tuple[list[int], int]:
    """Return the numbers of the phases that are done, and how many phases there are."""
    if state.run(KIND) is None:
        return state.done, state.total
    operations = enumerate(state.leaves, 1)  # their names are not numbers of phases
    return [n for n, (_, step) in operations if step.get("status") in DONE], len(state.leaves)


def project_of(state: State) -> str:
    return str(state.run("project") or snake(str(state.run("title") or state.run("workflow", "implement"))))


def status_word(state: State) -> str:
    return (PARALLEL_STATUS if state.run(KIND) is not None else STATUS).write(state.status)


def _last_error(state: State) -> Any:
    """Return the newest open error: a text if only its message is known."""
    errors = state.of("error")
    if not errors:
        return None
    about = errors.get(_LAST_ERROR)
    if about is None:
        about = max(errors.values(), key=lambda e: by_time(e.get("at")) if isinstance(e, dict) else "")
    if isinstance(about, dict) and list(about) == ["message"] and not isinstance(about["message"], dict):
        return about["message"]
    return about


# -- safe to resume?


def why_ask(document: dict[str, Any], project: str, now: int) -> str | None:
    """Return the first reason why a person should look before this is resumed; ``None``: it is safe."""
    if document.get("tests_passing") not in (None, True):
        return "tests were not passing"
    if document.get(_LAST_ERROR) is not None:
        return f"the last error is open: {_told(document[_LAST_ERROR])}"
    if document.get("status") != "in_progress":
        return f"its status is {document.get('status')}"
    updated = millis(document.get("updated_at") or document.get("created_at"))
    if updated is None or now - updated > STALE_MS:
        return "it is older than 7 days"
    return "the plan file was changed since" if _plan_differs(document, project) else None


def _plan_path(document: dict[str, Any]) -> str | None:
    state = document.get("workflow_state")
    path = state.get("plan_path") if isinstance(state, dict) else None
    return path if isinstance(path, str) and path and "\0" not in path else None


def _plan_differs(document: dict[str, Any], project: str) -> bool:
    """Return whether the plan was changed since the checkpoint."""
    path, known = _plan_path(document), document.get("plan_modification_time")
    if path is None or not isinstance(known, (int, float)):
        return False
    try:
        return int(os.stat(os.path.join(project, path)).st_mtime) != int(known)
    except OSError:
        return False


def _told(error: Any) -> str:
    """Return an error in one line."""
    if not isinstance(error, dict):
        return one_line(error)[:300]
    message, kind = error.get("message") or error.get("error"), error.get("type")
    if not isinstance(message, str):
        return one_line(text(error))[:300]
    return one_line(f"{kind}: {message}" if isinstance(kind, str) else message)[:300].rstrip(".")


PROTOCOL = Claude()


# -- the protocol's four utilities, over the store: save, load, list and clean up

MAX_AGE_DAYS = 7


class Checkpoints:
    """The checkpoints of a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.store = project.store
        self.files = ProjectFiles(project.folder)

    def unfinished(self, kind: str | None, project: str | None = None) -> list[RunRow]:
        """Return the unfinished runs of a type and project, latest first."""
        where: dict[str, Any] = {"status": UNFINISHED, "workflow": kind}
        rows = self.store.read(lambda view: view.list_runs(where)) if self.store.exists() else []
        wanted = snake(project) if project is not None else None
        return [
            row for row in rows if wanted in (None, snake(str(row.card.get("project") or row.title or "")))
        ]

    def state(self, row: RunRow) -> State:
        return self.store.read(lambda view: state_at(self.store, view, row, PROTOCOL))

    def document(self, row: RunRow) -> dict[str, Any]:
        return write(PROTOCOL, self.state(row))

    def save(self, kind: str, state: dict[str, Any]) -> tuple[str, str | None]:
        """Write a checkpoint and import it. Return the run's id, and the path of its file unless it succeeded."""
        document, folder = self._completed(kind, state), self.project.folder
        said = decode_document(PROTOCOL, document, Source(f"The state of {kind}"), Repairs())
        there = self._row(said.run_id)
        known = self.state(there) if there is not None else said
        path = PROTOCOL.place(folder, known, said.status) or PROTOCOL.place(folder, known, "running")
        assert path is not None
        old = (PROTOCOL.place(folder, known) if there is not None else None) or path
        kept = self.files.read(old)
        self.files.replace(path, PROTOCOL.dump(document).encode())
        if old != path:
            self.files.remove(old)

        def refuse(at: str, error: LeftoffError) -> None:
            self.files.remove(path)
            if kept is not None:
                self.files.replace(old, kept)
            raise error

        importer = Importer(self.store, folder, self.project.redactor, self.project.now, refuse)
        importer.write(importer.read([os.path.join(folder, path)], PROTOCOL))
        if said.status != "completed":
            return said.run_id, path
        self.files.remove(path)  # unless the sync, if there is one, was first
        return said.run_id, None

    def _completed(self, kind: str, state: dict[str, Any]) -> dict[str, Any]:
        """Return the document of a checkpoint: what was given, and the other fields that the protocol requires."""
        given, now = state.get("checkpoint_id"), self.project.now
        state = {key: value for key, value in state.items() if key != "checkpoint_id" or value is not None}
        project = project_in(state, str(given or ""))[0] or "project"
        # it is saved again: the one of that id, else the newest of the project
        found = self.unfinished(kind, project)[:1] if given is None else [self._row(fit_id(str(given)))]
        known: dict[str, Any] = {
            "checkpoint_id": make_id(slug(kind), project, now),
            "workflow_type": kind,
            "project_name": project,
            "created_at": iso(now),
        }
        if found and found[0] is not None:
            known = self.document(found[0])
        if "workflow_state" not in state:  # what the protocol has no key for is the workflow's own
            there = known.get("workflow_state")
            fields = (*KEYS, *LATER)
            own = {key: value for key, value in state.items() if key in fields or key.startswith(LATER_BEGIN)}
            inside = {key: value for key, value in state.items() if key not in own}
            state = {**own, "workflow_state": {**(there if isinstance(there, dict) else {}), **inside}}
        fixed = {"workflow_type": kind, "updated_at": iso(now)}
        return {"last_error": None, **known, "status": "in_progress", **state, **fixed}

    def _row(self, run_id: str) -> RunRow | None:
        return self.store.read(lambda view: view.find_run(run_id)) if self.store.exists() else None

    def clean_up(self, days: int) -> list[str]:
        """Remove finished runs that are older. Return their ids."""
        retention = Retention(self.project, PROTOCOL, kept_for(days, days))
        retention.look()
        went = [each for each in retention.carry_out().removed if each["kind"] == "run"]
        for about in went:
            if about["action"] == REMOVE:
                PROTOCOL.remove_files(self.project.folder, about["run_id"])
        return [about["run_id"] for about in went]
