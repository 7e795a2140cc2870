"""DBOS: one step with a large result, as `bench.sides.large`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dbos import DBOS

from bench.sides import durable
from bench.sides.large import KINDS

_now: list[Any] = []


def _make() -> Any:
    return _now[0]


make: Callable[[], Any] = DBOS.step()(_make)


def _large() -> float:
    began = time.perf_counter()
    found = make()
    taken = time.perf_counter() - began
    assert len(found) == len(_now[0])
    return taken


large: Callable[[], float] = DBOS.workflow()(_large)


class Results:
    """One workflow per round."""

    def __init__(self, folder: str) -> None:
        durable.launch(folder)

    def _round(self, kind: str, size: int) -> float:
        _now[:] = [KINDS[kind](size)]
        return large()

    def megabytes(self, size: int) -> float:
        return self._round("megabytes", size)

    def rows(self, size: int) -> float:
        return self._round("rows", size)

    def texts(self, size: int) -> float:
        return self._round("texts", size)
