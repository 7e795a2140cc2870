"""Count how far a run is, event by event, and estimate how long it will still take.

Each event costs the same, however many steps there are: counts are kept by group. A group is a step of the workflow,
or a `foreach` with all its items.

The estimate of what is left: an item of a `foreach` takes the average of its finished siblings. Another step takes its
estimate, multiplied by how far the estimates were off so far. A step without an estimate takes the average of finished
steps. Steps of a batch share the places there are, batches follow one another. Waiting for people is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from leftoff.model.fields import Fields
from leftoff.workflow.definition.model import Workflow

Event = dict[str, Any]


def took(seconds: float) -> str:
    """Return how long something took: ``0.3s``, ``12.3s``, ``3m 05s``, ``1h 04m``, ``2d 03h``."""
    if seconds < 59.95:
        return f"{max(seconds, 0):.1f}s"
    return whole(seconds)


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
        number = round(seconds / 10) * 10
        return f"{number // 60}m {number % 60:02d}s" if number % 60 else f"{number // 60}m"
    if seconds < 5400:
        return f"{round(seconds / 60)}m"
    return whole(round(seconds / 600) * 600)


class Leaf(Fields):
    """A step without steps below it. ``limit``: how many items of a `foreach` run at once, if it has its own limit.
    ``person``: "approval" or "manual" if a person decides or does it."""

    path: str
    title: str = ""
    estimate: float | None = None
    batch: int = 0
    foreach: bool = False
    limit: int | None = None
    person: str = ""


class Info:
    """What a display knows of a workflow before anything happens."""

    def __init__(self, workflow: str = "", leaves: Iterable[Leaf] = (), parallel: int = 1) -> None:
        self.workflow = workflow
        self.leaves = {leaf.path: leaf for leaf in leaves}
        self.parallel = max(1, parallel)

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
                foreach=step.foreach is not None,
                limit=step.max_parallel if step.foreach is not None else None,
                person=step.kind if step.kind in ("approval", "manual") else "",
            )
            for step in workflow.leaves()
        ]
        return cls(workflow.name, leaves, max_parallel or workflow.max_parallel)


_DONE, _FAILED = "done", "failed"
_STRETCH = (0.05, 20.0)  # how far a few wrong estimates may bend the others


class Running(Fields):
    """A step that runs now."""

    path: str
    title: str
    since: float
    attempt: int
    last: str = ""  # what it printed last


class Group:
    """A step of the workflow, or a `foreach` and its items."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.items: int | None = None  # how many, once that is known
        self.ended = 0
        self.failed = 0
        self.running: dict[str, Running] = {}
        self.seconds = 0.0  # of work, by those that were timed
        self.timed = 0
        self.waits = False

    @property
    def units(self) -> int:
        return self.items if self.items is not None else 1

    @property
    def to_start(self) -> int:
        return 0 if self.waits else max(0, self.units - self.ended - len(self.running))

    @property
    def mean(self) -> float | None:
        return self.seconds / self.timed if self.timed else None


