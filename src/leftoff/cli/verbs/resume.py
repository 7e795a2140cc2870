"""``leftoff resume`` (``continue``, ``reprendre``): go on with a run, from where it is or from further back."""

from __future__ import annotations

from leftoff.cli.arguments import assignments, positive, step_path
from leftoff.cli.execute import emit_end, resume
from leftoff.cli.options import Opt, Spec
from leftoff.cli.prompts.answers import Terminal
from leftoff.cli.render.text import clean, step_name
from leftoff.cli.render.verdict import show
from leftoff.engine.resume.answers import foresee_answers
from leftoff.engine.resume.finding import REFUSE, check_codes
from leftoff.engine.resume.request import ResumeRequest
from leftoff.errors import Usage
from leftoff.operations.reports import step_of
from leftoff.operations.resume.resume import find, subtask_for, to_go_back_to, unmet_criteria
from leftoff.operations.resume.verdict import verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.verdict import Report

SPEC = Spec(
    "resume",
    "Continue a run. A run of a workflow file is driven to its end: steps that are still running are "
    "followed, steps that ended in the meantime are picked up, and the rest is run. Any other run is "
    "marked as running, and its brief is printed.\n\n"
    "Without REF, this is the latest unfinished run of the branch. An older version rewinds the run in "
    "place; its history is kept. You are asked before finished steps run again.\n\n"
    "Everything `leftoff verify` checks is checked first. A refusal ends the command (exit 4, 5 or 6), a "
    "question is asked (exit 7 without a terminal), a warning is printed. `continue` and `reprendre` are "
    "the same verb.",
    usage="[REF]",
    most=1,
    options=(
        Opt(
            "--checkpoint",
            "ID",
            "rewind to this checkpoint (an id, its first characters, or a protocol's own id)",
        ),
        Opt("--from-step", "STEP", "run this step and every later one again"),
        Opt("--failed", None, "run only the failed steps"),
        Opt("--only", "STEP", "run only these steps, even if they are completed", many=True, greedy=True),
        Opt("--accept", "CODE", "resume despite this finding", many=True),
        Opt(
            "--answer",
            "CODE=CHOICE",
            "answer this finding; CODE:SUBJECT=CHOICE answers one of several",
            many=True,
        ),
        Opt(
            "--yes",
            None,
            "answer the questions: missing outputs are restored or made again, changed files stay",
        ),
        Opt("--dry-run", None, "only show the findings, and what would happen to each step"),
        Opt("--restart", None, "end steps that are still running instead of following them"),
        Opt("--max-parallel", "N", "how many steps may run at once"),
        Opt("--verbose", None, "show what steps print, even without a terminal"),
        Opt("--list", None, "only list the checkpoints you can resume from"),
        Opt("--var", "K=V", "set a variable, as in `leftoff set`", many=True),
        Opt("--run", "RUN", "which run, same as REF", filled=True),
        Opt("--branch", "B", "its branch (default: LEFTOFF_BRANCH, main)", filled=True),
    ),
    examples="""  leftoff resume                          the latest unfinished run of this branch
  leftoff resume --list                   the checkpoints you can resume from
  leftoff resume @~1                      one checkpoint back
  leftoff resume --dry-run                the findings and the plan
  leftoff resume --accept git.branch_other
  leftoff resume --only build test        these two, and nothing else
  leftoff resume --from-step test --yes   test and everything after it again""",
)


def run(args: Args, ctx: Context) -> int:
    positive(args.max_parallel, "--max-parallel")
    accepted = check_codes(args.accept)
    if args.from_step is not None and (args.only or args.failed):
        raise Usage(
            f"--from-step and {'--only' if args.only else '--failed'} cannot be combined.",
            hint="--from-step STEP runs it and every later step again; --only STEP… runs these and no others.",
        )
    named = args.rest[0] if args.rest else None
    if args.list:
        from leftoff.cli.verbs.log import show_logs

        return show_logs(to_go_back_to(ctx.project, ctx.caller, named, args.checkpoint), ctx)
    target = find(ctx.project, ctx.caller, named, args.checkpoint)
    request = _request(args, ctx, target, accepted)
    if not args.dry_run and request.over is None:
        return resume(ctx, request)
    report = verify(ctx.project, ctx.caller, request)
    if not args.dry_run:
        report.accept(accepted)
        return finished(report, ctx)
    foresee_answers(report, request)
    return show(ctx, report, plan=True)


def _request(args: Args, ctx: Context, target: Target, accepted: tuple[str, ...]) -> ResumeRequest:
    first = args.from_step
    only, adds = _steps(ctx, target, args.only)
    return ResumeRequest(
        target,
        only=only,
        adds=adds,
        from_step=step_of(ctx.project, target.row, step_path(first)) if first is not None else None,
        failed=bool(args.failed),
        variables=assignments(args.var),
        accept=accepted,
        answers=_answers(args.answer),
        yes=bool(args.yes),
        restart=bool(args.restart),
    )


def _answers(given: list[str]) -> dict[str, str]:
    """What is chosen, by code and subject. A subject may have an equals sign in it, and a choice has none."""
    out = {}
    for word in given:
        name, mark, choice = word.rpartition("=")
        if not mark or not name or not choice:
            raise Usage(
                f"--answer takes CODE=CHOICE, not {word!r}.",
                hint="For example: --answer files.changed=restore",
            )
        check_codes([name.partition(":")[0]])
        out[name] = choice
    return out


def _steps(ctx: Context, target: Target, given: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The steps that are named, and those of them that are new. A word may be several with commas between; an item as
    it is shown may have commas in it."""
    words = [each for word in given for each in ([word] if "[" in word else word.split(",")) if each]
    named = [step_of(ctx.project, target.row, step_path(each)) for each in words]
    found = [subtask_for(ctx.project, target.row, each) for each in named]
    return [step for step, _ in found], {path: how for _, new in found for path, how in new.items()}


def finished(report: Report, ctx: Context) -> int:
    """A completed run has nothing left, whatever became of what it made."""
    row = report.world.row
    if report.verdict == REFUSE:
        Terminal(ctx).tell(report.findings, report)
        return report.exit_code
    unmet, steps = unmet_criteria(ctx.project, row)
    if ctx.args.json:
        emit_end(ctx, row, brief="", **({"unmet": unmet, "could_meet": steps} if unmet else {}))
        return 0
    ctx.out(report.over or "")
    if unmet:
        ctx.out(
            f"Not met: {', '.join(map(clean, unmet))}.\n"
            f"`leftoff resume {row.run_id} --only {clean(unmet[0])}` runs the step for it, or adds one.\n"
            "`--from-step STEP` does a step and the later ones again, `--only STEP` one alone. "
            f"Steps: {', '.join(map(step_name, steps)) or 'none'}."
        )
    return 0
