"""Large results of a step against DBOS on SQLite, and what the search for secrets adds to recording one."""

from __future__ import annotations

from collections.abc import Iterator

from bench.registry import Context, Row, case
from bench.remote import side
from bench.rounds import Comparison, interleave

KINDS = (
    ("megabytes", 50, "50 MB of bytes"),
    ("rows", 500, "500,000 small dicts"),
    ("texts", 50, "50 MB of text"),
)


@case("large-results", "a step with a large result against DBOS, and with redaction against without")
def large_results(context: Context) -> Iterator[Row]:
    """Seconds from the call of the step to its value; the process is the same for all rounds."""
    with (
        context.folder("disk") as folder,
        side("bench.sides.large:Ours", folder) as ours,
        side("bench.sides.large:Unscanned", folder) as unscanned,
        side("bench.sides.durable_large:Results", folder) as peer,
    ):
        for kind, full, label in KINDS:
            size = context.pick(full, 2)
            taken = interleave([ours, peer, unscanned], context.rounds(7), size, kind)
            against, scan = Comparison(taken[0], taken[1]), Comparison(taken[0], taken[2])
            target = 1.5 if kind != "texts" else None
            yield Row(
                f"{label}: time against DBOS", against.slowness, at_most=target, raw=against.times("dbos")
            )
            yield Row(
                f"{label}: time against no redaction", scan.slowness, at_most=1.1, raw=scan.times("unscanned")
            )
