"""The words between leftoff and a model: errors and hints in terms of its tools, and the arguments that it passes.

A hint names commands. One that is a tool is said by the tool's name, an option as the argument of the same meaning;
any other command is left to a person at a shell. Models write one value where a list is meant, a number in quotes, or a
list as JSON text: an argument that can be meant in one way only is taken so. An unknown argument is an error.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import Any

from leftoff.engine.quoting import tame
from leftoff.errors import Ambiguous, LeftoffError, NotFound, Usage

_TOOLS = {
    "start": "start_run",
    "ls": "list_runs",
    "status": "list_runs",
    "show": "show_run",
    "diff": "show_run (compare_to)",
    "verify": "resume_run (check_only)",
    "resume": "resume_run",
    "note": "save_checkpoint",
    "finish": "finish_run",
    "set": "save_checkpoint (variables)",
    "save": "save_checkpoint",
    "next": "show_run (part: next)",
}
_STATUS = {"start": "running", "done": "completed", "fail": "failed", "block": "blocked", "skip": "skipped"}
_PHRASES = (
    (r"\(`start --resume`, leftoff\.resume\)", "(resume_run, or start_run with resume: true)"),
    (r"Use `leftoff start`, `pause` and `finish`", "Use start_run and finish_run"),
    (r"`leftoff run --fresh` or `start` begins a new run", "start_run begins a new run"),
    (r"Use --branch (?:'[^']*'|\S+), or --run (\S+)\.$", r"Pass run_id: \1."),
    (r"`leftoff approve RUN STEP` decides one that is waiting\.", "request_approval asks for one."),
    (r"; take_over=True follows", ""),
    (r" \(or --yes\)", ""),
    (
        r"--yes runs (.+?) again; --accept outputs\.missing continues without it\.",
        r'accept: ["outputs.missing"] continues without it; '
        r"report_step (step: \1, status: running) then runs it again.",
    ),
    (
        r"--from-step ('[^']*'|\S+) runs the step again",
        r"report_step (step: \1, status: running) then runs it again",
    ),
    (r"Give it again: --var \S+=…", "Give it again: save_checkpoint (variables)"),
    (r"--accept ([a-z_]+(?:\.[a-z_]+)+)", r'accept: ["\1"]'),
)
_COMMAND = re.compile(r"`leftoff ([a-z]+)((?: [^`]*)?)`(?! in a shell)")
_STEP = re.compile(r" (\w+) ('[^']*'|\S+)(?: --run (\S+))?$")


def for_a_model(text: str) -> str:
    """A hint or a message, in tools. Said twice it is the same."""
    for phrase, said in _PHRASES:
        text = re.sub(phrase, said, text)
    return _COMMAND.sub(_tool, text)


def _tool(found: re.Match[str]) -> str:
    verb, rest = found.groups()
    step = _STEP.fullmatch(rest) if verb == "step" else None
    if step is not None and step.group(1) in _STATUS:
        named = f", run_id: {step.group(3)}" if step.group(3) else ""
        return f"report_step (step: {step.group(2)}, status: {_STATUS[step.group(1)]}{named})"
    if verb in ("approve", "reject"):
        return found.group()  # it stands beside the word that only a person does it
    plain = " --" not in rest or verb in ("ls", "show", "start")
    return _TOOLS[verb] if verb in _TOOLS and plain else f"{found.group()} in a shell"


def told(error: LeftoffError) -> str:
    """What is wrong, and what to do about it. Names of things that others made stand in there."""
    if isinstance(error, Ambiguous):
        return tame(f"{error.whole} Say which one is meant: pass its run_id.")
    hint = error.hint
    if hint == Usage.default_hint:
        hint = "Nothing was changed."
    elif hint == LeftoffError.default_hint:
        hint = ""
    elif hint == NotFound.default_hint:
        hint = "list_runs lists the runs there are."
    blank = "" if hint.startswith("\n") else " "
    return tame(f"{for_a_model(error.whole)}{blank}{for_a_model(hint)}".strip())


# -- answers

MOST = 8000  # characters of an answer, about 2,000 tokens, unless the model asked for more
_LEAST = 300  # characters that an entry of a shortened list or object may have in any case


def compact(value: Any) -> str:
    """Return a value as the JSON text of an answer."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def bounded(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that is not longer than ``MOST``. ``left_out`` in it says what was left out of each part."""
    if len(compact(answer)) <= MOST:
        return answer
    left_out: dict[str, str] = {}
    short: dict[str, Any] = _fit(answer, MOST - 800, "", left_out)
    shown = dict(list(left_out.items())[:10])
    return {
        **short,
        "left_out": shown,
        "hint": "show_run has parts and pages; limit gives long texts in full.",
    }


