"""One life of an agent's process: started, read line by line, ended when this process is told to end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from leftoff.agents.headless.lines import Outcome, feed

NOT_FOUND, CANNOT = 127, 126
_KEPT = 4000  # characters of what it complains of
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
    words: list[str],
    agent: str,
    watch: Watch,
    beat: Callable[[], None],
    learned: Callable[[str], None],
    over: Callable[[Outcome], str],
) -> tuple[int, Outcome]:
    """Run an agent to its end; its exit code and what it said. ``learned`` is told its session's id.

    ``over`` is asked after each line which limit it has gone over: then it is told to end.
    """
    out = Outcome()
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        out.error = f"{words[0]} cannot be started: {error.strerror}"
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT, out
    known: str | None = None
    gone_over = ""
    for stream, line in _Lines(process, watch, beat):
        if stream is process.stderr:
            out.complaints = f"{out.complaints}{line}\n"[-_KEPT:]
            print(line, file=sys.stderr, flush=True)
            continue
        shown = feed(agent, line, out)
        if shown:
            print(shown, flush=True)
        if out.session and out.session != known:
            known = out.session
            learned(known)
        if not gone_over and not out.ended and (gone_over := over(out)):
            process.terminate()
    code = process.wait()
    if watch.told is not None:
        raise Stopped(code if code >= 0 else 128 - code)
    if gone_over:
        out.ended, out.ok, out.subtype, out.error = True, False, gone_over, gone_over
    return code, out


class _Lines:
    """What a process prints, on both streams, as it comes; until it has closed them or is gone."""

    def __init__(self, process: subprocess.Popen[bytes], watch: Watch, beat: Callable[[], None]) -> None:
        self.process = process
        self.watch = watch
        self.beat = beat
        self.ended = False  # it was told to end

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        rest: dict[Any, bytes] = {self.process.stdout: b"", self.process.stderr: b""}
        left, last = set(rest), time.monotonic()
        while left:
            ready = select.select(list(left), [], [], _LOOK if self.watch.told is None else 0.1)[0]
            self._tell()
            if time.monotonic() - last > BEAT:
                last = time.monotonic()
                self.beat()
            if not ready and self.process.poll() is not None:
                break  # something that it left behind holds its output open
            for stream in ready:
                data = os.read(stream.fileno(), 1 << 16)
                if not data:
                    left.discard(stream)
                *whole, rest[stream] = (rest[stream] + data).split(b"\n")
                for line in whole:
                    yield stream, line.decode("utf-8", "replace").rstrip("\r")
        for stream, data in rest.items():
            if data.strip():
                yield stream, data.decode("utf-8", "replace")

    def _tell(self) -> None:
        """Tell it once, where it was not told with us: a second time would cut off what it does to end cleanly."""
        told = self.watch.told
        if told is None or self.ended or time.monotonic() - told < _PATIENCE:
            return
        self.ended = True
        if self.process.poll() is None:
            self.process.terminate()


def complain(text: str) -> None:
    print(f"leftoff: {text}", file=sys.stderr, flush=True)
