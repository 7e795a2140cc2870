"""What every side that makes small commits shares: the timed round, and the one that strace watches."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod

from bench import work


class Committing(ABC):
    """A side with a `commit`; the changes are built outside the measured time."""

    def __init__(self) -> None:
        self._n = 0

    @abstractmethod
    def commit(self, changed: dict[str, object]) -> None:
        """Make this change durable before returning."""

    def round(self, size: int) -> float:
        """Seconds for `size` commits."""
        changes = self._changes(size)
        began = time.perf_counter()
        for changed in changes:
            self.commit(changed)
        return time.perf_counter() - began

    def marked(self, size: int) -> None:
        """The same, with a mark before each commit that shows in a trace."""
        mark = os.open("/dev/null", os.O_WRONLY)
        for number, changed in enumerate(self._changes(size)):
            os.write(mark, b"commit %d" % number)
            self.commit(changed)
        os.write(mark, b"end")
        os.close(mark)

    def _changes(self, size: int) -> list[dict[str, object]]:
        begin, self._n = self._n + 1, self._n + size
        return [work.change(n) for n in range(begin, begin + size)]
