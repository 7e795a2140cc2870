"""The engine's own checks: of every run, and of what somebody asks for that must be meant."""

from __future__ import annotations

from leftoff.engine.resume.checks import run, tree
from leftoff.engine.resume.checks.issue import issue
from leftoff.engine.resume.checks.provider import CheckProvider
from leftoff.engine.resume.repeats import again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from leftoff.engine.resume.checks.world import World
    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.request import Selection


class EngineChecks(CheckProvider):
    """What is checked of every run."""

    quick = (
        run.integrity,
        run.incomplete_write,
        run.not_resumable,
        run.times,
        run.age,
        run.progress,
        run.lease,
        run.criteria,
        run.blocked,
        run.prerequisites,
        tree.half_restored,
    )
    waiting = (tree.outputs, tree.files, tree.git, issue, run.blobs)


class SecretChecks(CheckProvider):
    """Of a run that somebody reports on: secret variables that are not ``given`` again."""

    def __init__(self, given: Collection[str]) -> None:
        self.waiting = (lambda world: run.redacted(world, given),)


class RepeatChecks(CheckProvider):
    """What somebody asks for that must be meant. ``others``: who knows which steps must not simply run again."""

    def __init__(self, others: Sequence[CheckProvider]) -> None:
        self._others = tuple(others)

    def findings(self, world: World, selection: Selection) -> Iterable[Finding]:
        return again(world, selection, lambda path: any(other.runs_once(path) for other in self._others))
