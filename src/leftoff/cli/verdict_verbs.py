"""See whether a run can be continued: verify, and the verdict that it shares with resume."""

from __future__ import annotations

from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args
from leftoff.cli.screen import wrapped
from leftoff.cli.text import Line, clean, step_name
from leftoff.engine.findings import Finding
from leftoff.engine.judge import Verdict
from leftoff.engine.resume_answers import ResumeRequest
from leftoff.operations.resuming import judge
from leftoff.operations.runs import target


def run_verify(args: Args, ctx: Context) -> int:
    named = target(ctx.project, ctx.caller, ctx.word)
    request = ResumeRequest(named, deep=bool(args.deep), resumes=False)
    return show_verdict(ctx, judge(ctx.project, ctx.caller, request), plan=False)


_LEVEL_LOOK = {"resume": ("✓", "good"), "warn": ("!", "warn"), "ask": ("?", "warn"), "refuse": ("✗", "bad")}
_SAYS = {
    "resume": "can be resumed",
    "warn": "can be resumed, with warnings",
    "ask": "can be resumed once a person has decided",
    "refuse": "cannot be resumed",
}
_DIFF = 40  # lines of one
_WHOLE = ("definition.untrusted",)  # a user must see all of it
_STEPS = 30


def show_verdict(ctx: Context, report: Verdict, *, plan: bool) -> int:
    """Show the verdict, finding by finding, and with ``plan`` step by step; return the exit code that it means."""
    if ctx.args.json:
        ctx.emit(report.to_json())
    else:
        screen = ctx.screen()
        symbol, style = _LEVEL_LOOK[report.verdict]
        says = f"{report.world.run_id} {_SAYS[report.verdict]}"
        if report.over is not None and report.exit_code == 0:
            says = report.over
        lines = wrapped([(f"{symbol} {says}", style)], screen.columns, 2)
        for finding in report.findings:
            lines += finding_lines(finding, screen.columns)
        if plan:
            lines += [[], *plan_lines(report.plan)]
        screen.show(lines)
    return report.exit_code


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


def plan_lines(plan: list[dict[str, Any]]) -> list[Line]:
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
    if len(shown) > 2 * _STEPS:
        lines.append([(f"  … {len(shown) - 2 * _STEPS} more", "dim")])
    if shown is not plan and skipped:
        lines.append([(f"  {len(skipped)} finished steps are skipped.", "dim")])
    return lines
