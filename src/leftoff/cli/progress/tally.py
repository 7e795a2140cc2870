"""How far a run is, kept up to date event by event; and how long it will still take.

Each event costs the same, however many steps there are: what a display needs is counted as it happens, by group. A
group is a step of the workflow, or a `foreach` with all its items.

The guess of what is left: an item of a `foreach` takes what its finished siblings took on average; another step takes
its estimate, stretched as the estimates so far turned out; one without an estimate takes what finished steps took on
average. Within a batch steps share the places there are, batches follow one another. People are not waited for.
"""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.progress.info import Info, Leaf

    Event = dict[str, Any]

DONE, FAILED = "done", "failed"
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
    """A run as its events tell it."""

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
        """How many steps there are, as far as is known by now: a `foreach` is one until its items are known."""
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
        """Take an event in; ``now`` is the display's own clock, in seconds."""
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
                self._end(entry["step"], DONE)
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
        self._end(event["step"], DONE)

    def _on_step_skipped(self, event: Event, now: float) -> None:
        self._stop(event["step"])
        self._end(event["step"], DONE)

    def _on_step_stopped(self, event: Event, now: float) -> None:
        self._stop(event["step"])

    def _on_step_failed(self, event: Event, now: float) -> None:
        path, again = event["step"], event.get("will_retry_in")
        self._stop(path)
        if again is not None:
            self.retrying[path] = now + again
        else:
            self._end(path, FAILED)

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
        """The step of the workflow that this is, or that this is an item of."""
        found = self.groups.get(path)
        return found if found is not None else self.groups.get(path.rpartition("/")[0])

    def _counts(self, path: str) -> bool:
        """Whether it is a leaf: neither a phase, nor a `foreach` that has items."""
        group = self.group(path)
        if group is None:
            return not self.groups
        return group.leaf.path != path or group.items is None

    def _end(self, path: str, how: str) -> None:
        self.waiting.pop(path, None)
        if path in self._ended or not self._counts(path):
            return
        self._ended[path] = how
        self._done += how == DONE
        self.failed += how == FAILED
        group = self.group(path)
        if group is not None:
            group.waits = False
            group.ended += 1
            group.failed += how == FAILED

    def _reopen(self, path: str) -> None:
        """A step that ended runs again."""
        how = self._ended.pop(path, None)
        if how is None:
            return
        self._done -= how == DONE
        self.failed -= how == FAILED
        group = self.group(path)
        if group is not None:
            group.ended -= 1
            group.failed -= how == FAILED

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
        """How many seconds are left, and whether every step that is left is in it; ``None``: nobody can know."""
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
        """What estimates so far have to be multiplied with."""
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
        """How long one unit of it takes, most likely."""
        if group.timed:
            return group.mean
        if group.leaf.estimate is not None:
            return group.leaf.estimate * stretch
        return mean


def _need(group: Group, each: float, now: float) -> tuple[float, float]:
    """The work that is left of a group, and the time it takes at the very least."""
    rests = [max(0.0, each - (now - running.since)) for running in group.running.values()]
    work = each * group.to_start + sum(rests)
    longest = max([each if group.to_start else 0.0, *rests])
    if group.leaf.limit:  # to everything around it, it is one unit
        alone = max(longest, work / group.leaf.limit)
        return alone, alone
    return work, longest
