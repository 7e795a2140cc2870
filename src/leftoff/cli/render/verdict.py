"""The verdict on a run, for people: what was found, how bad it is, what to do; and what resuming would do."""

from __future__ import annotations

from leftoff.cli.render.layout import shared, wrapped
from leftoff.cli.render.text import clean, step_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.render.screen import Screen
    from leftoff.cli.render.text import Line
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.verdict import Report

_LOOK = {"resume": ("✓", "good"), "warn": ("!", "warn"), "ask": ("?", "warn"), "refuse": ("✗", "bad")}
_SAYS = {
    "resume": "can be resumed",
    "warn": "can be resumed, with warnings",
    "ask": "can be resumed once a person has decided",
    "refuse": "cannot be resumed",
}
_DIFF = 40  # lines of one
_WHOLE = ("definition.untrusted",)  # nobody says yes to what is not shown
_STEPS = 30


def show(ctx: Context, report: Report, *, plan: bool) -> int:
    """The verdict, as a page or as JSON; the exit code that it means."""
    if ctx.args.json:
        ctx.emit(report.to_json())
    else:
        screen = ctx.screen()
        screen.show(page(report, screen, plan=plan))
    return report.exit_code


def page(report: Report, screen: Screen, *, plan: bool) -> list[Line]:
    """The verdict, finding by finding; with the plan, step by step."""
    symbol, style = _LOOK[report.verdict]
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
    symbol, style = _LOOK[finding.level]
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
