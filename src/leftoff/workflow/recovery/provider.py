"""What the workflow that executes a run adds to the verdict on it, where one does."""

from __future__ import annotations

from leftoff.engine.config.caller import CALLER
from leftoff.engine.config.settings import outside
from leftoff.engine.read.quoting import source_of
from leftoff.engine.read.state import definition_of, read
from leftoff.errors import Corrupt, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.project import Project
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.parse import Definitions
    from leftoff.workflow.recovery.checks import WorkflowChecks


def workflow_checks(project: Project, request: ResumeRequest) -> WorkflowChecks | None:
    """The checks of a run of a workflow file; ``None`` where it is none, or its definition cannot be read."""
    try:
        found = definitions_of(project, request)
    except (Corrupt, Unsupported):  # its integrity is checked, and nothing else can be
        return None
    if found is None:
        return None
    from leftoff.workflow.recovery.checks import WorkflowChecks

    return WorkflowChecks(found, project.store_folder, request.variables)


def definitions_of(project: Project, request: ResumeRequest) -> Definitions | None:
    """The definition of a run at a version, then and now; ``None`` where it is no run of a workflow file."""
    store, target = project.store, request.target
    seq = target.version.seq if target.version is not None else None
    known = definition_of(store, target.row, seq)
    if known is None:
        return None
    from leftoff.workflow.definition.parse import Definitions

    given = {*request.variables, *read(store, target.row.run, target.row.run_id, "variable", seq)}
    strange = _leads_out(project, str(known.get("path") or "")) and _is_from_elsewhere(project, target.row)
    return Definitions(known, project.folder, given, request.workflow, strange=strange)


def _is_from_elsewhere(project: Project, row: RunRow) -> bool:
    return bool(project.store.read(lambda view: source_of(view, row)))


def _leads_out(project: Project, path: str) -> bool:
    return "\0" in path or (not CALLER.trusts(project.folder) and outside(project.folder, path) != "")
