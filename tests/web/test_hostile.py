"""1,000 hostile requests: each refused with the right status, none of them answered with a traceback, nothing changed.

They come from a generator with a fixed seed: paths, methods, headers, bodies, hosts and cookies that no page sends.
"""

from __future__ import annotations

import json
import random
import string
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import succeed
from tests.cli.runs import release
from tests.web.client import HOST, TOKEN, Answer, Client, serving

Headers = list[tuple[str, str]]
Hostile = tuple[str, str, Headers, bytes, str | None, set[int]]  # the last: the statuses that are right

ODD = [
    "\x00",
    "\x01",
    "\n",
    "\r\nX: y",
    "\x7f",
    "é",
    "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
]
WORDS = [
    "<script>",
    "../",
    "..%2f",
    "%00",
    "' OR 1=1--",
    "{{7*7}}",
    "${x}",
    "\\",
    "//",
    "a" * 3000,
    "~root",
    "@~1",
]
WALKS = [
    "/../../etc/passwd",
    "/static/../../../etc/passwd",
    "/static/..%2f..%2fetc/passwd",
    "/static//etc/passwd",
    "/static/%2e%2e/app.py",
    "/static/leftoff.js/..",
    "/p/../../etc",
    "//evil.example/",
    "/.git/config",
    "/.leftoff/store.db",
    "/web.key",
    "/api/projects/../../etc/passwd",
    "/healthz/..",
    "/static/\\..\\app.py",
    "/p/x\x00y/store",
]
HOSTS = [
    "evil.example",
    "127.0.0.1.nip.io",
    "localhost.evil",
    "0.0.0.0",
    "[::2]",
    "",
    "user@localhost",
    "localhost,evil",
]
ORIGINS = [
    "http://evil.example",
    "null",
    "https://127.0.0.1:8765.evil",
    "http://localhost:8765",
    "file://",
    "x" * 500,
]
METHODS = ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "G\tT", "X" * 100]


