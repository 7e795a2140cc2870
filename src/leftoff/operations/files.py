"""Files of a run: bringing tracked ones back."""

from __future__ import annotations

from leftoff.engine.workspace.reporting import ReportHand
from leftoff.engine.workspace.restoring import Restorer
from leftoff.operations.reports import guard_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.write.commit import Guard


def restorer(project: Project, caller: Caller, target: Target, guard: Guard | None = None) -> Restorer:
    """Who brings files back. ``guard``: of whoever drives the run himself."""
    now = project.clock.now
    hand = ReportHand(project.store, target, now, session=caller.session, guard=guard or guard_of(caller))
    return Restorer(project.store, project.folder, project.redactor, now, hand)
