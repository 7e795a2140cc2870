"""The page: what the server needs for the largest of them, and how soon an open one hears of a commit."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.registry import Context, Row, case
from bench.remote import side

SIDE = "bench.sides.ours_page:Page"


@case("page", "the page")
def page(context: Context) -> Iterator[Row]:
    """Each a few times; the first of each loads what the others find."""
    runs, steps = context.pick(10_000, 200), context.pick(100_000, 500)
    with context.folder("ram") as folder, side(SIDE, folder, name="page", runs=runs, steps=steps) as ours:
        for name, label, most in (
            ("home", f"home with {runs:,} runs, server time", 100),
            ("run", f"a run of {steps:,} steps, server time", 200),
            ("event", "first event after a commit", 300),
        ):
            ours.call(name)
            taken = [float(ours.call(name)) for _ in range(context.rounds(9, 3))]
            yield Row(label, median(taken) * 1000, "ms", at_most=most, raw={"worst_ms": max(taken) * 1000})
