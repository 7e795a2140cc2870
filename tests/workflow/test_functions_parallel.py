"""map and defer in threads, and calls from threads that are not the workflow's own."""

from __future__ import annotations

import contextvars
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import leftoff
from leftoff.python.durable_running import Crew
from tests.seams import SEAMS
from tests.workflow.driving import PATIENCE
from tests.workflow.functions import Calls, calls, statuses, store

__all__ = ["calls", "store"]


def run(store: leftoff.Store, body: Callable[[], Any], **options: Any) -> Any:
    """A workflow of these calls, always of the same run."""
    made: Any = leftoff.workflow(lambda: body(), name="flow", **options)
    return made.run(store=store, run_id="r")


def step(work: Callable[..., Any], name: str = "work", **options: Any) -> Any:
    """A step."""
    return leftoff.step(work, name=name, **options)


# -- map


def test_results_in_the_order_of_the_items(store: leftoff.Store) -> None:
    """However long each takes; so many at a time, in threads; items are steps below the map."""
    together = threading.Barrier(3)
    names: set[str] = set()

    def work(number: int) -> int:
        names.add(threading.current_thread().name)
        if number < 3:
            together.wait(PATIENCE)
        return number * 10

    fetch = step(work)
    assert [0, 10, 20, 30, 40] == run(store, lambda: fetch.map(range(5), max_parallel=3))
    assert (3, {"leftoff 1-work"}) == (together.parties, names)
    expected = {"1-work": "completed", **{f"1-work/{n}": "completed" for n in range(1, 6)}}
    assert expected == statuses(store, "r")
    assert {"items": 5} == store.get("r").steps["1-work"]["args"]


def test_several_iterables_and_none_at_all(store: leftoff.Store) -> None:
    """One argument of each per call, as Python's own map; of no items, no results."""
    add = step(lambda a, b: a + b)
    assert [[11, 22], []] == run(store, lambda: [add.map([1, 2], (10, 20)), add.map([], [])])


def test_a_failing_item(store: leftoff.Store, calls: Calls) -> None:
    """Nothing new is begun, what runs goes on to its end, then it is raised; resumed, only the rest is called."""
    going = threading.Event()

    def work(what: str) -> str:
        if what == "b":
            going.wait(PATIENCE)
        if what == "a":
            going.set()
            while statuses(store, "r")["1-work/2"] != "failed":
                time.sleep(0.001)
            time.sleep(0.05)
        return str(calls(what))

    fetch = step(work)
    calls.fail["b"] = 1
    with pytest.raises(ValueError, match="no b"):
        run(store, lambda: fetch.map(list("abcdef"), max_parallel=2))
    assert ["a", "b"] == sorted(calls.taken())
    expected = ["completed", "failed", "pending", "pending", "pending", "pending"]
    assert expected == [statuses(store, "r")[f"1-work/{number}"] for number in range(1, 7)]
    assert list("abcdef") == run(store, lambda: fetch.map(list("abcdef"), max_parallel=1))
    assert list("bcdef") == calls


def test_items_known_by_a_key(store: leftoff.Store, calls: Calls) -> None:
    """They may come in another order, or be more: those that are finished are not called again."""
    fetch = step(lambda row: calls(row["id"]), key=lambda row: row["id"])
    one, two, three = ({"id": name} for name in ("a/1", "b", "b"))
    calls.fail["b"] = 1
    with pytest.raises(ValueError):
        run(store, lambda: fetch.map([one, two, three], max_parallel=1))
    assert ["1-work", "1-work/a%2F1", "1-work/b", "1-work/b#2"] == sorted(statuses(store, "r"))
    calls.clear()
    assert ["b", "b", "a/1"] == run(store, lambda: fetch.map([two, three, one], max_parallel=1))
    assert ["b", "b"] == calls


def test_a_map_of_workflows(store: leftoff.Store, calls: Calls) -> None:
    """Each item is a branch of its own, with calls of its own numbers."""
    work = step(lambda what: calls(what))
    part: Any = leftoff.workflow(lambda name: [work(f"{name}1"), work(f"{name}2")], name="part")
    calls.fail["b2"] = 1
    with pytest.raises(ValueError):
        run(store, lambda: part.map(["a", "b"]))
    calls.clear()
    assert [["a1", "a2"], ["b1", "b2"]] == run(store, lambda: part.map(["a", "b"]))
    assert ["b2"] == calls
    assert "1-part/2/2-work" in statuses(store, "r")


def test_what_threads_see(store: leftoff.Store) -> None:
    """Context variables of the workflow are seen in its steps, in whatever thread they run."""
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    work = step(lambda _: who.get(), timeout=PATIENCE)

    def body() -> list[Any]:
        who.set("ada")
        return [*work.map([1, 2]), work.defer(3).result(), work(4)]

    assert ["ada"] * 4 == run(store, body)


