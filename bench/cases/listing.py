"""Listing runs, which must not depend on what is in them."""

from __future__ import annotations

from collections.abc import Iterator

from bench.registry import Context, Row, case
from bench.remote import side
from bench.rounds import Comparison, interleave

SIDE = "bench.sides.ours_listing"


@case("ls", "listing 10,000 runs")
def listing(context: Context) -> Iterator[Row]:
    """Few steps, many steps and the plain SQL take turns."""
    runs = context.pick(10_000, 500)
    with (
        context.folder("ram") as folder,
        side(f"{SIDE}:Listing", folder, name="few", runs=runs, steps=2) as few,
        side(f"{SIDE}:Listing", folder, name="many", runs=runs, steps=50) as many,
        side(f"{SIDE}:Plain", folder, path=many.call("copy")) as plain,
    ):
        taken = interleave([many, few, plain], context.rounds(11, 5), context.pick(3, 10))
    steps, sql = Comparison(taken[0], taken[1]), Comparison(taken[0], taken[2])
    yield Row(
        "runs of 50 steps / runs of 2 steps, time", steps.slowness, at_most=1.15, raw=steps.times("few")
    )
    yield Row("time / the plain SQL", sql.slowness, at_most=2, raw=sql.times("sql"))
