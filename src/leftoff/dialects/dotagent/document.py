"""dotagent: `memory/state/phase.json` and `execution.json`; five phases, and the tasks of one of them."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.dialects.dotagent import resume as resuming
from leftoff.dialects.dotagent.files import DotagentFiles
from leftoff.dialects.draft import DONE, STEP_FIELDS
from leftoff.dialects.loose_values import Rejected, meaning, read_time, shown, step_words
from leftoff.dialects.protocol import filled, respelt
from leftoff.engine.retention.policy import DEFAULT, Policy
from leftoff.engine.write.commit import Seal
from leftoff.errors import LeftoffError
from leftoff.model.ids import quote_part, unquote_part
from leftoff.model.words import FINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from leftoff.dialects.draft import Draft, State
    from leftoff.dialects.import_documents import Loaded
    from leftoff.dialects.loose_values import Reject
    from leftoff.engine.resume.finding import Finding
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx

PHASES = ("REQUIREMENTS", "ARCHITECTURE", "IMPLEMENTATION", "VERIFICATION", "REFLECTION")
TASKS = "IMPLEMENTATION"  # the phase whose tasks are in execution.json
OVER = "workflow_status"  # our own key: how a workflow ended that has phases left
KEYS = tuple(
    """workflow_id started_at last_updated current_phase phase_status completed_phases user_checkpoints
    interruption_safe workflow_status""".split()
)
ARCHIVES = 5
RETENTION = Policy(keep=DEFAULT.keep, runs=DEFAULT.runs, archives=ARCHIVES)
PHASE, EXECUTION = "phase", "execution"
_AT_WORK = dict.fromkeys(("running", "waiting", "blocked"), "in_progress")
STEPS = step_words({**_AT_WORK, "completed": "complete", "skipped": "complete"})
TASK_STEPS = step_words(
    {"waiting": "running", "completed": "complete"}, {"completed": "completed", "in_progress": "running"}
)
_TASK = ("id", "status", "attempts", "started_at", "completed_at", "output", "error")
_OURS = STEP_FIELDS | {"total", "adopted"}


class Dotagent(DotagentFiles):
    name = "dotagent"
    approved_phases = PHASES
    about = "dotagent: memory/state/phase.json and execution.json"
    starts = "leftoff start dotagent"
    example = (
        "memory/state/phase.json",
        {
            "workflow_id": "auth",
            "current_phase": "ARCHITECTURE",
            "phase_status": "in_progress",
            "completed_phases": [{"phase": "REQUIREMENTS", "output": "memory/reports/demand.json"}],
            "interruption_safe": True,
        },
    )
    keys = (PHASE, EXECUTION)
    files = r"/memory/state/(\.archive/[^/]+/)?(phase|execution)\.json$"

    def group(self, paths: list[str]) -> list[list[str]]:
        """The two files of a folder, the phase first; one that was named brings the other along."""
        folders = list(dict.fromkeys(os.path.dirname(path) for path in paths))
        both = [[os.path.join(folder, f"{name}.json") for name in (PHASE, EXECUTION)] for folder in folders]
        return [found for pair in both if (found := [path for path in pair if os.path.isfile(path)])]

    def load(self, paths: list[str], load: Callable[[str], Loaded], reject: Reject) -> list[Loaded]:
        """Both as one document; a broken execution.json does not take the phases with it."""
        parts = []
        for path in paths:
            try:
                parts.append((os.path.basename(path).removesuffix(".json"), load(path)))
            except LeftoffError as error:
                if path == paths[0] and len(paths) == 1:
                    raise
                reject(path, error)
        if not parts:
            return []
        whole = parts[0][1]
        whole.document = {
            name: respelt(part.document, KEYS, part.repairs) if name == PHASE else part.document
            for name, part in parts
        }
        for name, part in parts[1:]:
            whole.hash += part.hash
            whole.source.modified = max(whole.source.modified, part.source.modified)
            for line in part.repairs.lines:
                whole.repairs.add(f"{name}.json: {line}")
        return [whole]

    def filled(self, document: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
        """Each of the two files may be a part."""
        keys = {PHASE: KEYS, EXECUTION: ("workflow_id", "tasks")}
        parts = {
            name: filled(part, present[name], keys[name])
            for name, part in document.items()
            if name in keys and isinstance(part, dict) and isinstance(present.get(name), dict)
        }
        return {**present, **document, **parts}

    def retention(self, project: str) -> Policy:
        return RETENTION

    def recognise(self, document: dict[str, Any], path: str) -> int:
        own = sum(key in document for key in KEYS)
        if document.get("current_phase") in PHASES and own >= 3:
            return 60 + own
        if "workflow_id" in document and isinstance(document.get("tasks"), list):
            return 60
        inside = path.endswith(("/phase.json", "/execution.json")) and "/state/" in f"/{path}"
        return 50 if inside and own else 0

    def doubt(self, codes: Collection[str]) -> str | None:
        return resuming.doubt(codes)

    def is_over(self, state: State) -> bool:
        return current(state) == (PHASES[-1], "completed")

    def settled(self, state: State, project: str) -> dict[str, dict[str, Any]]:
        return resuming.settled(state, project)

    def findings(self, state: State, project: str, now: int) -> Iterable[Finding]:
        return resuming.findings(state, project)

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        return resuming.greeting(state, current(state)[0], project, now)

    def options(self, phase: str, state: State, project: str) -> list[str]:
        return resuming.options(phase, state, project)

    def question(self, state: State) -> str | None:
        return resuming.QUESTION.format(phase=current(state)[0])

    def sealed(self, tx: Tx, run: int, changes: ChangeSet, seal: Seal | None, config: Any) -> Seal | None:
        """A phase is an agent's work: before it is spawned, there is a checkpoint to go back to."""
        for phase in PHASES if seal is None else ():
            change = changes.changes.get(("step", phase))
            if change is not None and change.step is not None and change.step[0] == "running":
                known = tx.row(run, "step", phase)
                if known is None or known[1] != "running":
                    return Seal("agent_start", phase)
        return seal

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        return None, (list(PHASES) if given["workflow"] == self.name else [])

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        phase, execution = draft.mapping(document, PHASE), draft.mapping(document, EXECUTION)
        given = draft.text(phase, "workflow_id") or draft.text(execution, "workflow_id")
        if given is None:
            raise Rejected(f"{draft.source.path} is no dotagent state: it has no workflow_id.")
        draft.name(given)
        draft.run("workflow", "dotagent")
        draft.run("title", draft.run_id)
        draft.run("branch", "main")
        draft.run("created_at", draft.iso(phase, "started_at"))
        draft.at = draft.time(phase, "last_updated")
        if phase.get("interruption_safe") is False:
            draft.repairs.add("interruption_safe is false: it was being written when something stopped.")
        self._phases(draft, phase)
        self._approvals(draft, phase)
        tasks = draft.entries(execution, "tasks")
        for number, task in enumerate(tasks):
            self._task(draft, task, number)
        if execution and not tasks:
            draft.run("tasks", 0)

    def _phases(self, draft: Draft, phase: dict[str, Any]) -> None:
        done = {name: about for entry in draft.entries(phase, "completed_phases") if (name := self._phase(draft, entry))
                for about in [entry if isinstance(entry, dict) else {}]}  # fmt: skip
        current = self._phase(draft, phase.get("current_phase"))
        status = STEPS.read(phase.get("phase_status"), "pending", draft.repairs, "phase_status")
        for order, name in enumerate(PHASES):
            record: dict[str, Any] = {"status": "pending", "order": order}
            if name in done:
                record["status"] = "completed"
                self._completed(draft, record, done[name])
            elif name == current and (status != "completed" or name == PHASES[-1]):
                record["status"] = status
            draft.put("step", name, record)
        ended = draft.records["step", PHASES[-1]]["status"] == "completed"
        over = meaning(phase.get(OVER))
        if over not in FINISHED:
            over = "completed" if ended else "failed" if status == "failed" else "running"
        draft.run("status", over)

    @staticmethod
    def _completed(draft: Draft, record: dict[str, Any], about: dict[str, Any]) -> None:
        for key, value in about.items():
            if key == "completed_at":
                when = read_time(value, draft.repairs, "completed_phases", draft.source.modified or None)
                if when is not None:
                    record["completed_at"] = iso(when)
            elif key == "output" and isinstance(value, str):
                record["outputs"] = [value]
            elif key not in ("phase", *_OURS):
                record[key] = value

    @staticmethod
    def _phase(draft: Draft, entry: Any) -> str | None:
        """Which phase is meant."""
        name = entry.get("phase") if isinstance(entry, dict) else entry
        if isinstance(name, str) and name in PHASES:
            return name
        if isinstance(name, str) and name.strip().upper() in PHASES:
            draft.repairs.add(f"the phase {shown(name)} is read as {name.strip().upper()}.")
            return name.strip().upper()
        if name is not None:
            draft.repairs.add(f"{shown(entry)} is no phase; kept as it is written.")
        return None

    def _approvals(self, draft: Draft, phase: dict[str, Any]) -> None:
        for entry in draft.entries(phase, "user_checkpoints"):
            name = self._phase(draft, entry)
            if name is None:
                continue
            about = dict(entry) if isinstance(entry, dict) else {}
            when = read_time(
                about.get("approved_at"), draft.repairs, "approved_at", draft.source.modified or None
            )
            if when is not None:
                about["approved_at"] = iso(when)
            draft.put_free("approval", name, {**about, "phase": name})

    def _task(self, draft: Draft, task: Any, number: int) -> None:
        if (
            not isinstance(task, dict)
            or not isinstance(task.get("id"), (str, int))
            or task["id"] in ("", True, False)
        ):
            draft.repairs.add(f"tasks: {shown(task)} has no id; kept as it is written.")
            return
        status = TASK_STEPS.read(task.get("status"), "pending", draft.repairs, f"task {task['id']}")
        record: dict[str, Any] = {"status": status, "order": number}
        attempts = draft.number(task, "attempts")
        if attempts is not None:
            record["attempt"] = attempts - 1 if status == "pending" and attempts > 0 else attempts
        for key in ("started_at", "completed_at"):
            when = draft.iso(task, key)
            if when is not None:
                record[key] = when
        if isinstance(task.get("output"), str):
            record["outputs"] = [task["output"]]
        if task.get("error") is not None:
            record["error"] = task["error"] if isinstance(task["error"], dict) else {"message": task["error"]}
        record.update((key, value) for key, value in task.items() if key not in (*_TASK, *_OURS))
        if not draft.put("step", f"{TASKS}/{quote_part(str(task['id']))}", record):
            draft.repairs.add(f"the task {shown(task['id'])} is there twice; the first one counts.")

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        document = {PHASE: _phase_document(state)}
        tasks = [(path, step) for path, step in state.leaves() if path.startswith(f"{TASKS}/")]
        if tasks or state.run("tasks") == 0:
            document[EXECUTION] = {
                "workflow_id": state.run_id,
                "tasks": [_task_entry(path, step) for path, step in tasks],
            }
        return document


