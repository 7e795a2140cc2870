"""What a display knows of a workflow before anything happens: its steps, their estimates, how they lie in batches."""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leftoff.workflow.definition.model import Workflow


class Leaf(Fields):
    """A step that does something. ``limit``: how many items of a `foreach` run at once, where it has its own limit.

    ``person``: "approval" or "manual" where somebody has to decide or do it; nobody knows how long that takes.
    """

    path: str
    title: str = ""
    estimate: float | None = None
    batch: int = 0
    foreach: bool = False
    limit: int | None = None
    person: str = ""


class Info:
    """A workflow as its progress is shown."""

    def __init__(self, workflow: str = "", leaves: Iterable[Leaf] = (), parallel: int = 1) -> None:
        self.workflow = workflow
        self.leaves = {leaf.path: leaf for leaf in leaves}
        self.parallel = max(1, parallel)

    @classmethod
    def of(
        cls, workflow: Workflow, batches: Sequence[Iterable[str]] = (), max_parallel: int | None = None
    ) -> Info:
        """Of a definition; ``batches`` as the graph has them, ``max_parallel`` as it was given for this run."""
        level = {path: number for number, batch in enumerate(batches) for path in batch}
        leaves = [
            Leaf(
                step.path,
                step.title,
                step.estimate,
                batch=level.get(step.path, 0),
                foreach=step.foreach is not None,
                limit=step.max_parallel if step.foreach is not None else None,
                person=step.kind if step.kind in ("approval", "manual") else "",
            )
            for step in workflow.leaves()
        ]
        return cls(workflow.name, leaves, max_parallel or workflow.max_parallel)
