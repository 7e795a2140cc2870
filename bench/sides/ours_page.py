"""leftoff's page over a store with many runs, and one run with many steps: asked without a port, so it is the server's
own time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import MutableMapping
from typing import Any

import leftoff
from leftoff.engine.project import Project
from leftoff.engine.settings import Caller
from leftoff.operations.run_reports import set_variables
from leftoff.web.background import event_stream
from leftoff.web.page_server import make_app
from leftoff.web.served import PageOptions, serve_folders

TOKEN = "bench"
_UNFINISHED = 20  # of all runs


class Page:
    """A project with `runs` runs, of which some are unfinished, and one run of `steps` steps."""

    def __init__(self, folder: str, runs: int, steps: int) -> None:
        self._folder = folder
        self._app = make_app(serve_folders([folder]), PageOptions(token=TOKEN, key=b"k" * 32))
        self._runner = asyncio.Runner()
        with leftoff.open(f"{folder}/.leftoff") as store:
            for number in range(runs):
                run = store.start("bench", run_id=f"run-{number:05}", title=f"Run {number}", steps=["a", "b"])
                if number < runs - _UNFINISHED:
                    run.finish()
                else:
                    run.pause()
            large = store.start(
                "large", run_id="large", steps=[f"step-{number:06}" for number in range(steps)]
            )
            large.pause()
        self._key = next(iter(self._app.state.projects)).key

    def home(self) -> float:
        """Seconds for the home page."""
        return self._runner.run(self._taken("/"))

    def run(self) -> float:
        """Seconds for the page of the run with many steps."""
        return self._runner.run(self._taken(f"/p/{self._key}/runs/large"))

    def event(self) -> float:
        """Seconds from a commit to the event that tells of it."""
        return self._runner.run(self._heard())

    async def _taken(self, path: str) -> float:
        began = time.perf_counter()
        status, body = await self._ask(path)
        if status != 200 or b"<main" not in body:
            raise AssertionError(f"{path}: {status}")
        return time.perf_counter() - began

    async def _heard(self) -> float:
        stream = event_stream(self._app.state.hub)
        for _ in range(3):
            await anext(stream)  # it listens, and watches
        await asyncio.to_thread(self._commit)
        committed = time.perf_counter()
        async for text in stream:
            if "event: change" in text and "large" in json.loads(text.partition("data: ")[2])["runs"]:
                break
        taken = time.perf_counter() - committed
        await stream.aclose()
        return taken

    def _commit(self) -> None:
        project = Project(self._folder)
        set_variables(project, Caller(named="large"), {"at": time.time()})
        project.close()

    async def _ask(self, path: str) -> tuple[int, bytes]:
        scope: MutableMapping[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8765),
        }
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return int(sent[0]["status"]), b"".join(part.get("body", b"") for part in sent[1:])
