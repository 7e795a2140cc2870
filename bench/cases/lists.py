"""Lists: grown item by item, and reassigned whole."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from bench.registry import Context, Row, case
from bench.remote import side
from bench.rounds import Comparison, interleave

MB = 1e6


def grow(context: Context, target: str, count: int) -> dict[str, Any]:
    """A fresh list grown to `count` items, one durable commit each."""
    with context.folder("disk") as folder, side(target, folder) as remote:
        result: dict[str, Any] = remote.call("grow", count=count)
        return result


def slowdown(taken: list[float], edge: int = 100) -> float:
    """The median of the last commits over that of the first ones."""
    return statistics.median(taken[-edge:]) / statistics.median(taken[:edge])


def growth_raw(taken: list[float], edge: int = 100) -> dict[str, object]:
    """Medians and means: the means include the WAL checkpoints that fell among these commits.

    The first commits are also those of a list that is still stored whole (under 4 KiB) and of a cold process;
    the ratio to the third hundred has neither on its side.
    """
    first, third, last = taken[:edge], taken[2 * edge : 3 * edge], taken[-edge:]
    return {
        "first_ms": round(statistics.median(first) * 1e3, 3),
        "last_ms": round(statistics.median(last) * 1e3, 3),
        "ratio_to_third_100": round(statistics.median(last) / statistics.median(third), 2),
        "mean_ratio": round(statistics.mean(last) / statistics.mean(first), 2),
        "items": len(taken),
    }


@case("append", "a list grown by run.append to 2,000 items of 100 B")
def append(context: Context) -> Iterator[Row]:
    """The last commits cost what the first did, and the file holds what was said, once."""
    count = context.pick(2_000, 1_000)
    ours, peers = [], []
    for _ in range(context.rounds(3, 1)):
        ours.append(grow(context, "bench.sides.ours:Grown", count))
        peers.append(grow(context, "bench.sides.saver:Grown", count))
    middle = sorted(ours, key=lambda one: slowdown(one["taken"]))[len(ours) // 2]
    yield Row(
        "last 100 commits / first 100",
        slowdown(middle["taken"]),
        at_most=1.2,
        raw=growth_raw(middle["taken"]),
    )
    yield Row(
        "all of .leftoff, allocated, after closing",
        max(one["bytes"] for one in ours) / MB,
        "MB",
        at_most=3,
        raw={"before_closing_MB": max(one["bytes_open"] for one in ours) / MB},
    )
    yield Row(
        "SqliteSaver: last 100 / first 100",
        statistics.median(slowdown(one["taken"]) for one in peers),
        raw=growth_raw(peers[0]["taken"]) | {"MB": round(peers[0]["bytes"] / MB, 1)},
    )


@case("append-100k", "a list grown by run.append to 100,000 items of 100 B")
def append_many(context: Context) -> Iterator[Row]:
    """Still as cheap at a size nobody should have reached."""
    result = grow(context, "bench.sides.ours:Grown", context.pick(100_000, 5_000))
    yield Row(
        "last 100 commits / first 100",
        slowdown(result["taken"]),
        at_most=1.2,
        raw=growth_raw(result["taken"]) | {"MB": round(result["bytes"] / MB, 1)},
    )


def reassigned(context: Context, kind: str) -> tuple[Comparison, int, int, int]:
    """Both sides grow the list by reassigning it, then take turns; also bytes of each and steps made."""
    count = context.pick(2_000, 500)
    rounds, size = context.rounds(11, 3), context.pick(20, 10)
    with (
        context.folder("disk") as folder,
        side("bench.sides.ours:Reassigned", folder, kind=kind) as ours,
        side("bench.sides.saver:Reassigned", folder, kind=kind) as peer,
    ):
        for remote in (ours, peer):
            remote.call("grow", count=count)
        times = interleave([ours, peer], rounds, size)
        steps = count + rounds * size + size // 4
        return Comparison(*times), int(ours.call("close")), int(peer.call("close")), steps


def reassign_rows(context: Context, kind: str, bound: float, label: str) -> Iterator[Row]:
    """Time per step at the full length, and the size of everything."""
    compared, ours, peer, steps = reassigned(context, kind)
    yield Row(
        f"{label}: time per step / SqliteSaver", compared.slowness, at_most=bound, raw=compared.times("saver")
    )
    yield Row(
        "all of .leftoff, allocated",
        ours / MB,
        "MB",
        at_most=4,
        raw={"steps": steps, "saver_MB": round(peer / MB, 1)},
    )


@case("reassign-fresh", "the list reassigned whole, every item a new object, one random edit per step")
def reassign_fresh(context: Context) -> Iterator[Row]:
    """Nothing is known by identity: every item has to be looked at."""
    yield from reassign_rows(context, "fresh", 4, "fresh items")


@case("reassign-identity", "the list reassigned whole, unchanged items from run.variables, one random edit")
def reassign_identity(context: Context) -> Iterator[Row]:
    """Items that came from `run.variables` are known without looking."""
    yield from reassign_rows(context, "identity", 1, "items known by identity")
