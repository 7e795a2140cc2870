"""Many writers on one store: nobody waits long, nobody starves."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.registry import Context, Row, case
from bench.remote import Remote, side
from bench.rounds import percentile

SIDE = "bench.sides.ours_crowd"


def crowd(stack: ExitStack, folder: Path, processes: int) -> tuple[list[Remote], Remote, Remote]:
    """The writers' processes, the pruner and the reader, all on one store."""
    path = str(folder / ".leftoff")
    pruner = stack.enter_context(side(f"{SIDE}:Pruner", folder, path=path))
    reader = stack.enter_context(side(f"{SIDE}:Reader", folder, path=path))
    writers = [
        stack.enter_context(side(f"{SIDE}:Writers", folder, name=f"writer-{n}", path=path))
        for n in range(processes)
    ]
    return writers, pruner, reader


def press(
    context: Context, processes: int, threads: int, seconds: float
) -> tuple[list[list[float]], dict[str, object]]:
    """Seconds of each commit, per process, while someone prunes and someone reads."""
    with context.folder("disk") as folder, ExitStack() as stack:
        writers, pruner, reader = crowd(stack, folder, processes)
        at = time.time() + 1.0
        for writer in writers:
            writer.send("write", threads=threads, at=at, seconds=seconds)
        pruner.send("prune", at=at, seconds=seconds)
        reader.send("read", at=at, seconds=seconds)
        taken = [writer.receive() for writer in writers]
        return taken, {"dropped": pruner.receive(), "reads": reader.receive()}


@case("crowd", "4 processes × 8 threads on one store, with prune and a reader")
def crowded(context: Context) -> Iterator[Row]:
    """The tail, and the shares."""
    seconds = context.pick(10, 3)
    taken, others = press(context, 4, 8, seconds)
    every = [one for times in taken for one in times]
    counts = [len(times) for times in taken]
    yield Row(
        "p99.9 of a commit",
        percentile(every, 0.999) * 1e3,
        "ms",
        at_most=100,
        raw={
            "p50_ms": round(percentile(every, 0.5) * 1e3, 2),
            "p99_ms": round(percentile(every, 0.99) * 1e3, 2),
            "commits": len(every),
            **others,
        },
    )
    yield Row("the slowest commit", max(every) * 1e3, "ms", at_most=500)
    yield Row(
        "commits of the slowest process / of the fastest",
        min(counts) / max(counts),
        at_least=1 / 3,
        raw={"per_process": counts, "per_s": round(sum(counts) / seconds)},
    )


@case("threads", "8 threads of one process against one thread")
def threads(context: Context) -> Iterator[Row]:
    """Threads share the sync, so together they are no slower than one."""
    rates: dict[int, list[float]] = {1: [], 8: []}
    seconds = 1.0
    with (
        context.folder("disk") as folder,
        side(f"{SIDE}:Writers", folder, path=str(folder / ".leftoff")) as remote,
    ):
        for _ in range(context.rounds(7, 2)):
            for count, found in rates.items():
                found.append(
                    len(remote.call("write", threads=count, at=time.time(), seconds=seconds)) / seconds
                )
    yield Row(
        "commits per second, 8 threads / 1 thread",
        statistics.median(b / a for a, b in zip(rates[1], rates[8], strict=True)),
        at_least=1,
        raw={
            "one_per_s": round(statistics.median(rates[1])),
            "eight_per_s": round(statistics.median(rates[8])),
        },
    )
