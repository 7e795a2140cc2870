"""A hook in bounded time: the work is done by a child, which the agent never waits for longer than ``LIMIT``.

A store that is locked, slow or hangs must not hold up the agent. So the work runs in a process of its own, which gives
its answer through a pipe. If that takes too long the hook ends without an answer, and the child goes on: what it has to
save is saved once the store is free again. It has let go of the agent's streams, and ends by itself at last.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 0.7  # seconds that an agent waits, on top of what it takes to start
LAST = 120  # seconds after which the child gives up


def bounded(work: Callable[[], bytes], limit: float = LIMIT) -> bytes | None:
    """What ``work`` answers; ``None`` where that takes too long, or its process fails."""
    end = time.monotonic() + limit
    sys.stdout.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(work, reading, writing)
    os.close(writing)
    found = b""
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        piece = os.read(reading, 1 << 16)
        if not piece:
            return found if os.waitpid(pid, 0)[1] == 0 else None
        found += piece
    return None


def _child(work: Callable[[], bytes], reading: int, writing: int) -> None:
    """Never returns."""
    code = 1
    try:
        from _signal import alarm  # type: ignore[import-not-found]  # `signal` costs ten times as much

        alarm(LAST)
        os.close(reading)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        answer = work()
        while answer:
            answer = answer[os.write(writing, answer) :]
        code = 0
    finally:
        os._exit(code)
