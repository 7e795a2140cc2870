"""What only a person decides: approvals, and that what blocked a run is resolved."""

from __future__ import annotations

from leftoff.errors import Usage
from leftoff.host import user
from leftoff.model.fields import Fields
from leftoff.operations.reports import guard_of, this_run, usage_errors
from leftoff.operations.runs import info, target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.info import RunInfo


class Decision(Fields):
    """A decision to record. ``choice``: without one, the first option that is not `reject`."""

    ref: str
    step: str
    choice: str | None = None
    note: str | None = None


class Decided(Fields):
    """What is decided, whether it was not before, and whether somebody drives the run, who goes on with it."""

    info: RunInfo
    step: str
    choice: str
    rejected: bool
    changed: bool
    driven: bool

    def to_json(self) -> dict[str, Any]:
        return self.info.to_json()


def decide(project: Project, caller: Caller, decision: Decision) -> Decided:
    """Decide a step that waits for an approval."""
    from leftoff.engine.steps import approvals
    from leftoff.engine.write.lease import state
    from leftoff.model.ids import check_step

    found, store = target(project, caller, decision.ref, back=True), project.store
    row = found.row
    if found.version is not None:
        raise Usage(
            f"{decision.ref} is one version of run {row.run_id}; a decision is about the run as it is now.",
            hint=f"Name the run alone: {row.run_id}.",
        )
    note = project.redactor.mask(decision.note) if decision.note else None
    done = approvals.decide(
        store,
        this_run(row.run, row.run_id),
        usage_errors(lambda: check_step(decision.step)),
        approvals.Decision(decision.choice, user(), project.now, note),
        scrubber=project.redactor,
        guard=guard_of(caller),
    )
    driven = state(store.read(lambda view: view.lease(row.run)), project.now) in ("alive", "unknown")
    return Decided(info(project, row), done.step, done.choice, done.rejected, done.changed, driven)


class Unblocked(Fields):
    """The run, whether anything blocked it, and the steps that are to be done again."""

    info: RunInfo
    changed: bool
    steps: list[str]

    def to_json(self) -> dict[str, Any]:
        return self.info.to_json()


def unblock(project: Project, caller: Caller, ref: str, step: str | None = None) -> Unblocked:
    """What blocks a run, or one step of it, is resolved."""
    from leftoff.engine.steps.unblock import unblock as write

    row = target(project, caller, ref, back=True).row
    found = this_run(row.run, row.run_id)
    done = write(project.store, found, step, project.now, by=user(), scrubber=project.redactor)
    return Unblocked(info(project, row), done.done.version is not None, done.steps)
