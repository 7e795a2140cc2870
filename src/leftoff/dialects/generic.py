"""Read a state file of no protocol: where it names steps, which of them are done, and which is current.

Such files are only imported, never kept in sync. The report says how a file was understood; a file without steps is
rejected. BMAD's `sprint-status.yaml` is recognised; for any other file the user says `--dialect generic`.

Names of fields are compared without case and separators: `completedTasks`, `tasks_completed` and `completed-tasks` are
the same. Outer lists with a status count first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from leftoff.clock import iso
from leftoff.dialects.draft import DONE, Draft, State
from leftoff.dialects.loose_values import Rejected, meaning, run_words, shown, step_words
from leftoff.dialects.protocol import Dialect
from leftoff.model.ids import quote_part

_TIMES = (
    *"updated_at last_updated lastUpdated lastCheckpoint updated timestamp last_activity saved_at".split(),
    *"date created_at started_at generated".split(),
)
_IDS = "run_id workflow_id session_id sessionId checkpoint_id id project name workflow".split()
STEPS, STATUS = step_words({}), run_words({})
SPRINT = "development_status"  # of BMAD's sprint-status.yaml: epics and stories with their status
PLANNED = (
    "workflow_status"  # of BMAD's bmm-workflow-status.yaml: workflows with a status, or the file they made
)
_KINDS = "steps phases tasks stages milestones stories todos items features actions workflows".split()
_ONE = (*(kind[:-1] if kind != "stories" else "story" for kind in _KINDS), "issue", "ticket")
_DONE = ("completed", "done", "finished")
_LEFT = ("pending", "remaining", "next", "upcoming", "planned", "open", "todo")
_NAMES = ("id", "name", "title", "key", "step", "phase", "task", "description")
_STATUS = ("status", "state", "phase_status", "progress_status", "verified")
_NUMBERED = re.compile(r"(?:p|phase|step|stage)[ _-]?\d{1,3}\Z", re.IGNORECASE)
_FILE = re.compile(r"[^\s]+\.[A-Za-z0-9]{1,5}\Z")
#: words of BMAD's own files
WORDS = dict.fromkeys(
    "backlog drafted ready-for-dev contexted required recommended conditional".split(), "pending"
)
WORDS |= {"review": "running", "optional": "skipped"}
_DEEPEST = 3  # levels in which lists of steps are searched


@dataclass
class Understood:
    """Where a document names its steps, and what it says of each: its name, and its word for the status."""

    where: str
    items: list[tuple[str, Any]]
    done: list[str] = field(default_factory=list)
    done_where: str | None = None
    current: Any = None
    current_where: str | None = None

    def line(self, time: str | None) -> str:
        """Return how the file was understood."""
        parts = [f"{len(self.items)} steps from {self.where}"]
        if self.done_where is not None and self.done_where != self.where:
            parts.append(f"what is done from {self.done_where}")
        if self.current_where is not None:
            parts.append(f"the current one from {self.current_where}")
        if time is not None:
            parts.append(f"its time from {time}")
        return f"read as a file of no protocol: {', '.join(parts)}."


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
        sprint = isinstance(found, dict) and found and all(isinstance(v, str) for v in found.values())
        return 60 if sprint else 0

    def way(self, document: dict[str, Any]) -> str | None:
        found = understand(document)
        return f"{len(found.items)} steps from {found.where}" if found is not None else None

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        return understand(document) is not None

    def foreign(self, path: str, keys: str) -> str:
        return f"{path} tells of no steps, phases or tasks, done, left or current; its keys are {keys}."

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        found = understand(document)
        if found is None:
            raise Rejected(self.foreign(draft.source.path, ", ".join(map(shown, list(document)[:5]))))
        stem = draft.source.name.partition(".")[0]
        named = (document[key] for key in _IDS if isinstance(document.get(key), str) and document[key])
        given = next(named, stem)
        draft.name(given if len(given) <= 60 else stem)
        draft.run("workflow", stem)
        draft.run("title", given)
        draft.run("branch", "main")
        time = next((key for key in _TIMES if document.get(key) is not None), None)
        draft.at = draft.time(document, time) if time is not None else None
        if draft.at is not None:
            draft.run("created_at", iso(draft.at))
        statuses, done = [], {*found.done}
        for number, (name, said) in enumerate(found.items):
            word = WORDS.get(said, said) if isinstance(said, str) else said
            status = "completed" if said is True else STEPS.read(word, "pending", draft.repairs, name)
            if name in done or str(number + 1) in done:
                status = "completed"
            elif status == "pending" and found.current in (name, number + 1, str(number + 1)):
                status = "running"
            if not draft.put("step", quote_part(name), {"status": status, "order": number}):
                draft.repairs.add(f"{found.where}: {shown(name)} is there twice, or cannot be a name.")
            statuses.append(status)
        said, ours = document.get("status"), "paused"
        if statuses and all(status in DONE for status in statuses):
            ours = "completed"
        elif isinstance(said, str):
            ours = STATUS.read(said, "paused", draft.repairs, "status")
            ours = "paused" if ours == "completed" else ours
        draft.run("status", ours)
        draft.repairs.add(found.line(time))

    def encode(self, state: State) -> dict[str, Any]:
        return {}  # never written; all fields are in `extra`


def understand(document: dict[str, Any]) -> Understood | None:
    """Return how a document is read; ``None``: it names no steps."""
    done_where, done = next(_found(document, _is_done, list), (None, []))
    current_where, current = next(_current(document), (None, None))
    finished = [name for name, _ in _items(done)]
    for where, value in _found(document, _is_list, (list, dict)):
        items = _items(value, planned=where.endswith(PLANNED))
        if items and (any(said is not None for _, said in items) or finished or current is not None):
            known = {name for name, _ in items}
            more = [(name, "completed") for name in finished if name not in known and not name.isdigit()]
            return Understood(where, [*more, *items], finished, done_where, current, current_where)
    numbered = [(key, _log(value)) for key, value in document.items() if _NUMBERED.match(key)]
    if numbered and any(meaning(said) for _, said in numbered):
        return Understood(f"{numbered[0][0]} to {numbered[-1][0]}", numbered)
    # what is done, left and current is listed apart
    left_where, left = next(_found(document, _is_left, list), (None, []))
    listed: list[tuple[str, Any]] = [(name, "completed") for name in finished]
    known = {*finished}
    listed += [(name, "pending") for name, _ in _items(left) if name not in known]
    if isinstance(current, str) and current.strip() and current not in dict(listed):
        listed.append((current.strip()[:200], "running"))
    if not listed:
        return None
    named = [where for where in (done_where, left_where) if where is not None] or [str(current_where)]
    return Understood(" and ".join(named), listed, current=current, current_where=current_where)


def _plain(key: str) -> str:
    return "".join(char for char in key.lower() if char.isalnum())


def _is_called(key: str, firsts: tuple[str, ...]) -> bool:
    """Return whether a field is called by one of these words, alone or next to a kind: `completedTasks`."""
    plain = _plain(key)
    return any(
        plain in (word, *(f"{word}{kind}" for kind in _KINDS), *(f"{kind}{word}" for kind in _KINDS))
        for word in firsts
    )


def _is_done(key: str) -> bool:
    return _is_called(key, _DONE)


def _is_left(key: str) -> bool:
    return _is_called(key, _LEFT)


def _is_current(key: str) -> bool:
    plain = _plain(key).removesuffix("id")
    return any(plain in (word, *(f"{word}{one}" for one in _ONE)) for word in ("current", "active"))


def _is_list(key: str) -> bool:
    plain = _plain(key)
    own = plain in (_plain(SPRINT), _plain(PLANNED)) or plain.endswith(tuple(_KINDS))
    return own and not _is_done(key) and not _is_left(key)


def _current(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Find the current step: `current_step: build`, or `active_issue: {"number": 55, "title": "build"}`."""
    for where, value in _found(document, _is_current, (str, int, dict)):
        named = value.get("title", value.get("name")) if isinstance(value, dict) else value
        if isinstance(named, (str, int)):
            yield where, named


