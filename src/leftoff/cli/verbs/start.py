"""``leftoff start``: a new run that is reported on; or, with --resume, the unfinished one."""

from __future__ import annotations

from leftoff.cli.arguments import asked, assignments, number
from leftoff.cli.options import Opt, Spec
from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.errors import CannotResume, NeedsPerson, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.lifecycle.start import Session, Started

SPEC = Spec(
    "start",
    "Start a run, and print its id. It is reported on with step, set, note and the others.\n"
    "Always a new run; an unfinished one of the same workflow and branch is named on stderr. --resume goes on with\n"
    "that one, if there is one: what was in flight or failed is to be done again, and steps and variables that it\n"
    "does not have yet are added.",
    usage="WORKFLOW",
    least=1,
    most=1,
    options=(
        Opt(
            "--resume", None, "go on with the unfinished run of that workflow (or --run-id), if there is one"
        ),
        Opt("--title", "T", "what this run is about"),
        Opt("--steps", "a,b,c", "its steps, in order"),
        Opt("--total", "N", "how many steps it will have, where they are not known yet"),
        Opt("--branch", "B", "its branch (default: LEFTOFF_BRANCH, main)", filled=True),
        Opt("--var", "K=V", "a variable, as for `leftoff set`", many=True),
        Opt("--run-id", "ID", "its id (default: WORKFLOW-YYYYMMDD-HHMMSS)"),
        Opt("--session", "ID", "the agent's session, which drives the run from now on"),
        Opt("--issue", "N", "the issue it is for; `#N` names the run from now on"),
        Opt("--task", "ID", "the task it is for"),
        Opt("--agent", "NAME", "who works on it"),
    ),
    examples="""  run=$(leftoff start convert-pdfs --title "Nature trail" --steps collect,convert,publish)
  leftoff start convert-pdfs --resume
  leftoff start migrate --issue 42 --run-id migrate-42 --var target=v2""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.lifecycle.start import start_run

    store = ctx.store  # what is wrong with the settings is no wrong usage
    opening = asked(lambda: _opening(args, ctx))
    session = _session(args)
    if args.resume:
        _protocol_agrees(opening, ctx)
    started = asked(
        lambda: start_run(store, opening, ctx.now, scrubber=ctx.redactor, resume=args.resume, session=session)
    )
    _tell(started, ctx)
    from leftoff.operations.upkeep import by_itself

    by_itself(ctx.project)
    return 0


def _protocol_agrees(opening: Opening, ctx: Context) -> None:
    """An error where the run that would be gone on with follows a protocol, which refuses or needs a person."""
    from leftoff.operations.resume import stands_in_the_way

    report = stands_in_the_way(ctx.project, ctx.caller, opening)
    if report is None:
        return
    try:
        report.insist("")
    except CannotResume as error:
        if report.verdict == REFUSE:
            raise
        codes = sorted({finding.code for finding in report.findings if finding.level == ASK})
        accept = " ".join(f"--accept {code}" for code in codes)
        hint = f"`leftoff resume {report.world.run_id}` asks; with {accept} it goes on."
        asked = f"{report.question} " if report.question is not None else ""
        raise NeedsPerson(f"{asked}{error.message}", hint=hint) from None


def _opening(args: Args, ctx: Context) -> Opening:
    from leftoff.engine.config import project
    from leftoff.engine.lifecycle.opening import Opening

    facts = {
        **project.git_facts(ctx.project.folder),
        "issue": args.issue.lstrip("#") or None if args.issue else None,
        "task": args.task,
        "agent": args.agent,
        "session_id": args.session or ctx.caller.session,
        "total": number(args.total, "--total"),
    }
    return Opening(
        args.rest[0],
        title=args.title,
        branch=ctx.branch,
        run_id=_given(args.run_id, "--run-id"),
        steps=_steps(args),
        variables=assignments(args.var),
        facts=facts,
        context=ctx.project.surroundings(facts["issue"], facts["git_branch"]),
    )


def _steps(args: Args) -> list[Any]:
    if args.steps is None:
        return []
    if args.total is not None:
        raise Usage(
            "--steps and --total say the same thing twice.", hint="Give the steps, or how many there will be."
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


def _session(args: Args) -> Session | None:
    """Only --session drives; a session from the environment is bound, and drives nothing."""
    from leftoff.engine.lifecycle.start import Session

    named = _given(args.session, "--session")
    return Session(named, args.agent or f"session {named}") if named else None


def _tell(started: Started, ctx: Context) -> None:
    if ctx.args.json:
        ctx.emit_run(started.run)
    else:
        ctx.out(started.run_id)
    if started.resumed:
        ctx.say(f"leftoff: goes on with {started.run_id}. `leftoff brief` says where it is.")
    elif started.twin is not None:
        twin = started.twin
        ctx.say(
            f"leftoff: {twin.run_id} of the same workflow is unfinished too ({twin.status}); `leftoff start --resume`\n"
            f"would go on with it. With two of them, say which one is meant: --run RUN, or LEFTOFF_RUN."
        )
