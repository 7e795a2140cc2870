"""All checks, their verdict, and the plan."""

from __future__ import annotations

from leftoff.engine.resume.checks.run import integrity
from leftoff.engine.resume.checks.world import World
from leftoff.engine.resume.finding import (
    ASK,
    BRING_BACK,
    LEVELS,
    REFUSE,
    RESUME,
    WARN,
    exit_code,
    levelled,
    levels_of,
    stop_at,
    worst,
)
from leftoff.engine.resume.plan import make_plan, resume_from
from leftoff.engine.resume.request import select
from leftoff.model.codec import sha256, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.resume.checks.provider import Check, CheckProvider
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.request import ResumeRequest, Selection
    from leftoff.errors import LeftoffError

OF_A_STEP = (
    "outputs.missing",
    "outputs.changed",
    "variables.redacted",
    "result.redacted",
)  # findings about what a step left


def verify(
    project: Project,
    request: ResumeRequest,
    providers: Sequence[CheckProvider],
    session: str | None = None,
) -> Report:
    """Check the world against a run, in view of what is asked for: the verdict that every face goes by.

    ``session``: whose the run may be without standing in the way.
    """
    levels = project.settings.parsed("verify", levels_of)
    world = World(project, request, session)
    if world.damage:  # nothing else can be known
        return Report(world, select(world, request), providers, [*integrity(world)], levels)
    found = [finding for provider in providers for check in provider.quick for finding in check(world)]
    found += _at_once([check for provider in providers for check in provider.waiting], world)
    selection = select(world, request)
    dismissed = {code for provider in providers for code in provider.dismisses}
    found = [f for f in found if f.code not in dismissed and not _is_done_again(f, selection)]
    found += [finding for provider in providers for finding in provider.findings(world, selection)]
    asked = {finding.subject for finding in found if finding.code == "variables.redacted"}
    found = [f for f in found if f.code != "result.redacted" or f.subject not in asked]
    report = Report(world, selection, providers, found, levels)
    if request.over is not None:
        report.end(request.over)
    return report


def _is_done_again(finding: Finding, selection: Selection) -> bool:
    """Whether it is about what a step left that is done once more: that is no question."""
    return finding.code in OF_A_STEP and finding.subject in selection.repeat


class Report:
    """What was found, what it allows, and what resuming would do. ``over``: that nothing is left to do, in words; what
    was found then stands in nobody's way, unless the run is damaged."""

    over: str | None = None

    def __init__(
        self,
        world: World,
        selection: Selection,
        providers: Sequence[CheckProvider],
        found: list[Finding],
        levels: Mapping[str, str],
    ) -> None:
        self.world = world
        self.selection = selection
        self._providers = providers
        for finding in found:
            levelled(finding, levels)
            made_again = finding.code == "outputs.missing" and BRING_BACK not in finding.choices
            if made_again and self.runs_once(str(finding.subject)):
                finding.hint = (
                    "--accept outputs.missing continues without it. The step is not safe to repeat; if that is "
                    "fine, --yes --accept step.not_idempotent makes it again."
                )
        found = [finding for finding in found if finding.level != RESUME]
        self.findings = sorted(found, key=lambda finding: -LEVELS.index(finding.level))

    @property
    def plan(self) -> list[dict[str, Any]]:
        """What would be done with each step, and why, as things are found and accepted by now."""
        if self.world.damage:
            return []
        known: dict[str, tuple[str, str]] = {}
        for provider in reversed(self._providers):
            known.update(provider.known(self.world, self.selection))
        layouts = (provider.layout(self.world) for provider in self._providers)
        layout = next((layout for layout in layouts if layout is not None), self.world)
        plan = make_plan(layout, self.findings, known, self.selection)
        return plan if self.over is None else [_left_alone(entry) for entry in plan]

    @property
    def problem(self) -> LeftoffError | None:
        """Why the run could not be executed."""
        return next((p.problem for p in self._providers if p.problem is not None), None)

    @property
    def question(self) -> str | None:
        """What is asked before anything else where something needs a person."""
        codes = {finding.code for finding in self.findings if finding.level == ASK}
        asked = (provider.question(codes) for provider in self._providers)
        return next((question for question in asked if question is not None), None)

    def runs_once(self, path: str) -> bool:
        """Whether a step must not simply run a second time."""
        return any(provider.runs_once(path) for provider in self._providers)

    def accept(self, codes: Collection[str]) -> None:
        """Questions that were answered before they were asked are worth a word, and no more."""
        for finding in self.findings:
            if finding.level == ASK and finding.code in codes:
                finding.level = WARN

    @property
    def stamp(self) -> str:
        """What stands for the questions as they are put, before any is answered: other ones have another."""
        asked = [list(finding.asked) for finding in self.findings if finding.level in (ASK, REFUSE)]
        return sha256(text(asked).encode()).hexdigest()[:32]

    def end(self, over: str) -> None:
        """Nothing is left to do."""
        self.over = over
        for finding in self.findings:
            if finding.level in (ASK, REFUSE) and not finding.code.startswith("integrity."):
                finding.level = WARN

    def refuse(self, hint: str) -> None:
        """For whoever cannot ask: `CannotResume`, unless nothing refuses or needs a person."""
        if self.world.damage:
            raise self.world.damage[0][1]
        stop_at(self.findings, hint)

    @property
    def verdict(self) -> str:
        return worst(self.findings)

    @property
    def exit_code(self) -> int:
        return exit_code(self.findings)

    def to_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "verdict": self.verdict,
            "findings": [finding.to_json() for finding in self.findings],
            "run_id": self.world.run_id,
            "resume_from": resume_from(plan),
            "plan": plan,
        }


def _left_alone(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry of a step in the plan for a run that is over."""
    return entry if entry["action"] == "skip" else {**entry, "action": "skip", "why": "the run is completed"}


def _at_once(checks: Sequence[Check], world: World) -> list[Finding]:
    """Checks that wait for processes and disks do so beside each other; the first is done by whoever asks, and so is
    what a machine that starts no more threads leaves."""
    from threading import Thread

    found: list[list[Finding]] = [[] for _ in checks]
    wrong: list[Exception] = []

    def look(number: int) -> None:
        try:
            found[number] = list(checks[number](world))
        except Exception as error:
            wrong.append(error)

    others, left = [], []
    for number in range(1, len(checks)):
        other = Thread(target=look, args=(number,), name="verify", daemon=True)
        try:
            other.start()
            others.append(other)
        except RuntimeError:  # a limit of the machine
            left.append(number)
    for number in (*range(len(checks[:1])), *left):
        found[number] = list(checks[number](world))
    for other in others:
        other.join()
    if wrong:
        raise wrong[0]
    return [finding for some in found for finding in some]
