"""Retention and the states of runs: prune, archive, remove, undelete."""

from __future__ import annotations

import os
from typing import NamedTuple

from leftoff.engine.lifecycle.opening import find
from leftoff.engine.read.find import Deciding, Fit
from leftoff.engine.retention import run_states
from leftoff.engine.retention.policy import IN_PROGRESS
from leftoff.engine.write.unmoved import until_unmoved
from leftoff.errors import Conflict, LeftoffError, NotFound, Usage
from leftoff.model.words import in_words
from leftoff.operations.runs import info, target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.dialects.project_retention import PruneReport
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.info import RunInfo
    from leftoff.store.rows import RunRow


def prune(project: Project, *, dry: bool = False, empty: bool = False) -> PruneReport:
    """Remove what the rules no longer keep. ``empty``: and everything in the trash. ``dry``: only say what that is."""
    from leftoff.dialects.project_retention import prune_project

    return prune_project(project, dry=dry, empty=empty)


def withdraw_files(project: Project, *, dry: bool = False) -> PruneReport:
    """Take the protocol's files out of the project, for whoever shares it; the store keeps everything."""
    from leftoff.dialects.project_retention import PruneReport

    follower = project.store.follower
    if follower is None:
        raise NotFound(
            "This project keeps no protocol's files.", hint="`leftoff init --dialect D` would set that up."
        )
    done = PruneReport(dry)
    for path in follower.withdraw(dry=True):
        info = os.lstat(os.path.join(project.folder, path))
        done.removed.append({"kind": "file", "action": "remove", "path": path})
        done.freed += info.st_blocks * 512
    if not dry:
        follower.withdraw()
    return done


def by_itself(project: Project) -> None:
    """Retention once a day, where the project wants it. Never on verbs that agents call often."""
    if not (project.settings.section("retention") or project.settings.section("mirror")):
        return
    from leftoff.dialects.project_retention import prune_daily

    try:
        prune_daily(project)
    except (LeftoffError, OSError) as error:
        project.say(f"leftoff: retention did not run: {getattr(error, 'message', error)}")


# -- one run


class Archived(NamedTuple):
    """An archived run. ``already``: it was archived before, and nothing was done."""

    info: RunInfo
    already: bool = False


def archive(
    project: Project, caller: Caller, ref: str | None = None, before: Callable[[RunRow], None] | None = None
) -> Archived:
    """Archive a run that is over. A protocol's files go where the protocol archives them. ``before`` is called with the
    run first, once nothing stands in the way."""
    over = Fit(
        lambda view, row: row.status not in IN_PROGRESS, "is over", "are over", among=None, by_name=True
    )
    found = target(project, caller, ref, Deciding(caller, project.now, over))
    run_id = found.row.run_id
    if found.version is not None:
        raise Usage(f"{ref} is one version of run {run_id}.", hint=f"leftoff archive {run_id}")
    if found.row.is_archived:
        return Archived(info(project, found.row), already=True)
    _refuse_unfinished(found.row)
    if before is not None:
        before(found.row)

    def work() -> Archived:
        row = project.store.read(lambda view: find(view, run_id))
        if row.is_archived:  # another process was faster
            return Archived(info(project, row), already=True)
        _refuse_unfinished(row)
        run_states.archive_run(project.store, row, project.now)
        return Archived(info(project, row))

    return until_unmoved(work)


def _refuse_unfinished(row: RunRow) -> None:
    if row.status in IN_PROGRESS:
        raise Conflict(
            f"Run {row.run_id} {in_words(row.status)}; only a finished run can be archived.",
            hint=f"`leftoff finish --run {row.run_id}` ends it.",
        )


def remove(
    project: Project, caller: Caller, ref: str | None, agree: Callable[[RunRow], bool]
) -> dict[str, Any] | None:
    """Move a run to the trash, active or archived. Return the result as JSON; ``None`` if the user did not agree.

    If the run changes meanwhile, the user is asked again.
    """
    any_run = Fit(lambda view, row: True, "could be removed", "could be removed", among=None, by_name=True)

    def work() -> dict[str, Any] | None:
        found = target(project, caller, ref, Deciding(caller, project.now, any_run))
        row = found.row
        if found.version is not None:
            raise Usage(
                f"{ref} is one version of run {row.run_id}; rm removes a whole run.",
                hint=f"`leftoff rm {row.run_id}` removes all of it.",
            )
        project.store.read(lambda view: run_states.refuse_active(view, row.run, row.run_id, project.now))
        return remove_run(project, row) if agree(row) else None

    return until_unmoved(work)


def remove_run(project: Project, row: RunRow) -> dict[str, Any]:
    """Move a run to the trash that the user decided about already. Its space is freed when the trash is emptied."""
    run_states.trash_run(project.store, row, project.now)
    return {"removed": [row.run_id], "bytes_freed": 0, "bytes_waiting": 0}


# -- back from the trash


def trash(project: Project) -> list[dict[str, Any]]:
    """Return the runs in the trash as JSON, the last one first."""
    return [run_states.trashed_to_json(each) for each in run_states.in_trash(project.store)]


def undelete(project: Project, ref: str) -> RunInfo:
    """Bring a run back from the trash or the archive."""
    run_id = run_states.bring_back(project.store, ref, project.now)
    row = project.store.read(lambda view: find(view, run_id))
    return info(project, row)
