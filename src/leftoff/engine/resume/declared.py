"""Run the checks of `leftoff resume` before a Python program continues a run. Raise where the command asks."""

from __future__ import annotations

from leftoff.clock import ago
from leftoff.engine.resume.checks import run
from leftoff.engine.resume.checks.own import EngineChecks
from leftoff.engine.resume.finding import WARN, check_codes
from leftoff.engine.resume.verdict import verify
from leftoff.errors import CannotResume
from leftoff.model.words import STEP_ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.engine.config.project import Project
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.engine.resume.verdict import Report


class ProgramChecks(EngineChecks):
    """All checks of the engine except that of the lease, which the program takes itself."""

    quick = tuple(check for check in EngineChecks.quick if check is not run.lease)  # type: ignore[assignment]


def refuse_unless(project: Project, request: ResumeRequest, call: str) -> Report:
    """Return what was found. Raise `CannotResume` if any of it asks or refuses, and is not accepted.

    ``call``: the call of the program, up to where ``accept=`` goes.
    """
    accepted, run_id = check_codes(request.accept), request.target.row.run_id
    report = verify(project, request, (ProgramChecks(),))
    report.accept(accepted)
    call = call.replace("{", "{{").replace("}", "}}")
    try:
        report.refuse(
            f"{call}accept={{codes}}) continues anyway; `leftoff resume {run_id}` asks about each finding."
        )
    except CannotResume as error:
        error.hint += f" For a new run, end this one first: `leftoff finish {run_id} --status abandoned`."
        raise
    return report


def told(report: Report) -> Iterator[str]:
    """Yield what to print when a program continues a run: which, how old, how far; then a line for each warning."""
    world, leaves = report.world, report.world.leaves()
    done = sum(world.steps.status(path) in STEP_ENDED for path in leaves)
    age = ago(run.last_activity(world), world.now, words=True)
    how_far = f"{done} of {len(leaves)} steps done" if leaves else "no steps yet"
    yield f"continuing {world.run_id}, last active {age}, {how_far}."
    warnings = [finding for finding in report.findings if finding.level == WARN]
    yield from (finding.message for finding in warnings if not finding.code.startswith("git."))
    # One short line: a script is edited and started again all day.
    of_git = ", ".join(finding.code for finding in warnings if finding.code.startswith("git."))
    if of_git:
        yield f"git has changed since then ({of_git}); `leftoff verify {world.run_id}` shows how."