# -- defer


def test_deferred_calls(store: leftoff.Store, calls: Calls) -> None:
    """They run beside the workflow; their number is taken when they are deferred."""
    go, waiting = threading.Event(), threading.Event()

    def slow(what: str) -> str:
        waiting.set()
        assert go.wait(PATIENCE)
        return str(calls(what))

    def body() -> list[str]:
        handle = step(slow, "slow").defer("a")
        assert waiting.wait(PATIENCE) and not handle.done()
        with pytest.raises(TimeoutError, match="<deferred 1-slow, under way> is not done yet"):
            handle.result(timeout=0)
        first = step(calls, "quick")("b")
        go.set()
        return [first, handle.result(), handle.result()]

    assert ["b", "a", "a"] == run(store, body)
    assert {"1-slow": "completed", "2-quick": "completed"} == statuses(store, "r")


def test_a_workflow_waits_for_what_it_deferred(store: leftoff.Store, calls: Calls) -> None:
    """All of it, a few at a time; an error that nobody has looked at is the workflow's own."""
    work = step(lambda what: calls(what))
    calls.fail["b"] = 1
    with pytest.raises(ValueError, match="no b"):
        run(store, lambda: [work.defer(what) for what in "abc"] and None, max_parallel=1)
    assert (["a", "b", "c"], "failed") == (calls.taken(), store.get("r").status)
    run(store, lambda: [work.defer(what) for what in "abc"] and None, max_parallel=1)
    assert ["b"] == calls


def test_a_workflow_that_fails_begins_nothing_new(
    store: leftoff.Store, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was deferred and runs goes on to its end, and is recorded; what was not begun is dropped."""
    begun, go, stop = threading.Event(), threading.Event(), Crew.stop

    def stopped(crew: Crew) -> None:
        stop(crew)
        go.set()

    def slow(what: str) -> str:
        begun.set()
        assert go.wait(PATIENCE)
        return str(calls(what))

    work = step(slow)

    def body() -> None:
        work.defer("a")
        work.defer("b")
        assert begun.wait(PATIENCE)
        raise RuntimeError("out")

    monkeypatch.setattr(SEAMS["Crew.stop"], stopped)

    with pytest.raises(RuntimeError):
        run(store, body, max_parallel=1)
    assert (["a"], {"1-work": "completed"}) == (calls, statuses(store, "r"))


def test_a_deferred_failure_reaches_the_workflow_when_it_looks(store: leftoff.Store, calls: Calls) -> None:
    """Calls made before that do not mean that it was caught; calls made after do."""
    work, other = step(lambda what: calls(what)), step(lambda what: calls(what), "other")

    def body(catch: bool) -> None:
        handle = work.defer("a")
        handle.wait()
        other("b")
        try:
            handle.result()
        except ValueError:
            if not catch:
                raise
        other("c")
        raise KeyboardInterrupt

    calls.fail["a"] = 2
    with pytest.raises(ValueError):
        run(store, lambda: body(False))
    assert ["a", "b"] == calls.taken()
    with pytest.raises(KeyboardInterrupt):
        run(store, lambda: body(True))
    assert ["a", "c"] == calls.taken()
    with pytest.raises(KeyboardInterrupt):
        run(store, lambda: body(True))
    assert [] == calls


# -- other threads


def in_thread(work: Callable[[], Any]) -> Any:
    """What somebody's own thread gives."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(PATIENCE)


def test_a_thread_of_your_own_needs_a_key(store: leftoff.Store, calls: Calls) -> None:
    """Whether it has the workflow's context or not; the error says what to do, and nothing is called."""
    work = step(lambda what: calls(what), "fetch")
    for body in (
        lambda: in_thread(lambda: work("a")),
        lambda: in_thread(lambda: work.map(["a"])),
        lambda context=None: in_thread(lambda: contextvars.copy_context().run(work, "a")),
    ):
        with pytest.raises(
            leftoff.Usage, match=r"fetch(.map)? was called from another thread .* needs a key"
        ) as told:
            run(store, body)
        assert all(
            word in told.value.hint for word in ('key="…"', 'fetch.keyed("…")', "fetch.map(", "fetch.plain(")
        )

    def handed_over() -> Any:
        context = contextvars.copy_context()
        return in_thread(lambda: context.run(work, "a"))

    with pytest.raises(leftoff.Usage, match="another thread or task than the workflow's own"):
        run(store, handed_over)
    assert [] == calls


def test_calls_with_a_key_from_any_thread(store: leftoff.Store, calls: Calls) -> None:
    """They are known by it, in whatever order they come, and not called again."""
    by_parameter = step(lambda what: calls(what), "fetch", key="what")
    by_hand = step(lambda what: calls(what), "get")
    order = ["b", "a"]

    def body() -> list[str]:
        context = contextvars.copy_context()
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(by_parameter, what) for what in order]
            jobs.append(pool.submit(context.run, by_hand.keyed("k/1"), "c"))
            return [*sorted(job.result(PATIENCE) for job in jobs), by_hand("d")]

    calls.fail["d"] = 1
    with pytest.raises(ValueError):
        run(store, body)
    calls.clear()
    order.reverse()
    assert ["a", "b", "c", "d"] == run(store, body)
    assert ["d"] == calls
    assert ["1-get", "fetch[a]", "fetch[b]", "get[k%2F1]"] == sorted(statuses(store, "r"))


