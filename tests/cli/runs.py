"""Runs to look at, made by the command itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.command import PATIENCE, environment, succeed

HOSTILE = "new\nline \x1b[31mred\x1b[0m \x9b2J \u202eback"


def started(cwd: Path, workflow: str = "release", *words: str) -> str:
    """A new run; its id."""
    return succeed("start", workflow, *words, cwd=cwd).out.strip()


def release(cwd: Path) -> str:
    """A run of four steps: two are done, one is in flight."""
    run = started(cwd, "release", "--title", "Release 1.4", "--steps", "collect,build,test,publish")
    succeed("set", "version=1.4", "tag=1.10", "count=3", cwd=cwd)
    succeed("step", "done", "collect", "--result", '{"files": 12}', cwd=cwd)
    succeed("step", "done", "build", cwd=cwd)
    succeed("step", "start", "test", cwd=cwd)
    return run


@contextmanager
def driven(cwd: Path, workflow: str = "driven") -> Iterator[str]:
    """A run that a live process drives; its id."""
    code = f"""
import sys, leftoff
run = leftoff.start({workflow!r}, steps=["a", "b"])
print(run.id, flush=True)
sys.stdin.readline()
run.pause()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.write("\n")
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()


def harmless(text: str) -> bool:
    """Whether there is nothing in a text that a terminal would obey, but the ends of its lines."""
    return all(c.isprintable() or c == "\n" for c in text)


def files_below(folder: Path) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names
    )
