"""One life of an agent's process: started, read line by line, ended when this process is told to end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from leftoff.agents.headless.lines import Outcome, feed

NOT_FOUND = 127
_PATIENCE = 0.5  # seconds that an agent has to end by itself, having been told together with us
_LOOK = 1.0
BEAT = 20.0


class Stopped(BaseException):
    """We were told to end, and the agent has ended."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Watch:
    """Whether we were told to end. The agent is in our process group, and was told with us."""

    def __init__(self) -> None:
        self.told: float | None = None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on)

    def _on(self, number: int, frame: Any) -> None:
        self.told = self.told or time.monotonic()

    def sleep(self, seconds: float, each: Callable[[], None]) -> None:
        """Wait, and say now and then that we do."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.told is not None:
                raise Stopped(128 + signal.SIGTERM)
            each()
            time.sleep(min(left, 0.5))


def live(
    words: list[str], agent: str, watch: Watch, beat: Callable[[], None], learned: Callable[[str], None]
) -> tuple[int, Outcome]:
    """Run an agent to its end; its exit code and what it said. ``learned`` is told its session's id."""
    out = Outcome()
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    except OSError as error:
        out.error = f"{words[0]} cannot be started: {error.strerror}"
        return NOT_FOUND, out
    known: str | None = None
    for line in _lines(process, watch, beat):
        shown = feed(agent, line, out)
        if shown:
            print(shown, flush=True)
        if out.session and out.session != known:
            known = out.session
            learned(known)
    code = process.wait()
    if watch.told is not None:
        raise Stopped(code if code >= 0 else 128 - code)
    return code, out


def _lines(process: subprocess.Popen[bytes], watch: Watch, beat: Callable[[], None]) -> Any:
    """Its lines as they come, until it has closed its output or is gone."""
    assert process.stdout is not None
    fd, rest, last = process.stdout.fileno(), b"", time.monotonic()
    while True:
        ready = select.select([fd], [], [], _LOOK if watch.told is None else 0.1)[0]
        if watch.told is not None and time.monotonic() - watch.told > _PATIENCE and process.poll() is None:
            process.terminate()
        if time.monotonic() - last > BEAT:
            last = time.monotonic()
            beat()
        if not ready:
            if process.poll() is not None:
                break  # something that it left behind holds its output open
            continue
        data = os.read(fd, 1 << 16)
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")
    if rest.strip():
        yield rest.decode("utf-8", "replace")


def complain(text: str) -> None:
    print(f"leftoff: {text}", file=sys.stderr, flush=True)
