"""Small durable commits: ten variables, two of which change."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from bench import trace
from bench.registry import Context, Row, case
from bench.remote import side
from bench.rounds import Comparison, interleave

SIDES = {
    "leftoff": "bench.sides.ours:Commits",
    "apsw": "bench.sides.handmade:Commits",
    "saver": "bench.sides.saver:Commits",
    "sqlite3": "bench.sides.plain:Commits",
}


def compare(context: Context, place: str) -> tuple[dict[str, Comparison], dict[str, object]]:
    """Each peer against leftoff, all four taking turns, and the saver's own durability settings."""
    with context.folder(place) as folder, ExitStack() as stack:
        sides = {name: stack.enter_context(side(target, folder)) for name, target in SIDES.items()}
        taken = interleave(list(sides.values()), context.rounds(31, 5), context.pick(200, 100))
        facts = sides["saver"].call("facts")
    times = dict(zip(SIDES, taken, strict=True))
    return {peer: Comparison(times["leftoff"], times[peer]) for peer in SIDES if peer != "leftoff"}, facts


@case("commits-disk", "small durable commits on disk")
def on_disk(context: Context) -> Iterator[Row]:
    """Against the same rows by hand and against SqliteSaver, with every sync real."""
    peers, facts = compare(context, "disk")
    yield Row(
        "leftoff / hand-made SQL through apsw, commits per second",
        peers["apsw"].speed,
        at_least=0.85,
        raw=peers["apsw"].rates("apsw"),
    )
    yield Row(
        "leftoff / LangGraph SqliteSaver, commits per second",
        peers["saver"].speed,
        at_least=0.95,
        aim=1.1,
        raw=peers["saver"].rates("saver") | {f"saver_{k}": v for k, v in facts.items()},
    )
    yield Row(
        "leftoff / hand-made SQL through sqlite3, commits per second",
        peers["sqlite3"].speed,
        raw=peers["sqlite3"].rates("sqlite3"),
    )


@case("commits-ram", "small durable commits on a RAM disk: the cost in CPU")
def on_ram(context: Context) -> Iterator[Row]:
    """Where a sync costs nothing, what is left is our own work."""
    peers, _ = compare(context, "ram")
    yield Row(
        "leftoff / LangGraph SqliteSaver, commits per second",
        peers["saver"].speed,
        at_least=0.8,
        aim=1.2,
        raw=peers["saver"].rates("saver"),
    )
    yield Row(
        "leftoff / hand-made SQL through apsw, commits per second",
        peers["apsw"].speed,
        raw=peers["apsw"].rates("apsw"),
    )
    yield Row(
        "leftoff / hand-made SQL through sqlite3, commits per second",
        peers["sqlite3"].speed,
        raw=peers["sqlite3"].rates("sqlite3"),
    )


@case("syncs", "syncs and WAL bytes per small commit, by strace")
def syncs(context: Context) -> Iterator[Row]:
    """Exactly one fdatasync per blob-free commit between WAL checkpoints."""
    size = context.pick(400, 150)
    seen = {}
    for name in ("leftoff", "apsw", "saver"):
        with context.folder("disk") as folder:
            seen[name] = trace.commits(SIDES[name], folder, size)
    plain = [commit for commit in seen["leftoff"] if not commit.checkpointed]
    counts = sorted({commit.syncs for commit in plain})
    raw: dict[str, object] = {
        "commits": len(plain),
        "fewest": counts[0],
        "most": counts[-1],
        "with_wal_checkpoint": len(seen["leftoff"]) - len(plain),
    }
    yield Row(
        "fdatasync per commit, on average",
        statistics.mean(commit.syncs for commit in plain),
        "",
        at_least=1.0,
        at_most=1.0,
        raw=raw,
    )
    wal = {
        name: statistics.median(c.wal for c in commits if not c.checkpointed) / 1e3
        for name, commits in seen.items()
    }
    yield Row(
        "WAL per commit, median",
        wal["leftoff"],
        "KB",
        at_most=24,
        raw={"apsw_KB": wal["apsw"], "saver_KB": wal["saver"]},
    )
