"""One step with a large result: what it costs to record it, from the call to the value that comes back.

`ours` and `unscanned` are `run.do` (the second with redaction switched off), `durable_large` is DBOS.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leftoff

SENTENCE = "The quick brown fox, number {}, jumps over the lazy dog; nobody knows why. "


def megabytes(size: int) -> bytes:
    """Bytes that no compressor makes smaller."""
    return os.urandom(size * 1_000_000)


def rows(size: int) -> list[dict[str, Any]]:
    """Thousands of small records."""
    return [{"id": n, "name": f"user {n}", "score": n / 7} for n in range(size * 1000)]


def texts(size: int) -> list[str]:
    """Megabytes of prose, a paragraph each."""
    return [SENTENCE.format(n) * 13 for n in range(size * 1000)]


KINDS: dict[str, Callable[[int], Any]] = {"megabytes": megabytes, "rows": rows, "texts": texts}


class Ours:
    """A run with one step per round."""

    redacts = True

    def __init__(self, folder: str) -> None:
        home = Path(folder) / type(self).__name__
        home.mkdir()
        if not self.redacts:
            (home / "leftoff.toml").write_text("[redaction]\nenabled = false\n")
        self._store = leftoff.open(home / ".leftoff")
        self._rounds = 0

    def _round(self, value: Any) -> float:
        self._rounds += 1
        with self._store.run("large", title=str(self._rounds)) as run:
            began = time.perf_counter()
            found = run.do("make", lambda: value)
            taken = time.perf_counter() - began
        assert len(found) == len(value)
        return taken

    def megabytes(self, size: int) -> float:
        return self._round(megabytes(size))

    def rows(self, size: int) -> float:
        return self._round(rows(size))

    def texts(self, size: int) -> float:
        return self._round(texts(size))


class Unscanned(Ours):
    """The same without redaction."""

    redacts = False
