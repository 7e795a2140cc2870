"""Count how far a run is, event by event, and estimate how long it will still take.

Each event costs the same, however many steps there are: counts are kept by group. A group is a step of the workflow,
or a `foreach` with all its items.

The estimate of what is left: an item of a `foreach` takes the average of its finished siblings. Another step takes its
estimate, multiplied by how far the estimates were off so far. A step without an estimate takes the average of finished
steps. Steps of a batch share the places there are, batches follow one another. Waiting for people is not counted.
"""

from __future__ import annotations

from leftoff.hints import Any, Iterable, NamedTuple, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.workflow.definition import Workflow

Event = dict[str, Any]
_STRETCH = (0.05, 20.0)  # how far a few wrong estimates may bend the others
_LONGEST = 1000  # characters of the last line that a step printed


def took(seconds: float) -> str:
    """Return how long something took: ``0.3s``, ``12.3s``, ``3m 05s``, ``1h 04m``, ``2d 03h``."""
    return f"{max(seconds, 0):.1f}s" if seconds < 59.95 else whole(seconds)


def whole(seconds: float) -> str:
    """Return a time in whole seconds, for something that still runs: ``12s``, ``3m 05s``, ``1h 04m``, ``2d 03h``."""
    number = max(0, round(seconds))
    if number < 60:
        return f"{number}s"
    if number < 3600:
        return f"{number // 60}m {number % 60:02d}s"
    if number < 86_400:
        return f"{number // 3600}h {number % 3600 // 60:02d}m"
    return f"{number // 86_400}d {number % 86_400 // 3600:02d}h"


def roughly(seconds: float) -> str:
    """Return an estimated time, with no more digits than the estimate has."""
    if seconds < 60:
        return f"{round(seconds / 5) * 5}s"
    if seconds < 600:
        return whole(round(seconds / 10) * 10).removesuffix(" 00s")
    if seconds < 5400:
        return f"{round(seconds / 60)}m"
    return whole(round(seconds / 600) * 600)


class Leaf(NamedTuple):
    """A step without steps below it. ``limit``: how many items of a `foreach` run at once, if it has its own limit.
    ``person``: "approval" or "manual" if a person decides or does it."""

    path: str
    title: str = ""
    estimate: float | None = None
    batch: int = 0
    limit: int | None = None
    person: str = ""


class Info(NamedTuple):
    """What a display knows of a workflow before anything happens."""

    leaves: Sequence[Leaf] = ()
    parallel: int = 1

    @classmethod
    def of(
        cls, workflow: Workflow, batches: Sequence[Iterable[str]] = (), max_parallel: int | None = None
    ) -> Info:
        """Make it from a definition, the batches of its graph, and the limit that was given for this run."""
        level = {path: number for number, batch in enumerate(batches) for path in batch}
        leaves = [
            Leaf(
                step.path,
                step.title,
                step.estimate,
                batch=level.get(step.path, 0),
                limit=step.max_parallel if step.foreach is not None else None,
                person=step.kind if step.kind in ("approval", "manual") else "",
            )
            for step in workflow.leaves()
        ]
        return cls(leaves, max_parallel or workflow.max_parallel)


class Running:
    """A step that runs now. ``last``: the last line that it printed."""

    def __init__(self, path: str, title: str, since: float, attempt: int) -> None:
        self.path, self.title, self.since, self.attempt = path, title, since, attempt
        self.last = ""


