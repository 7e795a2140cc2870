"""The page without a port: requests straight into the application, as odd as a test wants them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from leftoff.web.page_server import make_app
from leftoff.web.served import PageOptions, serve_folders

T = TypeVar("T")
TOKEN = "token-of-the-tests"
HOST = "127.0.0.1:8765"
PATIENCE = 30.0


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status = status
        self.headers = dict(headers)
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.headers}\n{self.body[:2000]!r}"


class Client:
    """A browser that has signed in, or (``ask``) anybody at all."""

    def __init__(self, *folders: Path, signed_in: bool = True, **options: Any) -> None:
        self.options = PageOptions(token=TOKEN, key=b"k" * 32, **options)
        self.app = make_app(serve_folders([str(folder) for folder in folders]), self.options)
        self._runner = asyncio.Runner()
        self.cookie = ""
        self._csrf = ""
        if signed_in:
            self.sign_in()

    def close(self) -> None:
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Several at once, or one after another without starting anew."""
        return self._runner.run(work)

    def sign_in(self) -> Answer:
        answer = self.ask("GET", f"/?token={TOKEN}")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, [("cookie", self.cookie), *_names(headers)])

    def post(self, path: str, form: Mapping[str, Any] | None = None, **headers: str) -> Answer:
        """A form of one of our own pages."""
        body = urlencode({"csrf": self.csrf, **(form or {})}, doseq=True).encode()
        own = {"content_type": "application/x-www-form-urlencoded", "origin": f"http://{HOST}", **headers}
        return self.ask("POST", path, [("cookie", self.cookie), *_names(own)], body)

    def api(self, method: str, path: str, document: Any = None) -> Answer:
        """A program that has the token."""
        body = b"" if document is None else json.dumps(document).encode()
        headers = [("authorization", f"Bearer {TOKEN}"), ("content-type", "application/json")]
        return self.ask(method, path, headers, body)

    @property
    def csrf(self) -> str:
        """What our own pages carry."""
        if not self._csrf:
            found = re.search(r'name="csrf"[^>]*(?:value|content)="([0-9a-f]+)"', self.get("/").text)
            assert found is not None
            self._csrf = found[1]
        return self._csrf

    def ask(
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        host: str | None = HOST,
        comes: bool = True,
    ) -> Answer:
        """Any request. Not ``comes``: its body never does."""
        return self._runner.run(self.asked(method, path, headers, body, host=host, comes=comes))

    async def asked(
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        host: str | None = HOST,
        comes: bool = True,
    ) -> Answer:
        path, _, query = path.partition("?")
        own = [("host", host)] if host is not None else []
        own += [("content-length", str(len(body)))] if body else []
        lines = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in [*own, *headers]
        ]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query.encode(),
            "headers": lines,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8765),
            "root_path": "",
        }
        sent: list[Any] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}] if comes else []

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await asyncio.sleep(PATIENCE)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        async with asyncio.timeout(PATIENCE):
            await self.app(scope, receive, send)
        begun = sent[0]
        got = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in begun["headers"]]
        return Answer(begun["status"], got, b"".join(part.get("body", b"") for part in sent[1:]))


def _names(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), value) for name, value in headers.items()]


@contextmanager
def serving(*folders: Path, **options: Any) -> Iterator[Client]:
    """What is served of these folders, to a browser that has signed in."""
    client = Client(*folders, **options)
    try:
        yield client
    finally:
        client.close()
