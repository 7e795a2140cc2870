"""Continue a run, or see whether it can be continued: resume, verify. What executes workflows is loaded late."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.options import Args, assignments, positive, step_path
from leftoff.cli.screen import Screen, shared, wrapped
from leftoff.cli.text import Line, clean, step_name
from leftoff.engine.find import Target
from leftoff.engine.findings import REFUSE, Finding, check_codes
from leftoff.engine.judge import Verdict
from leftoff.engine.resume_answers import foresee_answers
from leftoff.engine.resume_request import ResumeRequest
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


# -- the verdict

_LEVEL_LOOK = {"resume": ("✓", "good"), "warn": ("!", "warn"), "ask": ("?", "warn"), "refuse": ("✗", "bad")}
_SAYS = {
    "resume": "can be resumed",
    "warn": "can be resumed, with warnings",
    "ask": "can be resumed once a person has decided",
    "refuse": "cannot be resumed",
}
_DIFF = 40  # lines of one
_WHOLE = ("definition.untrusted",)  # nobody says yes to what is not shown
_STEPS = 30


def show_verdict(ctx: Context, report: Verdict, *, plan: bool) -> int:
    """The verdict, as a page or as JSON; the exit code that it means."""
    if ctx.args.json:
        ctx.emit(report.to_json())
    else:
        screen = ctx.screen()
        screen.show(verdict_page(report, screen, plan=plan))
    return report.exit_code


def verdict_page(report: Verdict, screen: Screen, *, plan: bool) -> list[Line]:
    """The verdict, finding by finding; with the plan, step by step."""
    symbol, style = _LEVEL_LOOK[report.verdict]
    says = f"{report.world.run_id} {_SAYS[report.verdict]}"
    if report.over is not None and report.exit_code == 0:
        says = report.over
    lines = wrapped([(f"{symbol} {says}", style)], screen.columns, 2)
    for finding in report.findings:
        lines += finding_lines(finding, screen.columns)
    if plan:
        lines += [[], *plan_lines(report.plan, screen.columns)]
    return lines


def finding_lines(finding: Finding, columns: int) -> list[Line]:
    symbol, style = _LEVEL_LOOK[finding.level]
    lines = wrapped([(f"  {symbol} {finding.code}  ", style), (clean(finding.message), "")], columns, 4)
    if finding.hint:
        lines += wrapped([(f"    {clean(finding.hint)}", "dim")], columns, 4)
    if finding.diff:
        shown = finding.diff.splitlines()
        whole = finding.code in _WHOLE
        most = len(shown) if whole else _DIFF
        for line in shown[:most]:
            drawn: Line = [(f"    {clean(line.expandtabs())}", "dim")]
            lines += wrapped(drawn, columns, 6) if whole else [drawn]
        if len(shown) > most:
            lines.append([(f"    … {len(shown) - most} more lines", "dim")])
    return lines


def plan_lines(plan: list[dict[str, Any]], columns: int) -> list[Line]:
    """What would happen to each step; many that are skipped are only counted."""
    skipped = [entry for entry in plan if entry["action"] == "skip"]
    shown = plan if len(plan) <= _STEPS else [entry for entry in plan if entry["action"] != "skip"]
    wide = max((len(entry["action"]) for entry in shown), default=0)
    lines: list[Line] = [
        [
            (f"  {entry['action']:<{wide}}  ", "id"),
            (step_name(entry["step"]), ""),
            (f"  {clean(entry['why'])}", "dim"),
        ]
        for entry in shown[: 2 * _STEPS]
    ]
    lines = [shared(line, columns) for line in lines] if columns else lines
    if len(shown) > 2 * _STEPS:
        lines.append([(f"  … {len(shown) - 2 * _STEPS} more", "dim")])
    if shown is not plan and skipped:
        lines.append([(f"  {len(skipped)} finished steps are skipped.", "dim")])
    return lines
