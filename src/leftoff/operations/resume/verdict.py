"""The verdict on a run: the chain of those who know something of it, asked before it goes on, or just to know."""

from __future__ import annotations

from leftoff.dialects.verdict import dialect_checks
from leftoff.engine.resume import verdict
from leftoff.engine.resume.checks.own import EngineChecks, RepeatChecks, SecretChecks
from leftoff.operations.run_reports import session_of_caller
from leftoff.workflow.recovery.provider import workflow_checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.resume.checks.provider import CheckProvider
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.engine.resume.verdict import Report


def verify(project: Project, caller: Caller, request: ResumeRequest) -> Report:
    """Check the world against a run, with all that is known of it."""
    there = project.seen_from(request.target.row)
    return verdict.verify(there, request, checks_of(there, request), session_of_caller(project, caller))


def checks_of(project: Project, request: ResumeRequest) -> list[CheckProvider]:
    """The chain of those who know something of a run: the engine, its workflow, its protocol."""
    chain: list[CheckProvider] = [EngineChecks()]
    workflow = workflow_checks(project, request)
    if workflow is not None:
        chain.append(workflow)
    dialect = dialect_checks(project, request.target)
    if dialect is not None:
        chain.append(dialect)
    if workflow is None:
        chain.append(SecretChecks(request.variables))
    return [*chain, RepeatChecks(chain)]
