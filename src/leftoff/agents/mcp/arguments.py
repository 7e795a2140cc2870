"""What a model passed to a tool, made what the tool takes; or said in plain words what is wrong with it.

Models write one value where a list is meant, a number in quotes, a list as the text of one: what can be meant in one
way only is taken so. A name that is none is never passed over: what it said would be lost.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any

from leftoff.errors import Usage

_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_OTHER_NAMES = {"run": "run_id", "ref": "run_id", "message": "text", "vars": "variables", "var": "variables"}


def sorted_out(tool: str, schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments for a tool. ``schema``: its own, as it is shown to the model."""
    known: dict[str, Any] = schema.get("properties", {})
    needed: list[str] = schema.get("required", [])
    out: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise _no_such(tool, name, known, needed)
        if value is not None or _takes(known[name], "null"):
            out[name] = _fitting(tool, name, known[name], value)
    missing = [name for name in needed if name not in out]
    if missing:
        raise Usage(f"{tool} needs {' and '.join(missing)}.", hint=_all(known, needed))
    return out


def _no_such(tool: str, name: str, known: dict[str, Any], needed: list[str]) -> Usage:
    other = _OTHER_NAMES.get(name)
    near = [other] if other in known else get_close_matches(name, known, 1, 0.5)
    meant = f"Did you mean {near[0]}? " if near else ""
    return Usage(
        f"{tool} has no argument {name!r}.", hint=f"Nothing was changed. {meant}{_all(known, needed)}"
    )


def _all(known: dict[str, Any], needed: list[str]) -> str:
    return f"It takes {', '.join(f'{name} (needed)' if name in needed else name for name in known)}."


def _kinds(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The kinds of value that a schema allows; none: any."""
    found = schema.get("anyOf", [schema])
    return [kind for kind in found if "type" in kind]


def _takes(schema: dict[str, Any], kind: str) -> bool:
    kinds = _kinds(schema)
    return not kinds or any(known["type"] == kind for known in kinds)


def _kind_of(value: Any) -> str:
    for kind, name in (
        (bool, "boolean"),
        (int, "integer"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    ):
        if isinstance(value, kind):
            return name
    return (
        "null"
        if value is None
        else "integer"
        if isinstance(value, float) and value.is_integer()
        else "number"
    )


def _fitting(tool: str, name: str, schema: dict[str, Any], value: Any) -> Any:
    """The value as the tool takes it."""
    kinds = _kinds(schema)
    for attempt in _readings(value, {kind["type"] for kind in kinds}):
        for kind in kinds:
            if kind["type"] == _kind_of(attempt):
                if kind["type"] == "array":
                    return [
                        _fitting(tool, f"{name}[{n}]", kind.get("items", {}), v)
                        for n, v in enumerate(attempt)
                    ]
                return int(attempt) if kind["type"] == "integer" else attempt
    if not kinds:
        return value
    wanted = " or ".join(_WORDS[kind["type"]] for kind in kinds if kind["type"] in _WORDS)
    raise Usage(
        f"{name} must be {wanted}, not {_shown(value)}.", hint=f"Nothing was changed. Call {tool} again."
    )


def _readings(value: Any, kinds: set[str]) -> list[Any]:
    """What a value can mean, the plainest first: a text may be the JSON of something else."""
    out = [value]
    if isinstance(value, str) and (value[:1] in ("[", "{") or "string" not in kinds):
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            return out
        wanted = _kind_of(read) in kinds and not isinstance(read, str)
        return [read, value] if wanted and _kind_of(read) in ("array", "object") else [value, read]
    return out


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"
