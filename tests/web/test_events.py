"""What happens is told to every page, and nothing is missed by one that was away."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from leftoff.store.sqlite import SqliteStore
from leftoff.web.background import WAITING, Hub, event_stream
from leftoff.web.served import PageLimits, serve_folders
from tests.cli.command import succeed
from tests.cli.runs import started
from tests.seams import SEAMS
from tests.web.client import serving

PATIENCE = 60.0
T = TypeVar("T")


async def _next(stream: Any) -> dict[str, Any]:
    """The next event that names a run."""
    async with asyncio.timeout(PATIENCE):
        async for text in stream:
            found: dict[str, Any] = json.loads(text.partition("data: ")[2] or "{}")
            if found.get("runs"):
                return found
    raise AssertionError("the stream ended")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """To its end, and that of whoever watched for it, who has the store open."""
    found = asyncio.run(work)
    for thread in threading.enumerate():
        if thread.name.startswith("watch "):
            thread.join(PATIENCE)
    return found


def _hub(*folders: Path) -> Hub:
    return Hub(serve_folders([str(folder) for folder in folders]), 10)


def test_a_commit_is_told(tmp_path: Path) -> None:
    """To every page, with the run that changed."""
    run = started(tmp_path)

    async def listen() -> list[dict[str, Any]]:
        hub = _hub(tmp_path)
        streams = [event_stream(hub) for _ in range(3)]
        for stream in streams:
            await anext(stream)
        for _ in range(2):  # one event of the stream, and one of the watch, which has begun
            await anext(streams[0])
        await asyncio.to_thread(succeed, "step", "done", "a", cwd=tmp_path)
        told = [await _next(stream) for stream in streams]
        for stream in streams:
            await stream.aclose()
        assert 0 == hub.listeners
        return told

    told = _run(listen())
    assert [[run]] * 3 == [event["runs"] for event in told]
    assert {tmp_path.name} == {event["project"] for event in told}


def test_nothing_is_missed(tmp_path: Path) -> None:
    """A page that was away, or that a stream begins for, is told to look at everything."""
    started(tmp_path)

    async def first() -> dict[str, Any]:
        stream = event_stream(_hub(tmp_path))
        await anext(stream)
        text = await anext(stream)
        await stream.aclose()
        found: dict[str, Any] = json.loads(text.partition("data: ")[2])
        return found

    assert {"project": None, "runs": [], "all": True} == _run(first())


def test_many_pages_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing happens, 50 open pages ask the store nothing; and one thread watches for all of them."""
    started(tmp_path)
    asked: list[object] = []

    async def listen() -> int:
        hub = _hub(tmp_path)
        streams = [event_stream(hub) for _ in range(50)]
        for stream in streams:
            await anext(stream)
        for _ in range(2):  # one event of the stream, and one of the watch, which has begun
            await anext(streams[0])
        read = SqliteStore.read

        def counted(self: SqliteStore, fn: Any) -> Any:
            asked.append(fn)
            return read(self, fn)

        monkeypatch.setattr(SEAMS["SqliteStore.read"], counted)
        await asyncio.sleep(1.5)  # three of its slices
        watching = sum(thread.name.startswith("watch ") for thread in threading.enumerate())
        for stream in streams:
            await stream.aclose()
        return watching

    assert 1 == _run(listen())
    assert [] == asked


def test_more_pages_than_there_may_be(tmp_path: Path) -> None:
    """One too many is told to come back later."""
    with serving(tmp_path, limits=PageLimits(streams=0)) as page:
        answer = page.get("/api/events")
        assert 503 == answer.status and "busy" == answer.json["error"]["code"]


def test_a_page_that_is_slow(tmp_path: Path) -> None:
    """What it cannot take in becomes one event that stands for all, and nobody waits for it."""

    async def listen() -> list[dict[str, Any]]:
        hub = _hub(tmp_path)
        queue = hub.join()
        for number in range(WAITING + 10):
            hub.tell("p", [f"run-{number}"])
        await asyncio.sleep(0)
        told = []
        while not queue.empty():
            told.append(queue.get_nowait())
        hub.leave(queue)
        return [event for event in told if event is not None]

    told = _run(listen())
    assert len(told) <= WAITING and any(event["all"] for event in told)
    assert f"run-{WAITING + 9}" in told[-1]["runs"]
