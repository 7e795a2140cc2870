"""Read the bytes of a file into a plain document, and write a document as text. JSON or YAML, also with gzip.

Reading repairs what people write wrong, with a line in the report for each repair. A text that is cut short, too large,
too deep or that grows without end is rejected.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import zlib
from dataclasses import dataclass
from typing import Any

from leftoff.dialects.loose_values import Rejected, Repairs, shown
from leftoff.errors import NotFound, StoreUnavailable

MOST_BYTES = 50 * 10**6
MOST_DEPTH = 100
MOST_VALUES = 4_000_000
MOST_NODES = 2_000_000  # of YAML
_FEW = 20  # unquoted values of a file that are not YAML and are read as text
_HALF = re.compile(r"\\[uU]0*[dD][89a-fA-F]")
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig", ""),
    (b"\xff\xfe", "utf-16", "UTF-16"),
    (b"\xfe\xff", "utf-16", "UTF-16"),
)
_YAML = (".yaml", ".yml")
_GZIP = ".gz"


# -- files


def read_bytes(path: str, first: int | None = None) -> bytes:
    """Return the unpacked content of a regular file. ``first``: only so many bytes of it, not unpacked."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            raise Rejected(f"{path} is no file that can be read.")
        if info.st_size > MOST_BYTES and first is None:
            size = info.st_size // 10**6
            raise Rejected(f"{path} has {size} MB; more than {MOST_BYTES // 10**6} MB are not read.")
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1 if first is None else first)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no file {path}.", hint="Nothing was imported from it.") from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}.") from None
    return unpack(data, path) if first is None else data


def unpack(data: bytes, path: str) -> bytes:
    """Return the content of a file, decompressed if its name ends in `.gz`."""
    if not path.endswith(_GZIP):
        return data
    inflate = zlib.decompressobj(wbits=31)
    try:
        out = inflate.decompress(data, MOST_BYTES + 1)
    except zlib.error:
        raise Rejected(f"{path} is no gzip file.") from None
    if len(out) > MOST_BYTES:
        raise Rejected(f"{path} unpacks to more than {MOST_BYTES // 10**6} MB.")
    if not inflate.eof:
        raise Rejected(f"{path} is cut short.")
    return out


def pack(data: bytes, path: str) -> bytes:
    """Return the bytes that a file of this name holds."""
    return gzip.compress(data, mtime=0) if path.endswith(_GZIP) else data


def read_packed(data: bytes, path: str, repairs: Repairs) -> dict[str, Any]:
    """Return the document in the bytes of a file, which may be compressed."""
    return read_document(unpack(data, path), path, repairs)


def read_document(data: bytes, path: str, repairs: Repairs, *, lenient: bool = False) -> dict[str, Any]:
    """Return the document of a file. ``path`` names it and tells JSON from YAML.

    ``lenient``: read unquoted values that are not YAML as text. Only for a file that is not written again.
    """
    if len(data) > MOST_BYTES:
        raise Rejected(f"{path} has more than {MOST_BYTES // 10**6} MB.")
    text = decode_text(data, path, repairs)
    name = path.removesuffix(_GZIP)
    if name.endswith((".md", ".txt")):
        raise Rejected(f"{path} is a page for people, not a checkpoint.")
    if name.endswith(_YAML):
        value = parse_yaml(text, path, repairs, lenient=_FEW if lenient else 0)
    elif not text.strip():
        raise Rejected(f"{path} is empty.")
    else:
        value = parse_json(text, path, repairs)
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "nothing" if value is None else f"only {shown(value)}"
        raise Rejected(f"{path} holds {kind}, not a document with keys.")
    if not value:
        raise Rejected(f"{path} holds an empty document.")
    _need_bounded(value, path)
    return _whole_text(value, "", repairs) if _HALF.search(text) else value


def decode_text(data: bytes, path: str, repairs: Repairs) -> str:
    encoding, name = "utf-8", ""
    for mark, codec, said in _MARKS:
        if data.startswith(mark):
            encoding, name = codec, said
            repairs.add(f"it starts with a byte order mark{' of UTF-16' if name else ''}, which is left out.")
            break
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Rejected(f"{path} is not {name or 'UTF-8'} text, at byte {error.start}.") from None
    if "\0" in text:
        raise Rejected(f"{path} is no text: it has NUL bytes.")
    return text


