"""What `run` and `resume` know of a run from its events: how much is done, and how long the rest will take."""

from __future__ import annotations

from typing import Any

from leftoff.cli.tally import Info, Leaf, Tally
from tests.cli.events import STORY, Event, story


def tally_of(info: Info, events: list[Event]) -> tuple[Tally, float]:
    tally, now = Tally(info), 0.0
    for event in events:
        now = event.get("_second", now)
        tally.feed(event, now)
    return tally, now


# -- counting


def test_what_is_done_is_counted_once() -> None:
    """Leaves only: neither phases nor the `foreach` itself; items once they are known; a retry is no failure."""
    tally, _ = tally_of(STORY, story()[:-1])
    assert (12, 9, 1) == (tally.total, tally.done, tally.failed)
    assert {} == tally.running and ["sign-off"] == list(tally.waiting)
    tally, _ = tally_of(STORY, story())
    assert (12, 9, 1) == (tally.total, tally.done, tally.failed)


# -- guessing


def leaf(path: str, estimate: float | None = None, **more: Any) -> Leaf:
    return Leaf(path, "", estimate, **more)


def done(path: str, seconds: float) -> Event:
    return {"event": "step_done", "step": path, "seconds": seconds}


def left(info: Info, *events: Event, now: float = 0.0) -> tuple[float, bool] | None:
    tally = Tally(info)
    for event in events:
        tally.feed(event, event.pop("_second", 0.0))
    return tally.left(now)


def test_estimates_add_up_by_batch() -> None:
    """Within a batch steps share the places, batches follow one another, people are not waited for."""
    info = Info(
        [
            leaf("a", 10.0),
            leaf("b", 10.0),
            leaf("c", 4.0),
            leaf("d", 7.0, batch=1),
            leaf("p", person="manual"),
        ],
        parallel=2,
    )
    assert (12.0 + 7.0, True) == left(info)
    assert (10.0 + 7.0, True) == left(info, done("a", 10.0))


def test_items_take_what_their_siblings_took() -> None:
    """So many at a time, whatever the estimate said."""
    info = Info([leaf("all", 100.0, limit=4)], parallel=2)
    items: Event = {"event": "foreach", "step": "all", "items": 10}
    assert (8 * 3.0 / 4, True) == left(info, items, done("all/1", 2.0), done("all/2", 4.0))
    assert (100.0, True) == left(info)


def test_what_nobody_knows() -> None:
    """Without an estimate a step takes what finished ones took; where nothing is known, that is said."""
    info = Info([leaf("a"), leaf("b"), leaf("c", 8.0, batch=1)])
    assert (8.0, False) == left(info)
    assert (3.0 + 8.0, True) == left(info, done("a", 3.0))
    assert None is left(Info([leaf("a")]))
    assert None is left(Info())