def current(state: State) -> tuple[str, str]:
    """The phase the run is in, and its status in our words."""
    steps = state.of("step")
    for name in PHASES:
        record = steps.get(name)
        status = record.get("status", "pending") if isinstance(record, dict) else "pending"
        if status not in DONE:
            begun = any(
                step.get("status") != "pending" or step.get("started_at") is not None
                for path, step in state.steps()
                if path == name or path.startswith(f"{name}/")
            )
            return name, "running" if status == "pending" and begun else str(status)
    return PHASES[-1], "completed"


def _phase_document(state: State) -> dict[str, Any]:
    steps = state.of("step")
    done = [
        name for name in PHASES if isinstance(steps.get(name), dict) and steps[name].get("status") in DONE
    ]
    name, status = current(state)
    if status == "pending" and done:
        status = "completed"  # the one before: the protocol advances the phase and says `complete`
    phases_say = "completed" if (name, status) == (PHASES[-1], "completed") else None
    over = {OVER: state.status} if state.status in FINISHED and state.status != phases_say else {}
    return {
        "workflow_id": state.run_id,
        "started_at": state.run("created_at"),
        "last_updated": state.updated_at,
        "current_phase": name,
        "phase_status": STEPS.write("failed" if state.status == "failed" else status),
        "completed_phases": [_completed_entry(phase, steps[phase]) for phase in done],
        "user_checkpoints": _approvals(state),
        "interruption_safe": True,
        **over,
    }


