"""What every observer is, and how one falls silent."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Event = dict[str, Any]


class Observer:
    """See ``leftoff.cli.progress``. A kind of observer has ``handle``; ``draw`` and ``finish`` where it needs them."""

    wants_output = False
    every: float | None = None

    def __init__(self) -> None:
        self._silent = False
        self._closed = False

    def __call__(self, event: Event) -> None:
        if not self._silent:
            self._try(lambda: self.handle(event))

    def tick(self) -> None:
        """Time has passed."""
        if not self._silent and not self._closed:
            self._try(self.draw)

    def close(self) -> None:
        if not self._silent and not self._closed:
            self._try(self.finish)
        self._closed = True

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- for the kinds

    def handle(self, event: Event) -> None:
        raise NotImplementedError

    def draw(self) -> None:
        """Bring what is shown up to date."""

    def finish(self) -> None:
        """Nothing comes any more."""

    def _try(self, call: Any) -> None:
        """A reader that left, or a terminal that is gone, ends the talk and not the work."""
        try:
            call()
        except OSError as error:
            if error.errno == errno.ENOSPC:  # there may be room again for the next line
                return
            self._silent = True
            _drain()


def _drain() -> None:
    """What Python still has for stdout goes nowhere, without a word at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
    except OSError:
        pass
    finally:
        os.close(nowhere)
