#!/usr/bin/env python3
"""Print the messages and hints of all errors and findings, collected from the source, as Markdown.

It finds the calls of error classes and of `Finding`, and of functions whose annotation names one as the result.
`{name}` stands for a value. A text that the code assembles elsewhere is not found. `tools/prose.py` and
tests/unit/test_messages.py read this list.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from leftoff import errors  # noqa: E402 - of this tree
from leftoff.engine.findings import CODES, NEVER_YES, is_fixed  # noqa: E402

CLASSES = {
    name: one
    for name, one in vars(errors).items()
    if isinstance(one, type) and issubclass(one, errors.LeftoffError)
}
INTRODUCTION = "# Messages\n"


def render() -> str:
    """Return the list as a Markdown page."""
    said: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for path in sorted((ROOT / "src").rglob("*.py")):
        for kind, message, hint in _messages(ast.parse(path.read_text())):
            said[kind].add((message, hint))
    parts = [INTRODUCTION]
    parts += [_of_error(one, said[name]) for name, one in CLASSES.items()]
    parts.append(_of_findings(said))
    return "\n".join(parts)


def _of_error(one: type[errors.LeftoffError], said: set[tuple[str, str]]) -> str:
    lines = [f"## {one.code}", "", f"`{one.__name__}`, exit code {one.exit_code}.", ""]
    if one.default_hint:
        lines += [f"What to do, unless a message says otherwise: {one.default_hint}", ""]
    return "\n".join(lines + _listed(said))


def _of_findings(said: dict[str, set[tuple[str, str]]]) -> str:
    lines = ["## Findings", "", "What `leftoff verify` and `resume` find.", ""]
    for code, level in CODES.items():
        notes = [f"level `{level}`", *(["fixed"] if is_fixed(code) else [])]
        notes += ["not answered by `--yes`"] if code in NEVER_YES else []
        lines += [f"### {code}", "", f"{', '.join(notes)}".capitalize() + ".", ""]
        lines += _listed(said[code]) or ["Says what was found, in the words of the error or the step.", ""]
    return "\n".join(lines)


def _listed(said: set[tuple[str, str]]) -> list[str]:
    lines = [f"- {message}" + (f"<br>*{hint}*" if hint else "") for message, hint in sorted(said)]
    return [*lines, ""] if lines else []


def _messages(module: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield the class name or code, the message and the hint of each message in a module."""
    makers, known = _makers(module), _texts(module.body)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    for scope in (module, *functions):
        names = {**known, **_texts(ast.walk(scope))} if scope is not module else known
        for call in _calls(scope):
            name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            kind = name if name in CLASSES else makers.get(name) or _of_a_file(call.func)
            found = _finding(call, names) if name == "Finding" else kind and _error(call, kind, names)
            if found:
                yield found[0], _tidy(found[1]), _tidy(found[2])


def _of_a_file(func: ast.expr) -> str | None:
    """Return the error class of a call that reports a problem in a workflow file, or None."""
    match func:
        case ast.Attribute(attr="add" | "at" | "place" | "doubt" | "fatal", value=value):
            return "BadDefinition" if _name(value) == "problems" else None
    return None


def _finding(call: ast.Call, names: dict[str, str]) -> tuple[str, str, str] | None:
    given: dict[str | None, ast.expr] = dict(zip(("code", "message", "hint"), call.args, strict=False))
    given.update({keyword.arg: keyword.value for keyword in call.keywords})
    code = _text(given.get("code"), names)
    if code not in CODES:
        return None
    message = _text(given["message"], names) or f"{{{_name(given['message'])}}}"
    return code, message, _text(given.get("hint"), names)


def _error(call: ast.Call, kind: str, names: dict[str, str]) -> tuple[str, str, str] | None:
    named = {keyword.arg: _text(keyword.value, names) for keyword in call.keywords}
    texts = [text for text in (_text(arg, names) for arg in call.args) if " " in text]
    message = named.get("message") or (texts[0] if texts else "")
    made = getattr(call.func, "id", "") not in CLASSES  # by a function that takes the hint as a further text
    return (
        (kind, message, named.get("hint") or (" ".join(texts[1:]) if made else ""))
        if " " in message
        else None
    )


def _calls(scope: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a function, without those in functions inside it."""
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        todo += ast.iter_child_nodes(node)


def _makers(module: ast.Module) -> dict[str, str]:
    """Return the functions of a module that return an error, with the name of its class."""
    found = {}
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name=name, returns=ast.Name(id=kind)) if kind in CLASSES:
                found[name] = kind
    return found


def _texts(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return the texts that are assigned to names."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = _text(node.value, {})
            if " " in text or text in CODES:
                found.setdefault(node.targets[0].id, text)
    return found


def _text(node: ast.expr | None, names: dict[str, str]) -> str:
    """Return a text as it is written, with `{name}` for values; empty if the node is not a text."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_piece(value, names) for value in values)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return "".join(_text(side, names) or f"{{{_name(side)}}}" for side in (left, right))
        case ast.IfExp(body=body, orelse=orelse):
            return " / ".join(text for text in (_text(body, names), _text(orelse, names)) if text)
        case ast.BoolOp(values=values):
            return next((text for text in (_text(value, names) for value in values) if text), "")
        case ast.Call(func=ast.Attribute(value=value, attr="rstrip" | "strip" | "format")):
            return _text(value, names)
        case ast.Name(id=name):
            return names.get(name, "")
    return ""


def _tidy(text: str) -> str:
    """Return the text on one line, escaped for Markdown."""
    parts = " ".join(text.split()).split("`")  # every second one is code
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def _piece(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    shown = _text(node.value, names)
    return shown if " " in shown and " / " not in shown and "{…}" not in shown else f"{{{_name(node.value)}}}"


def _name(node: ast.expr) -> str:
    """Return the name of a value: its last word."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Call(func=ast.Attribute(attr="join"), args=[first]) | ast.Call(args=[first, *_]):
            return _name(first)
        case ast.Call(func=func):
            return _name(func)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Subscript(value=value) | ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            return _name(value)
        case ast.BoolOp(values=[first, *_]) | ast.IfExp(body=first) | ast.BinOp(left=first):
            return _name(first)
    return "…"


if __name__ == "__main__":
    print(render())
