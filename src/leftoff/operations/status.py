"""Where this is: the project, its store, the current run and all that are not finished."""

from __future__ import annotations

from leftoff.model.fields import Fields
from leftoff.operations.reports import current_row
from leftoff.operations.run_list import Wanted, list_runs
from leftoff.operations.runs import info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.workspace.restoring import HalfRestored
    from leftoff.store.rows import RunRow

_TIMED = 10  # runs whose time is told where none is the current one


class Status(Fields):
    """The project, its store, the current run and all that are not finished, at one moment.

    ``why_none``: why there is no current run. ``times``, ``checkpoints``: of the current run, where there is none of
    those that were touched last; the time used, and the newest checkpoint. ``half_restored``: rollbacks that were
    killed before all files were in their place, by run. ``problems``: which files of the protocol could not be kept in
    step, and why. ``trash``: how many runs lie there, and their bytes. ``waiting``: how many events of agents found the
    store out of reach, and wait for the next one that does not.
    """

    project: str
    store: str
    exists: bool
    branch: str
    git_branch: str | None
    runs: list[RunInfo]
    current: RunInfo | None
    why_none: str
    times: dict[str, dict[str, float | None]]
    half_restored: dict[str, HalfRestored]
    problems: list[str]
    checkpoints: dict[str, dict[str, Any]]
    trash: tuple[int, int] = (0, 0)
    waiting: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "project": self.project,
            "store": self.store,
            "branch": self.branch,
            "git_branch": self.git_branch,
            "current_run": self.current.run_id if self.current is not None else None,
            "time": self.times[self.current.run_id] if self.current is not None else None,
            "times": self.times,
            "checkpoint": self.checkpoints.get(self.current.run_id) if self.current is not None else None,
            "checkpoints": self.checkpoints,
            "half_restored": {run: found.command for run, found in self.half_restored.items()},
            "problems": self.problems,
            "trash": {"runs": self.trash[0], "bytes": self.trash[1]},
            "events_waiting": self.waiting,
            "runs": [run.to_json() for run in self.runs],
        }


def status(project: Project, caller: Caller) -> Status:
    """Where this is."""
    from leftoff.engine.config.git_head import git_branch
    from leftoff.engine.lifecycle.spool import Spool
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.history import latest_checkpoint
    from leftoff.engine.read.show import timing
    from leftoff.engine.workspace.restoring import find_half_restored
    from leftoff.model.words import UNFINISHED

    store, folder = project.store, project.folder
    runs = list_runs(project, Wanted(status=UNFINISHED)).runs
    row, why_none = _current_or_why(project, caller)
    current = info(project, row) if row is not None else None
    timed = [current] if current is not None else runs[:_TIMED]
    found = {run.run_id: find_half_restored(store, run.row) for run in runs}
    return Status(
        project=folder,
        store=store.name,
        exists=store.exists(),
        branch=caller.branch,
        git_branch=git_branch(folder),
        runs=runs,
        current=current,
        why_none=why_none,
        times={run.run_id: timing(store, run.row, project.now) for run in timed},
        checkpoints={
            run.run_id: last for run in timed if (last := latest_checkpoint(store, Target(run.row, None)))
        },
        half_restored={run_id: short for run_id, short in found.items() if short},
        problems=store.follower.problems() if store.follower is not None else [],
        trash=_in_trash(project),
        waiting=len(Spool(project.store_folder).names()),
    )


def _in_trash(project: Project) -> tuple[int, int]:
    """Return how many runs are in the trash, and how many bytes they take."""
    from leftoff.engine.retention.run_states import in_trash, removal_size

    rows = [each.row for each in in_trash(project.store)]
    return len(rows), removal_size(project.store, rows)


def _current_or_why(project: Project, caller: Caller) -> tuple[RunRow | None, str]:
    """The run that is meant; where nobody named one, there may be none, and why."""
    from leftoff.errors import NotFound, Usage

    try:
        return current_row(project, caller), ""
    except (NotFound, Usage) as error:
        if caller.named or caller.run:
            raise
        return None, error.message


def board(project: Project) -> str:
    """The table of active checkpoints, as the sitebuilder protocol has it."""
    from leftoff.dialects.status_table import table

    return table(project.store, project.now, project.limits)
