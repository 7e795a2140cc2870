"""Bursts of short steps: their starts are told only where they turn out not to be short.

Entering a step commits that it is running. In a loop over thousands of steps of a millisecond each, that is half the
work, and nobody can see it: the step is over before anyone looks. So after a few quick steps in a row the next start
waits; if the step is not over within a moment, the heartbeat's thread commits it. A burst that is killed shows the step
that was in flight as pending, and it is run again, as one that shows as running would be.
"""

from __future__ import annotations

from time import monotonic

from leftoff.engine.write.commit import Terms, commit_apart
from leftoff.errors import LeftoffError
from leftoff.model.changes import ChangeSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.api.buffer import Buffer
    from leftoff.model.changes import Change

QUICK_S = 0.005  # a step that takes no longer is a quick one
IN_A_ROW = 8  # quick steps make a burst
TELL_S = 0.02  # a start is told after that long
OVER_S = 1.0  # without a quick step, the burst is over


class Burst:
    """The quick steps of one run."""

    __slots__ = ("_count", "_last", "_untold")

    def __init__(self) -> None:
        self._count = 0
        self._last = 0.0
        self._untold: dict[str, tuple[Change, float]] = {}

    def defers(self, path: str, change: Change) -> bool:
        """Whether the start of this step may wait."""
        if self._count < IN_A_ROW:
            return False
        self._untold[path] = (change, monotonic())
        return True

    def over(self, path: str, took: float) -> None:
        """A step ended."""
        self._untold.pop(path, None)
        self._last = monotonic()
        self._count = self._count + 1 if took <= QUICK_S else 0

    def broken(self, path: str) -> None:
        """A step failed, or was left: the next ones are told at once."""
        self._untold.pop(path, None)
        self._count = 0

    def due(self) -> list[tuple[str, Change]]:
        now = monotonic()
        return [(path, change) for path, (change, at) in list(self._untold.items()) if now - at >= TELL_S]

    def lasts(self) -> bool:
        return bool(self._untold) or monotonic() - self._last < OVER_S

    def told(self, path: str) -> None:
        self._untold.pop(path, None)


def tell_starts(buffer: Buffer) -> bool:
    """Commit the starts that have waited long enough; whether to look again soon. Called by the heartbeat's thread.

    No other commit of the run meanwhile: the end of a step must not overtake its start. Nor is one waited for: whoever
    ends the run waits for this thread.
    """
    if not buffer.committing.acquire(blocking=False):
        return True
    try:
        return _tell(buffer)
    finally:
        buffer.committing.release()


def _tell(buffer: Buffer) -> bool:
    with buffer.lock:
        changes = ChangeSet(buffer.redactor)
        for path, change in buffer.burst.due():
            buffer.burst.told(path)
            if buffer.pending.changes.get(("step", path)) is change:
                changes.changes["step", path] = buffer.pending.changes.pop(("step", path))
        if changes.changes:
            try:
                now = buffer.clock.now()
                version, adopt = commit_apart(
                    buffer.store, buffer.head, changes, Terms(now, buffer.guard), durable=False
                )
            except LeftoffError:  # the next commit of the run itself says what is wrong
                buffer.pending.changes = {**changes.changes, **buffer.pending.changes}
            else:
                buffer.adopted(version, {}, changes, adopt)
        return buffer.burst.lasts()
