"""dotagent: `memory/state/phase.json` and `execution.json`: five phases, and the tasks of IMPLEMENTATION.

The two files show the active workflow. Other workflows are in `.archive/`, the finished ones as history (the last 5).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator
from glob import glob
from itertools import pairwise
from stat import S_ISDIR
from typing import Any

from leftoff.clock import DAY_MS, compact, iso, millis
from leftoff.engine.commit import Seal
from leftoff.engine.findings import STOP, UNAPPROVED, WAITING, Finding
from leftoff.engine.retention_policy import DEFAULT, Policy
from leftoff.errors import LeftoffError
from leftoff.model.changes import ChangeSet
from leftoff.model.ids import unquote_part
from leftoff.model.words import FINISHED, UNFINISHED
from leftoff.protocols.document_draft import DONE, STEP_FIELDS, Draft, State, without
from leftoff.protocols.import_documents import Loaded
from leftoff.protocols.loose_values import Reject, Rejected, meaning, shown_value, step_words
from leftoff.protocols.protocol import Protocol, filled, respelt, write
from leftoff.protocols.sync import Sync
from leftoff.store.base import Tx
from leftoff.store.rows import RunRow

#: the phases, and who does each of them again
AGENTS = {
    "REQUIREMENTS": "re-run PM",
    "ARCHITECTURE": "re-run architects",
    "IMPLEMENTATION": "continue the executor",
    "VERIFICATION": "re-run QA",
    "REFLECTION": "re-run reflector",
}
PHASES = tuple(AGENTS)
DESIGN, TASKS = "ARCHITECTURE", "IMPLEMENTATION"  # the phase with a choice, and the one with tasks
OVER = "workflow_status"  # a field that leftoff adds: how a workflow ended that has phases left
SAFE = "interruption_safe"
KEYS = (
    *"workflow_id started_at last_updated current_phase phase_status completed_phases".split(),
    *("user_checkpoints", SAFE, OVER),
)
PHASE, EXECUTION = "phase", "execution"
_AT_WORK = dict.fromkeys(("running", "waiting", "blocked"), "in_progress")
STEPS = step_words({**_AT_WORK, "completed": "complete", "skipped": "complete"})
TASK_STEPS = step_words(
    {"waiting": "running", "completed": "complete"}, {"completed": "completed", "in_progress": "running"}
)
ROOT = "memory/state"
NAMES = {"phase.json": PHASE, "execution.json": EXECUTION}
PARTS = {f"{ROOT}/{name}": part for name, part in NAMES.items()}
ARCHIVE = f"{ROOT}/.archive"
ARCHIVES = 5
REPORTS = "memory/reports"
#: what a phase writes last
FINAL = {
    "REQUIREMENTS": "demand.json",
    "ARCHITECTURE": "final_design.json",
    "VERIFICATION": "verification.json",
    "REFLECTION": "reflection*",
}
MOST_BYTES = 16 << 20  # of an output that is read
CORRUPTED = "State appears corrupted. Start fresh? [y/N]"
STALE = "State is more than 7 days old. Archive it and start fresh? [y/N]"
ROUNDTABLE = "run the roundtable: the designs are there, final_design.json is not"
CHOSEN = "run the roundtable with {design}, which was chosen, and write final_design.json"
_OURS = STEP_FIELDS | {"total", "adopted"}


class Dotagent(Protocol):
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
    shows_all = False
    by_time = False  # the place of its files says which workflow is active
    files = r"/memory/state/(\.archive/[^/]+/)?(phase|execution)\.json$"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        own = sum(key in document for key in KEYS)
        if document.get("current_phase") in PHASES and own >= 3:
            return 60 + own
        if "workflow_id" in document and isinstance(document.get("tasks"), list):
            return 60
        inside = path.endswith(("/phase.json", "/execution.json")) and "/state/" in f"/{path}"
        return 50 if inside and own else 0

    def group(self, paths: list[str]) -> list[list[str]]:
        """Return the two files of a folder, the phase first, also if only one of them was named."""
        folders = dict.fromkeys(os.path.dirname(path) for path in paths)
        both = [[os.path.join(folder, name) for name in NAMES] for folder in folders]
        return [found for pair in both if (found := [path for path in pair if os.path.isfile(path)])]

    def load(self, paths: list[str], load: Callable[[str], Loaded], reject: Reject) -> list[Loaded]:
        """Read both files as one document. If execution.json is broken, the phases are read."""
        parts = []
        for path in paths:
            try:
                parts.append((NAMES[os.path.basename(path)], load(path)))
            except LeftoffError as error:
                if len(paths) == 1:
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
        """Complete each of the two files."""
        keys = {PHASE: KEYS, EXECUTION: ("workflow_id", "tasks")}
        parts = {
            name: filled(part, present[name], keys[name])
            for name, part in document.items()
            if name in keys and isinstance(part, dict) and isinstance(present.get(name), dict)
        }
        return {**present, **document, **parts}

    def includes(self, row: RunRow) -> bool:
        return bool(row.workflow == self.name)

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        return None, (list(PHASES) if given["workflow"] == self.name else [])

    def retention(self, project: str) -> Policy:
        return Policy(keep=DEFAULT.keep, runs=DEFAULT.runs, archives=ARCHIVES)

    def sealed(self, tx: Tx, run: int, changes: ChangeSet, seal: Seal | None, config: Any) -> Seal | None:
        """Make a checkpoint before an agent is spawned for a phase."""
        for phase in PHASES if seal is None else ():
            change = changes.changes.get(("step", phase))
            if change is not None and change.step is not None and change.step[0] == "running":
                known = tx.row(run, "step", phase)
                if known is None or known[1] != "running":
                    return Seal("agent_start", phase)
        return seal

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        phase, execution = draft.mapping(document, PHASE), draft.mapping(document, EXECUTION)
        given = draft.text(phase, "workflow_id") or draft.text(execution, "workflow_id")
        if given is None:
            raise Rejected(f"{draft.source.path} is no dotagent state: it has no workflow_id.")
        draft.name(given)
        draft.run("workflow", self.name)
        draft.run("title", draft.run_id)
        draft.run("branch", "main")
        draft.run("created_at", draft.iso(phase, "started_at"))
        draft.at = draft.time(phase, "last_updated")
        if phase.get(SAFE) is False:
            draft.repairs.add("interruption_safe is false: it was being written when something stopped.")
        self._phases(draft, phase)
        for entry in draft.entries(phase, "user_checkpoints"):
            name = self._phase(draft, entry)
            if name is not None:
                # without a status it is not a decision: only `leftoff approve` makes one
                about = without(entry, "status") if isinstance(entry, dict) else {}
                when = draft.iso(about, "approved_at")
                approved = {"approved_at": when} if when is not None else {}
                draft.put_free("approval", name, {**about, **approved, "phase": name})
        tasks = draft.entries(execution, "tasks")
        draft.items(tasks, "task", TASK_STEPS, below=f"{TASKS}/")
        if execution and not tasks:
            draft.run("tasks", 0)

    def _phases(self, draft: Draft, phase: dict[str, Any]) -> None:
        done: dict[str, dict[str, Any]] = {}
        for entry in draft.entries(phase, "completed_phases"):
            found = self._phase(draft, entry)
            if found is not None:
                done[found] = entry if isinstance(entry, dict) else {}
        current = self._phase(draft, phase.get("current_phase"))
        status = STEPS.read(phase.get("phase_status"), "pending", draft.repairs, "phase_status")
        for order, name in enumerate(PHASES):
            record: dict[str, Any] = {"status": "pending", "order": order}
            if name in done:
                record |= {"status": "completed"} | without(done[name], "phase", *_OURS)
                when = draft.iso(done[name], "completed_at", "completed_phases")
                if when is not None:
                    record["completed_at"] = when
                if isinstance(record.get("output"), str):
                    record["outputs"] = [record.pop("output")]
            elif name == current and (status != "completed" or name == PHASES[-1]):
                record["status"] = status
            draft.put("step", name, record)
        ended = draft.records["step", PHASES[-1]]["status"] == "completed"
        over = meaning(phase.get(OVER))
        if over not in FINISHED:
            over = "completed" if ended else "failed" if status == "failed" else "running"
        draft.run("status", over)

    @staticmethod
    def _phase(draft: Draft, entry: Any) -> str | None:
        """Return the phase that an entry names."""
        name = entry.get("phase") if isinstance(entry, dict) else entry
        if isinstance(name, str) and name in PHASES:
            return name
        if isinstance(name, str) and name.strip().upper() in PHASES:
            draft.repairs.add(f"the phase {shown_value(name)} is read as {name.strip().upper()}.")
            return name.strip().upper()
        if name is not None:
            draft.repairs.add(f"{shown_value(entry)} is no phase; kept as it is written.")
        return None

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        done = [name for name in PHASES if state.step_record(name).get("status") in DONE]
        name, status = current(state)
        if status == "pending" and done:
            status = "completed"  # the protocol advances the phase and says `complete` of the one before
        phases_say = "completed" if (name, status) == (PHASES[-1], "completed") else None
        ended = state.status in FINISHED and state.status != phases_say
        phase = {
            "workflow_id": state.run_id,
            "started_at": state.run("created_at"),
            "last_updated": state.updated_at,
            "current_phase": name,
            "phase_status": STEPS.write("failed" if state.status == "failed" else status),
            "completed_phases": [
                {
                    "phase": each,
                    "completed_at": step.get("completed_at"),
                    "output": _first_output(step),
                    **without(step, *_OURS),
                }
                for each in done
                if (step := state.step_record(each))
            ],
            "user_checkpoints": _approvals(state),
            SAFE: True,
            **({OVER: state.status} if ended else {}),
        }
        tasks = []
        for path, step in state.leaves:
            if not path.startswith(f"{TASKS}/"):
                continue
            error, attempts = step.get("error"), step.get("attempt", 0)
            if step.get("status") == "pending" and isinstance(attempts, int) and attempts > 0:
                attempts += 1  # put back for another attempt
            task = {
                "id": unquote_part(path.partition("/")[2]),
                "status": TASK_STEPS.write(str(step.get("status"))),
                "attempts": attempts,
                "started_at": step.get("started_at"),
                "completed_at": step.get("completed_at"),
                "output": _first_output(step),
                "error": error.get("message", error) if isinstance(error, dict) else error,
            }
            tasks.append(task | without(step, *_OURS))
        if not tasks and state.run("tasks") != 0:
            return {PHASE: phase}
        return {PHASE: phase, EXECUTION: {"workflow_id": state.run_id, "tasks": tasks}}

    # -- resuming

    def doubt(self, codes: Collection[str]) -> str | None:
        """Ask about corrupted or old state. Approvals and choices have their own questions."""
        others = set(codes) - {WAITING, UNAPPROVED}
        return None if not others else STALE if others == {"age.stale"} else CORRUPTED

    def is_over(self, state: State) -> bool:
        return current(state) == (PHASES[-1], "completed")

    def settled(self, state: State, project: str) -> dict[str, dict[str, Any]]:
        """Return running steps whose output says how they ended; and the current phase, if it was put back."""
        out: dict[str, dict[str, Any]] = {}
        now = next((name for name in PHASES if state.step_record(name).get("status") not in DONE), None)
        for path, step in state.steps:
            running = step.get("status") == "running"
            status, output = None, None
            if path in PHASES and (running or (path == now and step.get("status") == "pending")):
                output = output_of(path, state, project)
                status, step = "completed", {**step, "outputs": [output]}
            elif "/" in path and running:  # the final status is in the output
                for file in step.get("outputs") or ():
                    if isinstance(file, str) and not os.path.isabs(file) and ".." not in file.split("/"):
                        found = _read_json(os.path.join(project, file))
                        word = meaning(found.get("status")) if isinstance(found, dict) else None
                        if output is None and word in ("completed", "failed", "skipped"):
                            status, output = word, file
            if output is not None:
                written = os.stat(os.path.join(project, output)).st_mtime_ns // 1_000_000
                out[path] = {**step, "status": status, "completed_at": iso(written), "adopted": True}
        return out

    def findings(self, state: State, project: str, now: int) -> Iterator[Finding]:
        """Check the order of phases, and that a person chose a design."""
        known = [(name, state.step_record(name).get("status")) for name in PHASES if state.step_record(name)]
        for (name, status), (later, then) in pairwise(known):
            if status not in DONE and then not in (None, "pending"):
                what = "is completed" if then in DONE else f"is {then}"
                yield Finding(
                    "progress.illegal",
                    f"{later} {what}, and {name}, which comes before it, is not completed.",
                    "Check these phases (`leftoff show --steps`); --accept progress.illegal resumes anyway.",
                    name,
                )
        offered = designs(state, project)
        if offered and state.step_record(DESIGN).get("status") == "running" and chosen(state) is None:
            first = os.path.basename(offered[0])
            yield Finding(
                WAITING,
                f"{DESIGN} waits for a person to choose a design: {', '.join(offered)}.",
                f"`leftoff approve {state.run_id} {DESIGN} --choice {first}` chooses one; "
                f"--accept {WAITING} leaves it to the roundtable.",
                DESIGN,
                choices=(*self.options(DESIGN, state, project), "let the roundtable choose", STOP),
            )

    def greeting(self, state: State, project: str, now: int) -> list[str]:
        phase, design = current(state)[0], chosen(state)
        action = AGENTS[phase]
        if phase == DESIGN and designs(state, project):
            action = CHOSEN.format(design=design) if design else ROUNDTABLE
        done = [name for name in PHASES if state.step_record(name).get("status") in DONE]
        lines = [
            f"Detected interrupted workflow: {state.run_id}",
            f"Resuming workflow {state.run_id} from {phase} phase",
            f"Last activity: {state.updated_at}",
            f"Completed: {', '.join(done) or 'none'}",
            f"Next: {action}",
        ]
        began = millis(state.run("created_at"))
        if began is not None and now - began > 7 * DAY_MS:
            age = (now - began) // DAY_MS
            lines.append(f"The state is {age} days old; proceed with caution, or start fresh.")
        return lines

    def question(self, state: State) -> str | None:
        return f"Resume workflow from {current(state)[0]}? [Y/n]"

    def options(self, phase: str, state: State, project: str) -> list[str]:
        """Offer the designs that are there; any other phase is just approved."""
        found = designs(state, project) if phase == DESIGN else []
        return [os.path.basename(path) for path in found] or ["approve"]

    # -- files

    def present(self, project: str) -> list[str]:
        """Return archived files first: of several unfinished workflows, the last one is active."""
        archived = sorted(glob(f"{ARCHIVE}/*/*.json", root_dir=project))
        known = [path for path in archived if os.path.basename(path) in NAMES]
        return known + [path for path in PARTS if os.path.isfile(os.path.join(project, path))]

    def part_of(self, path: str) -> str | None:
        return NAMES.get(os.path.basename(path))

    def places(self, sync: Sync, row: RunRow, state: State) -> dict[str, str | None]:
        """Only the workflow that was started last is active. Other unfinished ones are in the archive."""
        if state.status not in UNFINISHED:
            return {}
        rows = sync.store.read(lambda view: view.list_runs({"workflow": self.name, "status": UNFINISHED}))
        if max((each.run for each in rows), default=row.run) == row.run:
            return dict(PARTS)
        folder = self._folder(sync, row, state)
        return {f"{folder}/{name}": part for name, part in NAMES.items()}

    def _folder(self, sync: Sync, row: RunRow, state: State) -> str:
        """Return `.archive/{workflow_id}_{timestamp}/`, the same one as before while it exists."""
        about = sync.base.runs.setdefault(row.run_id, {})
        found = os.path.dirname(self.home(state, ""))
        if not sync.files.is_folder(str(about.get("archive"))):
            own = f"{ARCHIVE}/{row.run_id}_{compact(row.updated_at)}"
            about["archive"] = found if found.startswith(f"{ARCHIVE}/") else own
        return str(about["archive"])

    def complete(self, document: dict[str, Any], part: str | None) -> dict[str, Any]:
        return {**document, SAFE: True} if part == PHASE else document

    def underway(self, document: dict[str, Any], part: str | None) -> dict[str, Any] | None:
        """`interruption_safe` is false until both files are written."""
        return {**document, SAFE: False} if part == PHASE else None

    def before(self, sync: Sync, row: RunRow) -> None:
        """Archive the files of another workflow."""
        known = sync.base.files
        other = {path: known[path].run for path in PARTS if path in known and known[path].run != row.run_id}
        if other and self.places(sync, row, sync.state(row)):
            for path, run_id in other.items():
                self._archive(sync, path, run_id)

    def leave(self, sync: Sync, path: str, run_id: str) -> None:
        """Archive the file of a finished workflow; remove it from the archive if the workflow is active again."""
        if path in PARTS:
            self._archive(sync, path, run_id)
            return
        row = sync.store.read(lambda view: view.find_run(run_id))
        sync.base.forget(path)
        if row is not None and row.status in UNFINISHED:
            sync.remove(path)
            if not sync.files.list(os.path.dirname(path)):
                sync.remove_folder(os.path.dirname(path))

    def _archive(self, sync: Sync, path: str, run_id: str) -> None:
        """Move a file into its workflow's folder. The file of an unfinished workflow is synced there."""
        row = sync.store.read(lambda view: view.find_run(run_id))
        data, part = sync.base.read(path), PARTS[path]
        sync.base.forget(path)
        if data is not None:
            folder = f"{ARCHIVE}/{run_id}_{compact(sync.clock())}"
            folder = self._folder(sync, row, sync.state(row)) if row is not None else folder
            new = f"{folder}/{os.path.basename(path)}"
            sync.move(path, new)
            if row is not None:
                sync.base.remember(new, data, run_id, part)
            if row is not None and row.status not in UNFINISHED:  # the last write; then it is history
                document = write(self, sync.state(row))
                if part in document:
                    sync.put(new, self.complete(document[part], part), row, part)
                sync.base.forget(new)
        found = [(st.st_mtime_ns, name) for name, st in sync.files.list(ARCHIVE) if S_ISDIR(st.st_mode)]
        for _, name in sorted(found, reverse=True)[ARCHIVES:]:
            sync.remove_folder(f"{ARCHIVE}/{name}")
            for gone in [each for each in sync.base.files if each.startswith(f"{ARCHIVE}/{name}/")]:
                sync.base.forget(gone)

    def ignored(self, project: str) -> list[str]:
        return [f"{ROOT}/"]


