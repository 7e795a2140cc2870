"""``leftoff start``: a new run that is reported on; or, with --resume, the unfinished one."""

from __future__ import annotations

from leftoff.cli.arguments import assignments, number
from leftoff.cli.options import Opt, Spec
from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.errors import CannotResume, NeedsPerson, Usage
from leftoff.operations.reports import usage_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.resume.verdict import Report
    from leftoff.errors import LeftoffError
    from leftoff.operations.lifecycle import Started

SPEC = Spec(
    "start",
    "Start a run and print its id. Report on it with step, set, note and so on.\n\n"
    "This is always a new run; an unfinished run of the same workflow and branch is mentioned on stderr. "
    "With --resume, that run is continued instead: steps that were running or had failed will run again, "
    "and new steps and variables are added.",
    usage="WORKFLOW",
    least=1,
    most=1,
    options=(
        Opt("--resume", None, "continue the unfinished run of that workflow (or --run-id), if there is one"),
        Opt("--title", "T", "what this run is about"),
        Opt("--steps", "a,b,c", "its steps, in order"),
        Opt("--total", "N", "how many steps it will have, if their names are not known yet"),
        Opt("--branch", "B", "its branch (default: LEFTOFF_BRANCH, main)", filled=True),
        Opt("--var", "K=V", "a variable, as in `leftoff set`", many=True),
        Opt("--run-id", "ID", "its id (default: WORKFLOW-YYYYMMDD-HHMMSS)"),
        Opt("--session", "ID", "the agent session that drives the run from now on"),
        Opt("--issue", "N", "the issue it is for; `#N` then names the run"),
        Opt("--task", "ID", "the task it is for"),
        Opt("--agent", "NAME", "who is working on it"),
    ),
    examples="""  run=$(leftoff start convert-pdfs --title "Nature trail" --steps collect,convert,publish)
  leftoff start convert-pdfs --resume
  leftoff start migrate --issue 42 --run-id migrate-42 --var target=v2""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.lifecycle import Start, start

    wanted = Start(
        args.rest[0],
        title=args.title,
        run_id=_given(args.run_id, "--run-id"),
        steps=_steps(args),
        total=number(args.total, "--total"),
        variables=usage_errors(lambda: assignments(args.var)),
        issue=args.issue,
        task=args.task,
        agent=args.agent,
        session=_given(args.session, "--session"),
        resume=args.resume,
    )
    started = start(ctx.project, ctx.caller, wanted)
    if started.report is not None:
        raise _refused(started.report)
    _tell(started, ctx)
    return 0


def _refused(report: Report) -> LeftoffError:
    """Why the run that would be gone on with, which follows a protocol, does not."""
    try:
        report.refuse("")
    except CannotResume as error:
        if report.verdict == REFUSE:
            return error
        codes = sorted({finding.code for finding in report.findings if finding.level == ASK})
        accept = " ".join(f"--accept {code}" for code in codes)
        hint = f"`leftoff resume {report.world.run_id}` asks; with {accept} it continues."
        question = f"{report.question} " if report.question is not None else ""
        return NeedsPerson(f"{question}{error.message}", hint=hint)
    raise AssertionError("a report that agrees")


def _steps(args: Args) -> list[str]:
    if args.steps is None:
        return []
    if args.total is not None:
        raise Usage(
            "--steps and --total cannot be combined.", hint="Give the steps, or how many there will be."
        )
    names = [name.strip() for name in args.steps.split(",")]
    if "" in names:
        raise Usage(
            f"--steps has an empty name in it: {args.steps!r}.", hint="For example: --steps collect,convert"
        )
    return names


def _given(value: str | None, name: str) -> str | None:
    if value == "":
        raise Usage(f"{name} is empty.", hint=f"Leave {name} out, or give it a value.")
    return value


def _tell(started: Started, ctx: Context) -> None:
    ctx.answer(started)
    assert started.info is not None
    run_id, twin = started.info.run_id, started.twin
    if not ctx.args.json:
        ctx.out(run_id)
    if started.resumed:
        ctx.say(f"leftoff: continuing {run_id}. `leftoff brief` says where it is.")
    elif twin is not None:
        ctx.say(
            f"leftoff: {twin.run_id} of the same workflow is also unfinished ({twin.status}); "
            f"`leftoff resume {twin.run_id}` continues it, as `start --resume` would have.\n"
            f"With two of them, say which one you mean: --run RUN or LEFTOFF_RUN."
        )
