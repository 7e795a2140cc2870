"""Acting on a verdict: what refuses ends the command, what asks is asked once, what is only worth a word is said.

The answers are of one kind, whether they were typed, or given before as `--accept CODE` or `--yes`: a code that is
accepted, steps to do again, files to restore, values to go on with. Whoever carries the run on asks nothing twice.
"""

from __future__ import annotations

from leftoff.cli.execute import row_now
from leftoff.cli.prompts.ask import YES, answer, can_ask, choose
from leftoff.cli.render.screen import stderr
from leftoff.cli.render.text import clean
from leftoff.cli.render.verdict import finding_lines
from leftoff.engine.resume.finding import ASK, NEVER_YES, REFUSE, WARN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.render.text import Line
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.verdict import Report
    from leftoff.engine.write.commit import Guard
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

_TOGETHER = 5  # more findings of one code than this are one question
_AGAIN, _RESTORE, _CLEAR, _STOP = "run the step again", "restore from the checkpoint", "clear them", "stop"
HINT = "--accept CODE answers beforehand."


class Answers:
    """What was agreed to."""

    __slots__ = ("accepted", "again", "given", "restore", "unblock")

    def __init__(self, accepted: Collection[str] = ()) -> None:
        self.accepted: set[str] = set(accepted)
        self.again: set[str] = set()  # steps to be done once more
        self.restore = False  # tracked files are brought back
        self.unblock = False  # the errors that block the run are cleared
        self.given: dict[str, Any] = {}  # values that were not stored


class FirstQuestion:
    """What a protocol asks before anything else: in its words, and what is done about the answer.

    ``ended``: asks, and says whether that was the end of it.
    """

    __slots__ = ("ended", "words")

    def __init__(self, words: str, ended: Callable[[], bool]) -> None:
        self.words = words
        self.ended = ended


def decide(
    ctx: Context,
    report: Report,
    accepted: Collection[str],
    *,
    quiet: Collection[str] = (),
    first: FirstQuestion | None = None,
) -> Answers | None:
    """What to go on with; ``None``: it does not go on, and was said why. ``quiet``: codes that somebody else tells."""
    answers = Answers(accepted)
    report.accept({*answers.accepted, "step.waiting"})  # what goes without that person is done
    if ctx.args.yes:
        _say_yes(report, answers)
    if report.verdict == REFUSE or (report.verdict == ASK and not can_ask(ctx)):
        tell(ctx, report.findings, report)
        if report.verdict == ASK:
            codes = dict.fromkeys(finding.code for finding in report.findings if finding.level == ASK)
            if first is not None:
                ctx.say(first.words)
            ctx.say(
                f"leftoff: a person must decide. {' '.join(f'--accept {code}' for code in codes)} goes on."
            )
        return None
    quiet = (*quiet, "step.again", "step.waiting")  # it was asked for, and answered; whoever drives says so
    if first is not None and report.verdict == ASK:
        tell(ctx, report.findings, report)
        if first.ended():
            return None
        _say_yes(report, answers)  # who does not start fresh goes on with it as it is
    else:
        tell(ctx, [f for f in report.findings if f.level == WARN and f.code not in quiet], report)
    for group in _groups(report):
        if not _ask(ctx, group, answers):
            ctx.say("Nothing was changed.")
            return None
    return answers


def tell(ctx: Context, findings: list[Finding], report: Report) -> None:
    """People read it on stderr; a program gets the whole verdict as an event."""
    if not findings:
        return
    if ctx.args.json:
        ctx.emit({"event": "verdict", **report.to_json()})
        return
    screen = stderr(ctx.now)
    lines: list[Line] = []
    for finding in findings:
        lines += finding_lines(finding, screen.columns)
    screen.show(lines)


def _say_yes(report: Report, answers: Answers) -> None:
    """`--yes`: what is gone is made again, what differs stays as it is; some questions it never answers."""
    may_repeat = "step.not_idempotent" in answers.accepted
    for finding in report.findings:
        made_again = finding.code == "outputs.missing" and finding.subject is not None
        if made_again and not may_repeat and report.drive.once(str(finding.subject)):
            continue  # it would run a second time
        if finding.level == ASK and finding.code not in NEVER_YES:
            finding.level = WARN
            answers.accepted.add(finding.code)
            if made_again:
                answers.again.add(str(finding.subject))


