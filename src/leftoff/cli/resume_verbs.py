"""Continue a run, or see whether it can be continued: resume, verify. What executes workflows is loaded late."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.options import Args, assignments, positive, step_path
from leftoff.cli.text import clean, step_name
from leftoff.cli.verdict_page import show_verdict
from leftoff.engine.find import Target
from leftoff.engine.findings import REFUSE, check_codes
from leftoff.engine.judge import Verdict
from leftoff.engine.resume_answers import ResumeRequest, foresee_answers
from leftoff.errors import Usage
from leftoff.hints import Any
from leftoff.operations.resuming import find, judge, subtask_for, to_go_back_to, unmet_criteria
from leftoff.operations.run_reports import step_named
from leftoff.operations.runs import target

# -- resume


def run_resume(args: Args, ctx: Context) -> int:
    positive(args.max_parallel, "--max-parallel")
    accepted = check_codes(args.accept)
    if args.from_step is not None and (args.only or args.failed):
        raise Usage(
            f"--from-step and {'--only' if args.only else '--failed'} cannot be combined.",
            hint="--from-step STEP runs it and every later step again; --only STEP… runs these and no others.",
        )
    named = ctx.word
    if args.list:
        from leftoff.cli.history_verbs import show_logs

        return show_logs(to_go_back_to(ctx.project, ctx.caller, named, args.checkpoint), ctx)
    target = find(ctx.project, ctx.caller, named, args.checkpoint)
    request = _resume_request(args, ctx, target, accepted)
    if not args.dry_run and request.over is None:
        from leftoff.cli.execute import resume

        return resume(ctx, request)
    report = judge(ctx.project, ctx.caller, request)
    if not args.dry_run:
        report.accept(accepted)
        return _finished(report, ctx)
    foresee_answers(report)
    return show_verdict(ctx, report, plan=True)


def _resume_request(args: Args, ctx: Context, target: Target, accepted: tuple[str, ...]) -> ResumeRequest:
    first = args.from_step
    only, adds = _only_steps(ctx, target, args.only)
    return ResumeRequest(
        target,
        only=only,
        adds=adds,
        from_step=step_named(ctx.project, target.row, step_path(first)) if first is not None else None,
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


def _only_steps(ctx: Context, target: Target, given: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The steps that are named, and those of them that are new. A word may be several with commas between; an item as
    it is shown may have commas in it."""
    words = [each for word in given for each in ([word] if "[" in word else word.split(",")) if each]
    named = [step_named(ctx.project, target.row, step_path(each)) for each in words]
    found = [subtask_for(ctx.project, target.row, each) for each in named]
    return [step for step, _ in found], {path: how for _, new in found for path, how in new.items()}


def _finished(report: Verdict, ctx: Context) -> int:
    """A completed run has nothing left, whatever became of what it made."""
    from leftoff.cli.execute import Terminal, emit_end

    row = report.world.row
    if report.verdict == REFUSE:
        Terminal(ctx).tell(report.findings, report)
        if ctx.args.json:
            emit_end(ctx, row, exit=report.exit_code)
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


# -- verify


def run_verify(args: Args, ctx: Context) -> int:
    request = ResumeRequest(
        target(ctx.project, ctx.caller, ctx.word),
        deep=bool(args.deep),
        resumes=False,
    )
    return show_verdict(ctx, judge(ctx.project, ctx.caller, request), plan=False)