def _need_bounded(value: Any, path: str) -> None:
    """Raise if a document has too many values or levels. Counts level by level, without recursion."""
    level, total = [value], len(value)
    for _ in range(MOST_DEPTH):
        level = [
            item
            for inside in level
            for item in (inside.values() if type(inside) is dict else inside)
            if type(item) is dict or type(item) is list
        ]
        total += sum(map(len, level))
        if total > MOST_VALUES:
            raise Rejected(f"{path} has more than {MOST_VALUES:,} values.")
        if not level:
            return
    if any(level):
        raise Rejected(f"{path} is nested more than {MOST_DEPTH} levels deep.")


def _whole_text(value: Any, where: str, repairs: Repairs, depth: int = 0) -> Any:
    """Replace halves of surrogate pairs, which only an escape can bring and no store can hold."""
    if isinstance(value, str):
        good = value.encode("utf-8", "replace").decode()
        if good != value:
            repairs.add(f"{shown(where)}: half of a surrogate pair is replaced by '?'.")
        return good
    if isinstance(value, dict):
        return {
            _whole_text(key, where, repairs): _whole_text(
                item, key if depth < 3 else where, repairs, depth + 1
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_whole_text(item, where, repairs, depth + 1) for item in value]
    return value


# -- JSON

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BAD = re.compile(r'\\(?:[^"\\/bfnrtu]|u(?![0-9a-fA-F]{4}))')
_SINGLE = re.compile(r'(\\\\|\\")|\\')


def parse_json(text: str, path: str, repairs: Repairs) -> Any:
    """Read JSON with duplicate keys, Windows paths with single backslashes, raw line breaks or NaN."""
    try:
        try:
            return _load_json(text, repairs, strict=True)
        except json.JSONDecodeError as error:
            return _mend_json(text, repairs, error)
    except RecursionError:
        raise Rejected(f"{path} is nested too deep.") from None
    except json.JSONDecodeError as error:
        raise Rejected(f"{path}:{error.lineno}:{error.colno}: this is not JSON: {error.msg}.") from None
    except ValueError as error:
        raise Rejected(f"{path} is not JSON that can be read: {str(error).partition(';')[0]}.") from None


def _mend_json(text: str, repairs: Repairs, first: json.JSONDecodeError) -> Any:
    """Read a text again whose strings have wrong backslashes or raw control characters."""
    if "escape" not in first.msg and "control character" not in first.msg:
        raise first
    mended_texts: list[str] = []

    def mend(match: re.Match[str]) -> str:
        inside = match[1]
        if not _BAD.search(inside):
            return match[0]
        mended_texts.append(inside)
        return '"' + _SINGLE.sub(lambda m: m[1] or "\\\\", inside) + '"'

    mended = _STRING.sub(mend, text)
    value = _load_json(mended, repairs, strict=False)
    for inside in mended_texts[:5]:
        repairs.add(f"{shown(inside)}: a backslash that starts no escape is read as itself.")
    if len(mended_texts) > 5:
        repairs.add(f"{len(mended_texts) - 5} more texts have a backslash that starts no escape.")
    if "control character" in first.msg or mended == text:
        repairs.add(f"line {first.lineno}: a raw control character in a text is read as itself.")
    return value


def _load_json(text: str, repairs: Repairs, *, strict: bool) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) != len(items):
            seen: dict[str, Any] = {}
            for key, value in items:
                if key in seen:
                    repairs.add(f"{shown(key)} is there twice; the last one counts, not {shown(seen[key])}.")
                seen[key] = value
        return out

    def number(word: str) -> Any:
        value = float(word)
        return value if value - value == 0 else odd(word)

    def odd(word: str) -> str:
        repairs.add(f"{word} is no number in JSON; read as text.")
        return word

    return json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=odd, strict=strict)


