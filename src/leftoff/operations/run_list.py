"""Listing runs: which ones are wanted, and what a listing shows of them, archived ones included."""

from __future__ import annotations

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
    """Runs, latest first, and whether there are more; the archived ones, as they were listed. ``sizes``: the bytes that
    each takes, by id, where they were asked for. ``aside``: how many are archived and not listed."""

    runs: list[RunInfo]
    more: bool
    archived: list[dict[str, Any]]
    sizes: dict[str, int] = {}
    aside: int = 0

    def to_json(self) -> dict[str, Any]:
        found = [*(run.to_json() for run in self.runs), *self.archived]
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
    there = _archived(project, wanted) if wanted.archived else []
    sizes = _sizes(project, shown, there) if wanted.sizes else {}
    # Where asking twice is dear, only who sees no run is told of these.
    asks = not (found and project.store.far)
    aside = count_archived(project.store) if asks and not wanted.archived else 0
    return Listed(shown, len(found) > len(shown), there, sizes, aside)


def _sizes(project: Project, runs: list[RunInfo], archived: list[dict[str, Any]]) -> dict[str, int]:
    from leftoff.engine.retention.archive import kept, size_of
    from leftoff.engine.retention.disk import run_size

    store = project.store
    sizes = {run.run_id: run_size(store, run.row) for run in runs}
    found = [kept(store, run["run_id"]) for run in archived]
    return sizes | {each.run_id: size_of(store, each) for each in found if each is not None}


def _archived(project: Project, wanted: Wanted) -> list[dict[str, Any]]:
    from leftoff.engine.read.missing import out_of_sight
    from leftoff.engine.retention.archive import archived
    from leftoff.engine.retention.page import DAMAGED
    from leftoff.operations.runs import tell_gone

    there = archived(project.store)
    tell_gone(project)
    if away := out_of_sight(project.store):
        project.say(f"leftoff: {away}")
    for about in there:
        if about.get(DAMAGED):
            project.say(
                f"leftoff: the page of the archived run {about['run_id']} is damaged: only its id is known here. "
                "`leftoff fsck --repair` makes it again."
            )
    return [
        about
        for about in there
        if (wanted.status is None or about["status"] in wanted.status)
        and wanted.branch in (None, about.get("branch"))
        and (wanted.workflow is None or _alike(about.get("workflow") or "", wanted.workflow))
    ]


def _alike(name: str, other: str) -> bool:
    """Names are matched without regard to case."""
    return name.casefold() == other.casefold()