def current(state: State) -> tuple[str, str]:
    """Return the phase that the run is in, and its status in our words."""
    for name in PHASES:
        status = state.step_record(name).get("status", "pending")
        if status not in DONE:
            begun = any(
                step.get("status") != "pending" or step.get("started_at") is not None
                for path, step in state.steps
                if path == name or path.startswith(f"{name}/")
            )
            return name, "running" if status == "pending" and begun else str(status)
    return PHASES[-1], "completed"


def _first_output(step: dict[str, Any]) -> Any:
    outputs = step.get("outputs")
    return outputs[0] if isinstance(outputs, list) and outputs else None


def _approvals(state: State) -> list[dict[str, Any]]:
    """Return the approvals of phases, in the order of the phases. A refusal is not written."""
    found = []
    for key, about in state.of("approval").items():
        known = about if isinstance(about, dict) else {}
        phase = known.get("phase") or key.partition("/")[0]
        if known and phase in PHASES and known.get("status", "approved") == "approved":
            when = known.get("approved_at") or known.get("at")
            rest = without(known, "phase", "approved_at", "at", "status")
            found.append((PHASES.index(phase), key, {"phase": phase, "approved_at": when, **rest}))
    return [entry for _, _, entry in sorted(found, key=lambda item: item[:2])]


