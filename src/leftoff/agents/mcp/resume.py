"""Going on with a run, as a model can: what keeps it from that is an error that says what to do, in tools.

Who answers is not here: what needs a person is asked by the model, and accepted by code.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from leftoff.agents.mcp.words import for_a_model
from leftoff.engine.read.quoting import named, quoted
from leftoff.engine.resume.answers import Answerer, check_by_proxy
from leftoff.engine.resume.finding import NEVER_YES, REFUSE
from leftoff.engine.resume.request import ResumeRequest, nothing_left
from leftoff.errors import CannotResume, Conflict, NeedsPerson
from leftoff.operations.checkpoints import brief_run
from leftoff.operations.resume.resume import RUNNING, find, resume
from leftoff.operations.resume.verdict import verify
from leftoff.operations.runs import info_of, target
from leftoff.operations.workflow_runs import is_driven

if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.verdict import Report
    from leftoff.errors import LeftoffError

_FOUND = 500  # characters of a finding, which tells what stands in records


def verify_resume(project: Project, caller: Caller, run_id: str | None) -> Report:
    """Whether a run can be resumed."""
    return _for_a_model(
        verify(project, caller, ResumeRequest(target(project, caller, run_id), resumes=False))
    )


def resume_run(project: Project, caller: Caller, run_id: str | None, accept: list[str]) -> dict[str, Any]:
    """Go on with a run, in spite of the findings that are accepted."""
    found = find(project, caller, run_id)
    _refuse(project, found, run_id)
    check_by_proxy(accept, found.row.run_id)
    done = resume(project, caller, ResumeRequest(found, accept=accept), Answerer())
    done.refuse_program()
    if done.outcome != RUNNING:
        raise not_now(done.report)
    row = done.request.target.row
    return {
        **info_of(project, row).to_json(),
        "findings": [finding.to_json() for finding in _for_a_model(done.report).findings],
        "brief": brief_run(project, caller, row.run_id)["text"],
    }


def _refuse(project: Project, target: Target, given: str | None) -> None:
    """Runs that nobody can go on with from here."""
    row = target.row
    if target.version is not None:
        raise NeedsPerson(
            f"{given} is a checkpoint. Going back to one is a person's to do.",
            hint=f"run_id: {row.run_id} continues from where it is; in a shell, leftoff resume {given} goes back.",
        )
    over = nothing_left(target)
    if over is not None:
        raise CannotResume(over, hint="start_run starts a new one.")
    if is_driven(project, row):
        raise Conflict(
            f"Run {row.run_id} is one of a workflow file, which a runner executes.",
            hint=f"Run this in a shell: leftoff resume {row.run_id}",
        )


def _for_a_model(report: Report) -> Report:
    """With hints that say what a tool can do."""
    for finding in report.findings:
        finding.hint = for_a_model(finding.hint)
    return report


def not_now(report: Report) -> LeftoffError:
    """Why it does not go on: every finding that keeps it from it, and what to do."""
    run_id = report.world.run_id
    stand = [finding for finding in _for_a_model(report).findings if finding.level == report.verdict]
    lines = [
        f"- {finding.code}: {quoted(finding.message, _FOUND)} {named(finding.hint, _FOUND)}".rstrip()
        for finding in stand
    ]
    if report.verdict == REFUSE:
        return CannotResume(
            "\n".join([f"Run {run_id} cannot be resumed as things are:", *lines]),
            hint="\nNothing was changed. Tell the person; verify_resume shows whether it is resolved.",
        )
    codes = list(dict.fromkeys(finding.code for finding in stand))
    hint = f"\nNothing was changed. Ask the person. If they agree, call resume_run with accept: {json.dumps(codes)}."
    theirs = [code for code in codes if code in NEVER_YES]
    if theirs:
        hint = (
            f"\nNothing was changed. {', '.join(theirs)} cannot be accepted here: a person decides it, in a shell: "
            f"leftoff resume {run_id}"
        )
    return NeedsPerson(
        "\n".join([f"A person must decide whether run {run_id} continues:", *lines]), hint=hint
    )