def _fit(value: Any, room: int, path: str, left_out: dict[str, str]) -> Any:
    """Return a value with at most about ``room`` characters. Small entries of an object stay whole, large ones share
    what is left; a list keeps its first entries, a text its head and tail."""
    size = len(compact(value))
    if size <= room:
        return value
    if isinstance(value, str):
        half = max(room // 2 - 30, 40)
        return f"{value[:half]} … ({len(value):,} characters) … {value[-half:]}"
    if not isinstance(value, (dict, list)):
        return value
    entries = list(value.items() if isinstance(value, dict) else enumerate(value))
    if isinstance(value, dict):
        entries.sort(key=lambda entry: len(compact(entry[1])))
    kept: dict[Any, Any] = {}
    for number, (key, entry) in enumerate(entries):
        share = max(room // (len(entries) - number), min(_LEAST, room))
        place = f"{path}.{key}".lstrip(".") if isinstance(value, dict) else path
        piece = _fit(entry, share, place, left_out if isinstance(value, dict) else {})
        room -= len(compact(piece)) + len(str(key)) + 4
        if kept and room < 0:
            break
        kept[key] = piece
    if len(kept) < len(entries):
        left_out[path or "answer"] = f"{len(entries) - len(kept)} of {len(entries)} entries"
    if isinstance(value, list):
        return list(kept.values())
    return {key: kept[key] for key in value if key in kept}


# -- arguments

_WORDS = {
    "string": "a text", "integer": "a whole number", "boolean": "true or false", "array": "a list",
    "object": "an object",
}  # fmt: skip
_KINDS = ((bool, "boolean"), (int, "integer"), (str, "string"), (list, "array"), (dict, "object"))
_OTHER_NAMES = {"run": "run_id", "ref": "run_id", "message": "text", "vars": "variables", "var": "variables"}


def sorted_out(tool: str, schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for a tool. ``schema``: its own, as the model sees it."""
    known: dict[str, Any] = schema.get("properties", {})
    needed: list[str] = schema.get("required", [])
    takes = f"It takes {', '.join(f'{name} (needed)' if name in needed else name for name in known)}."
    out: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            other = _OTHER_NAMES.get(name)
            near = [other] if other in known else get_close_matches(name, known, 1, 0.5)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise Usage(f"{tool} has no argument {name!r}.", hint=f"Nothing was changed. {meant}{takes}")
        kinds = {kind["type"] for kind in _kinds(known[name])}
        if value is not None or not kinds or "null" in kinds:
            out[name] = _fitting(tool, name, known[name], value)
    missing = [name for name in needed if name not in out]
    if missing:
        raise Usage(f"{tool} needs {' and '.join(missing)}.", hint=takes)
    return out


def _kinds(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The kinds of value that a schema allows; none: any."""
    found = schema.get("anyOf", [schema])
    return [kind for kind in found if "type" in kind]


def _kind_of(value: Any) -> str:
    """Return the JSON type of a value. A float without a fraction counts as an integer."""
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    if value is None:
        return "null"
    return "integer" if isinstance(value, float) and value.is_integer() else "number"


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
