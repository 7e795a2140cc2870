"""The parent half of a side: starts a worker, calls it, and says loudly what went wrong in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class SideFailed(Exception):
    """A side raised or died; the text is its own traceback or its last words."""


class Remote:
    """A side in another process, called by method name."""

    def __init__(
        self, target: str, params: dict[str, object], errors: Path, prefix: Sequence[str] = ()
    ) -> None:
        """Start `target` (`module:Class`) with `params`; `prefix` may put strace in front."""
        self.target = target
        self.errors = errors
        self._stderr = errors.open("w", encoding="utf-8")
        command = [*prefix, sys.executable, "-m", "bench.worker", target, json.dumps(params)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
        )
        try:
            self.receive()
        except SideFailed:
            self.close()
            raise

    def call(self, method: str, **args: object) -> Any:
        """The method's result; whatever it raised comes back as `SideFailed`."""
        self.send(method, **args)
        return self.receive()

    def send(self, method: str, **args: object) -> None:
        """Only ask, so that several sides can work at the same time."""
        assert self._process.stdin is not None
        print(json.dumps({"call": method, "args": args}), file=self._process.stdin, flush=True)

    def receive(self) -> Any:
        """The result of the oldest request not yet answered."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise SideFailed(f"{self.target} ended with {code}: {self.errors.read_text()[-2000:]}")
        reply = json.loads(line)
        if "error" in reply:
            raise SideFailed(f"{self.target}: {reply['error']}")
        return reply["ok"]

    def close(self) -> None:
        """End the worker by closing its stdin; insist after a while."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()


@contextmanager
def side(
    target: str, folder: Path, prefix: Sequence[str] = (), name: str | None = None, **params: object
) -> Iterator[Remote]:
    """A side that works in a folder of its own under `folder`, called after it unless `name` is given."""
    place = folder / (name or target.replace(":", "-"))
    place.mkdir(exist_ok=True)
    remote = Remote(target, {"folder": str(place), **params}, folder / f"{place.name}.stderr", prefix)
    try:
        yield remote
    finally:
        remote.close()


def once(target: str, method: str, folder: Path, **params: Any) -> Any:
    """One call in a fresh process: what a program that has just been started sees."""
    with side(target, folder, **params) as remote:
        return remote.call(method)
