"""Files of a run: tracking them, reading them as they were, bringing them back."""

from __future__ import annotations

from leftoff.engine.read.state import Reader
from leftoff.operations.reports import current_row, guard_of, report
from leftoff.operations.runs import target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.steps.artifacts import Captured
    from leftoff.engine.workspace.read import FileThen
    from leftoff.engine.workspace.restoring import Restorer
    from leftoff.engine.write.commit import Guard
    from leftoff.engine.write.report import Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow


def track(
    project: Project, caller: Caller, paths: list[str], *, git: bool = False
) -> tuple[Reported, list[Captured]]:
    """Remember files as they are now, all in one commit; what is recorded of each. ``git``: all that it calls dirty."""
    from leftoff.engine.workspace.tracking import look_at_git, track_given

    row = current_row(project, caller)  # nothing is kept for a run that is not there
    workspace = project.workspace()
    found = look_at_git(workspace, row, always=True) if git else track_given(workspace, row, paths)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if found.news(Reader(project.store, tx, row.run, row.run_id), row.seq):
            found.put(changes, row.seq + 1)

    return report(project, caller, make, blobs=found.blobs), found.captured


def file_at(project: Project, caller: Caller, ref: str, path: str) -> FileThen:
    """A file as a version has it. ``path``: relative to the project, or with ./ to the current folder."""
    from leftoff.engine.workspace.paths import check_path, given_path
    from leftoff.engine.workspace.read import FileThen

    here = path.startswith(("./", "../", "/"))
    path = given_path(project.folder, path) if here else check_path(path, "REF:PATH")
    found = target(project, caller, ref)  # of an archived run, that opens another store
    return FileThen(project.store, project.folder, found, path)


def restorer(project: Project, caller: Caller, target: Target, guard: Guard | None = None) -> Restorer:
    """Who brings files back. ``guard``: of whoever drives the run himself."""
    from leftoff.engine.workspace.reporting import ReportHand
    from leftoff.engine.workspace.restoring import Restorer

    now = project.clock.now
    hand = ReportHand(project.store, target, now, session=caller.session, guard=guard or guard_of(caller))
    return Restorer(project.store, project.folder, project.redactor, now, hand)