def _completed_entry(phase: str, step: dict[str, Any]) -> dict[str, Any]:
    outputs = step.get("outputs")
    output = outputs[0] if isinstance(outputs, list) and outputs else None
    entry = {"phase": phase, "completed_at": step.get("completed_at"), "output": output}
    return {**entry, **{key: value for key, value in step.items() if key not in _OURS}}


def _approvals(state: State) -> list[dict[str, Any]]:
    """Approvals of phases, in their order; one that was refused is none."""
    found = []
    for key, about in state.of("approval").items():
        if not isinstance(about, dict):
            continue
        phase = about.get("phase") or key.partition("/")[0]
        when = about.get("approved_at") or about.get("at")
        if phase in PHASES and about.get("status", "approved") == "approved":
            rest = {k: v for k, v in about.items() if k not in ("phase", "approved_at", "at", "status")}
            found.append((PHASES.index(phase), key, {"phase": phase, "approved_at": when, **rest}))
    return [entry for _, _, entry in sorted(found, key=lambda item: item[:2])]


def _task_entry(path: str, step: dict[str, Any]) -> dict[str, Any]:
    outputs, error = step.get("outputs"), step.get("error")
    entry = {
        "id": unquote_part(path.partition("/")[2]),
        "status": TASK_STEPS.write(str(step.get("status"))),
        "attempts": _attempts(step),
        "started_at": step.get("started_at"),
        "completed_at": step.get("completed_at"),
        "output": outputs[0] if isinstance(outputs, list) and outputs else None,
        "error": error.get("message", error) if isinstance(error, dict) else error,
    }
    return {**entry, **{key: value for key, value in step.items() if key not in _OURS}}


def _attempts(step: dict[str, Any]) -> Any:
    """How often a task was tried; one that was put back, with the attempt that it is put back for."""
    tried = step.get("attempt", 0)
    again = step.get("status") == "pending" and isinstance(tried, int) and tried > 0
    return tried + 1 if again else tried


DIALECT = Dotagent()