def dump_json(document: Any) -> str:
    """Return a document as the protocols show theirs: two spaces, text as it is."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


# -- YAML
#
# The values are built from PyYAML's events. Its constructors recurse in C, turn `12:18` into 738, and keep the last of
# two equal keys without a word. Here no tag makes an object, dates and `yes` are texts, and aliases cannot grow.

_BARE = re.compile(r"(\s*(?:- )*[^\s:#'\"][^:#]*:\s+)([^\s'\"|>].*)\Z")  # an entry whose value has no quotes
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,4000})\Z")
_FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]\d{1,4})?\Z")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True}
_WORDS.update({"TRUE": True, "false": False, "False": False, "FALSE": False})
_PLAIN_TAGS = ("!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass
class _Open:
    """A list or a mapping that is being read."""

    value: Any
    anchor: str | None
    key: Any = None
    has_key: bool = False
    nodes: int = 1


class _YamlBuilder:
    """Builds documents from YAML events."""

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
            if event.anchor is not None:
                self.anchors[event.anchor] = (value, 1)
            self._add(value, 1, event)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            if event.tag is not None and event.tag not in _PLAIN_TAGS:
                self._report(event, f"the tag {shown(event.tag)} is left out.")
            if len(self.stack) >= MOST_DEPTH:
                raise Rejected(f"{self.path} is nested more than {MOST_DEPTH} levels deep.")
            self.stack.append(_Open([] if kind[0] == "S" else {}, event.anchor))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            done = self.stack.pop()
            if done.anchor is not None:
                self.anchors[done.anchor] = (done.value, done.nodes)
            self._add(done.value, done.nodes, event, counted=True)
        elif kind == "AliasEvent":
            if event.anchor not in self.anchors:
                raise Rejected(f"{self.path}: the alias *{event.anchor} refers to nothing that is complete.")
            self._add(*self.anchors[event.anchor], event)
        elif kind == "DocumentStartEvent":
            self.anchors = {}

    def _report(self, event: Any, line: str) -> None:
        self.repairs.add(f"line {event.start_mark.line + 1}: {line}")

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
            if here.key in here.value:
                old = shown(here.value[here.key])
                self._report(event, f"{shown(here.key)} is there twice; the last one counts, not {old}.")
            here.value[here.key] = value
            here.has_key = False

    def _key(self, value: Any, event: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, (dict, list)):
            raise Rejected(f"{self.path}:{event.start_mark.line + 1}: a key is a list or a mapping.")
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        self._report(event, f"the key {text} is read as text.")
        return text

    def _scalar(self, event: Any) -> Any:
        if event.tag is not None:
            if event.tag in ("!", "tag:yaml.org,2002:str"):
                return event.value
            self._report(event, f"the tag {shown(event.tag)} is left out.")
        return event.value if event.style in ("'", '"', "|", ">") else plain_yaml(event.value)


def plain_yaml(text: str) -> Any:
    """Return the value of a word without quotes: null, a truth value, a number, else text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text):
        value = float(text)
        return value if value - value == 0 else text
    return text


def parse_yaml(text: str, path: str, repairs: Repairs, *, lenient: int = 0) -> Any:
    """Return the document in a text. ``lenient``: how many unquoted values that are not YAML are read as text."""
    import yaml  # loading PyYAML takes longer than reading most documents

    found = Repairs()
    builder = _YamlBuilder(path, found)
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.event(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        lines = text.split("\n")
        bare = _BARE.match(lines[mark.line]) if lenient and mark and mark.line < len(lines) else None
        if bare is not None and mark is not None:
            value = bare[2].strip()
            repairs.add(f"line {mark.line + 1}: {shown(value)} is no YAML; read as text.")
            lines[mark.line] = f"{bare[1]}'{value.replace(chr(39), chr(39) * 2)}'"
            return parse_yaml("\n".join(lines), path, repairs, lenient=lenient - 1)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise Rejected(f"{path}{where}: this is not YAML: {error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise Rejected(f"{path}: this is not YAML: {str(error).splitlines()[0]}.") from None
    for line in found.lines:
        repairs.add(line)
    documents = [document for document in builder.documents if document is not None]
    return documents[0] if len(documents) == 1 else _join(documents, path, repairs) if documents else None


def _join(documents: list[Any], path: str, repairs: Repairs) -> dict[str, Any]:
    """Merge several documents of one file. A later one wins."""
    if not all(isinstance(document, dict) for document in documents):
        raise Rejected(f"{path} holds {len(documents)} documents, not all of which have keys.")
    repairs.add(
        f"{len(documents)} documents in one file are read as one; where they differ, the last one counts."
    )
    out: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            if key in out and out[key] != value:
                repairs.add(f"{shown(key)} is in two of them; the last one counts, not {shown(out[key])}.")
            out[key] = value
    return out


def dump_yaml(document: Any) -> str:
    """Write a document in block style, with its keys in their order and without aliases."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    out = yaml.dump(
        document, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1000
    )
    return str(out)
