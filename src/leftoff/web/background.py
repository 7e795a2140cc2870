"""Work next to the requests: the stream of events for open pages, and checks of stores.

``/api/events`` is a stream of server-sent events that says which runs changed. Each store is watched once, by one
thread, and only while a page listens. The first event of a stream tells the page to look at everything, so that a page
that was away misses nothing.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from leftoff.errors import LeftoffError
from leftoff.operations.store_upkeep import check_store
from leftoff.operations.watching import Changes
from leftoff.web.guard import defect
from leftoff.web.served import Projects, Served

# -- events

_SLICE_S = 0.5  # a watching thread looks so often whether a page still listens
_QUIET_S = 15.0  # without an event, a line shows that the server is there
WAITING = 256  # a page that missed more events is asked to reload everything
_AGAIN_S = 2.0  # after a store was out of reach

Event = dict[str, Any]
_EVERYTHING: Event = {"project": None, "runs": [], "all": True}


class Hub:
    """The listeners and the threads that watch for them. It belongs to one event loop."""

    def __init__(self, projects: Projects, most: int) -> None:
        self._projects = projects
        self._most = most
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._watchers: list[_Watcher] = []
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def full(self) -> bool:
        return self._closed or len(self._listeners) >= self._most

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def join(self) -> asyncio.Queue[Event | None]:
        """Add a listener. The first one starts the watching."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(WAITING)
        queue.put_nowait(_EVERYTHING)
        self._listeners.add(queue)
        if not self._watchers:
            self._loop = asyncio.get_running_loop()
            self._watchers = [_Watcher(one, self) for one in self._projects]
        return queue

    def leave(self, queue: asyncio.Queue[Event | None]) -> None:
        """Remove a listener. The last one ends the watching."""
        self._listeners.discard(queue)
        if not self._listeners:
            for watcher in self._watchers:
                watcher.ended.set()
            self._watchers = []

    def close(self) -> None:
        """End every stream, because the server ends."""
        self._closed = True
        for queue in self._listeners:
            _put(queue, None)

    def tell(self, key: str, runs: Sequence[str] = (), *, everything: bool = False) -> None:
        """Tell every listener which runs of a project changed. Any thread may call this."""
        event = {"project": key, "runs": list(runs), "all": everything}
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, event)

    def _tell(self, event: Event) -> None:
        for queue in self._listeners:
            _put(queue, event)


class _Watcher:
    """The thread that watches one store."""

    def __init__(self, served: Served, hub: Hub) -> None:
        self.ended = threading.Event()
        self._served = served
        self._hub = hub
        threading.Thread(target=self._run, name=f"watch {served.key}", daemon=True).start()

    def _run(self) -> None:
        key = self._served.key
        while not self.ended.is_set():
            try:
                with self._served.open() as project, Changes(project) as changes:
                    self._hub.tell(key, everything=True)  # a page may have been read before the watch began
                    while not self.ended.is_set():
                        if news := changes.wait(_SLICE_S):
                            self._hub.tell(key, list(news.runs), everything=news.others)
            except LeftoffError:  # out of reach
                self.ended.wait(_AGAIN_S)


def _put(queue: asyncio.Queue[Event | None], event: Event | None) -> None:
    if queue.full():  # too slow: one event stands for all that it has missed
        while not queue.empty():
            queue.get_nowait()
        event = _EVERYTHING if event is not None else None
    queue.put_nowait(event)


async def _events(request: Request) -> Response:
    hub: Hub = request.app.state.hub
    if hub.full:
        about = {"code": "busy", "message": "Too many pages are open.", "hint": "Close some of them."}
        return JSONResponse({"error": about}, 503, headers={"retry-after": "5"})
    if request.method == "HEAD":  # a stream without content would never end
        return Response(media_type="text/event-stream")
    headers = {"x-accel-buffering": "no", "cache-control": "no-store"}
    return StreamingResponse(event_stream(hub), media_type="text/event-stream", headers=headers)


async def event_stream(hub: Hub) -> AsyncGenerator[str]:
    """Yield the lines of the stream for one listener."""
    queue = hub.join()
    try:
        yield "retry: 1000\n\n"
        while True:
            try:
                async with asyncio.timeout(_QUIET_S):
                    told = await queue.get()
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if told is None:
                return
            yield f"event: change\ndata: {json.dumps(told)}\n\n"
    finally:
        hub.leave(queue)


EVENT_ROUTES = [Route("/api/events", _events, name="events")]

# -- checks


class StoreChecks:
    """The last fsck of each project: whether it is running, and its report or error.

    ``moved`` is called with the project's key when a check has ended.
    """

    def __init__(self, moved: Callable[[str], None]) -> None:
        self._moved = moved
        self._known: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def of(self, key: str) -> dict[str, Any]:
        return self._known.get(key, {"running": False, "report": None, "error": None})

    def start(self, served: Served) -> dict[str, Any]:
        """Start a check, unless one is running."""
        with self._lock:
            if not self.of(served.key)["running"]:
                self._known[served.key] = {"running": True, "report": None, "error": None}
                threading.Thread(target=self._run, args=[served], name="fsck", daemon=True).start()
            return self.of(served.key)

    def _run(self, served: Served) -> None:
        report, error = None, None
        try:
            with served.open() as project:
                report = check_store(project).to_json()
        except LeftoffError as problem:
            error = problem.whole
        except Exception as problem:  # the check must end, so that another one can start
            error = defect(problem)
        self._known[served.key] = {"running": False, "report": report, "error": error}
        self._moved(served.key)
