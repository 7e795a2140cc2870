"""The items of a `foreach`: where they come from, and what each is called.

Items are looked up once, when the step is reached, and recorded: a resumed run has the items it began with, whatever
the pattern would match by now.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from itertools import product
from typing import Any

from leftoff.engine.redaction.redactor import Redactor
from leftoff.engine.steps import lifecycle
from leftoff.errors import BadDefinition, BadTemplate, Invalid
from leftoff.model.ids import quote_part
from leftoff.workflow.definition.graph import Graph
from leftoff.workflow.definition.model import Step, Workflow
from leftoff.workflow.template.template_words import is_template
from leftoff.workflow.template.templates import Templates, value_text

_NAMES = ("id", "name", "key", "path", "title")
_LONGEST = 200


def find(step: Step, templates: Templates, values: dict[str, Any], project: str) -> list[Any] | None:
    """The items; ``None`` where a command must run to know them."""
    foreach = step.foreach
    assert foreach is not None
    where = f"{step.path}: foreach"
    if foreach.kind == "command":
        return None
    if foreach.kind == "list":
        return [
            templates.render(item, values, where) if isinstance(item, str) else item for item in foreach.value
        ]
    if foreach.kind == "matrix":
        return _combined(foreach.value, templates, values, where)
    if foreach.kind == "variable":
        return _listed(templates.value(foreach.value, values, where), where)
    text = templates.render(foreach.value, values, where)
    if foreach.kind == "lines":
        return lines_of(os.path.join(project, text), text, where)
    found = sorted(glob.glob(text, root_dir=project, recursive=True))
    if not found and not foreach.allow_empty:
        raise Invalid(
            f"{where}: nothing matches {text}.",
            hint="The pattern is relative to the project's folder. If none is fine: {glob: …, allow_empty: true}.",
        )
    return found


def _combined(axes: dict[str, Any], templates: Templates, values: dict[str, Any], where: str) -> list[Any]:
    """One item for each combination, the last name changing fastest."""
    lists = []
    for axis in axes.values():
        if isinstance(axis, str):
            lists.append(_listed(templates.value(axis, values, where), where))
        else:
            lists.append([templates.render(e, values, where) if isinstance(e, str) else e for e in axis])
    return [dict(zip(axes, chosen, strict=True)) for chosen in product(*lists)]


def check_first(workflow: Workflow, variables: dict[str, Any], project: str) -> None:
    """Look for the items of those `foreach` that wait for nothing, before anything is started."""
    templates, graph = Templates(), Graph(workflow)
    for step in workflow.leaves():
        if graph.before[step.path] or step.when:
            continue
        try:
            if step.foreach is not None and step.foreach.kind == "glob":
                find(step, templates, variables, project)
            for text in step.inputs if step.foreach is None else ():
                files_of(project, templates.render(text, variables, f"{step.path}: inputs"), step.path)
        except BadTemplate:
            pass  # it needs to know more than the variables
        except Invalid as error:
            raise BadDefinition(
                f"{workflow.path}:{step.line}:{step.column}: {error.message}", hint=error.hint
            ) from None


def files_of(project: str, pattern: str, step: str) -> list[str]:
    """The files that an input stands for; none is an error."""
    full = os.path.join(project, pattern)
    found = (
        [pattern] if os.path.lexists(full) else sorted(glob.glob(pattern, root_dir=project, recursive=True))
    )
    inside = [path for path in found if os.path.isfile(os.path.join(project, path))]
    for folder in (path for path in found if os.path.isdir(os.path.join(project, path))):
        inside += sorted(glob.glob(f"{glob.escape(folder)}/**", root_dir=project, recursive=True))
    inside = [path for path in inside if os.path.isfile(os.path.join(project, path))]
    if not found:
        raise Invalid(
            f"{step}: nothing is there for the input {pattern}.",
            hint="It is a path or a pattern, relative to the project's folder.",
        )
    return inside


def _listed(value: Any, where: str) -> list[Any]:
    if isinstance(value, dict):
        return [{"key": key, "value": entry} for key, entry in value.items()]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise Invalid(
        f"{where}: a list is needed, and there is {type(value).__name__} {str(value)[:60]!r}.",
        hint="Give a list, the name of a list variable, {glob: …}, {lines: FILE} or {command: …}.",
    )


def lines_of(path: str, shown: str, where: str) -> list[str]:
    """The lines of a file that are not empty."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return [line.strip("\r\n") for line in file if line.strip()]
    except UnicodeDecodeError:
        raise Invalid(f"{where}: {shown} is not UTF-8 text.", hint="One item per line, as text.") from None
    except OSError as error:
        raise Invalid(
            f"{where}: {shown} cannot be read: {error.strerror}.",
            hint="The path is relative to the project's folder.",
        ) from None


def name(
    step: Step, items: Iterable[Any], templates: Templates, values: dict[str, Any], redactor: Redactor
) -> list[tuple[str, Any]]:
    """The path of each item's step, and the item: by its key, by what it is or is called, else (or if secret) by its
    place."""
    taken: set[str] = set()
    out = []
    for index, item in enumerate(items):
        called = _key(step, item, templates, values) if step.key else _called(item, step)
        if called and redactor.mask(called) is not called:
            called = ""
        part = quote_part(called or str(index + 1))
        below, number = f"{step.path}/{part}", 2
        if below in taken and step.key:
            raise Invalid(
                f"{step.path}: two items have the key {called!r}.",
                hint="Choose a `key` that tells them apart.",
            )
        while below in taken:
            below, number = f"{step.path}/{part}#{number}", number + 1
        taken.add(below)
        out.append((below, _recordable(below, item)))
    return out


def _key(step: Step, item: Any, templates: Templates, values: dict[str, Any]) -> str:
    """What an item is called by its `key`: a template, or the name of something in it."""
    text = step.key if is_template(step.key) else f"{{{{ {step.item_name}.{step.key} }}}}"
    called = templates.render(text, {**values, step.item_name: item}, f"{step.path}: key").strip()
    if not called or len(called) > _LONGEST:
        raise Invalid(f"{step.path}: the key of an item is empty or too long.", hint=f"It is {step.key}.")
    return called


def _recordable(below: str, item: Any) -> Any:
    try:
        below.encode()
        if not isinstance(item, str):
            lifecycle.check(below, {"status": "pending", "item": item})
    except (UnicodeEncodeError, Invalid) as error:
        why = error.message if isinstance(error, Invalid) else "it is not UTF-8 text."
        raise Invalid(
            f"{below.partition('/')[0]}: the item {ascii(item)[:200]} cannot be recorded: {why}",
            hint="Rename it, or leave it out.",
        ) from None
    return item


def _called(item: Any, step: Step) -> str:
    if step.foreach is not None and step.foreach.kind == "matrix":
        item = "-".join(value_text(value) for value in item.values())
    if isinstance(item, dict):
        item = next((item[word] for word in _NAMES if isinstance(item.get(word), (str, int))), "")
    if isinstance(item, bool) or not isinstance(item, (str, int, float)):
        return ""
    text = str(item)
    return text if len(text) <= _LONGEST else ""
