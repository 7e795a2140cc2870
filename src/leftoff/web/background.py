"""Work next to the requests: the stream of events for open pages, checks of stores, verdicts on paused runs.

``/api/events`` is a stream of server-sent events that says which runs changed. Each store is watched once, by one
thread, and only while a page listens. A page that was away sends the cursor of the event that it saw last, and is told
at once which runs have changed since.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from leftoff.engine.caller import Caller
from leftoff.engine.project import Project
from leftoff.engine.resume_request import ResumeRequest
from leftoff.errors import LeftoffError
from leftoff.operations.resuming import judge
from leftoff.operations.runs import target
from leftoff.operations.store_upkeep import check_store, store_info
from leftoff.operations.watching import Changes, Happened, happened_since
from leftoff.web.guard import defect
from leftoff.web.served import Projects, Served

# -- events

_SLICE_S = 0.5  # a watching thread looks so often whether a page still listens
_QUIET_S = 15.0  # without an event, a line shows that the server is there
WAITING = 256  # a page that is more events behind is told to look at everything
_AGAIN_S = 2.0  # after a store was out of reach

Event = dict[str, Any]


class Hub:
    """The listeners and the threads that watch for them. It belongs to one event loop."""

    def __init__(self, projects: Projects, most: int) -> None:
        self._projects = projects
        self._most = most
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._watchers: dict[str, _Watcher] = {}
        self._at: dict[str, int] = {}  # the position that was told last, by project
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
        self._listeners.add(queue)
        if not self._watchers:
            self._loop = loop = asyncio.get_running_loop()
            self._watchers = {one.key: _Watcher(one, self, loop) for one in self._projects}
        return queue

    def leave(self, queue: asyncio.Queue[Event | None]) -> None:
        """Remove a listener. The last one ends the watching."""
        self._listeners.discard(queue)
        if not self._listeners:
            for watcher in self._watchers.values():
                watcher.ended.set()
            self._watchers = {}

    def close(self) -> None:
        """End every stream, because the server ends."""
        self._closed = True
        for queue in self._listeners:
            _put(queue, None)

    def tell(self, key: str, happened: Happened) -> None:
        """Tell every listener what happened in a project."""
        self._at[key] = max(happened.position, self._at.get(key, 0))
        event = _event(key, happened, self._at)
        for queue in self._listeners:
            _put(queue, event)

    def tell_all(self, key: str) -> None:
        """Tell every page of a project to look again. Any thread may call this."""
        if self._loop is not None and not self._loop.is_closed():
            happened = Happened(self._at.get(key, 0), others=True)
            self._loop.call_soon_threadsafe(self.tell, key, happened)

    def cursor(self, opened: Iterable[tuple[Served, Project]]) -> str:
        """Return the present position of projects, for a page that is made of what is read next."""
        return cursor_of({one.key: happened_since(project, 0).position for one, project in opened})

    def missed(self, cursor: str) -> list[Event]:
        """Return what happened in each project since a cursor."""
        seen, at, found = positions(cursor), {}, {}
        for one in self._projects:
            try:
                with one.open() as project:
                    found[one.key] = happened = happened_since(project, seen.get(one.key, 0))
                at[one.key] = happened.position
            except LeftoffError:  # its watcher tells when it is there again
                continue
        return [_event(key, happened, at) for key, happened in found.items() if happened]


class _Watcher:
    """The thread that watches one store."""

    def __init__(self, served: Served, hub: Hub, loop: asyncio.AbstractEventLoop) -> None:
        self.ended = threading.Event()
        self._served = served
        self._hub = hub
        self._loop = loop
        threading.Thread(target=self._run, name=f"watch {served.key}", daemon=True).start()

    def _run(self) -> None:
        while not self.ended.is_set():
            try:
                with self._served.open() as project, Changes(project) as changes:
                    at = happened_since(project, 0).position
                    self._tell(Happened(at))
                    while not self.ended.is_set():
                        news = changes.wait(_SLICE_S)
                        if news:
                            happened = happened_since(project, at)
                            at = happened.position
                            runs = list(dict.fromkeys([*happened.runs, *news.runs]))
                            self._tell(Happened(at, runs, news.others or happened.others))
            except LeftoffError:  # out of reach: the pages look at everything when it is back
                self.ended.wait(_AGAIN_S)
                self._tell(Happened(0, others=True))

    def _tell(self, happened: Happened) -> None:
        try:
            self._loop.call_soon_threadsafe(self._hub.tell, self._served.key, happened)
        except RuntimeError:  # the loop is closed: the server ended
            self.ended.set()


def _event(key: str, happened: Happened, at: Mapping[str, int]) -> Event:
    return {"cursor": cursor_of(at), "project": key, "runs": list(happened.runs), "all": happened.others}


def cursor_of(at: Mapping[str, int]) -> str:
    """Return positions in several projects as one text."""
    return ",".join(f"{name}:{position}" for name, position in at.items())


def positions(cursor: str) -> dict[str, int]:
    """Return the positions in a cursor; parts that are not well-formed are left out."""
    found = {}
    for part in cursor.split(","):
        key, _, number = part.rpartition(":")
        if key and number.isascii() and number.isdigit() and len(number) < 19:
            found[key] = int(number)
    return found


def _put(queue: asyncio.Queue[Event | None], event: Event | None) -> None:
    if queue.full():  # too slow: one event stands for all that it has missed
        while not queue.empty():
            queue.get_nowait()
        if event is not None:
            event = {**event, "runs": [], "all": True}
    queue.put_nowait(event)


async def _events(request: Request) -> Response:
    """Answer with the stream. ``Last-Event-ID``, or ``?cursor=``: the event that was seen last."""
    hub: Hub = request.app.state.hub
    if hub.full:
        about = {"code": "busy", "message": "Too many pages are open.", "hint": "Close some of them."}
        return JSONResponse({"error": about}, 503, headers={"retry-after": "5"})
    if request.method == "HEAD":  # a stream without content would never end
        return Response(media_type="text/event-stream")
    cursor = request.headers.get("last-event-id") or request.query_params.get("cursor", "")
    headers = {"x-accel-buffering": "no", "cache-control": "no-store"}
    return StreamingResponse(event_stream(hub, cursor), media_type="text/event-stream", headers=headers)


async def event_stream(hub: Hub, cursor: str) -> AsyncGenerator[str]:
    """Yield the lines of the stream for one listener."""
    queue = hub.join()
    try:
        yield "retry: 1000\n\n"
        for event in await asyncio.to_thread(hub.missed, cursor) if cursor else ():
            yield _line(event)
        while True:
            try:
                async with asyncio.timeout(_QUIET_S):
                    told = await queue.get()
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if told is None:
                return
            yield _line(told)
    finally:
        hub.leave(queue)


def _line(event: Event) -> str:
    name = "change" if event["runs"] or event["all"] else "position"
    return f"id: {event['cursor']}\nevent: {name}\ndata: {json.dumps(event)}\n\n"


def event_routes() -> list[Route]:
    return [Route("/api/events", _events, name="events")]


# -- checks and verdicts

_TELL_EVERY_S = 0.25  # how often the progress of a check is reported
_VALID_S = 60.0  # after that, files or git may have changed
_MOST_VERDICTS = 1000
MOST_STEPS = 5000  # a larger run is not judged before a user asks for it


class StoreCheck:
    """One fsck: its progress and its result."""

    def __init__(self, served: Served, moved: Callable[[str], None]) -> None:
        self.checked: dict[str, int] = {}
        self.total = 0  # runs
        self.report: dict[str, Any] | None = None
        self.error = ""
        self._served = served
        self._moved = moved
        self._told = 0.0

    @property
    def percent(self) -> int:
        if self.report is not None:
            return 100
        return min(99, self.checked.get("runs", 0) * 100 // self.total) if self.total else 0

    def run(self) -> None:
        try:
            with self._served.open() as project:
                self.total = int(store_info(project).to_json().get("runs") or 0)
                self.report = check_store(project, counted=self._counted).to_json()
        except LeftoffError as error:
            self.error = error.whole
        except Exception as error:  # the check must end, so that another one can start
            self.error = defect(error)
        self._moved(self._served.key)

    def _counted(self, checked: dict[str, int]) -> None:
        self.checked = dict(checked)
        if time.monotonic() - self._told > _TELL_EVERY_S:
            self._told = time.monotonic()
            self._moved(self._served.key)

    def to_json(self) -> dict[str, Any]:
        return {
            "running": self.report is None and not self.error,
            "percent": self.percent,
            "checked": self.checked,
            "report": self.report,
            "error": self.error or None,
        }


class StoreChecks:
    """The last check of each project. ``moved`` is called with the project's key when one has made progress."""

    def __init__(self, moved: Callable[[str], None]) -> None:
        self._moved = moved
        self._checks: dict[str, StoreCheck] = {}
        self._lock = threading.Lock()

    def start(self, served: Served) -> StoreCheck:
        """Start a check, unless one is running."""
        with self._lock:
            known = self._checks.get(served.key)
            if known is not None and known.to_json()["running"]:
                return known
            begun = self._checks[served.key] = StoreCheck(served, self._moved)
        threading.Thread(target=begun.run, name=f"fsck {served.key}", daemon=True).start()
        return begun

    def of(self, key: str) -> dict[str, Any] | None:
        known = self._checks.get(key)
        return known.to_json() if known is not None else None


