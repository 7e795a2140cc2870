"""What a case is, what it reports, and the list of all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One measured figure beside the bound it must meet; without a bound it is information only."""

    label: str
    value: float
    unit: str = "x"
    at_least: float | None = None
    at_most: float | None = None
    aim: float | None = None
    raw: dict[str, object] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """`ok`, `short` of its target, or `info` where there is none."""
        if self.at_least is None and self.at_most is None:
            return "info"
        low = self.at_least is not None and self.value < self.at_least
        high = self.at_most is not None and self.value > self.at_most
        return "short" if low or high else "ok"

    @property
    def target(self) -> str:
        """The bound as a person reads it."""
        parts = [
            f"{sign} {bound:g}"
            for sign, bound in (("≥", self.at_least), ("≤", self.at_most))
            if bound is not None
        ]
        if self.aim is not None:
            parts.append(f"aim {self.aim:g}")
        return ", ".join(parts) or "—"


@dataclass(frozen=True)
class Context:
    """How thoroughly and where to measure."""

    quick: bool
    repeat: int | None
    disk: Path
    ram: Path

    def pick(self, full: int, quick: int) -> int:
        """A size: the one the issue names, or a small one that only shows the case works."""
        return quick if self.quick else full

    def rounds(self, full: int, quick: int = 3) -> int:
        """How many interleaved rounds; `--repeat` overrules both."""
        return self.repeat or self.pick(full, quick)

    @contextmanager
    def folder(self, place: str) -> Iterator[Path]:
        """A fresh folder on `disk` or `ram`, gone afterwards."""
        base = self.disk if place == "disk" else self.ram
        with tempfile.TemporaryDirectory(prefix="leftoff-bench-", dir=base) as name:
            yield Path(name)


Measure = Callable[[Context], Iterator[Row]]


@dataclass(frozen=True)
class Case:
    """A named group of rows that are measured together."""

    name: str
    title: str
    measure: Measure


CASES: dict[str, Case] = {}


def case(name: str, title: str) -> Callable[[Measure], Measure]:
    """Register a generator of rows under a name for `--case`."""

    def register(measure: Measure) -> Measure:
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = Case(name, title, measure)
        return measure

    return register
