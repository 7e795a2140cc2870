"""The format, written a second time and plainly: what a value's bytes are, and what a state's digest is.

It shares no code with leftoff, so that a mistake in one of the two shows.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

Address = tuple[str, str]

SPREAD = 4096
VALUE_MAX = 1 << 20
STATUSES = ("pending", "running", "waiting", "completed", "failed", "blocked", "skipped")


NO_ARGUMENTS = f"sha256:{sha256(b'{}').hexdigest()}"  # the digest of a step that was called without any


def canon(value: Any, *, sort_keys: bool = True) -> str:
    """Canonical JSON: what two values must share to be the same."""
    return json.dumps(value, sort_keys=sort_keys, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def written(value: Any) -> str:
    """The text of a record: canonical JSON, but the result of a step keeps the order of its keys."""
    if not isinstance(value, dict) or not {"status", "result"} <= value.keys():
        return canon(value)
    parts = (f"{canon(key)}:{canon(value[key], sort_keys=key != 'result')}" for key in sorted(value))
    return "{" + ",".join(parts) + "}"


class Json:
    """One value that will not change any more, with its canonical text; an artifact also has its content's hash."""

    __slots__ = ("_terms", "content", "text", "value")

    def __init__(self, value: Any, content: bytes | None = None) -> None:
        self.text = written(value)
        self.value = json.loads(self.text)
        self.content = content
        self._terms: dict[Address, int] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and (self.text, self.content) == (other.text, other.content)

    def __hash__(self) -> int:
        return hash((self.text, self.content))

    def __repr__(self) -> str:
        return self.text if len(self.text) < 200 else f"{self.text[:150]}… ({len(self.text)} characters)"

    def stored(self) -> bytes:
        """The bytes of a record that holds this value whole."""
        if self.content is not None:
            return b"B" + sha256(self.content).digest() + self.text.encode()
        stored = b"J" + self.text.encode()
        return b"B" + sha256(stored).digest() if len(stored) > VALUE_MAX else stored

    def records(self, collection: str, key: str) -> dict[Address, bytes]:
        """Every record that this value takes."""
        large = collection == "variable" and isinstance(self.value, (list, dict))
        if not large or len(self.text.encode()) <= SPREAD:
            return {(collection, key): self.stored()}
        prefix = key.replace("%", "%25").replace("/", "%2F") + "/"
        out = {(collection, key): b"L" if isinstance(self.value, list) else b"D"}
        if isinstance(self.value, list):
            for index, entry in enumerate(self.value):
                out["item", f"{prefix}{index:010d}"] = Json(entry).stored()
        else:
            for name, entry in self.value.items():
                quoted = name.replace("%", "%25").replace("\0", "%00")
                out["item", prefix + quoted] = Json(entry).stored()
        return out

    def term(self, address: Address) -> int:
        """What this value adds to a digest."""
        if address not in self._terms:
            self._terms[address] = sum(
                int.from_bytes(sha256(f"{c}\0{k}\0".encode() + sha256(stored).digest()).digest(), "big")
                for (c, k), stored in self.records(*address).items()
            )
        return self._terms[address]


State = dict[Address, Json]


def digest(state: State) -> bytes:
    """The digest of a state: a sum over all of its records."""
    return (sum(value.term(address) for address, value in state.items()) % (1 << 256)).to_bytes(32, "big")


def counts(state: State) -> dict[str, int]:
    """How many leaf steps have which status."""
    paths = {key for collection, key in state if collection == "step"}
    leaves = [path for path in paths if not any(other.startswith(path + "/") for other in paths)]
    out = dict.fromkeys(STATUSES, 0)
    for path in leaves:
        out[state["step", path].value["status"]] += 1
    return out


def section(state: State, collection: str) -> dict[str, Json]:
    """One collection of a state, by key."""
    return {key: value for (kind, key), value in state.items() if kind == collection}


def plain(values: dict[str, Json]) -> dict[str, Any]:
    """Values as JSON, in key order."""
    return {key: values[key].value for key in sorted(values)}


def diff(old: State, new: State) -> dict[str, Any]:
    """What a diff between two states must say, as JSON."""
    named = {"variables": "variable", "steps": "step", "artifacts": "artifact", "files": "file"}
    out: dict[str, Any] = {name: _section_diff(old, new, word) for name, word in named.items()}
    others = {collection for collection, _ in [*old, *new]} - set(named.values())
    found = {word: _section_diff(old, new, word) for word in others}
    out["records"] = {word: part for word, part in found.items() if any(part.values())}
    return out


def _section_diff(old: State, new: State, collection: str) -> dict[str, Any]:
    left, right = section(old, collection), section(new, collection)
    files = collection in ("artifact", "file")
    return {
        "added": {k: _shown(right[k].value, files) for k in right if k not in left},
        "removed": {k: _shown(left[k].value, files) for k in left if k not in right},
        "changed": {
            k: {"from": _shown(left[k].value, files), "to": _shown(right[k].value, files)}
            for k in right
            if k in left and left[k] != right[k] and not (files and _same_file(left[k].value, right[k].value))
        },
    }


def _shown(value: Any, file: bool, *more: str) -> Any:
    """Of a file, without what the file system said of it."""
    if not file or not isinstance(value, dict):
        return value
    return {key: entry for key, entry in value.items() if key not in ("seen", *more)}


def _same_file(left: Any, right: Any) -> bool:
    """That a file was looked at again is no change."""
    return canon(_shown(left, True, "captured_at")) == canon(_shown(right, True, "captured_at"))
