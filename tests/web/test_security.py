"""Who may see the page, and what every answer says to the browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine.settings import Caller
from leftoff.web.page_server import page_secrets
from leftoff.web.served import PageLimits, serve_folders
from tests.cli.runs import started
from tests.web.client import HOST, TOKEN, Client, serving

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path) as client:
        yield client


def test_nothing_without_the_token(page: Client) -> None:
    """Neither a page nor the interface for programs shows anything to whoever has no token."""
    for path in ("/", "/p/x/runs/y", "/api/events", "/nothing"):
        assert 401 == page.ask("GET", path).status
    assert 401 == page.ask("GET", "/?token=wrong").status
    assert 401 == page.ask("GET", "/", [("authorization", "Bearer wrong")]).status
    assert 200 == page.ask("GET", "/healthz").status


def test_the_token_becomes_a_cookie(page: Client) -> None:
    """The printed address signs in; the token leaves the address bar, and scripts cannot read the cookie."""
    answer = page.ask("GET", f"/p/a%20b/store?x=1&token={TOKEN}&y=%2F")
    assert (303, "/p/a%2520b/store?x=1&y=%2F") == (answer.status, answer.headers["location"])
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and TOKEN not in cookie
    assert 200 == page.ask("GET", "/", [("cookie", cookie.partition(";")[0])]).status


def test_the_token_leads_nowhere_else(page: Client) -> None:
    """Signing in never sends a browser to another machine."""
    assert "/evil.example" == page.ask("GET", f"//evil.example?token={TOKEN}").headers["location"]


@pytest.mark.parametrize("change", ["until", "signature", "name", "empty"])
def test_a_cookie_that_somebody_changed(page: Client, change: str) -> None:
    """It is no cookie of ours."""
    name, until, signature = page.cookie.split("=")[1].split(".")
    made = {
        "until": f"{name}.{int(until) + 1}.{signature}",
        "signature": f"{name}.{until}.{signature[::-1]}",
        "name": f"x{name}.{until}.{signature}",
        "empty": "",
    }
    assert 401 == page.ask("GET", "/", [("cookie", f"{page.cookie.partition('=')[0]}={made[change]}")]).status


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8765", "", None, "localhost@evil", "[::2]", "[::1"]
)
def test_names_that_point_here(page: Client, host: str | None) -> None:
    """A name that is not ours is refused, whoever asks."""
    assert 400 == page.ask("GET", "/", [("cookie", page.cookie)], host=host).status


@pytest.mark.parametrize("host", [HOST, "localhost", "LOCALHOST:1", "[::1]:8765", "build.example:80"])
def test_names_of_ours(tmp_path: Path, host: str) -> None:
    """This machine's, and those that were allowed."""
    with serving(tmp_path, hosts=("Build.example",)) as page:
        assert 200 == page.ask("GET", "/", [("cookie", page.cookie)], host=host).status


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "", "file://", "http://["]
)
def test_other_pages(page: Client, origin: str) -> None:
    """A request of another page is refused, even with our cookie."""
    assert 403 == page.ask("GET", "/", [("cookie", page.cookie), ("origin", origin)]).status


def test_what_every_answer_says(page: Client) -> None:
    """Pages, errors and refusals alike: no script but ours, no frame, no guessing of types, nothing kept."""
    for answer in (page.get("/"), page.get("/nothing"), page.ask("GET", "/"), page.get("/static/leftoff.js")):
        policy = answer.headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        )
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "DENY" == answer.headers["x-frame-options"]
        assert "same-origin" == answer.headers["referrer-policy"]


def test_methods(page: Client) -> None:
    """Others than GET, HEAD and POST are not answered; a page takes no POST."""
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get"):
        answer = page.ask(method, "/", [("cookie", page.cookie)])
        assert 405 == answer.status and "GET" in answer.headers["allow"]
    assert 405 == page.ask("POST", "/", [("cookie", page.cookie)]).status
    assert 200 == page.ask("HEAD", "/", [("cookie", page.cookie)]).status


