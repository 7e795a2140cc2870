"""``leftoff fork``: a run of its own that starts from a version of another."""

from __future__ import annotations

from leftoff.cli.arguments import assignments
from leftoff.cli.options import Opt, Spec
from leftoff.operations.reports import usage_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "fork",
    "Copy a version of a run into a new run on another branch, and print its id. Steps that were running "
    "are pending there. The new run is paused until `leftoff resume RUN` continues it.",
    usage="[REF]",
    most=1,
    options=(
        Opt(
            "--branch",
            "B",
            "its branch (default: the first unused of fork-1, fork-2, …)",
            filled=True,
        ),
        Opt("--run-id", "ID", "its id (default: WORKFLOW-YYYYMMDD-HHMMSS)"),
        Opt("--var", "K=V", "set a variable there, as in `leftoff set`", many=True),
        Opt("--run", "RUN", "which run, same as REF", filled=True),
    ),
    examples="""  leftoff fork @ --branch experiment
  leftoff fork RUN~2 --var model=small
  leftoff fork 3f9a --run-id second-try""",
)


def run(args: Args, ctx: Context) -> int:
    ctx.need_name(SPEC)
    from leftoff.operations import Caller
    from leftoff.operations.checkpoints import Fork, fork

    caller = Caller(named=args.run)  # --branch is where the fork goes, not where `@` is looked for
    variables = usage_errors(lambda: assignments(args.var))
    wanted = Fork(args.rest[0] if args.rest else None, args.branch, args.run_id, variables)
    made = fork(ctx.project, caller, wanted)
    if not args.json:
        ctx.out(made.info.run_id)
        came = f"{made.source.row.run_id}@{made.source.seq}"
        ctx.say(f"leftoff: forked from {came}; `leftoff resume {made.info.run_id}` continues it.")
    return ctx.answer(made)
