"""All checks, their verdict, and the plan."""

from __future__ import annotations

from leftoff.engine.verify import own, tree
from leftoff.engine.verify.finding import ASK, LEVELS, WARN, exit_code, levelled, levels_of, stop_at, worst
from leftoff.engine.verify.issue import issue
from leftoff.engine.verify.plan import Wish, make_plan, resume_from
from leftoff.engine.verify.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from leftoff.engine.find import Target
    from leftoff.engine.settings import Settings
    from leftoff.engine.verify.finding import Finding
    from leftoff.errors import LeftoffError
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

    def __init__(self, world: World, findings: list[Finding], known: Mapping[str, tuple[str, str]]) -> None:
        self.world = world
        self.findings = findings
        self.problem: LeftoffError | None = None  # why nobody could drive it, were it to be driven
        self._known = known
        self._wish = Wish()

    def wish(self, wish: Wish) -> None:
        """Plan for what is asked for. What a step lacks that is done again anyway is no question."""
        self.findings = [f for f in self.findings if not (f.code in OF_A_STEP and f.subject in wish.repeat)]
        self._wish = wish

    @property
    def plan(self) -> list[dict[str, Any]]:
        """What would be done with each step, and why, as things are found and accepted by now."""
        if self.world.damage:
            return []
        return make_plan(self.world, self.findings, self._known, self._wish)

    def accept(self, codes: Collection[str]) -> None:
        """Questions that were answered before they were asked are worth a word, and no more."""
        for finding in self.findings:
            if finding.level == ASK and finding.code in codes:
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
    more: Sequence[Check] = (),
    known: Callable[[World], Mapping[str, tuple[str, str]]] | None = None,
) -> Report:
    """Check the world against a run. ``more``: checks of whoever drives it; ``known``: what became of its steps."""
    levels = levels_of(settings.section("verify"))
    world = World(store, target, now, project, settings, deep=deep, session=session)
    if world.damage:
        found = list(own.integrity(world))
    else:
        found = [finding for check in QUICK for finding in check(world)]
        found += _at_once([*WAITING, *more], world)
    for finding in found:
        levelled(finding, levels)
    found = [finding for finding in found if finding.level != "resume"]
    found.sort(key=lambda finding: -LEVELS.index(finding.level))
    return Report(world, found, known(world) if known is not None and not world.damage else {})


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