def test_a_body_that_is_too_long(page: Client) -> None:
    """It is refused while it comes."""
    headers = [("authorization", f"Bearer {TOKEN}"), ("content-type", "application/json")]
    path = "/api/projects/x/runs/y/stop"
    assert 413 == page.ask("POST", path, headers, b"x" * (page.options.limits.body + 1)).status


def test_two_origins(page: Client) -> None:
    """Each must be ours."""
    ours = ("origin", f"http://{HOST}")
    assert 200 == page.ask("GET", "/", [("cookie", page.cookie), ours, ours]).status
    both = [ours, ("origin", "http://evil.example")]
    assert 403 == page.ask("GET", "/", [("cookie", page.cookie), *both]).status


def test_names_are_text(tmp_path: Path) -> None:
    """A run that is called like a tag is shown, and is none."""
    run = started(tmp_path, HOSTILE, "--title", HOSTILE, "--steps", HOSTILE, "--run-id", "r")
    with serving(tmp_path) as page:
        for path in ("/", f"/p/{tmp_path.name}/runs/{run}"):
            shown = page.get(path).text
            assert "<img" not in shown and "&lt;img" in shown


def test_below_a_path(tmp_path: Path) -> None:
    """Behind a proxy all links are below its path, whether or not the proxy takes that away."""
    started(tmp_path)
    with serving(tmp_path, base="/left") as page:
        assert "Path=/left;" in page.sign_in().headers["set-cookie"]
        for path in ("/left/", "/"):
            shown = page.get(path).text
            assert 'href="/left/static/' in shown and f'href="/left/p/{tmp_path.name}/runs/' in shown
            assert 'href="/p/' not in shown


def test_a_project_that_is_not_served(page: Client) -> None:
    """It says so, without what the machine has."""
    answer = page.get("/p/etc/runs/passwd")
    assert 404 == answer.status and "No project" in answer.text


def test_a_body_that_does_not_come(tmp_path: Path) -> None:
    """Nobody waits for it for ever."""
    with serving(tmp_path, limits=PageLimits(body_s=0.01)) as page:
        headers = [("authorization", f"Bearer {TOKEN}")]
        assert 408 == page.ask("POST", "/api/projects/x/runs/y/stop", headers, comes=False).status


def test_a_defect_is_one_sentence(page: Client, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """No traceback, neither in the browser nor in the server's log."""

    def broken(*words: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("leftoff.web.screens.home_screen", broken)
    answer = page.get("/")
    assert 500 == answer.status and "ZeroDivisionError" in answer.text and "of ours" not in answer.text
    assert ("", "") == tuple(capsys.readouterr())


def test_a_stream_without_content(page: Client) -> None:
    """HEAD is answered at once, and holds no place of those who listen."""
    answer = page.ask("HEAD", "/api/events", [("cookie", page.cookie)])
    assert (200, b"") == (answer.status, answer.body)


def test_a_link_in_another_page(page: Client) -> None:
    """A browser would not send the cookie along with where that leads: a page of ours goes on with it."""
    answer = page.ask("GET", f"/p/x/?a=%22%3E&token={TOKEN}", [("sec-fetch-site", "cross-site")])
    assert 200 == answer.status and "set-cookie" in answer.headers and TOKEN not in answer.text
    assert 'content="0;url=/p/x/?a=%22%3E"' in answer.text


def test_a_session_is_of_what_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same at the next start; none where others are served, where more is allowed, or with another token."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def key(*folders: str, token: str = "one", read_only: bool = True) -> Any:
        monkeypatch.setenv("LEFTOFF_WEB_TOKEN", token)
        projects = serve_folders([str(tmp_path / folder) for folder in folders])
        return page_secrets(Caller(), projects, read_only=read_only)["key"]

    assert key("a", "b") == key("b", "a")
    assert 4 == len({key("a"), key("a", "b"), key("a", read_only=False), key("a", token="two")})