class StepGroup:
    """A step of the workflow, or a `foreach` and its items (``items``: how many, once that is known)."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.items: int | None = None
        self.ended = self.failed = 0
        self.running: dict[str, Running] = {}
        self.seconds = 0.0  # of work, by the units that were timed
        self.timed = 0
        self.waits = False

    @property
    def units(self) -> int:
        return self.items if self.items is not None else 1


class Tally:
    """The counts of a run, as of the last event."""

    def __init__(self, info: Info) -> None:
        self.parallel = max(1, info.parallel)
        self.run_id = ""
        self.failed = 0
        self.began: float | None = None
        self.groups = {leaf.path: StepGroup(leaf) for leaf in info.leaves}
        self.running: dict[str, Running] = {}
        self.waiting: dict[str, Event] = {}
        self.retrying: set[str] = set()
        self.interrupted = False
        self.moving = False  # whether anything began since the driver started
        self._ended: dict[str, bool] = {}  # step: whether it failed
        self._done = 0
        self._before = 0  # steps that an earlier driver completed, until a plan names them
        self._announced = 0  # the number of steps, if no definition is known
        self._final: dict[str, int] = {}

    @property
    def total(self) -> int:
        """Return the known number of steps. A `foreach` counts as one until its items are known."""
        if self._final:
            return self._final.get("total", 0)
        counted = sum(group.units for group in self.groups.values()) if self.groups else self._announced
        return max(counted, self.done + self.failed)

    @property
    def done(self) -> int:
        if self._final:
            return self._final.get("completed", 0) + self._final.get("skipped", 0)
        return self._before + self._done

    def elapsed(self, now: float) -> float:
        return now - self.began if self.began is not None else 0.0

    def group(self, path: str) -> StepGroup | None:
        """Return the group of a step or an item."""
        return self.groups.get(path) or self.groups.get(path.rpartition("/")[0])

    def feed(self, event: Event, now: float) -> None:
        """Count an event. ``now`` is the display's own clock, in seconds."""
        if self.began is None:
            self.began = now
        path = event.get("step") or ""
        group = self.group(path)
        match event["event"]:
            case "start":
                self.run_id = event.get("run_id") or self.run_id
                steps = event.get("steps") or {}
                self._announced = steps.get("total", 0)
                self._before = steps.get("completed", 0) + steps.get("skipped", 0)
            case "plan":
                self._read_plan(event.get("plan", ()))
            case "foreach":
                if path in self.groups:
                    self.groups[path].items = event.get("items")
            case "step_start" | "reattached":
                self._count(path, by=-1)  # it may have ended before
                self._stop(path)
                self.waiting.pop(path, None)
                self.moving = True
                self._announced = max(self._announced, event.get("total") or 0)
                running = Running(path, event.get("title") or "", now, event.get("attempt") or 1)
                self.running[path] = running
                if group is not None:
                    group.running[path] = running
            case "output":
                text = (event.get("text") or "").removesuffix("\n")
                if path in self.running and text:
                    at = text.rfind("\n") + 1
                    self.running[path].last = text[at : at + _LONGEST] or self.running[path].last
            case "step_done" | "step_skipped":
                self._stop(path)
                seconds = event.get("seconds")
                if (
                    group is not None
                    and seconds is not None
                    and self._is_unit(path)
                    and path not in self._ended
                ):
                    group.seconds += seconds
                    group.timed += 1
                self._count(path)
            case "step_stopped":
                self._stop(path)
            case "step_failed":
                self._stop(path)
                if event.get("will_retry_in") is not None:
                    self.retrying.add(path)
                else:
                    self._count(path, failed=True)
            case "waiting":
                self._stop(path)
                self.waiting[path] = event
                if path in self.groups:
                    self.groups[path].waits = True
            case "interrupt":
                self.interrupted = True
            case "end":
                for each in list(self.running):
                    self._stop(each)
                self._final = (event.get("run") or {}).get("steps") or {}
                self.failed = self._final.get("failed", self.failed)

    def _read_plan(self, plan: Sequence[Event]) -> None:
        """Read which steps are done and which wait, and how many items there are: a plan names every leaf and item."""
        self._before = 0
        items: dict[str, int] = {}
        for entry in plan:
            above = entry["step"].rpartition("/")[0]
            if above in self.groups:
                items[above] = items.get(above, 0) + 1
        for path, number in items.items():
            self.groups[path].items = number
        for entry in plan:
            path, group = entry["step"], self.groups.get(entry["step"])
            if entry.get("action") == "skip":
                self._count(path)
            elif entry.get("action") == "ask" and group is not None and group.leaf.person:
                group.waits = True
                self.waiting[path] = {"step": path, "kind": group.leaf.person}

    def _is_unit(self, path: str) -> bool:
        """Return whether the step is counted: it is neither a phase nor a `foreach` with items."""
        group = self.group(path)
        if group is None:
            return not self.groups
        return group.leaf.path != path or group.items is None

    def _count(self, path: str, *, failed: bool = False, by: int = 1) -> None:
        """Count a step that ended, once. ``by`` -1: do not count it any more, because it runs again."""
        if by > 0:
            self.waiting.pop(path, None)
            if path in self._ended or not self._is_unit(path):
                return
            self._ended[path] = failed
        elif path in self._ended:
            failed = self._ended.pop(path)
        else:
            return
        self._done += 0 if failed else by
        self.failed += by if failed else 0
        group = self.group(path)
        if group is not None:
            group.ended += by
            group.failed += by if failed else 0
            group.waits = group.waits and by < 0

    def _stop(self, path: str) -> None:
        self.running.pop(path, None)
        self.retrying.discard(path)
        group = self.group(path)
        if group is not None:
            group.running.pop(path, None)

    def left(self, now: float) -> tuple[float, bool] | None:
        """Return how many seconds are left and whether that covers every step; ``None`` if it is unknown."""
        timed = [group for group in self.groups.values() if group.timed]
        seconds = sum(group.seconds for group in timed if group.leaf.estimate)
        wanted = sum(group.leaf.estimate * group.timed for group in timed if group.leaf.estimate)
        stretch = min(max(seconds / wanted, _STRETCH[0]), _STRETCH[1]) if wanted and seconds else 1.0
        mean = sum(group.seconds / group.timed for group in timed) / len(timed) if timed else None
        batches: dict[int, tuple[float, float]] = {}  # work, and the least time it takes
        sure = True
        for group in self.groups.values():
            to_start = 0 if group.waits else max(0, group.units - group.ended - len(group.running))
            if group.leaf.person or (not to_start and not group.running):
                continue
            each = group.seconds / group.timed if group.timed else mean
            if not group.timed and group.leaf.estimate is not None:
                each = group.leaf.estimate * stretch
            if each is None:
                sure = False
                continue
            rests = [max(0.0, each - (now - running.since)) for running in group.running.values()]
            work, longest = each * to_start + sum(rests), max([each if to_start else 0.0, *rests])
            if group.leaf.limit:  # to everything around it, it is one unit
                work = longest = max(longest, work / group.leaf.limit)
            so_far = batches.get(group.leaf.batch, (0.0, 0.0))
            batches[group.leaf.batch] = so_far[0] + work, max(so_far[1], longest)
        if not batches:
            return (0.0, True) if sure and self.groups else None
        return sum(max(longest, work / self.parallel) for work, longest in batches.values()), sure