def _groups(report: Report) -> list[list[Finding]]:
    """The questions: one per finding, or one for many of a kind."""
    by_code: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.level == ASK:
            by_code.setdefault(finding.code, []).append(finding)
    groups: list[list[Finding]] = []
    for found in by_code.values():
        groups += [found] if len(found) > _TOGETHER else [[finding] for finding in found]
    return groups


def _ask(ctx: Context, group: list[Finding], answers: Answers) -> bool:
    """One question; whether to go on."""
    finding = group[0]
    screen = stderr(ctx.now)
    lines = [line for shown in group[:_TOGETHER] for line in finding_lines(shown, screen.columns)]
    if len(group) > _TOGETHER:
        lines.append([(f"    … and {len(group) - _TOGETHER} more like these", "dim")])
    screen.show(lines)
    if finding.code == "variables.redacted":
        return _ask_value(finding, answers)
    if not finding.choices:
        question = "Run it again" if finding.code.startswith("step.") else "Go on all the same"
        given = answer(f"{question}? [y/N]: ", HINT).lower() in YES
        answers.accepted.add(finding.code)
        return given
    offered = ", ".join(f"({choice[0]}){choice[1:]}" for choice in finding.choices)
    chosen = choose(f"{offered}: ", finding.choices, HINT)
    answers.accepted.add(finding.code)
    if chosen == _AGAIN:
        answers.again.update(shown.subject for shown in group if shown.subject is not None)
    answers.restore |= chosen == _RESTORE
    answers.unblock |= chosen == _CLEAR
    return chosen != _STOP


def _ask_value(finding: Finding, answers: Answers) -> bool:
    """A value that was not stored is typed again, unseen; an empty one ends it."""
    import sys
    from getpass import getpass

    if finding.subject is None or finding.choices:
        return True  # a secret of the workflow: it is asked for where it is used
    value = getpass(f"{clean(finding.subject)} (not stored): ", sys.stderr)
    answers.given[finding.subject] = value
    return bool(value)


# -- what was answered, done


def carry_out(
    target: Target, report: Report, answers: Answers, ctx: Context, guard: Guard | None = None
) -> None:
    """Before the run goes on: files are as they were, errors are resolved, what was accepted is taken in.

    ``guard``: of whoever drives it by now.
    """

    def here(view: View) -> RunRow:
        return row_now(view, target.row.run)

    if answers.restore:
        _restore(target, report, ctx, guard)
    if answers.unblock:
        from leftoff.cli.verbs.approve import who
        from leftoff.engine.steps.unblock import unblock

        unblock(ctx.store, here, None, ctx.now, by=who(), scrubber=ctx.redactor)
    if any(finding.code == "files.half_restored" for finding in report.findings):
        from leftoff.engine.workspace.journal import forget

        forget(ctx.store, ctx.project.folder, target.row.run_id)
    agreed = [finding for finding in report.findings if _stays(finding, answers)]
    if report.world.is_head and agreed:
        from leftoff.engine.resume.accepted import take_in

        take_in(report.world, agreed, here, ctx.now, ctx.redactor)


def _stays(finding: Finding, answers: Answers) -> bool:
    """Whether what was found is how it shall be from now on."""
    if finding.code == "files.changed":
        return not answers.restore
    if finding.code == "outputs.changed":
        return finding.subject not in answers.again
    return finding.code.startswith("issue.") or bool(finding.clears)


def _restore(target: Target, report: Report, ctx: Context, guard: Guard | None) -> None:
    from leftoff.cli.file_plan import restorer

    changed = [finding for finding in report.findings if finding.code == "files.changed"]
    paths = [path for finding in changed for path in finding.paths]
    restorer(ctx, target, guard).restore(target, target.row.run_id, paths, lambda plan: True)
    ctx.say(
        f"leftoff: restored {', '.join(map(clean, paths[:_TOGETHER]))}{'…' if len(paths) > _TOGETHER else ''}."
    )
