"""Ending the work on a run: its driver, the processes of its steps, and those that live on without a driver."""

from __future__ import annotations

from leftoff.engine.read.which import Deciding, Fit
from leftoff.engine.write.lease import state as lease_state
from leftoff.host import ALIVE, UNKNOWN
from leftoff.model.fields import Fields
from leftoff.model.words import FINISHED
from leftoff.operations.runs import info, whole_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.info import RunInfo
    from leftoff.host import Process
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow


class Stopped(Fields):
    """The run as it is now (``None``: it is gone), and what it was before; whether somebody drove it; the steps that
    were ended."""

    run_id: str
    run: RunInfo | None
    status: str | None
    driven: bool
    ended: list[str]

    @property
    def over(self) -> bool:
        """Whether there was nothing to stop any more."""
        return self.status is None or self.status in FINISHED


def stop(project: Project, caller: Caller, ref: str | None = None) -> Stopped:
    """Whoever drives a run seals a checkpoint and ends the processes of its steps; the run is paused."""
    from leftoff.workflow.recovery.stop_run import pause, stop_driver

    runs = Fit(lambda view, row: row.status == "running" or _held(view, row, project.now), "runs", "run")
    row = whole_run(project, caller, ref, Deciding(caller, project.now, runs)).row
    store = project.store  # of an archived run, which is over, that is another one
    driven = stop_driver(store, row, project.now, project.settings.run.grace)
    ended = end_processes(project, row)
    now = store.read(lambda view: view.run_row(row.run))
    if now is None:
        return Stopped(row.run_id, None, None, driven, ended)
    if now.status not in FINISHED and (now.status == "running" or ended):
        pause(store, now, project.now, project=project.folder, scrubber=project.redactor, note="stopped")
    return Stopped(row.run_id, info(project, row), now.status, driven, ended)


def give_up(project: Project, row: RunRow, note: str | None = None) -> None:
    """Abandon a run: it is not deleted; nothing of it runs on. One that went on since that was decided, or ended by
    itself, stays as it is: ``Moved``."""
    from leftoff.engine.lifecycle.finish import Ending, end_work
    from leftoff.engine.write.commit import Terms
    from leftoff.engine.write.unmoved import unmoved_run

    ending = Ending("abandoned", project.folder, note=note)
    end_work(project.store, unmoved_run(row), ending, Terms(project.now), project.redactor)
    forsake(project, row)


def forsake(project: Project, row: RunRow) -> list[str]:
    """End what a dead driver left running of a run that is given up; the steps."""
    from leftoff.engine.read.state import definition_of

    if definition_of(project.store, row) is None:
        return []
    from leftoff.workflow.recovery.stop_run import forsake_attempts

    return forsake_attempts(project.store, row, project.store_folder, project.now, project.settings.run.grace)


def _held(view: View, row: RunRow, now: int) -> bool:
    """Whether somebody drives a run."""
    return lease_state(view.lease(row.run), now) in (ALIVE, UNKNOWN)


def end_processes(project: Project, row: RunRow) -> list[str]:
    """End the processes of a run's steps that live without a driver; the steps."""
    from leftoff.workflow.recovery.stop_run import end_attempts

    return end_attempts(project.store, row, project.store_folder, project.now, project.settings.run.grace)


def left_running(project: Project, row: RunRow) -> dict[str, list[Process]]:
    """The processes of a run's steps that live without a driver, by step."""
    from leftoff.workflow.recovery.stop_run import left_running

    return left_running(project.store, row, project.store_folder)
