"""``leftoff fork``: a run of its own that starts from a version of another."""

from __future__ import annotations

from leftoff.cli.arguments import asked, assignments
from leftoff.cli.options import Opt, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.store.base import View

SPEC = Spec(
    "fork",
    "Copy a version of a run into a new run on another branch, and print its id. What was in flight is to be done\n"
    "there; the new run is paused until `leftoff resume RUN` goes on with it.",
    usage="REF",
    least=1,
    most=1,
    options=(
        Opt(
            "--branch",
            "B",
            "its branch (default: the first of fork-1, fork-2, … that no run is on)",
            filled=True,
        ),
        Opt("--run-id", "ID", "its id (default: WORKFLOW-YYYYMMDD-HHMMSS)"),
        Opt("--var", "K=V", "set a variable there, as for `leftoff set`", many=True),
        Opt("--run", "RUN", "the run that @ is", filled=True),
    ),
    examples="""  leftoff fork @ --branch experiment
  leftoff fork RUN~2 --var model=small
  leftoff fork 3f9a --run-id second-try""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.lifecycle.fork import fork_paused

    branch = args.branch
    setattr(args, "branch", None)  # noqa: B010 - it is where the fork goes, not where `@` is looked for
    target = ctx.target(args.rest[0])
    made = asked(
        lambda: fork_paused(
            ctx.store,
            target,
            ctx.now,
            branch=ctx.store.read(free_branch) if branch is None else branch,
            run_id=args.run_id,
            variables=assignments(args.var),
            scrubber=ctx.redactor,
        )
    )
    if args.json:
        ctx.emit_run(made.run)
    else:
        ctx.out(made.run_id)
        came = f"{target.row.run_id}@{target.seq}"
        ctx.say(f"leftoff: forked from {came}; `leftoff resume {made.run_id}` goes on with it.")
    return 0


def free_branch(view: View) -> str:
    """The first fork-N that no run is on."""
    number = 1
    while view.list_runs({"branch": f"fork-{number}"}, 1):
        number += 1
    return f"fork-{number}"
