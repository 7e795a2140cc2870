"""What a run is after it was played: every record of it, now and at each of its checkpoints, ids and times aside.

Read through the Python API alone, so that it says of any store what anyone can see of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import leftoff

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
CHECKPOINT = re.compile(r"\b[0-9a-f]{12}\b")
SEQ = re.compile(r"(?<=@)\d+\b")
NOTE = re.compile(r"\d{15}-\d{4}(-[0-9a-f]+)?$")
SEEN = "seen"  # when a file was looked at, and its inode
TOKENS = ("token", "boot", "pid", "started", "namespace", "seq", "digest")

IS_THERE, NOT_THERE = "there", "not there"

Flat = dict[str, Any]  # `step/a.status`: a value


def told(folder: Path, run_id: str) -> Flat:
    """All that there is to compare of a run; nothing where there is none."""
    store = leftoff.open(folder / ".leftoff")
    words = {str(folder): "PROJECT", run_id: "RUN"}
    found: Flat = {}
    try:
        run = store.get(run_id)
        found.update(_flat(run, words))
        for name, version in _named(run.history()):
            found[f"{name}.note"] = same(version.note, words)
            found.update((f"{name}:{place}", value) for place, value in _flat(run.at(version), words))
    except leftoff.NotFound:
        pass
    finally:
        store.close()
    return found


def answer(name: str, value: Any, folder: Path) -> Flat:
    """What an operation answered: each part of it by its path."""
    if isinstance(value, list):
        value = {str(number): item for number, item in enumerate(value)}
    if not isinstance(value, dict):
        return {} if value is None else {name: same(value, {str(folder): "PROJECT"})}
    found: Flat = {}
    for key, item in same(value, {str(folder): "PROJECT"}).items():
        found.update(answer(f"{name} {key}", item, folder))
    return found


def _named(versions: list[leftoff.Version]) -> Iterator[tuple[str, leftoff.Version]]:
    """The checkpoints, the first one first: `checkpoint step_complete of a #1`."""
    count: Counter[str] = Counter()
    for version in reversed(versions):
        name = f"checkpoint {version.trigger}" + (f" of {version.step}" if version.step else "")
        count[name] += 1
        yield f"{name} #{count[name]}", version


def _flat(run: leftoff.RunView | leftoff.Snapshot, words: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for collection in run.records:
        records = run.records[collection]
        for number, key in enumerate(sorted(records)):
            name = f"#{number + 1}" if NOTE.match(key) else same(key, words)
            value = same(_plain(records, key), words)
            yield from _parts(f"{collection}/{name}", value if collection != "variable" else [value])


def _parts(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A record by its fields, and its error by those of that."""
    if not isinstance(value, dict):
        yield place, value
        return
    for field, part in value.items():
        yield from _parts(f"{place}.{field}", part) if field == "error" else [(f"{place}.{field}", part)]


def _plain(inside: Any, key: Any) -> Any:
    """An entry of a mapping or a list, with a word in place of what is redacted in it."""
    try:
        value = inside[key]
    except leftoff.Redacted:
        return "REDACTED"
    if isinstance(value, dict):
        return {name: _plain(value, name) for name in value}
    return [_plain(value, index) for index in range(len(value))] if isinstance(value, list) else value


def same(value: Any, words: Mapping[str, str]) -> Any:
    """A value without what is another each time."""
    if isinstance(value, str):
        for word, name in words.items():
            value = value.replace(word, name)
        return SEQ.sub("SEQ", CHECKPOINT.sub("CHECKPOINT", TIME.sub("TIME", value)))
    if isinstance(value, list):
        return [same(item, words) for item in value]
    if isinstance(value, dict):
        return {
            "NOTE" if NOTE.match(key) else key: "TOKEN"
            if key in TOKENS
            else "SEEN"
            if key == SEEN
            else same(item, words)
            for key, item in value.items()
        }
    return value


def differences(wanted: Flat, found: Flat) -> dict[str, tuple[Any, Any]]:
    """Where two runs differ: the place, and both values. Of a checkpoint or a record that only one has, only that."""
    out: dict[str, tuple[Any, Any]] = {}
    for whole in (_checkpoint, _record):
        known, there = ({whole(place) for place in side} for side in (wanted, found))
        for name in sorted(filter(None, known ^ there)):
            if _checkpoint(name) not in out:
                out[name] = (IS_THERE, NOT_THERE) if name in known else (NOT_THERE, IS_THERE)
    for place in sorted(wanted.keys() | found.keys()):
        if wanted.get(place, NOT_THERE) != found.get(place, NOT_THERE) and not out.keys() & {
            _checkpoint(place),
            _record(place),
        }:
            out[place] = (wanted.get(place, NOT_THERE), found.get(place, NOT_THERE))
    first, second = ([name for name in _order(side) if name not in out] for side in (wanted, found))
    if first != second:
        out["order of checkpoints"] = (first, second)
    return out


def _checkpoint(place: str) -> str | None:
    """The checkpoint that a place is in."""
    return re.split(r"(?<=#\d)[.:]", place)[0] if place.startswith("checkpoint ") else None


def _record(place: str) -> str | None:
    """The record that a place is in, with its checkpoint."""
    return re.sub(r"(\.error)?\.[^./:]+$", "", place) if "/" in place else None


def place_in(place: str) -> str:
    """A place without the checkpoint that it is in."""
    return place.split(":", 1)[1] if place.startswith("checkpoint ") and ":" in place else place


def _order(side: Flat) -> list[str]:
    return list(dict.fromkeys(name for place in side if (name := _checkpoint(place))))
