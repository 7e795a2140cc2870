"""Listing runs: which ones are wanted, and what a listing shows of them, archived ones included."""

from __future__ import annotations

from leftoff.engine.retention.store_upkeep import run_size
from leftoff.model.fields import Fields
from leftoff.operations.runs import count_archived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.read.info import RunInfo


class Wanted(Fields):
    """Which runs to list. ``limit``: at most so many. ``archived``: the archived ones, too. ``sizes``: with the bytes
    that each takes."""

    status: Sequence[str] | None = None
    workflow: str | None = None
    branch: str | None = None
    limit: int | None = None
    archived: bool = False
    sizes: bool = False


class Listed(Fields):
    """Runs, latest first, and whether there are more; archived runs. ``sizes``: the bytes that each takes, by id, if
    they were asked for. ``aside``: how many are archived and not listed."""

    runs: list[RunInfo]
    more: bool
    archived: list[RunInfo]
    sizes: dict[str, int] = {}
    aside: int = 0

    def to_json(self) -> dict[str, Any]:
        found = [run.to_json() for run in (*self.runs, *self.archived)]
        if self.sizes:
            found = [{**about, "bytes": self.sizes.get(about["run_id"], 0)} for about in found]
        return {"runs": found, **({"archived": self.aside} if self.aside else {})}


def check_statuses(words: Sequence[str]) -> None:
    """Each must be the status of a run."""
    from leftoff.errors import Usage
    from leftoff.model.words import RUN_STATUS

    for word in words:
        if word not in RUN_STATUS:
            raise Usage(f"There is no run status {word!r}.", hint=f"Statuses: {', '.join(RUN_STATUS)}.")


def list_runs(project: Project, wanted: Wanted) -> Listed:
    """Runs as listings show them; none where there is no store."""
    from leftoff.engine.read.info import list_info

    limit = None if wanted.limit is None else wanted.limit + 1
    where: dict[str, Any] = {"status": wanted.status, "branch": wanted.branch}

    def listed(**more: Any) -> list[RunInfo]:
        return list_info(project.store, project.now, project.limits, **where, **more)

    found = listed(limit=limit, workflow=wanted.workflow)
    if not found and wanted.workflow is not None:  # written another way; all are looked at for that
        named = listed(name=wanted.workflow)
        found = [run for run in named if _alike(run.workflow, wanted.workflow)][:limit]
    if not found:
        project.point_out()
    shown = found if wanted.limit is None else found[: wanted.limit]
    there = [run for run in listed(archived=True) if _fits(run, wanted)] if wanted.archived else []
    sizes = {run.run_id: run_size(project.store, run.row) for run in (*shown, *there)} if wanted.sizes else {}
    # Asking a server twice is slow, so archived runs are counted there only if no run is listed.
    asks = not (found and project.store.far)
    aside = count_archived(project.store) if asks and not wanted.archived else 0
    return Listed(shown, len(found) > len(shown), there, sizes, aside)


def _fits(run: RunInfo, wanted: Wanted) -> bool:
    return wanted.workflow is None or _alike(run.workflow, wanted.workflow)


def _alike(name: str, other: str) -> bool:
    """Names are matched without regard to case."""
    return name.casefold() == other.casefold()
