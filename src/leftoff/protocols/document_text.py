"""Read the bytes of a file into a plain document, and write a document as text. JSON or YAML, also with gzip.

Reading repairs what people write wrong, with a line in the report for each repair. A text that is truncated or
too large is rejected.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import zlib
from typing import Any

from leftoff.errors import NotFound, StoreUnavailable
from leftoff.protocols.loose_values import Rejected, Repairs, shown_under, shown_value

MOST_BYTES = 50 * 10**6
MOST_DEPTH = 100
_YAML = (".yaml", ".yml")
_GZIP = ".gz"


# -- files


def read_bytes(path: str, first: int | None = None) -> bytes:
    """Return the content of a regular file. ``first``: only so many bytes of it."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            raise Rejected(f"{path} is no file that can be read.")
        if info.st_size > MOST_BYTES and first is None:
            size = info.st_size // 10**6
            raise Rejected(f"{path} has {size} MB; more than {MOST_BYTES // 10**6} MB are not read.")
        with open(path, "rb") as file:
            return file.read(MOST_BYTES + 1 if first is None else first)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no file {path}.", hint="Nothing was imported from it.") from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}.") from None


def _unpack(data: bytes, path: str) -> bytes:
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


def read_document(data: bytes, path: str, repairs: Repairs) -> dict[str, Any]:
    """Return the document in the bytes of a file. Its name says whether it is JSON or YAML, and packed."""
    data = _unpack(data, path)
    if len(data) > MOST_BYTES:
        raise Rejected(f"{path} has more than {MOST_BYTES // 10**6} MB.")
    text = _decode(data, path, repairs)
    name = path.removesuffix(_GZIP)
    if name.endswith((".md", ".txt")):
        raise Rejected(f"{path} is a page for people, not a checkpoint.")
    if name.endswith(_YAML):
        from leftoff.protocols.document_yaml import parse_yaml  # loads PyYAML

        value = parse_yaml(text, path, repairs)
    elif not text.strip():
        raise Rejected(f"{path} is empty.")
    else:
        value = parse_json(text, path, repairs)
    if not isinstance(value, dict) or not value:
        raise Rejected(f"{path} holds no document with keys.")
    level: list[Any] = [value]
    for _ in range(MOST_DEPTH):  # deeper ones would exhaust the stack of what reads them
        inside = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
        level = [item for item in inside if isinstance(item, (dict, list))]
    if any(level):
        raise Rejected(f"{path} is nested more than {MOST_DEPTH} levels deep.")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Rejected(f"{path} has half of a surrogate pair, which is no character.") from None
    return value


def _decode(data: bytes, path: str, repairs: Repairs) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Rejected(f"{path} is not UTF-8 text, at byte {error.start}.") from None
    if text.startswith("\ufeff"):
        text = text[1:]
        repairs.add("it starts with a byte order mark, which is left out.")
    if "\0" in text:
        raise Rejected(f"{path} is no text: it has NUL bytes.")
    return text


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

    def mend(match: re.Match[str]) -> str:
        inside = match[1]
        if not _BAD.search(inside):
            return match[0]
        repairs.add(f"{shown_value(inside)}: a backslash that starts no escape is read as itself.")
        return '"' + _SINGLE.sub(lambda m: m[1] or "\\\\", inside) + '"'

    mended = _STRING.sub(mend, text)
    value = _load_json(mended, repairs, strict=False)
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
                    old = shown_under(key, seen[key])
                    repairs.add(f"{shown_value(key)} is there twice; the last one counts, not {old}.")
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
