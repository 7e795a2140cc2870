"""Durable steps through the Python API against DBOS on SQLite."""

from __future__ import annotations

from collections.abc import Iterator

from bench.registry import Context, Row, case
from bench.remote import side
from bench.rounds import Comparison


@case("steps", "durable steps through the Python API, on disk")
def steps(context: Context) -> Iterator[Row]:
    """`run.do` and `with run.step` against a workflow's `@DBOS.step`, all trivial."""
    size = context.pick(100, 50)
    taken: dict[str, list[float]] = {"do": [], "block": [], "round": []}
    with (
        context.folder("disk") as folder,
        side("bench.sides.ours:Steps", folder) as ours,
        side("bench.sides.durable:Steps", folder) as peer,
    ):
        for number in range(context.rounds(15, 3) + 1):
            for method, remote in (("do", ours), ("round", peer), ("block", ours)):
                seconds = float(remote.call(method, size=size)) / size
                if number > 0:  # the first round only warms up
                    taken[method].append(seconds)
        facts = {f"dbos_{key}": value for key, value in peer.call("facts").items()}
    for method, label in (("do", "run.do"), ("block", "with run.step")):
        compared = Comparison(taken[method], taken["round"])
        yield Row(
            f"{label} / DBOS on SQLite, steps per second",
            compared.speed,
            at_least=5,
            aim=8,
            raw=compared.rates("dbos") | facts,
        )