# -- what the agents wrote


def output_of(phase: str, state: State, project: str) -> str | None:
    """Return the complete output of a phase: JSON that parses, or another file that is not empty."""
    for path in _written(f"{REPORTS}/{FINAL[phase]}", state, project) if phase in FINAL else ():
        full = os.path.join(project, path)
        if path.endswith(".json"):
            if _read_json(full) is not None:
                return path
        elif os.path.isfile(full) and os.path.getsize(full) > 0:
            return path
    return None


def _written(pattern: str, state: State, project: str) -> list[str]:
    """Return files that were written after the run began. Older ones belong to another run."""
    began = millis(state.run("created_at")) or 0
    found = sorted(glob(pattern, root_dir=project))
    return [path for path in found if os.stat(os.path.join(project, path)).st_mtime * 1000 >= began]


def _read_json(path: str) -> Any:
    """Return what a JSON file holds; ``None`` if there is none, or it is half written."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MOST_BYTES:
            return None
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):
        return None


def designs(state: State, project: str) -> list[str]:
    """Return the designs to choose from; none if one is final."""
    final = output_of(DESIGN, state, project)
    return _written(f"{REPORTS}/designs/*", state, project) if final is None else []


def chosen(state: State) -> str | None:
    """Return the design that a person chose."""
    about = state.of("approval").get(DESIGN)
    choice = about.get("choice") if isinstance(about, dict) and about.get("status") == "approved" else None
    return choice if isinstance(choice, str) else None


PROTOCOL = Dotagent()
