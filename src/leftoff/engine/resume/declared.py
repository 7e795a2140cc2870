"""Before a Python program goes on with a run: only what the run declared or tracked is checked.

A program that resumes itself after a crash must not be held up by what it has nothing to do with: git, an issue, how
long ago it was.
"""

from __future__ import annotations

from leftoff.engine.resume.checks import run, tree
from leftoff.engine.resume.checks.provider import CheckProvider
from leftoff.engine.resume.finding import check_codes
from leftoff.engine.resume.verdict import verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.project import Project
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.engine.resume.verdict import Report


class DeclaredChecks(CheckProvider):
    quick = (run.integrity, run.incomplete_write, run.salvaged, run.not_resumable, tree.half_restored)
    waiting = (tree.outputs, tree.files)


def refuse_unless(project: Project, request: ResumeRequest, how: str | None = None) -> Report:
    """What was found; `CannotResume`, unless it is accepted. ``how``: the call, up to where ``accept=`` goes."""
    accepted = check_codes(request.accept)
    report = verify(project, request, (DeclaredChecks(),), whole=False)
    report.accept(accepted)
    how = how or f"leftoff.resume({request.target.row.run_id!r}, "
    report.refuse(f"{how}accept={{codes}}) continues anyway.")
    return report
