"""All that a workflow would run, as a person reads it before saying yes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.workflow.definition.model import Workflow

# What a step runs, and what decides how; `foreach` may look for its items with a command.
_RUNS = ("run", "shell", "python", "args", "agent", "foreach", "checks", "criteria", "env", "cwd")


def commands_of(workflow: Workflow) -> list[str]:
    """A line for each thing that each step runs, and one for each further line of it."""
    return [line for step in workflow.leaves() for line in _lines(step.path, step.key_facts())]


def _lines(path: str, facts: dict[str, Any]) -> Iterator[str]:
    for name in _RUNS:
        if name in facts:
            value = facts[name]
            first, *rest = str(value).splitlines() or [""]
            yield f"{path}: {name}: {first}"
            yield from (f"    {line}" for line in rest)
