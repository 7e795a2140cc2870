"""leftoff through its public API: small commits, steps and lists."""

from __future__ import annotations

import random
import time
from pathlib import Path

import leftoff
from bench import work
from bench.places import allocated
from bench.sides.committing import Committing


def trivial() -> int:
    """A step that costs nothing but its durability."""
    return 1


class Commits(Committing):
    """Ten variables, two of which change per commit."""

    def __init__(self, folder: str, url: str = "", run_id: str = "bench") -> None:
        """`url`: a store on a server."""
        super().__init__()
        self._store = leftoff.open(url or f"{folder}/.leftoff")
        self._run = self._store.start("bench", run_id=run_id)
        self.commit(work.variables())

    def commit(self, changed: dict[str, object]) -> None:
        """One durable commit."""
        self._run.variables.update(**changed)
        self._run.commit()


class Steps:
    """One run per round, as DBOS gets one workflow per round."""

    def __init__(self, folder: str) -> None:
        self._store = leftoff.open(f"{folder}/.leftoff")
        self._runs = 0

    def do(self, size: int) -> float:
        """Seconds for `size` steps by `run.do`; the run's start and end are not counted."""
        run = self._start()
        names = [f"step-{number}" for number in range(size)]
        began = time.perf_counter()
        for name in names:
            run.do(name, trivial)
        taken = time.perf_counter() - began
        run.finish()
        return taken

    def block(self, size: int) -> float:
        """The same by `with run.step`."""
        run = self._start()
        names = [f"step-{number}" for number in range(size)]
        began = time.perf_counter()
        for name in names:
            with run.step(name):
                trivial()
        taken = time.perf_counter() - began
        run.finish()
        return taken

    def _start(self) -> leftoff.Run:
        self._runs += 1
        return self._store.start("bench", run_id=f"steps-{self._runs}")


class Grown:
    """A list that gets one item per commit."""

    def __init__(self, folder: str, url: str = "") -> None:
        """`url`: a store on a server."""
        self._path = Path(folder, ".leftoff")
        self._store = leftoff.open(url or str(self._path))
        self._run = self._store.start("bench", run_id="bench")

    def grow(self, count: int) -> dict[str, object]:
        """Seconds of each commit, and the bytes allocated at the end, before and after closing; of a folder."""
        taken = []
        for n in range(count):
            fresh = work.item(n)
            began = time.perf_counter()
            self._run.append("x", fresh)
            self._run.commit()
            taken.append(time.perf_counter() - began)
        size_open = allocated(self._path) if self._path.exists() else 0
        self._store.close()
        size = allocated(self._path) if self._path.exists() else 0
        return {"taken": taken, "bytes": size, "bytes_open": size_open}


class Reassigned:
    """The same list assigned whole each step, with one random edit."""

    def __init__(self, folder: str, kind: str = "fresh") -> None:
        """`fresh`: every item is a new object; `identity`: the unchanged ones came from `run.variables`."""
        self._path = Path(folder, ".leftoff")
        self._store = leftoff.open(str(self._path))
        self._run = self._store.start("bench", run_id="bench")
        self._run.variables["x"] = []
        self._run.commit()
        self._items: list[dict[str, object]] = []
        self._random = random.Random(1)
        self._step = self._fresh if kind == "fresh" else self._identity
        self._n = 0

    def grow(self, count: int) -> None:
        """Reach `count` items, one more and one edited per step."""
        for n in range(count):
            self._items.append(work.item(n))
            self._step()

    def round(self, size: int) -> float:
        """Seconds for `size` steps with one edit each."""
        return sum(self._step() for _ in range(size))

    def close(self) -> int:
        """Bytes allocated at the end."""
        self._store.close()
        return allocated(self._path)

    def _fresh(self) -> float:
        index, edited = self._edit()
        self._items[index] = edited
        items = work.rebuilt(self._items)
        began = time.perf_counter()
        self._run.variables["x"] = items
        self._run.commit()
        return time.perf_counter() - began

    def _identity(self) -> float:
        index, edited = self._edit()
        added = self._items[len(self._run.variables["x"]) :]
        began = time.perf_counter()
        items = list(self._run.variables["x"])
        items.extend(added)
        items[index] = edited
        self._run.variables["x"] = items
        self._run.commit()
        return time.perf_counter() - began

    def _edit(self) -> tuple[int, dict[str, object]]:
        self._n += 1
        return self._random.randrange(len(self._items)), work.item(1_000_000 + self._n)
