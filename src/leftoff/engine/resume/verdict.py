"""All checks, their verdict, and the plan."""

from __future__ import annotations

from leftoff.engine.resume.checks import run as own
from leftoff.engine.resume.checks import tree
from leftoff.engine.resume.checks.issue import issue
from leftoff.engine.resume.checks.world import World
from leftoff.engine.resume.finding import (
    ASK,
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
from leftoff.engine.resume.plan import Drive, Wish, make_plan, resume_from
from leftoff.engine.resume.repeats import again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from leftoff.engine.config.settings import Settings
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.finding import Finding
    from leftoff.store.base import Store

    Check = Callable[[World], Iterable[Finding]]

# Those that only look at what was read; and those that wait for something else, which go on at the same time.
QUICK: tuple[Check, ...] = (
    own.integrity,
    own.incomplete_write,
    own.not_resumable,
    own.times,
    own.age,
    own.progress,
    own.lease,
    own.criteria,
    own.blocked,
    own.prerequisites,
    tree.half_restored,
)
WAITING: tuple[Check, ...] = (tree.outputs, tree.files, tree.git, issue, own.blobs)


OF_A_STEP = ("outputs.missing", "outputs.changed", "variables.redacted")  # findings about what a step left


class Report:
    """What was found, what it allows, and what resuming would do."""

    def __init__(
        self,
        world: World,
        found: list[Finding],
        drive: Drive,
        levels: Mapping[str, str],
        known: Mapping[str, tuple[str, str]],
    ) -> None:
        self.world = world
        self.drive = drive
        self._known = known
        self.findings: list[Finding] = []
        self._found = found
        self._levels = levels
        self.wish(Wish(resumes=False))

    def wish(self, wish: Wish) -> None:
        """In view of what is asked for. What a step lacks that is done again anyway is no question."""
        self._wish = wish
        found = [f for f in self._found if not (f.code in OF_A_STEP and f.subject in wish.repeat)]
        if not self.world.damage:
            found += self.drive.wished(self.world, wish)
            found += again(self.world, wish, self.drive)
        for finding in found:
            levelled(finding, self._levels)
            if finding.code == "outputs.missing" and self.drive.once(str(finding.subject)):
                finding.hint = (
                    "--accept outputs.missing goes on without it. The step must not simply run again: if it may, "
                    "--yes --accept step.not_idempotent makes it again."
                )
        found = [finding for finding in found if finding.level != RESUME]
        self.findings = sorted(found, key=lambda finding: -LEVELS.index(finding.level))

    @property
    def plan(self) -> list[dict[str, Any]]:
        """What would be done with each step, and why, as things are found and accepted by now."""
        if self.world.damage:
            return []
        known = {**self._known, **self.drive.known(self.world, self._wish)}
        return make_plan(self.drive.lay(self.world), self.findings, known, self._wish)

    def accept(self, codes: Collection[str]) -> None:
        """Questions that were answered before they were asked are worth a word, and no more."""
        for finding in self.findings:
            if finding.level == ASK and finding.code in codes:
                finding.level = WARN

    def dismiss(self, code: str) -> None:
        """Whoever knows the run better says that this is nothing, whatever is asked for."""
        self._found = [finding for finding in self._found if finding.code != code]
        self.wish(self._wish)

    def rest(self) -> None:
        """Nothing is left to do: what was found stands in nobody's way, unless the run is damaged."""
        for finding in self.findings:
            if finding.level in (ASK, REFUSE) and not finding.code.startswith("integrity."):
                finding.level = WARN

    def insist(self, hint: str) -> None:
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


def verify(
    store: Store,
    target: Target,
    now: int,
    project: str,
    settings: Settings,
    *,
    deep: bool = False,
    session: str | None = None,
    drive: Drive | None = None,
    more: Sequence[Check] = (),
    known: Mapping[str, tuple[str, str]] | None = None,
) -> Report:
    """Check the world against a run. ``drive``: what whoever executes it knows of it.

    ``more``: checks of whoever else knows something; ``known``: what became of steps, as far as they know.
    """
    levels, drive = levels_of(settings.section("verify")), drive or Drive()
    world = World(store, target, now, project, settings, deep=deep, session=session)
    if world.damage:
        return Report(world, list(own.integrity(world)), drive, levels, {})
    found = [finding for check in QUICK for finding in check(world)]
    found += _at_once([*WAITING, *drive.checks, *more], world)
    return Report(world, found, drive, levels, known or {})


def _at_once(checks: Sequence[Check], world: World) -> list[Finding]:
    """Checks that wait for processes and disks do so beside each other; the first is done by whoever asks."""
    from threading import Thread

    found: list[list[Finding]] = [[] for _ in checks]
    wrong: list[Exception] = []

    def look(number: int) -> None:
        try:
            found[number] = list(checks[number](world))
        except Exception as error:
            wrong.append(error)

    others = [Thread(target=look, args=(n,), name="verify", daemon=True) for n in range(1, len(checks))]
    for other in others:
        other.start()
    found[0] = list(checks[0](world))
    for other in others:
        other.join()
    if wrong:
        raise wrong[0]
    return [finding for some in found for finding in some]