class Tally:
    """The counts of a run, as of the last event."""

    def __init__(self, info: Info) -> None:
        self.info = info
        self.run_id = ""
        self.workflow = info.workflow
        self.failed = 0
        self.began: float | None = None
        self.groups = {path: Group(leaf) for path, leaf in info.leaves.items()}
        self.running: dict[str, Running] = {}
        self.waiting: dict[str, Event] = {}
        self.retrying: dict[str, float] = {}  # and when they are tried again
        self.batch: tuple[int, int] | None = None
        self.interrupted = False
        self.moving = False  # whether anything began in this life of the run
        self._ended: dict[str, str] = {}
        self._done = 0
        self._before = 0  # done in an earlier life of the run, as far as no plan has told which
        self._told = 0  # how many steps there are, where nothing else is known
        self._final: dict[str, int] = {}

    @property
    def total(self) -> int:
        """Return the known number of steps. A `foreach` counts as one until its items are known."""
        if self._final:
            return self._final.get("total", 0)
        counted = sum(group.units for group in self.groups.values()) if self.groups else self._told
        return max(counted, self.done + self.failed)

    @property
    def done(self) -> int:
        if self._final:
            return self._final.get("completed", 0) + self._final.get("skipped", 0)
        return self._before + self._done

    # -- what happens

    def feed(self, event: Event, now: float) -> None:
        """Count an event. ``now`` is the display's own clock, in seconds."""
        if self.began is None:
            self.began = now
        handler = getattr(self, f"_on_{event['event']}", None)
        if handler is not None:
            handler(event, now)

    def _on_start(self, event: Event, now: float) -> None:
        self.run_id = event.get("run_id") or self.run_id
        self.workflow = event.get("workflow") or self.workflow
        steps = event.get("steps") or {}
        self._told = steps.get("total", 0)
        self._before = steps.get("completed", 0) + steps.get("skipped", 0)

    def _on_plan(self, event: Event, now: float) -> None:
        """The plan names every leaf, items too: which are done, which wait, how many items there are."""
        self._before = 0
        items: dict[str, int] = {}
        for entry in event.get("plan", ()):
            above = entry["step"].rpartition("/")[0]
            if above in self.groups:
                items[above] = items.get(above, 0) + 1
        for path, number in items.items():
            self.groups[path].items = number
        for entry in event.get("plan", ()):
            if entry.get("action") == "skip":
                self._end(entry["step"], _DONE)
            elif entry.get("action") == "ask":
                self._still_waits(entry["step"])

    def _still_waits(self, path: str) -> None:
        group = self.groups.get(path)
        if group is not None and group.leaf.person:
            group.waits = True
            self.waiting[path] = {"step": path, "kind": group.leaf.person}

    def _on_batch_start(self, event: Event, now: float) -> None:
        self.batch = (event.get("batch", 0), event.get("of", 0))

    def _on_foreach(self, event: Event, now: float) -> None:
        group = self.groups.get(event["step"])
        if group is not None:
            group.items = event.get("items")

    def _on_step_start(self, event: Event, now: float) -> None:
        path = event["step"]
        self._reopen(path)
        self._told = max(self._told, event.get("total") or 0)
        self._run(path, event, now)

    def _on_reattached(self, event: Event, now: float) -> None:
        self._reopen(event["step"])
        self._run(event["step"], event, now)

    def _run(self, path: str, event: Event, now: float) -> None:
        self.retrying.pop(path, None)
        self.waiting.pop(path, None)
        self.moving = True
        running = Running(path, event.get("title") or "", now, event.get("attempt") or 1)
        self.running[path] = running
        group = self.group(path)
        if group is not None:
            group.running[path] = running

    def _on_output(self, event: Event, now: float) -> None:
        running = self.running.get(event["step"])
        text = event.get("text") or ""
        if running is not None and text:
            cut = len(text) - 1 if text.endswith("\n") else len(text)
            at = text.rfind("\n", 0, cut) + 1
            running.last = text[at:cut][:1000] or running.last

    def _on_step_done(self, event: Event, now: float) -> None:
        self._stop(event["step"])
        self._time(event["step"], event.get("seconds"))
        self._end(event["step"], _DONE)

    def _on_step_skipped(self, event: Event, now: float) -> None:
        self._stop(event["step"])
        self._end(event["step"], _DONE)

    def _on_step_stopped(self, event: Event, now: float) -> None:
        self._stop(event["step"])

    def _on_step_failed(self, event: Event, now: float) -> None:
        path, again = event["step"], event.get("will_retry_in")
        self._stop(path)
        if again is not None:
            self.retrying[path] = now + again
        else:
            self._end(path, _FAILED)

    def _on_waiting(self, event: Event, now: float) -> None:
        self._stop(event["step"])
        self.waiting[event["step"]] = event
        group = self.groups.get(event["step"])
        if group is not None:
            group.waits = True

    def _on_interrupt(self, event: Event, now: float) -> None:
        self.interrupted = True

    def _on_end(self, event: Event, now: float) -> None:
        for path in list(self.running):
            self._stop(path)
        self._final = (event.get("run") or {}).get("steps") or {}
        self.failed = self._final.get("failed", self.failed)

    # -- counting

    def group(self, path: str) -> Group | None:
        """Return the group of a step or an item."""
        found = self.groups.get(path)
        return found if found is not None else self.groups.get(path.rpartition("/")[0])

    def _counts(self, path: str) -> bool:
        """Return whether the step is counted: it is neither a phase nor a `foreach` with items."""
        group = self.group(path)
        if group is None:
            return not self.groups
        return group.leaf.path != path or group.items is None

    def _end(self, path: str, how: str) -> None:
        self.waiting.pop(path, None)
        if path in self._ended or not self._counts(path):
            return
        self._ended[path] = how
        self._done += how == _DONE
        self.failed += how == _FAILED
        group = self.group(path)
        if group is not None:
            group.waits = False
            group.ended += 1
            group.failed += how == _FAILED

    def _reopen(self, path: str) -> None:
        """A step that ended runs again."""
        how = self._ended.pop(path, None)
        if how is None:
            return
        self._done -= how == _DONE
        self.failed -= how == _FAILED
        group = self.group(path)
        if group is not None:
            group.ended -= 1
            group.failed -= how == _FAILED

    def _stop(self, path: str) -> None:
        self.running.pop(path, None)
        self.retrying.pop(path, None)
        group = self.group(path)
        if group is not None:
            group.running.pop(path, None)

    def _time(self, path: str, seconds: float | None) -> None:
        group = self.group(path)
        if group is not None and seconds is not None and self._counts(path) and path not in self._ended:
            group.seconds += seconds
            group.timed += 1

    # -- guessing

    def elapsed(self, now: float) -> float:
        return now - self.began if self.began is not None else 0.0

    def left(self, now: float) -> tuple[float, bool] | None:
        """Return how many seconds are left and whether that covers every step; ``None`` if it is unknown."""
        stretch, mean = self._stretch(), self._mean()
        batches: dict[int, list[tuple[float, float]]] = {}
        sure = True
        for group in self.groups.values():
            if group.leaf.person or (not group.to_start and not group.running):
                continue
            each = self._expected(group, stretch, mean)
            if each is None:
                sure = False
                continue
            batches.setdefault(group.leaf.batch, []).append(_need(group, each, now))
        if not batches:
            return (0.0, True) if sure and self.groups else None
        total = 0.0
        for needs in batches.values():
            total += max(max(longest for _, longest in needs), sum(w for w, _ in needs) / self.info.parallel)
        return total, sure

    def _stretch(self) -> float:
        """Return the factor by which the estimates were off so far."""
        took = wanted = 0.0
        for group in self.groups.values():
            if group.timed and group.leaf.estimate:
                took += group.seconds
                wanted += group.leaf.estimate * group.timed
        least, most = _STRETCH
        return min(max(took / wanted, least), most) if wanted and took else 1.0

    def _mean(self) -> float | None:
        means = [group.mean for group in self.groups.values() if group.mean is not None]
        return sum(means) / len(means) if means else None

    def _expected(self, group: Group, stretch: float, mean: float | None) -> float | None:
        """Return how long one unit of a group most likely takes."""
        if group.timed:
            return group.mean
        if group.leaf.estimate is not None:
            return group.leaf.estimate * stretch
        return mean


def _need(group: Group, each: float, now: float) -> tuple[float, float]:
    """Return the work that is left of a group, and the least time it takes."""
    rests = [max(0.0, each - (now - running.since)) for running in group.running.values()]
    work = each * group.to_start + sum(rests)
    longest = max([each if group.to_start else 0.0, *rests])
    if group.leaf.limit:  # to everything around it, it is one unit
        alone = max(longest, work / group.leaf.limit)
        return alone, alone
    return work, longest
