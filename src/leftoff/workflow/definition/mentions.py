"""The names that a step's templates and expressions mention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.errors import LeftoffError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.template.render import Templates


def mentioned(templates: Templates, step: Step) -> set[str]:
    texts = [*_texts(step.key_facts())]
    if step.foreach is not None and step.foreach.kind == "variable":
        texts.append(f"{{{{ {step.foreach.value} }}}}")
    if step.when:
        texts.append(f"{{{{ {step.when} }}}}")
    found: set[str] = set()
    for text in texts:
        try:
            found |= templates.names(text)
        except LeftoffError:
            pass  # it is no expression: a template, which is among the texts as well
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
