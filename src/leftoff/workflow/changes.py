"""A definition and the run that was started from an earlier text of it: what differs, and what that means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leftoff.workflow.definition import Workflow

_BEGUN = ("completed", "skipped")


class Difference:
    """Steps by what became of them; ``finished`` are those that ended under another definition."""

    __slots__ = ("added", "changed", "finished", "removed")

    def __init__(self) -> None:
        self.added: list[str] = []
        self.removed: list[str] = []
        self.changed: list[str] = []
        self.finished: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.finished)

    def told(self) -> str:
        """In a sentence."""
        parts = [
            f"{word} {', '.join(paths[:5])}{'…' if len(paths) > 5 else ''}"
            for word, paths in (
                ("changed:", [*self.finished, *self.changed]),
                ("new:", self.added),
                ("gone:", self.removed),
            )
            if paths
        ]
        return "; ".join(parts)


def compare(old: Workflow, new: Workflow, statuses: Mapping[str, str]) -> Difference:
    """What the new text changes for a run of the old one."""
    out = Difference()
    for step in new.walk():
        before = old.find(step.path)
        if before is None:
            out.added.append(step.path)
        elif _facts(before) != _facts(step):
            done = statuses.get(step.path) in _BEGUN and step.kind != "phase"
            (out.finished if done else out.changed).append(step.path)
    for step in old.walk():
        if new.find(step.path) is None:
            done = statuses.get(step.path) in _BEGUN
            (out.finished if done else out.removed).append(step.path)
    return out


def _facts(step: Any) -> dict[str, Any]:
    """What a step does. That it comes after another than before changes nothing of what was done."""
    return {
        key: value for key, value in step.key_facts().items() if key not in ("needs", "steps", "on_failure")
    }
