"""Which names a definition mentions, wherever in it they stand."""

from __future__ import annotations

import re

from leftoff.errors import LeftoffError
from leftoff.workflow.template.render import Templates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.workflow.definition.model import Step, Workflow

_ASKED_FOR = re.compile(r"\bleftoff\s+get\s+['\"]?([^\W\d]\w*)")  # in a script


def mentioned(templates: Templates, step: Step) -> set[str]:
    """The names in the templates of a step."""
    texts = [*_texts(step.key_facts())]
    if step.foreach is not None and step.foreach.kind == "variable":
        texts.append(f"{{{{ {step.foreach.value} }}}}")
    if step.foreach is not None and step.foreach.kind == "matrix":
        texts += [f"{{{{ {axis} }}}}" for axis in step.foreach.value.values() if isinstance(axis, str)]
    if step.when:
        texts.append(f"{{{{ {step.when} }}}}")
    found: set[str] = set()
    for text in texts:
        try:
            found |= templates.names(text)
        except LeftoffError:
            pass  # it is no expression: a template, which is among the texts as well
    return found


def mentioned_anywhere(workflow: Workflow) -> set[str]:
    """The variables that any step names: in a template, as what it sets, or by asking for it."""
    templates = Templates()
    found: set[str] = set()
    for step in workflow.walk():
        found |= mentioned(templates, step) | {*(step.persist or ()), *_ASKED_FOR.findall(step.run)}
    return found


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value of a definition."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _texts(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _texts(entry)
