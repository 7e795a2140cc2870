"""What the tests of durable functions share: a store, what was called, and programs that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leftoff


class Calls(list[Any]):
    """What was called, in order; whoever is listed in ``fail`` raises that often."""

    def __init__(self) -> None:
        self.fail: dict[Any, int] = {}

    def __call__(self, what: Any) -> Any:
        self.append(what)
        if self.fail.get(what, 0) > 0:
            self.fail[what] -= 1
            raise ValueError(f"no {what}")
        return what

    def taken(self) -> list[Any]:
        """What was called since the last look."""
        out = list(self)
        self.clear()
        return out


@pytest.fixture
def calls() -> Calls:
    """What was called."""
    return Calls()


@pytest.fixture
def store(store_path: Path) -> Iterator[leftoff.Store]:
    """An open store."""
    with leftoff.open(store_path) as opened:
        yield opened


def statuses(store: leftoff.Store, ref: str) -> dict[str, str]:
    """The steps of a run, by path."""
    return {path: record["status"] for path, record in store.get(ref).steps.items()}


def start_program(text: str, folder: Path, *args: str) -> subprocess.Popen[str]:
    """A Python program in a folder, started."""
    (folder / "program.py").write_text(text)
    return subprocess.Popen(
        [sys.executable, "-u", "program.py", *args],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LEFTOFF_STORE": str(folder / ".leftoff")},
    )


def program(text: str, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A Python program that ran to its end."""
    child = start_program(text, folder, *args)
    out, err = child.communicate(timeout=120)
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def lines(path: Path) -> list[str]:
    """The lines of a file; none where it is not there."""
    return path.read_text().splitlines() if path.exists() else []
