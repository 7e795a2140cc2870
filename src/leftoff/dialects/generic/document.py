"""The generic reader: a state file of no protocol, as far as it tells of steps, which are done, and which is current.

It only reads: such files are imported and never kept in step. It says how it understood a file, so that a person can
judge it; a file that tells of no steps is rejected. BMAD's `sprint-status.yaml` is known by its keys; anything else
must be asked for (`--dialect generic`).
"""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.dialects.core.base import Dialect
from leftoff.dialects.core.draft import DONE
from leftoff.dialects.core.repairs import Rejected, shown
from leftoff.dialects.core.words import meaning, run_words, step_words
from leftoff.model.fields import Fields
from leftoff.model.ids import quote_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.dialects.core.draft import Draft, State

SPRINT = "development_status"  # of BMAD's sprint-status.yaml: epics and stories with their status
_LISTS = (
    SPRINT,
    *"steps phases tasks stages milestones stories todos items workflow_status features".split(),
)
_NAMES = ("id", "name", "title", "key", "step", "phase", "task", "description")
_STATUS = ("status", "state", "phase_status", "progress_status")
_KINDS = ("steps", "phases", "tasks", "stages", "items", "todos")
_DONE = (*(f"completed_{kind}" for kind in _KINDS), "completed", "done", "completedSteps", "completedPhases")
_LEFT = (*(f"{word}_{kind}" for word in ("pending", "remaining") for kind in _KINDS), "pending", "remaining")
_CURRENT = (*(f"current_{kind[:-1]}" for kind in _KINDS), "current", "currentStep", "currentPhase", "active")
_TIMES = tuple(
    "updated_at last_updated lastUpdated updated timestamp last_activity saved_at date created_at started_at".split()
)
_IDS = (
    "run_id",
    "workflow_id",
    "session_id",
    "sessionId",
    "checkpoint_id",
    "id",
    "project",
    "name",
    "workflow",
)
_SPRINT_WORDS = dict.fromkeys(("backlog", "drafted", "ready-for-dev", "contexted"), "pending")
_SPRINT_WORDS |= {"review": "running", "optional": "skipped"}
STEPS, STATUS = step_words({}), run_words({})
_DEEPEST = 3  # levels in which lists of steps are looked for


class Understood(Fields):
    """Where a document tells of its steps, and what it says of each: its name, its word for how far it is, and where
    that was found."""

    where: str
    items: list[tuple[str, Any]]
    done: list[Any]
    done_where: str | None
    current: Any
    current_where: str | None


class Generic(Dialect):
    name = "generic"
    about = "any state file with steps, phases or tasks and their status; BMAD's sprint-status.yaml"
    example = (
        "session-state.json",
        {
            "steps": [{"name": "plan", "status": "done"}, {"name": "build", "status": "todo"}],
            "current_step": "build",
        },
    )

    def recognise(self, document: dict[str, Any], path: str) -> int:
        found = document.get(SPRINT)
        return (
            60 if isinstance(found, dict) and found and all(isinstance(v, str) for v in found.values()) else 0
        )

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        return understand(document) is not None

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        found = understand(document)
        if found is None:
            raise Rejected(f"{draft.source.path} tells of no steps, phases or tasks with a status.")
        stem = draft.source.name.partition(".")[0]
        given = next(
            (document[key] for key in _IDS if isinstance(document.get(key), str) and document[key]), stem
        )
        draft.name(given if len(given) <= 60 else stem)
        draft.run("workflow", stem)
        draft.run("title", given)
        draft.run("branch", "main")
        time = next((key for key in _TIMES if document.get(key) is not None), None)
        draft.at = draft.time(document, time) if time is not None else None
        if draft.at is not None:
            draft.run("created_at", iso(draft.at))
        statuses = self._steps(draft, found)
        self._run_status(draft, document, statuses)
        draft.repairs.add(told(found, time))

    @staticmethod
    def _steps(draft: Draft, found: Understood) -> list[str]:
        out = []
        done = {str(entry) for entry in found.done if isinstance(entry, (str, int))}
        for number, (name, said) in enumerate(found.items):
            word = _SPRINT_WORDS.get(said, said) if isinstance(said, str) else said
            status = "completed" if said is True else STEPS.read(word, "pending", draft.repairs, name)
            if name in done or str(number + 1) in done:
                status = "completed"
            elif status == "pending" and found.current in (name, number + 1, str(number + 1)):
                status = "running"
            if not draft.put("step", quote_part(name), {"status": status, "order": number}):
                draft.repairs.add(f"{found.where}: {shown(name)} is there twice, or cannot be a name.")
            out.append(status)
        return out

    @staticmethod
    def _run_status(draft: Draft, document: dict[str, Any], statuses: list[str]) -> None:
        if statuses and all(status in DONE for status in statuses):
            draft.run("status", "completed")
        else:
            said = document.get("status")
            ours = STATUS.read(said, "paused", draft.repairs, "status") if isinstance(said, str) else "paused"
            draft.run("status", "paused" if ours == "completed" else ours)

    def encode(self, state: State) -> dict[str, Any]:
        return {}  # it is never written: what a document says is kept as it is written


