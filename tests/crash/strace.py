"""Counting and failing system calls of a running program with strace."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CALLS = [
    "write",
    "pwrite64",
    "pwritev",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "open",
    "openat",
    "unlink",
    "unlinkat",
    "ftruncate",
    "fallocate",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
]
LINE = re.compile(r"^(\d+)\s+(\w+)\(")
PATIENCE = 240.0  # only who hangs is waited for so long, however slow the machine


def require() -> None:
    """Without strace these faults cannot be made, and a test that was not made has not passed."""
    if shutil.which("strace") is None:
        raise AssertionError("strace is not installed: `apt-get install strace`, then run the tests again")


@contextmanager
def attached(pid: int, log: Path, *expressions: str) -> Iterator[None]:
    """strace on a running program and all its threads, until it ends or we leave."""
    require()
    command = ["strace", "-f", "-p", str(pid), "-o", str(log)]
    for expression in expressions:
        command += ["-e", expression]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        wait_attached(tracer)
        yield
    finally:
        tracer.terminate()
        tracer.communicate(timeout=PATIENCE)


def wait_attached(tracer: subprocess.Popen[str]) -> None:
    """strace says so once every call is seen; what it says instead is why it could not."""
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if " attached" not in said:
        tracer.kill()
        raise AssertionError(f"strace cannot attach to a test's own child: {said.strip()}")


def watch(names: list[str]) -> str:
    """The expression that traces these calls; a `?` allows for those that a machine lacks."""
    return "trace=" + ",".join(f"?{name}" for name in names)


def fault(name: str, what: str, when: int) -> str:
    """The expression that fails (`error=ENOSPC`) or kills (`signal=KILL`) at the `when`th call of a thread."""
    return f"inject={name}:{what}:when={when}"


def count(log: Path) -> dict[str, int]:
    """How often each call was made by the thread that made it most often: strace counts per thread."""
    per_thread: Counter[tuple[str, str]] = Counter()
    for line in log.read_text(errors="replace").splitlines():
        if found := LINE.match(line):
            per_thread[found[1], found[2]] += 1
    most: dict[str, int] = {}
    for (_, name), times in per_thread.items():
        most[name] = max(times, most.get(name, 0))
    return most
