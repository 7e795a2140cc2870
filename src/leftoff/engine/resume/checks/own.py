"""The engine's own checks: of every run, and of what somebody asks for that must be meant."""

from __future__ import annotations

from leftoff.engine.read.show import in_order, inner_steps
from leftoff.engine.read.state import Reader
from leftoff.engine.resume.checks import run, tree
from leftoff.engine.resume.checks.provider import CheckProvider
from leftoff.engine.resume.finding import WARN, Finding
from leftoff.errors import Corrupt
from leftoff.model.ids import shown_step
from leftoff.model.words import STEP_ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from leftoff.engine.resume.checks.world import World
    from leftoff.engine.resume.request import Selection


class EngineChecks(CheckProvider):
    """What is checked of every run."""

    quick = (
        run.integrity,
        run.incomplete_write,
        run.salvaged,
        run.not_resumable,
        run.times,
        run.age,
        run.progress,
        run.lease,
        run.criteria,
        run.blocked,
        run.prerequisites,
        run.results,
        tree.half_restored,
    )
    waiting = (tree.outputs, tree.files, tree.git, tree.issue, run.blobs)


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


_SHOWN = 6


def again(world: World, selection: Selection, runs_once: Callable[[str], bool]) -> Iterator[Finding]:
    """``runs_once``: whether a step must not simply run a second time."""
    meant = bool(selection.repeat) or selection.only is not None
    if world.is_head and not meant and world.facts.get("status") == "abandoned":
        yield _abandoned(world.run_id)
    repeated = _repeated(world, selection)
    if repeated and selection.only is None:  # else they were named one by one
        yield _repeating(repeated, "" if selection.resumes else WARN)
    for path in repeated:
        if runs_once(path):
            yield Finding(
                "step.not_idempotent",
                f"Step {shown_step(path)}: it is finished, and it is not safe to repeat.",
                "If repeating it is fine, --accept step.not_idempotent runs it again.",
                path,
            )


def _abandoned(run_id: str) -> Finding:
    return Finding(
        "recovery.not_resumable",
        f"Run {run_id} is abandoned.",
        f"`leftoff log {run_id}` lists its checkpoints, `leftoff resume RUN@SEQ` goes back to one; "
        f"`leftoff fork {run_id}` continues in a new run.",
        run_id,
    )


def _repeating(repeated: list[str], level: str) -> Finding:
    more = f" and {len(repeated) - _SHOWN} more" if len(repeated) > _SHOWN else ""
    number = f"{len(repeated)} finished step{'s' if len(repeated) > 1 else ''}"
    message = f"{number} would run again: {', '.join(map(shown_step, repeated[:_SHOWN]))}{more}."
    return Finding("step.again", message, "--yes goes back anyway.", repeated[0], level=level)


def _repeated(world: World, selection: Selection) -> list[str]:
    """The steps that are finished now, and would run once more."""
    if world.is_head:
        return (
            [p for p in world.leaves() if p in selection.repeat and _ended(world.steps[p])]
            if selection.repeat
            else []
        )
    now, then = _now(world), world.steps
    inner = inner_steps(now)
    finished = [path for path in in_order(now) if path not in inner and _ended(now[path])]
    return [path for path in finished if path in selection.repeat or not _ended(then.get(path, {}))]


def _now(world: World) -> dict[str, Any]:
    """The steps as they are at the head; none where that is damaged, and not to be known."""
    row = world.row
    try:
        return world.store.read(lambda view: Reader(world.store, view, row.run, row.run_id).plain("step"))
    except Corrupt:
        return {}


def _ended(record: Mapping[str, Any]) -> bool:
    return record.get("status") in STEP_ENDED
