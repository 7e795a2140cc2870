"""YAML from its events: no tags, no dates, no ``yes``; aliases only as far as they stay small; keys twice are told.

The values are put together here rather than by PyYAML's constructors: those recurse in C, turn ``12:18`` into 738, and
keep the last of two equal keys without a word.
"""

from __future__ import annotations

import re

import yaml

from leftoff.dialects.core.repairs import Rejected, Repairs, shown
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_DEPTH = 100
MOST_NODES = 2_000_000
_BARE = re.compile(r"(\s*(?:- )*[^\s:#'\"][^:#]*:\s+)([^\s'\"|>].*)\Z")  # an entry whose value has no quotes
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,4000})\Z")
_FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]\d{1,4})?\Z")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True}
_WORDS.update({"TRUE": True, "false": False, "False": False, "FALSE": False})
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc]
    """Nothing is written as an alias: whoever edits the file by hand need not know them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Open(Fields):
    """A list or a mapping that is being read."""

    value: Any
    anchor: str | None
    key: Any = None
    has_key: bool = False
    nodes: int = 1


class _Builder:
    def __init__(self, path: str, repairs: Repairs) -> None:
        self.path = path
        self.repairs = repairs
        self.documents: list[Any] = []
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.nodes = 0

    def event(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "ScalarEvent":
            value = self._scalar(event)
            self._anchor(event.anchor, value, 1)
            self._add(value, 1, event)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            self._check_tag(event)
            if len(self.stack) >= MOST_DEPTH:
                raise Rejected(f"{self.path} is nested more than {MOST_DEPTH} levels deep.")
            self.stack.append(_Open([] if kind[0] == "S" else {}, event.anchor))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            done = self.stack.pop()
            self._anchor(done.anchor, done.value, done.nodes)
            self._add(done.value, done.nodes, event, counted=True)
        elif kind == "AliasEvent":
            if event.anchor not in self.anchors:
                raise Rejected(f"{self.path}: the alias *{event.anchor} refers to nothing that is complete.")
            self._add(*self.anchors[event.anchor], event)
        elif kind == "DocumentStartEvent":
            self.anchors = {}

    def _anchor(self, name: str | None, value: Any, nodes: int) -> None:
        if name is not None:
            self.anchors[name] = (value, nodes)

    def _add(self, value: Any, nodes: int, event: Any, *, counted: bool = False) -> None:
        self.nodes += 1 if counted else nodes
        if self.nodes > MOST_NODES:
            raise Rejected(f"{self.path} grows to more than {MOST_NODES:,} values.")
        if not self.stack:
            self.documents.append(value)
            return
        here = self.stack[-1]
        here.nodes += nodes
        if isinstance(here.value, list):
            here.value.append(value)
        elif not here.has_key:
            here.key, here.has_key = self._key(value, event), True
        else:
            self._entry(here, value, event)

    def _entry(self, here: _Open, value: Any, event: Any) -> None:
        key = here.key
        if key in here.value:
            line = event.start_mark.line + 1
            self.repairs.add(
                f"line {line}: {shown(key)} is there twice; the last one counts, not {shown(here.value[key])}."
            )
        here.value[key] = value
        here.has_key = False

    def _key(self, value: Any, event: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, (dict, list)):
            raise Rejected(f"{self.path}:{event.start_mark.line + 1}: a key is a list or a mapping.")
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        self.repairs.add(f"line {event.start_mark.line + 1}: the key {text} is read as text.")
        return text

    def _check_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            self.repairs.add(f"line {event.start_mark.line + 1}: the tag {shown(event.tag)} is left out.")

    def _scalar(self, event: Any) -> Any:
        if event.tag is not None:
            if event.tag in ("!", "tag:yaml.org,2002:str"):
                return event.value
            self.repairs.add(f"line {event.start_mark.line + 1}: the tag {shown(event.tag)} is left out.")
        if event.style in ("'", '"', "|", ">"):
            return event.value
        return plain(event.value)


def plain(text: str) -> Any:
    """What a word without quotes means: null, a truth value, a number, else text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text):
        value = float(text)
        return value if value - value == 0 else text
    return text


def parse(text: str, path: str, repairs: Repairs, *, lenient: int = 0) -> Any:
    """The document in a text. ``lenient``: so many values without quotes that are no YAML are read as text."""
    found = Repairs()
    builder = _Builder(path, found)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.event(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        quoted = _quoted(text, mark.line, repairs) if lenient and mark is not None else None
        if quoted is not None:
            return parse(quoted, path, repairs, lenient=lenient - 1)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise Rejected(f"{path}{where}: this is not YAML: {error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise Rejected(f"{path}: this is not YAML: {str(error).splitlines()[0]}.") from None
    for line in found.lines:
        repairs.add(line)
    return _joined(builder, path, repairs)


def _quoted(text: str, number: int, repairs: Repairs) -> str | None:
    """The text with the value of one line in quotes; ``None`` where that line has none, or it is in quotes."""
    lines = text.split("\n")
    found = _BARE.match(lines[number]) if number < len(lines) else None
    if found is None:
        return None
    value = found[2].strip()
    repairs.add(f"line {number + 1}: {shown(value)} is no YAML; read as text.")
    lines[number] = f"{found[1]}'{value.replace(chr(39), chr(39) * 2)}'"
    return "\n".join(lines)


def _joined(builder: _Builder, path: str, repairs: Repairs) -> Any:
    """Several documents in one file are read as one: what a later one says counts."""
    found = [document for document in builder.documents if document is not None]
    if len(found) < 2:
        return found[0] if found else None
    if not all(isinstance(document, dict) for document in found):
        raise Rejected(f"{path} holds {len(found)} documents, not all of which have keys.")
    repairs.add(
        f"{len(found)} documents in one file are read as one; where they differ, the last one counts."
    )
    out: dict[str, Any] = {}
    for document in found:
        for key, value in document.items():
            if key in out and out[key] != value:
                repairs.add(f"{shown(key)} is in two of them; the last one counts, not {shown(out[key])}.")
            out[key] = value
    return out


def dump(document: Any) -> str:
    """Block style, keys in their order, text as it is."""
    out = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1000
    )
    return str(out)
