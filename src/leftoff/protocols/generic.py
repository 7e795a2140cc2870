"""Read a state file of no protocol: where it names steps, which of them are done, and which is current.

Such files are only imported, never kept in sync. The report says how a file was understood; a file without steps is
rejected. BMAD's `sprint-status.yaml` is recognised; for any other file the user says `--dialect generic`.

Names of fields are compared without case and separators: `completedTasks`, `tasks_completed` and `completed-tasks` are
the same. Outer lists with a status count first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from leftoff.clock import iso
from leftoff.model.ids import quote_part
from leftoff.protocols.document_draft import DONE, Draft, State
from leftoff.protocols.loose_values import Rejected, meaning, run_words, shown, step_words
from leftoff.protocols.protocol import Dialect

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


class Understood(NamedTuple):
    """Where a document names its steps, each with its word for the status; the step that is current; and in words."""

    where: str
    items: list[tuple[str, Any]]
    current: Any
    line: str


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
        statuses = []
        for number, (name, said) in enumerate(found.items):
            word = WORDS.get(said, said) if isinstance(said, str) else said
            status = "completed" if said is True else STEPS.read(word, "pending", draft.repairs, name)
            if status == "pending" and found.current in (name, number + 1, str(number + 1)):
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
        when = f", its time from {time}" if time is not None else ""
        draft.repairs.add(f"read as a file of no protocol: {found.line}{when}.")

    def encode(self, state: State) -> dict[str, Any]:
        return {}  # never written; all fields are in `extra`


def understand(document: dict[str, Any]) -> Understood | None:
    """Return how a document is read; ``None``: it names no steps."""
    fields = list(_fields(document))
    done_where, done = next(_lists(fields, "done"), (None, []))
    left_where, left = next(_lists(fields, "left"), (None, []))
    current_where, current = next(_current(fields), (None, None))
    finished = [name for name, _ in _items(done)]
    also = f", the current one from {current_where}" if current_where is not None else ""
    for where, value in _lists(fields, "all", dict):
        items = _items(value, planned=where.endswith(PLANNED))
        if items and (any(said is not None for _, said in items) or finished or current is not None):
            names = [name for name, _ in items]
            more = [(name, "completed") for name in finished if name not in names and not name.isdigit()]
            items = [
                (name, "completed" if name in finished or str(number) in finished else said)
                for number, (name, said) in enumerate(items, 1)
            ]
            if done_where is not None and done_where != where:
                also = f", what is done from {done_where}{also}"
            items = [*more, *items]
            return Understood(where, items, current, f"{len(items)} steps from {where}{also}")
    numbered = [(key, _log(value)) for key, value in document.items() if _NUMBERED.match(key)]
    if numbered and any(meaning(said) for _, said in numbered):
        where = f"{numbered[0][0]} to {numbered[-1][0]}"
        return Understood(where, numbered, None, f"{len(numbered)} steps from {where}")
    # what is done, left and current is listed apart
    listed = dict.fromkeys(finished, "completed")
    for name, _ in _items(left):
        listed.setdefault(name, "pending")
    if isinstance(current, str) and current.strip():
        listed.setdefault(current.strip()[:200], "running")
    if not listed:
        return None
    named = [where for where in (done_where, left_where) if where is not None] or [str(current_where)]
    where = " and ".join(named)
    return Understood(where, list(listed.items()), current, f"{len(listed)} steps from {where}{also}")


def _fields(document: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Return the fields of a document with their paths and what their names mean, the outer ones first."""
    level: list[tuple[str, dict[str, Any]]] = [("", document)]
    for _ in range(_DEEPEST + 1):
        inner: list[tuple[str, dict[str, Any]]] = []
        for path, inside in level:
            for key, value in inside.items():
                yield f"{path}{key}", _role(key), value
                if isinstance(value, dict):
                    inner.append((f"{path}{key}.", value))
        level = inner


def _role(key: str) -> str:
    """Return what a field lists, by its name, whatever its case, separators and order of words."""
    plain = _plain(key)
    for role, words in (("done", _DONE), ("left", _LEFT)):
        for word in words:
            if plain == word or any(plain in (f"{word}{kind}", f"{kind}{word}") for kind in _KINDS):
                return role
    one = plain.removesuffix("id")
    if any(one in (word, *(f"{word}{kind}" for kind in _ONE)) for word in ("current", "active")):
        return "current"
    is_list = plain in (_plain(SPRINT), _plain(PLANNED)) or plain.endswith(tuple(_KINDS))
    return "all" if is_list else ""


def _plain(key: str) -> str:
    return "".join(char for char in key.lower() if char.isalnum())


def _lists(fields: list[tuple[str, str, Any]], wanted: str, *kinds: type) -> Iterator[tuple[str, Any]]:
    return (
        (where, value)
        for where, role, value in fields
        if role == wanted and isinstance(value, (list, *kinds))
    )


def _current(fields: list[tuple[str, str, Any]]) -> Iterator[tuple[str, Any]]:
    """Find the current step: `current_step: build`, or `active_issue: {"number": 55, "title": "build"}`."""
    for where, role, value in fields:
        named = value.get("title", value.get("name")) if isinstance(value, dict) else value
        if role == "current" and isinstance(named, (str, int)) and not isinstance(named, bool):
            yield where, named


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
