"""bmad's `workflow.xml` elements, from a text without a root: `checkpoint-save`, `-update` and `-close`.

The text is taken apart here, without a parser for XML: there are no attributes, no entities but the five, and nothing
that could grow or lead anywhere. What is said of a run becomes the same reports that `start`, `step` and `finish` make.
"""

from __future__ import annotations

import re

from leftoff.dialects.bmad.document import STATUS
from leftoff.dialects.draft import fit_id
from leftoff.dialects.loose_values import Rejected, Repairs, meaning, shown
from leftoff.errors import LeftoffError
from leftoff.model.codec import decode
from leftoff.model.fields import Fields
from leftoff.model.ids import check_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

EVENTS = ("checkpoint-save", "checkpoint-update", "checkpoint-close")
FIELDS = {
    "checkpoint-save": ("run-id", "step-number", "variables", "status"),
    "checkpoint-update": ("run-id", "step-completed", "artefact", "next-step"),
    "checkpoint-close": ("run-id", "status", "summary"),
}
STATUSES = ("running", "completed", "failed", "paused")  # the protocol's
MOST = 1 << 20  # characters
_SKIPPED = re.compile(r"\s+|<!--.*?-->|<\?.*?\?>", re.DOTALL)
_OPEN = re.compile(r"<([A-Za-z][\w.-]{0,60})\s*(/?)>")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|\w{1,10});")


class Event(Fields):
    """One element: its name, and the texts in it."""

    name: str
    fields: dict[str, str]

    @property
    def run_id(self) -> str | None:
        """The run that is meant; characters that no id can have are replaced, as in a document."""
        text = self.fields.get("run-id", "").strip()
        if not text:
            return None
        try:
            return check_run_id(fit_id(text))
        except LeftoffError:
            raise Rejected(f"<{self.name}>: {shown(text)} cannot name a run.") from None

    @property
    def aliases(self) -> tuple[str, ...]:
        """The run's id as it was written, where it cannot be one: another name of what is sealed."""
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
        """Whether all of it can be read."""
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
    """The events of an input, in order; also inside a root of their own. All of them can be read, or none is given."""
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
    """The elements that make up a text, and what is in them; ``None`` in one that has no end of its own."""
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