class Verdicts:
    """Whether paused runs could continue, as last judged. Judging looks at files and git, so a page never waits."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, float, str]] = {}  # seq, when, verdict
        self._wanted: dict[tuple[str, str], tuple[Served, int]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def of(self, served: Served, run_id: str, seq: int) -> str | None:
        """Return the verdict on a run at that version; ``None`` until it is known."""
        address = (served.key, run_id)
        with self._lock:
            known = self._known.get(address)
            if known is not None and known[0] != seq:
                known = None
            if known is None or time.monotonic() - known[1] > _VALID_S:
                self._wanted[address] = (served, seq)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="verdicts", daemon=True)
                    self._thread.start()
            return known[2] if known is not None else None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                address = next(iter(self._wanted))
                served, seq = self._wanted.pop(address)
            verdict = _judge(served, address[1])
            with self._lock:
                self._known.pop(address, None)
                self._known[address] = (seq, time.monotonic(), verdict)
                while len(self._known) > _MOST_VERDICTS:
                    self._known.pop(next(iter(self._known)))


def _judge(served: Served, run_id: str) -> str:
    caller = Caller()
    try:
        with served.open() as project:
            found = target(project, caller, run_id)
            return judge(project, caller, ResumeRequest(found, resumes=False)).verdict
    except LeftoffError:
        return "refuse"
