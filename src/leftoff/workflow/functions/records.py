"""What is written of a step, and when.

A step's start is told so that others see what is in flight, and committed unsynced. In a burst of quick steps it waits,
and is not even written down: only a step that is not over in a moment is told, by the heartbeat's thread (see
``leftoff.api.bursts``). A step's end is one record, and durable before the workflow goes on. Threads that end steps at
the same time share a commit, and its sync.
"""

from __future__ import annotations

import time
import weakref
from time import monotonic

from leftoff.api.bursts import IN_A_ROW, TELL_S, Burst
from leftoff.engine.write.commit import Seal
from leftoff.model.changes import NOTHING
from leftoff.model.ids import parent_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.api.run import Run
    from leftoff.model.changes import Change

Record = dict[str, "Any"]


class Starts(Burst):
    """The quick steps of one run; the starts that wait are only remembered."""

    __slots__ = ("_run", "_waiting")

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = weakref.ref(run)
        self._waiting: dict[str, tuple[Record, float]] = {}

    def waits(self, path: str, record: Record) -> bool:
        """Whether the start of this step may wait; it is told later, if the step is not over by then."""
        if self._count < IN_A_ROW:
            return False
        self._waiting[path] = (record, monotonic())
        return True

    def over(self, path: str, took: float) -> None:
        self._waiting.pop(path, None)
        super().over(path, took)

    def broken(self, path: str) -> None:
        self._waiting.pop(path, None)
        super().broken(path)

    def due(self) -> list[tuple[str, Change]]:
        """Called with the run's locks held: nobody writes meanwhile."""
        out, run = super().due(), self._run()
        for path, (record, at) in list(self._waiting.items()):
            if run is None or monotonic() - at < TELL_S or self._waiting.pop(path, None) is None:
                continue
            run._buffer.steps.move(path, record)
            for told in (*above(path), path):
                change = run._buffer.pending.changes.get(("step", told))
                if change is not None:
                    out.append((told, change))
        return out

    def lasts(self) -> bool:
        return bool(self._waiting) or super().lasts()


def above(path: str) -> list[str]:
    """The paths that a path is below, outermost first."""
    out: list[str] = []
    while path := parent_of(path):
        out.insert(0, path)
    return out


class Records:
    """The step records of one run that this process drives."""

    __slots__ = ("_second", "_starts", "_written", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self._starts = run._buffer.burst = Starts(run)
        self._second, self._written = 0, ""

    def now(self) -> str:
        """As ``clock.iso`` has it; thousands of steps end within a second."""
        ms = self.run._buffer.clock.now()
        second, rest = divmod(ms, 1000)
        if second != self._second:
            written = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._written, self._second = written, second
        else:
            written = self._written
        return f"{written}.{rest:03d}Z" if rest else f"{written}Z"

    def get(self, path: str) -> tuple[Record, list[list[Any]]] | None:
        """A step's record and its redacted paths."""
        run = self.run
        with run._buffer.lock:
            return run._buffer.steps.known().get(path)

    def begin(self, path: str, record: Record, *, sure: bool = False) -> None:
        """A step starts. ``sure``: that is durable before it does."""
        if not sure and self.run._buffer.heart is not None and self._starts.waits(path, record):
            self.run._buffer.heart.watch()
            return
        self.run._buffer.steps.move(path, record)
        self.run._buffer.commit(None, durable=sure, only=[*above(path), path])

    def put(self, path: str, record: Record) -> None:
        """Durable with the next commit."""
        self.run._buffer.steps.move(path, record)

    def declare(self, above_all: str, paths: list[tuple[str, Record]]) -> None:
        """Steps that will come, so that progress can be seen."""
        for path, record in paths:
            self.run._buffer.steps.move(path, record)
        self.run._buffer.commit(None, only=[*above(above_all), above_all, *(path for path, _ in paths)])

    def end(self, path: str, record: Record, took: float) -> Any:
        """A step is complete, durably; its result as it will be read from now on."""
        self._starts.over(path, took)
        change = self.run._buffer.steps.move(path, record)
        result = record.get("result")
        if isinstance(result, (dict, list, str)):  # not the caller's own; and a text may have been masked
            record["result"] = result = change.entry("result")
        self._save(path, change, Seal("step_complete", path))
        return result

    def fail(self, path: str, record: Record, seal: Seal | None) -> None:
        """A step failed, or was cut off."""
        self._starts.broken(path)
        self._save(path, self.run._buffer.steps.move(path, record), seal)

    def _save(self, path: str, change: Change, seal: Seal | None) -> None:
        """Commit, unless whoever committed just before has done it for us."""
        run = self.run
        with run._buffer.committing:
            if run._buffer.pending.changes.get(("step", path)) is change:
                run._buffer.commit(seal)

    def drop(self, paths: list[str]) -> None:
        """Steps of a course of events that is not taken any more; they stay in the history."""
        run = self.run
        with run._buffer.lock:
            for path in paths:
                run._buffer.steps.remove(path)

    def told(self, error: BaseException) -> bool:
        """Whether a failure was sealed already."""
        return self.run._sealed_error(error)

    def remember(self, error: BaseException) -> None:
        self.run._told_errors = [*self.run._told_errors[-31:], error]

    def about(self, error: BaseException, lost: Any = NOTHING) -> dict[str, str]:
        """An error as a record has it. ``lost``: what the step returned, and cannot be recorded."""
        kind = type(error)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}:{kind.__qualname__}"
        )
        return {
            "type": name,
            "message": self.run._told(error),
            **self.run._trace(error),
            **self.run._lost(lost),
        }
