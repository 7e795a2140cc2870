"""What a long past costs those who only want the present, and those who want the past."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.registry import Context, Row, case
from bench.remote import once, side
from bench.rounds import Comparison, interleave

SIDE = "bench.sides.ours_history"


def build(folder: Path, keys: int, versions: int) -> dict[str, Any]:
    """A closed store with that past; its path and checkpoint ids."""
    folder.mkdir()
    result: dict[str, Any] = once(f"{SIDE}:Build", "build", folder, keys=keys, versions=versions)
    return result


def head(folder: Path, path: str, keys: int, versions: int) -> float:
    """Seconds to load the head in a fresh process."""
    return float(once(f"{SIDE}:Load", "head", folder, path=path, keys=keys, versions=versions))


def old(folder: Path, built: dict[str, Any], keys: int, picks: list[int]) -> list[float]:
    """Seconds to read each picked version, the store opened anew for each."""
    ids = built["ids"]
    with side(f"{SIDE}:Load", folder, path=built["path"], keys=keys, versions=len(ids)) as remote:
        return [float(remote.call("old", ref=ids[version], version=version)) for version in picks]


@case("history", "1,000 keys × 1,000 versions")
def history(context: Context) -> Iterator[Row]:
    """The head loads as if there were no past; any old version is at hand."""
    keys, versions = context.pick(1_000, 200), context.pick(1_000, 100)
    with context.folder("ram") as folder:
        long, short = build(folder / "long", keys, versions), build(folder / "short", keys, 1)
        ours, bare = [], []
        for _ in range(context.rounds(11, 3)):
            ours.append(head(folder, long["path"], keys, versions))
            bare.append(head(folder, short["path"], keys, 1))
        compared = Comparison(ours, bare)
        yield Row(
            "loading the head / the same keys without history",
            compared.slowness,
            at_most=2,
            raw=compared.times("no_history"),
        )
        picks = [0, versions - 1, *random.Random(7).sample(range(versions), 10)]
        taken = old(folder, long, keys, picks)
    yield Row(
        "reading an old version, the slowest of 12",
        max(taken) * 1e3,
        "ms",
        at_most=300,
        raw={"median_ms": round(statistics.median(taken) * 1e3, 1)},
    )


@case("one-key", "one key with 100,000 versions")
def one_key(context: Context) -> Iterator[Row]:
    """On a RAM disk, where nothing hides the cost of a deep past."""
    with (
        context.folder("ram") as folder,
        side(f"{SIDE}:OneKey", folder, versions=context.pick(100_000, 5_000)) as long,
        side(f"{SIDE}:FreshKey", folder, versions=1) as fresh,
    ):
        compared = Comparison(*interleave([long, fresh], context.rounds(15, 5), 200))
    yield Row("commit time / a fresh run's", compared.slowness, at_most=1.3, raw=compared.times("fresh"))
