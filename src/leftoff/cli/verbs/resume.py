"""``leftoff resume`` (``continue``, ``reprendre``): go on with a run, from where it is or from further back."""

from __future__ import annotations

from leftoff.cli.arguments import assignments, positive, step_path
from leftoff.cli.execute import emit_end, resume
from leftoff.cli.options import Opt, Spec
from leftoff.cli.prompts.answers import Terminal
from leftoff.cli.render.text import clean
from leftoff.cli.render.verdict import show
from leftoff.engine.resume.finding import REFUSE, check_codes
from leftoff.engine.resume.request import ResumeRequest, nothing_left
from leftoff.errors import Usage
from leftoff.operations.reports import step_of
from leftoff.operations.resume import find, unmet_criteria
from leftoff.operations.verdict import verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.read.find import Target

SPEC = Spec(
    "resume",
    "Go on with a run. One of a workflow file is executed to its end: what still runs is followed, what ended\n"
    "meanwhile is taken in, the rest is done. Any other is marked running, and the brief is printed.\n"
    "Without REF, the latest unfinished run of the branch. With an older version it goes back to it in place; the\n"
    "history is kept. Where finished steps would run again, it asks first. `continue` and `reprendre` are the same.\n"
    "The world is checked first, as `leftoff verify` does it: what refuses ends it (exit 4, 5, 6), what needs a\n"
    "person is asked (without a terminal: exit 7), the rest is said; where nothing is found, nothing is asked.",
    usage="[REF]",
    most=1,
    options=(
        Opt(
            "--checkpoint",
            "ID",
            "go back to this checkpoint (an id, the start of one, or a protocol's own id)",
        ),
        Opt("--from-step", "STEP", "this step and every later one are to be done again"),
        Opt("--failed", None, "do only what failed"),
        Opt("--only", "STEP", "do only these steps, also where they are done", many=True, greedy=True),
        Opt("--accept", "CODE", "go on in spite of this finding", many=True),
        Opt("--yes", None, "answer its questions: what is gone is made again, what differs stays"),
        Opt("--dry-run", None, "only say what was found, and what would be done with each step"),
        Opt("--restart", None, "end what still runs of its steps instead of following it"),
        Opt("--max-parallel", "N", "how many steps run at once"),
        Opt("--verbose", None, "show what steps print, also where there is no terminal"),
        Opt("--list", None, "only list the checkpoints to resume from"),
        Opt("--var", "K=V", "set a variable, as for `leftoff set`", many=True),
        Opt("--run", "RUN", "the run that is meant, like REF", filled=True),
        Opt("--branch", "B", "the branch to look for it on (default: LEFTOFF_BRANCH, main)", filled=True),
    ),
    examples="""  leftoff resume                          the latest unfinished run of this branch
  leftoff resume --list                   what there is to go back to
  leftoff resume @~1                      one checkpoint back
  leftoff resume --dry-run                what was found, and what would be done
  leftoff resume --accept git.branch_other
  leftoff resume --only build test        these two, and nothing else
  leftoff resume --from-step test --yes   test and everything after it again""",
)


def run(args: Args, ctx: Context) -> int:
    positive(args.max_parallel, "--max-parallel")
    accepted = check_codes(args.accept)
    if args.from_step is not None and (args.only or args.failed):
        raise Usage(
            f"--from-step and {'--only' if args.only else '--failed'} say different things.",
            hint="--from-step STEP does it and every later one again; --only STEP… does these, and no others.",
        )
    named, looks = args.rest[0] if args.rest else None, bool(args.dry_run or args.list)
    target = find(ctx.project, ctx.caller, named, args.checkpoint, looks=looks)
    if args.list:
        from leftoff.cli.verbs.log import show_log
        from leftoff.operations.checkpoints import History

        return show_log(History(ctx.project, target), ctx)
    further_back = args.from_step is not None or args.only
    over = nothing_left(target) if target.row.status == "completed" and not further_back else None
    if over is not None:
        return finished(target, over, ctx)
    request = ResumeRequest(
        target,
        from_step=step_of(ctx.project, target.row, step_path(args.from_step))
        if args.from_step is not None
        else None,
        only=[step for word in args.only for step in _steps(ctx, target, word)],
        failed=bool(args.failed),
        variables=assignments(args.var),
        accept=accepted,
        yes=bool(args.yes),
        restart=bool(args.restart),
    )
    if not args.dry_run:
        return resume(ctx, request)
    report = verify(ctx.project, ctx.caller, request)
    report.accept(accepted)
    return show(ctx, report, plan=True)


def _steps(ctx: Context, target: Target, word: str) -> list[str]:
    """One step, or several with commas between; an item as it is shown may have commas in it."""
    words = [word] if "[" in word else [each for each in word.split(",") if each]
    return [step_of(ctx.project, target.row, step_path(each)) for each in words]


def finished(target: Target, over: str, ctx: Context) -> int:
    """A completed run has nothing left, whatever became of what it made."""
    row, report = target.row, verify(ctx.project, ctx.caller, ResumeRequest(target))
    report.nothing_left()
    if ctx.args.dry_run:
        return show(ctx, report, plan=True)
    if report.verdict == REFUSE:
        Terminal(ctx).tell(report.findings, report)
        return report.exit_code
    unmet, steps = unmet_criteria(ctx.project, row)
    if ctx.args.json:
        emit_end(ctx, row, brief="", **({"unmet": unmet, "could_meet": steps} if unmet else {}))
        return 0
    ctx.out(over)
    if unmet:
        ctx.out(
            f"Not met: {', '.join(map(clean, unmet))}.\n"
            f"`leftoff resume {row.run_id} --from-step STEP` does a step and the later ones again, `--only STEP` one\n"
            f"alone. Steps: {', '.join(map(clean, steps)) or 'none'}."
        )
    return 0
