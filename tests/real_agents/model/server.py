"""A model on the loopback that says what a script says, to all three agents, and keeps accounts of it."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.real_agents.model import wire
from tests.real_agents.model.answers import DONE, Answer, Request, Served

PATIENCE = 120.0  # seconds that the bed waits for a request; a slow machine is not an error


class Model:
    """The script, and what became of it.

    Each main request takes the next answer of the script away; once there is none left, the answer is ``DONE``.
    ``replies`` goes before the script: many sessions at once are told apart by what they ask. ``insists``: what an
    agent says of a tool that is not there yet; the call is made again then.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._script: list[Answer] = []
        self._waiting = 0
        self._let_go = threading.Event()
        self.replies: Callable[[Request], Answer | None] = lambda request: None
        self.insists = ""
        self._refused = 0
        self._last = DONE
        self.requests: list[Request] = []
        self.served = Served()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # -- for the bed

    def script(self, *answers: Answer) -> None:
        """What it says from now on; the accounts begin anew."""
        with self._changed:
            self._let_go.set()  # whoever waits still belongs to an earlier scenario
            self._let_go = threading.Event()
            self._script, self._waiting = list(answers), 0
            self.requests, self.served = [], Served()
            self.insists, self._refused, self.replies = "", 0, lambda request: None

    def more(self, *answers: Answer) -> None:
        """What it says after that; the accounts go on, and whoever waits goes on to wait."""
        with self._changed:
            self._script = list(answers)

    @property
    def main(self) -> list[Request]:
        return [request for request in self.requests if request.main]

    def wait_for_request(self, number: int = 1) -> None:
        """Until so many main requests have come."""
        self._wait(lambda: len(self.main) >= number, f"main request {number}")

    def wait_for_wait(self, number: int = 1) -> None:
        """Until so many answers have begun that do not go on."""
        self._wait(lambda: self._waiting >= number, "an answer that waits")

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(holds, PATIENCE):
                raise TimeoutError(f"the model waited {PATIENCE:.0f} s for {what}")

    def close(self) -> None:
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()

    # -- for the server

    def answer(self, request: Request) -> Answer:
        """What is said to a request, which is kept."""
        with self._changed:
            self.requests.append(request)
            found = wire.SIDE[request.api]
            if request.main:
                found = self._last = self._next(request)
            if not found.waits:
                self.served.count(request, found)
            self._changed.notify_all()
            return found

    def _next(self, request: Request) -> Answer:
        refused = sum(self.insists in text for text in request.texts) if self.insists else 0
        again, self._refused = refused > self._refused, refused
        if again:
            time.sleep(0.2)
            return self._last
        return self.replies(request) or (self._script.pop(0) if self._script else DONE)

    def pause(self) -> None:
        """In the middle of an answer, until the script goes on without it."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            held = self._let_go
        held.wait()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    model: Model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of an agent that was killed while it asked."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        self._document(200, {})

    def do_GET(self) -> None:
        known = "/models" in self.path
        self._document(
            200 if known else 404, {"data": [], "models": [], "has_more": False} if known else _NOTHING
        )

    def do_POST(self) -> None:
        try:
            self._post(self._body())
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # whoever asked was killed

    def _post(self, body: dict[str, Any]) -> None:
        request = wire.request_of(self.path, body)
        if request is None:
            counts = "count_tokens" in self.path or "countTokens" in self.path
            self._document(
                200 if counts else 404, {"input_tokens": 1000, "totalTokens": 1000} if counts else _NOTHING
            )
            return
        answer = self.server.model.answer(request)
        if answer.refuses:
            more = {"retry-after": str(answer.wait)} if answer.wait is not None else {}
            self._document(answer.status, wire.refusal(request.api, answer), more)
        elif request.body.get("stream") or "stream" in self.path:
            self._stream(wire.stream(request, answer), answer)
        else:
            self._document(200, wire.whole(request, answer))

    def _body(self) -> dict[str, Any]:
        if self.headers.get("Transfer-Encoding") == "chunked":
            raw = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        found = json.loads(raw or b"{}")
        return found if isinstance(found, dict) else {}

    def _document(self, status: int, body: dict[str, Any], more: dict[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(raw)),
            **(more or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _stream(self, events: Iterable[wire.Event], answer: Answer) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for number, (name, data) in enumerate(events):
            if number == 1 and answer.waits:
                self.server.model.pause()
                return  # nobody is to get the rest
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()


_NOTHING = {"error": {"type": "not_found_error", "message": "there is nothing here"}}
