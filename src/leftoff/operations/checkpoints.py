"""Checkpoints: sealing one; what a run has of them, what each holds, what differs; forks."""

from __future__ import annotations

from leftoff.model.fields import Fields
from leftoff.operations.reports import current_row, report, usage_errors
from leftoff.operations.surroundings import look_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.model.versions import Version
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow


def save(project: Project, caller: Caller, trigger: str = "manual", note: str | None = None) -> Version:
    """Seal a checkpoint: always a new one, whether anything changed or not."""
    from leftoff.engine.write.commit import Seal

    masked = project.redactor.mask(note) if note else None
    around = look_around(
        project, current_row(project, caller), dirty=True, issue=trigger == "phase_transition"
    )

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        around.put(row, changes)
        return Seal(trigger, caller.step or tx.leaf(row.run, "running"), masked, asked=True)

    version = report(project, caller, make, blobs=around.blobs).version
    assert version is not None
    return version


class Fork(Fields):
    """A run to make from a version of another. ``branch``: its own; by default the first fork-N that no run is on."""

    ref: str
    branch: str | None = None
    run_id: str | None = None
    variables: Mapping[str, Any] | None = None


class Forked(Fields):
    """The new run, and what it starts from."""

    info: RunInfo
    source: Target

    def to_json(self) -> dict[str, Any]:
        return self.info.to_json()


def fork(project: Project, caller: Caller, wanted: Fork) -> Forked:
    """Copy a version of a run into a new run, which is paused."""
    from leftoff.engine.lifecycle.fork import fork_paused
    from leftoff.operations.runs import info, target

    source = target(project, caller, wanted.ref)
    store, branch = project.store, wanted.branch
    made = usage_errors(
        lambda: fork_paused(
            store,
            source,
            project.now,
            branch=store.read(_free_branch) if branch is None else branch,
            run_id=wanted.run_id,
            variables=dict(wanted.variables or {}),
            scrubber=project.redactor,
        )
    )
    return Forked(info(project, made), source)


def _free_branch(view: View) -> str:
    """The first fork-N that no run is on."""
    number = 1
    while view.list_runs({"branch": f"fork-{number}"}, 1):
        number += 1
    return f"fork-{number}"
