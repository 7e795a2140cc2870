"""The person at the terminal, as whoever answers what a verdict asks. With `--json`, or without a terminal: nobody."""

from __future__ import annotations

from leftoff.cli.prompts.ask import YES, answer, can_ask, choose, pick
from leftoff.cli.render.screen import stderr
from leftoff.cli.render.text import clean
from leftoff.cli.render.verdict import finding_lines
from leftoff.engine.resume.answers import GO_ON, TOGETHER, Answerer
from leftoff.engine.resume.finding import ASK, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.render.text import Line
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.verdict import Report

HINT = "--accept CODE answers in advance."
PROTOCOL_HINT = "--yes continues with it as it is."


class Terminal(Answerer):
    """Asks on stderr, reads from stdin."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.present = can_ask(ctx)
        self.say = ctx.say  # type: ignore[method-assign]

    def tell(self, findings: list[Finding], report: Report) -> None:
        """People read it on stderr; a program gets the whole verdict as an event."""
        if not findings:
            return
        if self._ctx.args.json:
            self._ctx.emit({"event": "verdict", **report.to_json()})
        else:
            self._show(findings)

    def _show(self, findings: list[Finding], more: int = 0) -> None:
        screen = stderr(self._ctx.project.now)
        lines: list[Line] = [line for found in findings for line in finding_lines(found, screen.columns)]
        if more > 0:
            lines.append([(f"    … and {more} more like these", "dim")])
        screen.show(lines)

    def stopped(self, report: Report) -> None:
        codes = dict.fromkeys(finding.code for finding in report.findings if finding.level == ASK)
        if report.question is not None:
            self._ctx.say(report.question)
        words = " ".join(f"--accept {code}" for code in codes)
        self._ctx.say(f"leftoff: a person must decide. {words} continues.")

    def show(self, group: list[Finding]) -> None:
        self._show(group[:TOGETHER], len(group) - TOGETHER)

    def decide(self, finding: Finding) -> str:
        if finding.choices and len({choice[0] for choice in finding.choices}) < len(finding.choices):
            listed = [(choice, "", "", 0) for choice in finding.choices]
            return pick("What shall it be?", listed, self._ctx.project.now)
        if finding.choices:
            offered = ", ".join(f"({choice[0]}){choice[1:]}" for choice in finding.choices)
            return choose(f"{offered}: ", finding.choices, HINT)
        question = "Run it again" if finding.code.startswith("step.") else "Continue anyway"
        return GO_ON if answer(f"{question}? [y/N]: ", HINT).lower() in YES else STOP

    def agrees(self, what: str, hint: str, *, again: bool) -> bool:
        return answer(f"{what} {'Run it again' if again else 'Go on'}? [y/N]: ", hint).lower() in YES

    def says_yes(self, question: str, *, default: bool) -> bool:
        given = answer(f"{question} ", PROTOCOL_HINT).lower()
        return given in YES or (default and not given)

    def value(self, name: str) -> str:
        import sys
        from getpass import getpass

        return getpass(f"{clean(name)} (not stored): ", sys.stderr)

    def restored(self, paths: list[str]) -> None:
        more = "…" if len(paths) > TOGETHER else ""
        self._ctx.say(f"leftoff: restored {', '.join(map(clean, paths[:TOGETHER]))}{more}.")