def understand(document: dict[str, Any]) -> Understood | None:
    """How a document is read; ``None``: it tells of no steps."""
    done_where, done = next(_found(document, _DONE, list), (None, []))
    current_where, current = next(_found(document, _CURRENT, (str, int)), (None, None))
    for where, value in _found(document, _LISTS, (list, dict)):
        items = _items(value)
        if items and (any(said is not None for _, said in items) or done or current is not None):
            return Understood(where, items, done, done_where, current, current_where)
    if done_where is None or not _plain(done):
        return None
    left_where, left = next(_found(document, _LEFT, list), (None, []))
    items = [(str(entry)[:200], "completed") for entry in done]
    items += [(str(entry)[:200], "pending") for entry in left if _plain([entry])]
    if isinstance(current, str) and current not in (name for name, _ in items):
        items.append((current, "running"))
    where = done_where if left_where is None else f"{done_where} and {left_where}"
    return Understood(where, items, [], None, current, current_where)


def _plain(entries: list[Any]) -> bool:
    return bool(entries) and all(isinstance(entry, (str, int)) and entry != "" for entry in entries)


def _found(
    value: Any, keys: tuple[str, ...], kind: Any, path: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Entries of these names and kinds, the outer ones first."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    for key in keys:
        if isinstance(value.get(key), kind) and not isinstance(value[key], bool):
            yield f"{path}{key}", value[key]
    for key, inner in value.items():
        yield from _found(inner, keys, kind, f"{path}{key}.", depth + 1)


def _items(value: Any) -> list[tuple[str, Any]]:
    """The names of what is listed, each with its word for how far it is."""
    if isinstance(value, dict):
        known = [(str(key), _status(item)) for key, item in value.items()]
        return known if known and any(meaning(said) or said in _SPRINT_WORDS for _, said in known) else []
    out = []
    for number, item in enumerate(value):
        if isinstance(item, str) and item.strip():
            out.append((item.strip()[:200], None))
        elif isinstance(item, dict):
            name = next(
                (item[key] for key in _NAMES if isinstance(item.get(key), (str, int)) and item[key] != ""),
                number + 1,
            )
            out.append((str(name)[:200], _status(item)))
    return out


def _status(item: Any) -> Any:
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        for key in _STATUS:
            if isinstance(item.get(key), str):
                return item[key]
        for key in ("completed", "done", "passed"):
            if isinstance(item.get(key), bool):
                return item[key] or "pending"
    return True if item is True else None


def told(found: Understood, time: str | None) -> str:
    """How the file was understood."""
    parts = [f"{len(found.items)} steps from {found.where}"]
    if found.done_where is not None and found.done_where != found.where:
        parts.append(f"what is done from {found.done_where}")
    if found.current_where is not None:
        parts.append(f"the current one from {found.current_where}")
    if time is not None:
        parts.append(f"its time from {time}")
    return f"read as a file of no protocol: {', '.join(parts)}."


DIALECT = Generic()
