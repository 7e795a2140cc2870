"""A definition and the run that was started from an earlier text of it: what differs, and what that means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from leftoff.workflow.definition.model import Step, Workflow


class Difference:
    """Steps by what became of them; ``finished``: those that were done, wholly or in part, under another definition.

    ``variables``: those whose value under ``vars`` is another now. The run keeps the values that it has.
    """

    def __init__(self) -> None:
        self.added: list[str] = []
        self.removed: list[str] = []
        self.changed: list[str] = []
        self.finished: list[str] = []
        self.dropped: list[str] = []  # finished, and not in the file any more
        self.variables: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.told())

    @property
    def doubtful(self) -> bool:
        """Whether it is about what was done already."""
        return bool(self.finished or self.dropped)

    def told(self) -> str:
        """In a sentence."""
        parts = [
            f"{word} {', '.join(paths[:5])}{'…' if len(paths) > 5 else ''}"
            for word, paths in (
                ("finished, and changed since:", self.finished),
                ("finished, and removed since:", self.dropped),
                ("changed:", self.changed),
                ("new:", self.added),
                ("removed:", self.removed),
                ("other values under `vars`, where the run keeps those that it has:", self.variables),
            )
            if paths
        ]
        return "; ".join(parts)


def compare(old: Workflow, new: Workflow, done: Collection[str]) -> Difference:
    """What the new text changes for a run of the old one. ``done``: the steps that are finished, or partly so."""
    out = Difference()
    for step in new.walk():
        before = old.find(step.path)
        if before is None:
            out.added.append(step.path)
        elif differs(before, step):
            finished = step.path in done and step.kind != "phase"
            (out.finished if finished else out.changed).append(step.path)
    for step in old.walk():
        if new.find(step.path) is None:
            (out.dropped if step.path in done else out.removed).append(step.path)
    names = {*old.vars, *new.vars}
    out.variables = sorted(name for name in names if old.vars.get(name) != new.vars.get(name))
    return out


def differs(old: Step | None, new: Step | None) -> bool:
    """Whether two definitions of a step do not mean the same."""
    return old is None or new is None or _facts(old) != _facts(new)


def _facts(step: Step) -> dict[str, Any]:
    """What a step does. That it comes after another than before changes nothing of what was done."""
    return {key: value for key, value in step.key_facts().items() if key not in ("needs", "steps")}


def is_gone(path: str, record: dict[str, Any], old: Workflow, new: Workflow) -> bool:
    """Whether a step's record belongs to something that the definition had and has no more."""
    above, parts = "", path.split("/")
    for part in parts:
        above = f"{above}/{part}" if above else part
        if old.find(above) is not None and new.find(above) is None:
            return True
    parent = new.find(path.rpartition("/")[0]) if "item" in record else None
    return parent is not None and parent.foreach is None
