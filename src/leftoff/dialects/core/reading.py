"""From the bytes of a file to a plain document: tolerant of what people write, never of what is cut short.

Everything that had to be changed to read it is a line in the report. What cannot be read, is too large, too deep, or
would grow without end, is rejected before it costs anything.
"""

from __future__ import annotations

import os
import re
import stat

from leftoff.dialects.core import json_text
from leftoff.dialects.core.repairs import Rejected, shown
from leftoff.errors import NotFound, StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.repairs import Repairs

MOST_BYTES = 50 * 10**6
FEW = 20  # values that are read as text where somebody wrote what is no YAML
MOST_DEPTH = 100
MOST_VALUES = 4_000_000
_HALF = re.compile(r"\\[uU]0*[dD][89a-fA-F]")
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig", ""),
    (b"\xff\xfe", "utf-16", "UTF-16"),
    (b"\xfe\xff", "utf-16", "UTF-16"),
)
YAML = (".yaml", ".yml")
GZIP = ".gz"


def read_bytes(path: str, first: int | None = None) -> bytes:
    """The content of a regular file, of bounded size; ``first``: only so many bytes, as they are."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            raise Rejected(f"{path} is no file that can be read.")
        if info.st_size > MOST_BYTES and first is None:
            raise Rejected(
                f"{path} has {info.st_size // 10**6} MB; more than {MOST_BYTES // 10**6} MB are not read."
            )
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1 if first is None else first)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no file {path}.", hint="Nothing was imported from it.") from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}.") from None
    return unpack(data, path) if path.endswith(GZIP) and first is None else data


def unpack(data: bytes, path: str) -> bytes:
    """What a gzip file holds, as far as it is not too much."""
    import zlib

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
    """As a file of that name holds it."""
    if not path.endswith(GZIP):
        return data
    import gzip

    return gzip.compress(data, mtime=0)


def read_packed(data: bytes, path: str, repairs: Repairs) -> dict[str, Any]:
    """The document in the bytes of a file, compressed where its name says so."""
    return read_document(unpack(data, path) if path.endswith(GZIP) else data, path, repairs)


def read_document(data: bytes, path: str, repairs: Repairs, *, lenient: bool = False) -> dict[str, Any]:
    """The document of a file; ``path`` names it, and says whether it is JSON or YAML. ``lenient``: values that are no
    YAML are read as text; for what is only read, and not written again."""
    if len(data) > MOST_BYTES:
        raise Rejected(f"{path} has more than {MOST_BYTES // 10**6} MB.")
    text = decode_text(data, path, repairs)
    name = path.removesuffix(GZIP)
    if name.endswith((".md", ".txt")):
        raise Rejected(f"{path} is a page for people, not a checkpoint.")
    value = _yaml(text, path, repairs, lenient) if name.endswith(YAML) else _json(text, path, repairs)
    if not isinstance(value, dict):
        raise Rejected(f"{path} holds {_kind(value)}, not a document with keys.")
    if not value:
        raise Rejected(f"{path} holds an empty document.")
    _need_bounded(value, path)
    return _whole_text(value, "", repairs) if _HALF.search(text) else value


def _yaml(text: str, path: str, repairs: Repairs, lenient: bool) -> Any:
    from leftoff.dialects.core import yaml_text  # PyYAML takes longer to load than most documents to read

    return yaml_text.parse(text, path, repairs, lenient=FEW if lenient else 0)


def _json(text: str, path: str, repairs: Repairs) -> Any:
    if not text.strip():
        raise Rejected(f"{path} is empty.")
    return json_text.parse(text, path, repairs)


def decode_text(data: bytes, path: str, repairs: Repairs) -> str:
    encoding, name = "utf-8", ""
    for mark, codec, told in _MARKS:
        if data.startswith(mark):
            encoding, name = codec, told
            repairs.add(f"it starts with a byte order mark{' of UTF-16' if name else ''}, which is left out.")
            break
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Rejected(f"{path} is not {name or 'UTF-8'} text, at byte {error.start}.") from None
    if "\0" in text:
        raise Rejected(f"{path} is no text: it has NUL bytes.")
    return text


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else f"only {shown(value)}"


def _need_bounded(value: Any, path: str) -> None:
    """Raise where it has too many values or levels: counted level by level, so that neither is ever walked."""
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
    """Half of a surrogate pair, which only an escape can bring, is no text: it is replaced, and told."""
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