class Maker:
    """Makes them: each kind by a function of its own."""

    def __init__(self, page: Client, project: str, run: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.page = page
        self.cookie: Headers = [("cookie", page.cookie)]
        self.base = f"/p/{project}/runs/{run}"
        self.api = f"/api/projects/{project}/runs/{run}"
        self.kinds: list[Callable[[], Hostile]] = [
            self.host,
            self.origin,
            self.method,
            self.cookie_of_others,
            self.token,
            self.walk,
            self.name,
            self.form,
            self.document,
            self.query,
            self.long,
            self.twice,
        ]

    def junk(self) -> str:
        some = self.random.choices(WORDS + list(string.printable), k=self.random.randint(1, 6))
        return "".join(some)

    def header(self) -> str:
        """What a server lets through in a header."""
        return "".join(c for c in self.junk() if c.isprintable() and ord(c) < 256)

    def path(self) -> str:
        return self.random.choice(["/", self.base, f"{self.base}/do/stop", self.api, "/api/events"])

    def host(self) -> Hostile:
        return "GET", self.path(), self.cookie, b"", self.random.choice([*HOSTS, None]), {400}

    def origin(self) -> Hostile:
        method = self.random.choice(["GET", "POST"])
        headers = [*self.cookie, ("origin", self.random.choice(ORIGINS))]
        return method, self.path(), headers, b"", HOST, {403}

    def method(self) -> Hostile:
        return self.random.choice(METHODS), self.path(), self.cookie, b"", HOST, {405}

    def cookie_of_others(self) -> Hostile:
        cut = self.random.randint(1, len(self.page.cookie) - 1)
        name = self.page.cookie.partition("=")[0]
        wrong = [
            f"{name}={self.header()}",
            self.page.cookie[:cut],
            self.page.cookie + "x",
            self.page.cookie.replace(".", ".9", 1),
            self.page.cookie.swapcase(),
            f"{name}={TOKEN}",
            "",
        ]
        return "GET", self.path(), [("cookie", self.random.choice(wrong))], b"", HOST, {401}

    def token(self) -> Hostile:
        given = "".join(c for c in self.header() if c not in "&#?=;+%") or "x"
        if self.random.random() < 0.5:
            return "GET", f"/?token={given.encode('ascii', 'ignore').decode()}", [], b"", HOST, {401}
        return "GET", self.path(), [("authorization", f"Bearer {given}")], b"", HOST, {401}

    def walk(self) -> Hostile:
        return "GET", self.random.choice(WALKS), self.cookie, b"", HOST, {400, 404}

    def name(self) -> Hostile:
        """A project, a run or an action that there is not."""
        word = self.junk().replace("?", "").replace("/", "") or "x"
        path = self.random.choice(
            [f"/p/{word}/store", f"/p/x{word}/runs/y", f"{self.base}{word}", f"{self.base}/do/{word}"]
        )
        return "GET", path, self.cookie, b"", HOST, {400, 404}

    def form(self) -> Hostile:
        """A form without our token, or that is none."""
        action = self.random.choice(["stop", "fork", "archive", "rollback", "approve", "explode"])
        kinds = ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", "", self.header()]
        headers = [*self.cookie, ("content-type", self.random.choice(kinds))]
        body = self.random.choice([f"csrf={self.header()}", "csrf=", self.junk(), "&" * 3000, "a=1&" * 3000])
        return "POST", f"{self.base}/do/{action}", headers, body.encode(), HOST, {400, 403}

    def document(self) -> Hostile:
        """JSON that is none, or not what an action takes, from whoever has the token."""
        action = self.random.choice(["fork", "rollback", "approve", "resume", "unblock"])
        bodies = [
            b"{",
            b"[]",
            b'"x"',
            b"\xff\xfe",
            b"[" * 100_000,
            b'{"run_id": "../../x", "branch": 5}',
            b'{"nothing": 1}',
            json.dumps({"step": self.junk(), "choice": self.junk(), "extra": 1}).encode(),
            json.dumps({"accept": "all"}).encode(),
            json.dumps({"answers": {"x": 1}}).encode(),
            self.junk().encode() + b"\x00",
        ]
        kind = self.random.choice(["application/json", "text/plain"])
        headers = [("authorization", f"Bearer {TOKEN}"), ("content-type", kind)]
        return "POST", f"{self.api}/{action}", headers, self.random.choice(bodies), HOST, {400}

    def query(self) -> Hostile:
        wrong = ["limit=0", "limit=-1", "limit=1e9", "status=odd", "limit=%00", "limit=" + "9" * 400]
        path = f"{self.api.rpartition('/')[0]}?{self.random.choice(wrong)}"
        if self.random.random() < 0.5:
            path = (
                f"{self.base}/raw?path={self.random.choice(['../x', '/etc/passwd', '%00', '', 'a' * 5000])}"
            )
        return "GET", path, self.cookie, b"", HOST, {400, 403, 404, 409, 422}

    def long(self) -> Hostile:
        headers = [("authorization", f"Bearer {TOKEN}"), ("content-type", "application/json")]
        return "POST", f"{self.api}/stop", headers, b"x" * ((1 << 20) + 1), HOST, {413}

    def twice(self) -> Hostile:
        headers = [*self.cookie, ("origin", f"http://{HOST}"), ("origin", self.random.choice(ORIGINS))]
        return "GET", self.path(), headers, b"", HOST, {403}


def test_a_thousand(tmp_path: Path) -> None:
    """None is answered, nothing is changed, and each refusal has the headers that all answers have."""
    run = release(tmp_path)
    before = succeed("show", run, "--json", cwd=tmp_path).json["head"]
    with serving(tmp_path) as page:
        maker = Maker(page, tmp_path.name, run, 17)
        made = [maker.kinds[number % len(maker.kinds)]() for number in range(1000)]
        answers = page.run(_all(page, made))
    wrong = []
    for (method, path, headers, body, host, right), answer in zip(made, answers, strict=True):
        if answer.status not in right or b"Traceback" in answer.body or b'File "' in answer.body:
            wrong.append((method, path[:100], headers[1:], body[:80], host, answer))
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "set-cookie" not in answer.headers
    assert [] == wrong[:3], Counter(answer.status for *_, answer in wrong)
    assert before == succeed("show", run, "--json", cwd=tmp_path).json["head"]
    assert 1 == len(succeed("ls", "--json", cwd=tmp_path).json["runs"])


async def _all(page: Client, made: list[Hostile]) -> list[Answer]:
    return [
        await page.asked(method, path, headers, body, host=host)
        for method, path, headers, body, host, _ in made
    ]


@pytest.mark.parametrize("name", ["x", "é" * 100, "<b>", "a b"])
def test_odd_runs_are_not_found(tmp_path: Path, name: str) -> None:
    """With the words of the command, as text."""
    release(tmp_path)
    with serving(tmp_path) as page:
        answer = page.get(f"/p/{tmp_path.name}/runs/{name}")
        assert 404 == answer.status and "<b>" not in answer.text
