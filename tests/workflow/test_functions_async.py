"""Coroutines: the same as threads, with identities taken when the call is made, not when it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import leftoff
from tests.workflow.functions import Calls, calls, statuses, store

__all__ = ["calls", "store"]


def step(work: Callable[..., Any], name: str = "work", **options: Any) -> Any:
    """A step that is a coroutine function."""

    async def wrapped(*args: Any) -> Any:
        await asyncio.sleep(0)
        found = work(*args)
        return await found if asyncio.iscoroutine(found) else found

    return leftoff.step(wrapped, name=name, **options)


def run(store: leftoff.Store, body: Callable[[], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    """A workflow of these calls, always of the same run."""

    async def flow() -> Any:
        return await body()

    made: Any = leftoff.workflow(flow, **options)
    return asyncio.run(made.run(store=store, run_id="r"))


def test_steps_and_resuming(store: leftoff.Store, calls: Calls) -> None:
    """Awaited one by one; finished ones are not called again."""
    work = step(calls)

    async def body() -> list[str]:
        return [await work("a"), await work("b")]

    calls.fail["b"] = 1
    with pytest.raises(ValueError):
        run(store, body)
    assert ["a", "b"] == run(store, body)
    assert ["a", "b", "b"] == calls


def test_outside_a_workflow(calls: Calls) -> None:
    """The plain coroutine function."""
    work = step(calls)

    async def outside() -> list[Any]:
        return [await work("a"), await work.map(["b", "c"]), await work.defer("d")]

    assert ["a", ["b", "c"], "d"] == asyncio.run(outside())


def test_calling_a_workflow_runs_it(project: Any) -> None:
    """Await it."""

    @leftoff.workflow
    async def flow(number: int) -> int:
        return number + 1

    assert 3 == asyncio.run(flow(2))
    assert ["completed"] == [info.status for info in leftoff.list()]


def test_gather_takes_numbers_in_the_order_of_the_calls(store: leftoff.Store, calls: Calls) -> None:
    """Though they run, and end, in another; each gets its own result again."""
    first = True

    async def work(what: str) -> str:
        for _ in range(5 * "cbad".index(what) if first else 0):
            await asyncio.sleep(0)
        return str(calls(what))

    fetch = step(work)

    async def body() -> list[str]:
        return [*await asyncio.gather(*(fetch(what) for what in "abc")), await fetch("d")]

    calls.fail["d"] = 1
    with pytest.raises(ValueError):
        run(store, body)
    assert ["c", "b", "a", "d"] == calls.taken()
    assert ["a", "b", "c"] == [store.get("r").steps[f"{n}-work"]["result"] for n in (1, 2, 3)]
    first = False
    assert ["a", "b", "c", "d"] == run(store, body)
    assert ["d"] == calls


def test_a_gathered_failure(store: leftoff.Store, calls: Calls) -> None:
    """The others go on to their end, and are recorded; resumed, only the failed one is called."""

    async def work(what: str) -> str:
        if what == "b":
            for _ in range(20):
                await asyncio.sleep(0)
        return str(calls(what))

    fetch = step(work)

    async def body() -> list[str]:
        return list(await asyncio.gather(fetch("a"), fetch("b")))

    calls.fail["a"] = 1
    with pytest.raises(ValueError):
        run(store, body)
    assert (["a", "b"], {"1-work": "failed", "2-work": "completed"}) == (calls.taken(), statuses(store, "r"))
    assert ["a", "b"] == run(store, body)
    assert ["a"] == calls


def test_a_gathered_failure_that_was_caught(store: leftoff.Store, calls: Calls) -> None:
    """`return_exceptions`, and on it goes: the next time too, though the step would succeed by then."""
    work = step(calls)
    seen: list[Any] = []

    async def body() -> None:
        both = await asyncio.gather(work("a"), work("b"), return_exceptions=True)
        seen.append([str(one) for one in both])
        await work("c")
        if len(seen) < 2:
            raise KeyboardInterrupt

    calls.fail["a"] = 1
    with pytest.raises(KeyboardInterrupt):
        run(store, body)
    run(store, body)
    assert ([["no a", "b"]] * 2, ["a", "b", "c"]) == (seen, calls)


def test_a_failure_beside_other_calls_that_ended_the_run(store: leftoff.Store, calls: Calls) -> None:
    """It is tried again; what was called meanwhile is used where it fits, and replaced where it does not."""
    work, other = step(calls), step(calls, "other")

    async def body() -> None:
        task = asyncio.ensure_future(work("a"))
        for _ in range(10):
            await asyncio.sleep(0)
        await other("b")
        try:
            await task
        except ValueError:
            await other("clean up")
            raise
        await work("c")

    calls.fail["a"] = 1
    with pytest.raises(ValueError):
        run(store, body)
    assert ["a", "b", "clean up"] == calls.taken()
    run(store, body)
    assert ["a", "c"] == calls
    assert ["1-work", "2-other", "3-work"] == sorted(statuses(store, "r"))


def test_a_failure_in_a_task_group(store: leftoff.Store, calls: Calls) -> None:
    """The group that it is in ended the run: it is tried again, as is what was cancelled with it."""

    async def work(what: str) -> str:
        if what == "b" and first:
            await asyncio.sleep(60)
        return str(calls(what))

    first = True
    fetch, clean = step(work), step(calls, "clean")

    async def body() -> list[str]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(fetch(what)) for what in "ab"]
        except BaseException:
            await clean("up")
            raise
        return [task.result() for task in tasks]

    calls.fail["a"] = 1
    with pytest.raises(ExceptionGroup):
        run(store, body)
    assert (["a", "up"], "pending") == (calls.taken(), statuses(store, "r")["2-work"])
    first = False
    assert ["a", "b"] == run(store, body)
    assert ["a", "b"] == calls
    assert {"1-work": "completed", "2-work": "completed"} == statuses(store, "r")


def test_map_in_tasks(store: leftoff.Store, calls: Calls) -> None:
    """So many at a time, the results in order; a failing item lets the running ones end."""
    at_once = most = 0

    async def work(what: str) -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return str(calls(what))

    fetch = step(work)

    async def body() -> list[str]:
        maps = fetch.map(list("abcd"), max_parallel=2), fetch.map(["e"])
        return [one for found in await asyncio.gather(*maps) for one in found]

    calls.fail["b"] = 1
    with pytest.raises(ValueError):
        run(store, body)
    assert ("d" not in calls, 3) == (True, most)
    assert list("abcde") == run(store, body)
    assert ["a", "b", "b", "c", "d", "e"] == sorted(calls)


def test_defer_in_tasks(store: leftoff.Store, calls: Calls) -> None:
    """Awaited when wanted; the workflow ends no sooner, and an error nobody has looked at is its own."""
    work = step(calls)

    async def body() -> str:
        handle = work.defer("a")
        assert not handle.done()
        first = await work("b")
        work.defer("c")
        return first + await handle + handle.result()

    calls.fail["c"] = 1
    with pytest.raises(ValueError, match="no c"):
        run(store, body)
    assert "baa" == run(store, body)
    assert ["a", "b", "c", "c"] == sorted(calls)


def test_workflows_gathered(store: leftoff.Store, calls: Calls) -> None:
    """Each is a branch with numbers of its own, whichever comes first."""
    work = step(calls)

    @leftoff.workflow
    async def part(name: str) -> list[str]:
        return [await work(name + "1"), await work(name + "2")]

    async def body() -> Any:
        return [*await asyncio.gather(part("a"), part("b")), *await part.map(["c"])]

    calls.fail.update(a2=1, c1=1)
    for _ in range(2):
        with pytest.raises(ValueError):
            run(store, body)
    assert [["a1", "a2"], ["b1", "b2"], ["c1", "c2"]] == run(store, body)
    assert ["a1", "a2", "a2", "b1", "b2", "c1", "c1", "c2"] == sorted(calls)
    assert {"1-part/2-work", "2-part/1-work", "3-part/1/2-work"} <= set(statuses(store, "r"))


def test_tasks_of_your_own_need_a_key(store: leftoff.Store, calls: Calls) -> None:
    """A coroutine of yours that calls steps in a task; with a key it may."""
    work = step(calls, "fetch")

    async def helper(step: Any, what: str) -> Any:
        return await step(what)

    async def without() -> Any:
        return await asyncio.gather(helper(work, "a"), helper(work, "b"))

    with pytest.raises(leftoff.Usage, match=r"another thread or task .* needs a key"):
        run(store, without)

    async def with_key() -> Any:
        return await asyncio.gather(*(helper(work.keyed(what), what) for what in order))

    order = ["a", "b"]
    calls.fail["b"] = 1
    with pytest.raises(ValueError):
        run(store, with_key)
    order.reverse()
    assert ["b", "a"] == run(store, with_key)
    assert ["a", "b", "b"] == sorted(calls)


def test_plain_steps_in_a_coroutine(store: leftoff.Store, calls: Calls) -> None:
    """They run at once, as plain functions do; map and defer use threads."""
    plain: Any = leftoff.step(lambda what: calls(what), name="plain")

    async def body() -> Any:
        handle = plain.defer("b")
        return [plain("a"), await asyncio.to_thread(handle.result), *plain.map(["c"])]

    assert ["a", "b", "c"] == run(store, body)

    async def threads() -> Any:
        return await asyncio.to_thread(plain, "x")

    with pytest.raises(leftoff.Usage, match="needs a key"):
        asyncio.run(leftoff.workflow(threads, name="threads").run(store=store))


def test_a_timeout_cancels(store: leftoff.Store, calls: Calls) -> None:
    """The coroutine is ended, and its step is tried again as often as it may."""
    ended: list[str] = []

    async def forever(what: str) -> None:
        calls(what)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(what)

    work = step(forever, timeout="20ms", retries={"max": 1, "backoff": 0})

    async def body() -> None:
        await work("a")

    with pytest.raises(leftoff.StepTimeout, match=r"Step 1-work was not done within 0\.02s") as caught:
        run(store, body)
    assert (["a", "a"], ["a", "a"], True) == (calls, ended, isinstance(caught.value, TimeoutError))
    assert (2, "failed") == tuple(store.get("r").steps["1-work"][word] for word in ("attempt", "status"))


def test_a_timeout_of_its_own_is_an_error_like_others(store: leftoff.Store) -> None:
    """It is not mistaken for the step's."""

    async def work() -> None:
        raise TimeoutError("mine")

    async def body() -> None:
        await step(work, timeout=60)()

    with pytest.raises(TimeoutError, match="mine") as caught:
        run(store, body)
    assert not isinstance(caught.value, leftoff.StepTimeout)


def test_a_cancelled_workflow_is_paused(store: leftoff.Store, calls: Calls) -> None:
    """What was in flight is to be done again."""

    async def forever(what: str) -> None:
        calls(what)
        if len(calls) == 1:
            await asyncio.sleep(60)

    work = step(forever)

    async def body() -> None:
        async with asyncio.timeout(0.05):
            await work("a")

    with pytest.raises(TimeoutError):
        run(store, body)
    assert {"1-work": "pending"} == statuses(store, "r")

    async def outside() -> None:
        flow = leftoff.workflow(body, name="other")
        async with asyncio.timeout(0.05):
            await flow.run(store=store, run_id="other")

    calls.clear()
    with pytest.raises(TimeoutError):
        asyncio.run(outside())
    view = store.get("other")
    assert ("paused", "pending", "session_end") == (
        view.status,
        view.steps["1-work"]["status"],
        view.history()[0].trigger,
    )
