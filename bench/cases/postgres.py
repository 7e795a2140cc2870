"""The store on a server, against PostgresSaver on the same server, and against itself."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg

from bench.cases.lists import growth_raw, slowdown
from bench.load import load
from bench.registry import Context, Row, case
from bench.remote import Remote, side
from bench.rounds import Comparison, interleave
from bench.server import SlowLine, started
from tests.postgres.server import Server

OURS, SAVER = "bench.sides.ours", "bench.sides.saver_postgres"
DRIVERS = 8
MB = 1e6


@case("postgres-commits", "small durable commits on a PostgreSQL server")
def commits(context: Context) -> Iterator[Row]:
    """Against LangGraph's PostgresSaver, all over the server's Unix socket, every sync real; and by a slow line.

    A graph saves twice in a step: what its tasks wrote (`put_writes`), then the checkpoint (`put`).
    """
    rounds, size = context.rounds(15, 3), context.pick(100, 40)
    with context.folder("disk") as folder, started(folder) as server:
        with (
            side(f"{OURS}:Commits", folder, url=server.url("commits")) as ours,
            side(f"{SAVER}:Commits", folder, url=server.url()) as put,
            side(f"{SAVER}:Steps", folder, name="steps", url=server.url()) as steps,
        ):
            taken = interleave([ours, steps, put], rounds, size)
            facts = put.call("facts")
        for label, peer in (("as a graph calls it", taken[1]), ("put alone", taken[2])):
            compared = Comparison(taken[0], peer)
            yield Row(
                f"leftoff / LangGraph PostgresSaver, {label}, commits per second",
                compared.speed,
                at_least=1.5,
                raw=compared.rates("saver") | facts,
            )
        line = SlowLine(server, 0.001)
        with side(f"{OURS}:Commits", folder, name="slow", url=line.url("slow")) as ours:
            (slow,) = interleave([ours], rounds, size)
        line.close()
    yield Row("a commit with 1 ms added to each round trip", statistics.median(slow) * 1e3, "ms", at_most=3.5)


def size_of(server: Server, schema: str) -> float:
    """What all tables and indexes of a schema take, in MB."""
    sql = (
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c "
        "WHERE relnamespace = %s::regnamespace AND relkind = 'r'"
    )
    with psycopg.connect(server.url()) as conn:
        return float(conn.execute(sql, [schema]).fetchone()[0]) / MB  # type: ignore[index]


@case("postgres-append", "a list grown to 2,000 items of 100 B on a PostgreSQL server")
def append(context: Context) -> Iterator[Row]:
    """The last commits cost what the first did, and the tables hold what was said, once."""
    count = context.pick(2_000, 500)
    with context.folder("disk") as folder, started(folder) as server:
        with side(f"{OURS}:Grown", folder, url=server.url("grown")) as ours:
            mine = ours.call("grow", count=count)["taken"]
        with side(f"{SAVER}:Grown", folder, url=server.url()) as saver:
            theirs = saver.call("grow", count=count)["taken"]
        sizes = size_of(server, "leftoff_grown"), size_of(server, "public")
    yield Row("last 100 commits / first 100", slowdown(mine), at_most=1.2, raw=growth_raw(mine))
    yield Row("PostgresSaver: last 100 / first 100", slowdown(theirs), raw=growth_raw(theirs))
    yield Row(
        "size of all tables / PostgresSaver's",
        100 * sizes[0] / sizes[1],
        "%",
        at_most=5,
        raw={"leftoff_MB": round(sizes[0], 2), "saver_MB": round(sizes[1], 1)},
    )


def together(drivers: list[Remote], seconds: float) -> float:
    """Commits per second of drivers that work at the same time."""
    at = time.time() + 0.3
    for driver in drivers:
        driver.send("write", threads=1, at=at, seconds=seconds)
    return sum(len(driver.receive()) for driver in drivers) / seconds


@case("postgres-drivers", "8 drivers on 8 runs against one, on a PostgreSQL server")
def drivers(context: Context) -> Iterator[Row]:
    """Nobody waits for another: together they are limited by processors and the disk alone. Far from the server, where
    each of them waits for the network, what is left is whether they wait for each other. There, each hears of an answer
    1 ms after it came: it waits by itself, as what stood between would need a share of the same processors."""
    for label, delay_s in (("over the socket", 0.0), ("with 1 ms added to each round trip", 0.001)):
        with context.folder("disk") as folder, started(folder) as server, ExitStack() as stack:
            target, url = "bench.sides.ours_server:Drivers", server.url("many")
            found = [
                stack.enter_context(side(target, folder, name=f"driver-{n}", path=url, delay_s=delay_s))
                for n in range(DRIVERS)
            ]
            rates = []
            for n in range(context.rounds(7, 2)):
                order = (found[n % DRIVERS : n % DRIVERS + 1], found)
                rates.append([together(some, context.pick(2, 1)) for some in order])
        one, many = (statistics.median(rate[i] for rate in rates) for i in (0, 1))
        ratio = statistics.median(rate[1] / rate[0] for rate in rates)
        raw: dict[str, object] = {"one_per_s": round(one), "eight_per_s": round(many)}
        yield Row(f"commits per second, 8 drivers / 1, {label}", ratio, at_least=4, raw=raw)


@case("postgres-ls", "listing 10,000 runs on a PostgreSQL server")
def listing(context: Context) -> Iterator[Row]:
    """Against the plain SQL that reads the same table."""
    with context.folder("disk") as folder, started(folder) as server:
        url = server.url("listed")
        load(url, context.pick(10_000, 500))
        with (
            side("bench.sides.ours_server:Listing", folder, name="listing", url=url) as ours,
            side("bench.sides.ours_server:Plain", folder, name="plain", url=url) as plain,
        ):
            compared = Comparison(*interleave([ours, plain], context.rounds(11, 3), context.pick(3, 10)))
    yield Row("time / the plain SQL", compared.slowness, at_most=2, raw=compared.times("sql"))


@case("postgres-scale", "100,000 runs and 5,000,000 records on a PostgreSQL server")
def scale(context: Context) -> Iterator[Row]:
    """What is done every day costs what it costs at 1 %."""
    runs = context.pick(100_000, 2_000)
    names = {"small": max(1_100, runs // 100), "large": runs}
    with (
        context.folder("disk") as folder,
        started(folder, shared_buffers="'1GB'") as server,
        ExitStack() as stack,
    ):
        for name, count in names.items():
            load(server.url(name), count)
        work = {
            name: stack.enter_context(
                side("bench.sides.ours_server:Work", folder, name=name, url=server.url(name), label=name)
            )
            for name in names
        }
        rounds = context.rounds(9, 3)
        for what, size in (("commit", 50), ("resume", 5), ("ls", 10), ("show", 20), ("prune", 3)):
            for one in work.values():
                one.call("time", what=what, size=size)  # what is read once is in memory
            taken: list[list[float]] = [
                [float(work[name].call("time", what=what, size=size)) for name in names]
                for _ in range(rounds)
            ]
            ratio = statistics.median(large / small for small, large in taken)
            raw: dict[str, object] = {
                f"{name}_ms": round(statistics.median(times) * 1e3, 2)
                for name, times in zip(names, zip(*taken, strict=True), strict=True)
            }
            yield Row(f"{what}: time / at 1 %", ratio, at_most=1.3, raw=raw)
        yield Row("size of all tables", size_of(server, "leftoff_large") / 1e3, "GB")
