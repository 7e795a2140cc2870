"""BMAD's `workflow.xml` elements: `checkpoint-save`, `-update` and `-close`, from a text without a root.

The text is parsed here without an XML parser: there are no attributes, only the five entities, and nothing that could
grow. The second half applies events to a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from leftoff.dialects.bmad import DIALECT, STATUS
from leftoff.dialects.draft import fit_id, last_of, step_of
from leftoff.dialects.loose_values import Rejected, Repairs, meaning, shown
from leftoff.dialects.protocol import state_at
from leftoff.engine.read.state import Reader
from leftoff.engine.steps import lifecycle
from leftoff.engine.steps.reports import StepReport, step_changes
from leftoff.errors import LeftoffError
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import decode
from leftoff.model.ids import check_run_id
from leftoff.store.base import Store, Tx, View
from leftoff.store.rows import RunRow

FIELDS = {
    "checkpoint-save": ("run-id", "step-number", "variables", "status"),
    "checkpoint-update": ("run-id", "step-completed", "artefact", "next-step"),
    "checkpoint-close": ("run-id", "status", "summary"),
}
EVENTS = tuple(FIELDS)
STATUSES = ("running", "completed", "failed", "paused")  # the protocol's
MOST = 1 << 20  # characters
_SKIPPED = re.compile(r"\s+|<!--.*?-->|<\?.*?\?>", re.DOTALL)
_OPEN = re.compile(r"<([A-Za-z][\w.-]{0,60})\s*(/?)>")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|\w{1,10});")


@dataclass
class Event:
    """One element: its name, and the texts of its fields."""

    name: str
    fields: dict[str, str]

    @property
    def run_id(self) -> str | None:
        """Return the id of the run. Characters that an id cannot have are replaced, as in a document."""
        text = self.fields.get("run-id", "").strip()
        if not text:
            return None
        try:
            return check_run_id(fit_id(text))
        except LeftoffError:
            raise Rejected(f"<{self.name}>: {shown(text)} cannot name a run.") from None

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the run's id as it was written, if it had to be changed."""
        text = self.fields.get("run-id", "").strip()
        return (text,) if text != (self.run_id or "") and text.isprintable() else ()

    def status(self, default: str) -> str:
        word = self.fields.get("status", "").strip()
        if word and meaning(word) is None:
            raise Rejected(
                f"<{self.name}>: there is no status {shown(word)}; there are {', '.join(STATUSES)}."
            )
        return STATUS.read(word or None, default, Repairs(), "status")

    def check(self) -> None:
        """Raise if a field cannot be read."""
        self.run_id, self.status("running"), self.variables()
        for key in ("step-number", "step-completed", "next-step"):
            self.number(key)

    def number(self, key: str) -> int | None:
        text = self.fields.get(key, "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 6):
            raise Rejected(f"<{self.name}>: {key} must be a step's number, not {shown(text)}.")
        return int(text)

    def variables(self) -> dict[str, Any]:
        text = self.fields.get("variables", "").strip()
        if not text:
            return {}
        try:
            found = decode(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Rejected(f"<{self.name}>: variables must be an object in JSON, not {shown(text)}.")
        return found


def parse(text: str) -> list[Event]:
    """Return the events of an input, also inside a root element. Raise if one of them cannot be read."""
    if len(text) > MOST:
        raise Rejected(f"The input has more than {MOST:,} characters.")
    found = list(_events(text.lstrip("\ufeff")))
    for event in found:
        event.check()
    return found


def _events(text: str, root: str | None = None) -> Iterator[Event]:
    for name, inside in _elements(text, "This"):
        if name in EVENTS:
            yield Event(name, _fields(name, inside or ""))
        elif root is None and inside is not None:
            yield from _events(inside, name)
        else:
            raise Rejected(f"There is no event <{name}>; there are {', '.join(EVENTS)}.")


def _fields(event: str, text: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, inside in _elements(text, f"<{event}>: this"):
        if name not in FIELDS[event]:
            raise Rejected(f"<{event}> has no <{name}>; it has {', '.join(FIELDS[event])}.")
        out[name] = _plain(inside or "")
    return out


def _elements(text: str, what: str) -> Iterator[tuple[str, str | None]]:
    """Return the elements of a text and their content; ``None``: the element closes itself."""
    place = 0
    while place < len(text):
        if skipped := _SKIPPED.match(text, place):
            place = skipped.end()
            continue
        match = _OPEN.match(text, place)
        if match is None:
            raise Rejected(f"{what} is no element: {shown(text[place : place + 40])}.")
        name, end = match[1], "" if match[2] else f"</{match[1]}>"
        at = text.find(end, match.end())
        if at < 0:
            raise Rejected(f"<{name}> is not closed: the input is cut short.")
        yield name, text[match.end() : at] if end else None
        place = at + len(end)


def _plain(text: str) -> str:
    stripped = text.strip()
    if stripped.startswith("<![CDATA[") and stripped.endswith("]]>"):
        return stripped[9:-3]

    def entity(match: re.Match[str]) -> str:
        name = match[1]
        if name in _ENTITIES:
            return _ENTITIES[name]
        if name[0] == "#":
            code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
            if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000:
                return chr(code)
        raise Rejected(f"There is no entity {shown(match[0])}.")

    return _ENTITY.sub(entity, text)


# -- events on a run

ANNOUNCED = "announced"  # in the record of a step that was only named as the next one


def step_at(store: Store, view: View, row: RunRow, number: int) -> str:
    """Return the step of that number."""
    return step_of(state_at(store, view, row, DIALECT).leaves(), number)


def save(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, event: Event, at: int) -> None:
    """Record what is known before a step: variables, status, and the step that begins."""
    number = event.number("step-number")
    for key, value in event.variables().items():
        changes.put("variable", key, value)
    changes.put("run", "status", event.status("running"))
    if number is not None:
        path = step_at(store, tx, row, number)
        record = Reader(store, tx, row.run, row.run_id).value("step", path)
        if record is None or record.plain.get("status") not in ("running", "completed"):
            step_changes(store, tx, row, changes, StepReport("start", path), at)


def announce(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, number: int) -> None:
    """Declare the next step, unless the run has no more: the protocol also names one after the last step."""
    leaves = state_at(store, tx, row, DIALECT).leaves()
    total, path = row.card.get("total"), step_of(leaves, number)
    last = total if isinstance(total, int) else last_of(leaves)
    if (last is None or number <= last) and tx.row(row.run, "step", path) is None:
        lifecycle.put(changes, path, lifecycle.declare(number - 1, {ANNOUNCED: True}))


def forget_announced(store: Store, tx: Tx, row: RunRow, changes: ChangeSet) -> None:
    """Remove steps that were only announced, at the end of a run."""
    steps = lifecycle.steps_in(store, tx, row, changes, 0)
    for path, step in steps.all().items():
        if step.get("status") == "pending" and step.get(ANNOUNCED):
            steps.remove(path)
