"""How a state file of no protocol is understood: where it tells of steps, which are done, and which is current.

Names of entries are compared without regard to case and what joins their words: `completedTasks`, `tasks_completed` and
`completed-tasks` are one. What is further out, and has a status, counts first.
"""

from __future__ import annotations

import re

from leftoff.dialects.loose_values import meaning
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

SPRINT = "development_status"  # of BMAD's sprint-status.yaml: epics and stories with their status
PLANNED = "workflow_status"  # of BMAD's bmm-workflow-status.yaml: workflows with their status, or the file they made
_KINDS = "steps phases tasks stages milestones stories todos items features actions workflows".split()
_ONE = {kind: {"stories": "story"}.get(kind, kind[:-1]) for kind in _KINDS}
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
_DEEPEST = 3  # levels in which lists of steps are looked for


class Understood(Fields):
    """Where a document tells of its steps, and what it says of each: its name, its word for how far it is, and where
    that was found."""

    where: str
    items: list[tuple[str, Any]]
    done: list[str]
    done_where: str | None
    current: Any
    current_where: str | None


def understand(document: dict[str, Any]) -> Understood | None:
    """How a document is read; ``None``: it tells of no steps."""
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
        return Understood(f"{numbered[0][0]} to {numbered[-1][0]}", numbered, [], None, None, None)
    return _by_lists(document, (done_where, finished), (current_where, current))


def _by_lists(
    document: dict[str, Any], done: tuple[str | None, list[str]], current: tuple[str | None, Any]
) -> Understood | None:
    """What is done, what is left and what is current are listed apart."""
    left_where, left = next(_found(document, _is_left, list), (None, []))
    items: list[tuple[str, Any]] = [(name, "completed") for name in done[1]]
    known = {*done[1]}
    items += [(name, "pending") for name, _ in _items(left) if name not in known]
    known |= {name for name, _ in items}
    if isinstance(current[1], str) and current[1].strip() and current[1] not in known:
        items.append((current[1].strip()[:200], "running"))
    if not items:
        return None
    named = [where for where in (done[0], left_where) if where is not None] or [str(current[0])]
    return Understood(" and ".join(named), items, [], None, *reversed(current))


def _plain(key: str) -> str:
    return "".join(char for char in key.lower() if char.isalnum())


def _words(key: str, firsts: tuple[str, ...]) -> bool:
    """Whether an entry is called by one of these words, alone or beside what they are said of."""
    plain = _plain(key)
    return any(
        plain in (word, *(f"{word}{kind}" for kind in _KINDS), *(f"{kind}{word}" for kind in _KINDS))
        for word in firsts
    )


def _is_done(key: str) -> bool:
    return _words(key, _DONE)


def _is_left(key: str) -> bool:
    return _words(key, _LEFT)


def _is_current(key: str) -> bool:
    plain = _plain(key).removesuffix("id")
    ones = (*_ONE.values(), "issue", "ticket")
    return any(plain in (word, *(f"{word}{one}" for one in ones)) for word in ("current", "active"))


def _current(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is worked on: `current_step: build`, or `active_issue: {"number": 55, "title": "build"}`."""
    for where, value in _found(document, _is_current, (str, int, dict)):
        named = value.get("title", value.get("name")) if isinstance(value, dict) else value
        if isinstance(named, (str, int)):
            yield where, named


def _is_list(key: str) -> bool:
    plain = _plain(key)
    own = plain in (_plain(SPRINT), _plain(PLANNED)) or plain.endswith(tuple(_KINDS))
    return own and not _is_done(key) and not _is_left(key)


def _found(
    value: Any, wanted: Callable[[str], bool], kind: Any, path: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Entries of these names and kinds, the outer ones first."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    for key, inner in value.items():
        if isinstance(inner, kind) and not isinstance(inner, bool) and wanted(key):
            yield f"{path}{key}", inner
    for key, inner in value.items():
        yield from _found(inner, wanted, kind, f"{path}{key}.", depth + 1)


def _items(value: Any, *, planned: bool = False) -> list[tuple[str, Any]]:
    """The names of what is listed, each with its word for how far it is."""
    if isinstance(value, dict):
        known = [(str(key), _status(item)) for key, item in value.items()]
        if planned:  # a file that is there is the word for what is done
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
    """A line such as `✓ reviewer 13:53 issues:0`: what it begins with counts before what it reports."""
    said = str(value).strip() if isinstance(value, (str, int)) else None
    return _status(value) if said is None else "completed" if said[:1] in "✓✔✅" and said else said


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