def _found(
    value: Any, wanted: Callable[[str], bool], kind: Any, path: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Find fields of these names and kinds, the outer ones first."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    for key, inner in value.items():
        if isinstance(inner, kind) and not isinstance(inner, bool) and wanted(key):
            yield f"{path}{key}", inner
    for key, inner in value.items():
        yield from _found(inner, wanted, kind, f"{path}{key}.", depth + 1)


def _items(value: Any, *, planned: bool = False) -> list[tuple[str, Any]]:
    """Return the names of what is listed, each with its word for the status."""
    if isinstance(value, dict):
        known = [(str(key), _status(item)) for key, item in value.items()]
        if planned:  # the path of a file means: done
            known = [(key, "completed" if _FILE.match(str(said)) else said) for key, said in known]
        return known if known and any(meaning(said) or said in WORDS for _, said in known) else []
    out = []
    for number, item in enumerate(value):
        if isinstance(item, (str, int)) and not isinstance(item, bool) and str(item).strip():
            out.append((str(item).strip()[:200], None))
        elif isinstance(item, dict):
            names = (item[key] for key in _NAMES if isinstance(item.get(key), (str, int)) and item[key] != "")
            out.append((str(next(names, number + 1))[:200], _status(item)))
    return out


def _status(item: Any) -> Any:
    if isinstance(item, dict):
        for key in _STATUS:
            if isinstance(item.get(key), str):
                return item[key]
        for key in ("completed", "done", "passed"):
            if isinstance(item.get(key), bool):
                return item[key] or "pending"
        return "completed" if isinstance(item.get("completed_at"), str) else None
    return item if isinstance(item, str) else True if item is True else None


def _log(value: Any) -> Any:
    """Read a line such as `✓ reviewer 13:53 issues:0`: its beginning counts more than what it reports."""
    said = str(value).strip() if isinstance(value, (str, int)) else None
    return _status(value) if said is None else "completed" if said[:1] in "✓✔✅" and said else said


DIALECT = Generic()