def test_one_key_is_one_call(store: leftoff.Store, calls: Calls) -> None:
    """A second call gets the recorded result; with other arguments it is an error, as is one at the same time."""
    work = step(lambda what: calls(what), "fetch")
    assert ["a", "a"] == run(store, lambda: [work.keyed("k")("a"), work.keyed("k")("a")])
    assert ["a"] == calls
    with pytest.raises(leftoff.Diverged, match=r"Step fetch\[k\] .* with what='a', .* with what='b' now"):
        leftoff.workflow(lambda: [work.keyed("k")("a"), work.keyed("k")("b")], name="two").run(store=store)
    meet = threading.Barrier(2)

    def slow() -> None:
        meet.wait(PATIENCE)
        meet.wait(PATIENCE)

    def body() -> None:
        handle = step(slow, "slow").keyed("k").defer()
        meet.wait(PATIENCE)
        try:
            step(slow, "slow").keyed("k")()
        finally:
            meet.wait(PATIENCE)
            handle.wait()

    with pytest.raises(leftoff.Usage, match=r"slow\[k\] is under way in another thread"):
        leftoff.workflow(lambda: body(), name="three").run(store=store)


def test_a_key_is_text(store: leftoff.Store) -> None:
    """Or a whole number; never nothing."""
    for key in ("", None, 1.5, True):
        with pytest.raises(leftoff.Usage, match="cannot be the key"):
            run(store, lambda key=key: step(lambda: 1, key=lambda: key)())  # type: ignore[misc]
    with pytest.raises(leftoff.Usage, match="cannot be the key"):
        step(lambda: 1).keyed("")


def test_threads_that_have_nothing_to_do_with_it(store: leftoff.Store, calls: Calls) -> None:
    """Beside a workflow in another thread than the main one, whoever is not in it is outside."""
    work, inside, done = step(lambda what: calls(what)), threading.Event(), threading.Event()

    def wait() -> bool:
        inside.set()
        return done.wait(PATIENCE)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, store, lambda: [wait(), work("in")])
        assert inside.wait(PATIENCE)
        assert "out" == work("out")
        done.set()
        running.result(PATIENCE)
    assert {"1-work": "completed"} == statuses(store, "r")


def test_threads_inside_a_step_are_part_of_it(store: leftoff.Store, calls: Calls) -> None:
    """What they call is called, and not recorded."""
    inner = step(lambda what: calls(what), "inner")
    outer = step(lambda: in_thread(lambda: inner("a")), "outer")
    assert "a" == run(store, outer)
    assert {"1-outer": "completed"} == statuses(store, "r")


def _child(work: Any, results: Any) -> None:
    try:
        work("a")
    except leftoff.Usage as error:
        results.put(error.message)
    else:
        results.put("called")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_adds_no_steps(store: leftoff.Store, calls: Calls) -> None:
    """The run is its parent's."""
    work = step(lambda what: calls(what))

    def body() -> str:
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        child = context.Process(target=_child, args=(work, results))
        child.start()
        child.join(PATIENCE)
        return str(results.get(timeout=PATIENCE))

    assert "belongs to the process that was forked" in run(store, body)
    assert {} == statuses(store, "r")
    assert os.getpid() and [] == calls


def test_many_items_stay_cheap(store: leftoff.Store) -> None:
    """Each item costs one synced transaction at most; resumed, those that are finished are not called again."""
    ran: list[int] = []
    writes: list[int] = [0]

    def work(number: int) -> int:
        ran.append(number)
        if len(ran) == 300:
            raise ValueError
        return number

    fetch, counted = step(work), store._store.write

    def count(work: Any, *, durable: bool = True) -> Any:
        writes[0] += durable
        return counted(work, durable=durable)

    store._store.write = count  # type: ignore[method-assign, assignment]
    with pytest.raises(ValueError):
        run(store, lambda: sum(fetch.map(range(600), max_parallel=8)))
    assert writes[0] <= len(ran) + 10  # the declarations, the start, the failure
    assert sum(range(600)) == run(store, lambda: sum(fetch.map(range(600), max_parallel=8)))
    assert [*range(600)] == sorted(set(ran)) and 601 == len(ran)
