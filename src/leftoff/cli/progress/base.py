"""What every observer is, and how one falls silent."""

from __future__ import annotations

import errno
import os

from leftoff.cli.render.text import say
from leftoff.log import debugging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Event = dict[str, Any]


_NOBODY_READS = (errno.EPIPE, errno.EIO)  # a pipe that was closed, a terminal that is gone


class Observer:
    """See ``leftoff.cli.progress``. A kind of observer has ``handle``; ``draw`` and ``finish`` where it needs them."""

    wants_output = False
    every: float | None = None

    def __init__(self) -> None:
        self._silent = False
        self._closed = False
        self.lost = ""  # why some of it could not be written, where somebody would have read it

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

    def _try(self, call: Callable[[], None]) -> None:
        """A reader that left, a terminal that is gone, an error of our own: it ends the talk and not the work."""
        try:
            call()
        except OSError as error:
            if error.errno not in _NOBODY_READS:
                self.lost = error.strerror or str(error)
            if error.errno != errno.ENOSPC:  # there may be room again for the next line
                self._silent = True
                _drain()
        except Exception as error:
            if debugging():
                raise
            self._silent = True
            _say(
                f"leftoff: progress can no longer be shown ({type(error).__name__}: {error}); the run continues."
            )


def _say(text: str) -> None:
    try:
        say(f"{text}\n")
    except OSError:
        pass


def _drain() -> None:
    """What Python still has for stdout goes nowhere, without a word at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
    except OSError:
        pass
    finally:
        os.close(nowhere)
