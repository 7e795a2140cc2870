"""What stands in front of every route: who asks, from where, with how much; and what every answer says to the browser.

A page on this machine can be asked by any other page that a browser has open. So: the name in ``Host`` must be ours (a
name that somebody pointed at this machine is refused), ``Origin`` must be ours wherever there is one, nothing is shown
without the token or the cookie that it was exchanged for, and nothing is changed without a second token that only our
own pages hold.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from leftoff.log import debugging
from leftoff.web.options import LOOPBACK, Options

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/healthz", "/static/", "/favicon.svg")  # without a token: nothing of any run is there
CSRF_HEADER, CSRF_FIELD = "x-leftoff-csrf", "csrf"
CHANGING = "POST"
METHODS = ("GET", "HEAD", CHANGING)

POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all, forms would be sent without their origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

_ONWARD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={to}">'
    '<title>leftoff</title><p><a href="{to}">Go on</a></p></html>'
)
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Refused(Exception):
    """A request that is not answered: the status, and why in a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Session:
    """Who a request belongs to. ``csrf``: what its forms carry; ``None`` where a program came with the token itself."""

    def __init__(self, csrf: str | None) -> None:
        self.csrf = csrf


class Keys:
    """Tokens and cookies: made, and compared in constant time."""

    def __init__(self, options: Options, now: Callable[[], float] = time.time) -> None:
        self._options = options
        self._now = now
        self._once, self._until = options.once, now() + options.limits.once_s
        # A browser sends those of all ports.
        self.cookie = f"leftoff-{hashlib.sha256(options.key).hexdigest()[:8]}"

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._options.token.encode())

    def lets_in(self, given: str) -> bool:
        """Whether this is the token; or what a browser was started with, which it is one time."""
        if self._once and hmac.compare_digest(given.encode(), self._once.encode()):
            self._once = ""
            return self._now() < self._until
        return self.is_token(given)

    def new_cookie(self) -> str:
        """A session: a random name, until when it holds, and our signature."""
        until = int(self._now()) + self._options.limits.session_s
        body = f"{secrets.token_urlsafe(16)}.{until}"
        return f"{body}.{self._sign('session', body)}"

    def session(self, cookie: str) -> Session | None:
        """The session of a cookie, if it is one of ours and still holds."""
        body, _, signed = cookie.rpartition(".")
        if not hmac.compare_digest(signed.encode(), self._sign("session", body).encode()):
            return None
        until = body.rpartition(".")[2]
        return Session(self._sign("csrf", body)) if int(until) > self._now() else None

    def _sign(self, what: str, text: str) -> str:
        return hmac.new(self._options.key, f"{what} {text}".encode(), hashlib.sha256).hexdigest()


class Guard:
    """The outermost application: refuses, signs in, limits, and adds what every answer carries."""

    def __init__(self, app: App, options: Options) -> None:
        self._app = app
        self._options = options
        self._keys = Keys(options)
        self._hosts = frozenset((*LOOPBACK, *(name.lower() for name in options.hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        begun = False

        async def answer(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(_with_headers(message))

        try:
            receive = await self._admitted(scope, receive, answer)
            if not begun:
                await self._app(scope, receive, answer)
        except Refused as refused:
            await _refuse(refused, scope, answer)
        except Exception as error:  # a defect of ours: a short answer
            why = defect(error)
            if not begun:
                await _refuse(Refused(500, why), scope, answer)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> Receive:
        """What a route may read; ``Refused`` where none is asked. Who signs in is answered here."""
        headers = _headers(scope)
        self._check(scope, headers)
        self._place(scope)
        if await self._sign_in(scope, headers, send):
            return receive
        session = scope["leftoff"] = self._session(headers)
        self._need_session(scope, session)
        return await self._limited(scope, headers, receive)

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        """Host, Origin and method are ours."""
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            known = ", ".join(sorted(self._hosts))
            raise Refused(
                421, f"This page is not served under that name, but under: {known}. See --allow-host."
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise Refused(403, "The request comes from another page.")
        if scope["method"] not in METHODS:
            raise Refused(405, "Only GET, HEAD and POST are answered.")
        if scope["method"] == CHANGING and headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(403, "The request comes from another page.")

    def _place(self, scope: Scope) -> None:
        """Below the path of a proxy, whether or not that takes it away."""
        base = self._options.base
        path = scope["path"]
        if "\0" in path or "\\" in path:
            raise Refused(400, "The path has characters that no path here has.")
        scope["root_path"] = base
        if base and not (path == base or path.startswith(base + "/")):
            scope["path"] = base + path

    async def _sign_in(self, scope: Scope, headers: dict[str, str], send: Send) -> bool:
        """The token of the printed URL is exchanged for a cookie, and leaves the address bar."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if not given or scope["method"] == CHANGING:
            return False
        if not self._keys.lets_in(given[0]):
            raise Refused(
                401, "That token is not the one of this server. It is printed when the server starts."
            )
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        to = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")  # never another machine
        cookie = (
            f"{self._keys.cookie}={self._keys.new_cookie()}; Path={self._options.base or '/'}; HttpOnly; "
            f"SameSite=Strict; Max-Age={self._options.limits.session_s}"
        )
        if headers.get("x-forwarded-proto") == "https":
            cookie += "; Secure"
        # A link in another page: only ours may go on with the cookie.
        if headers.get("sec-fetch-site") == "cross-site":
            page = _ONWARD.format(to=escape(to))
            await _plain(
                send, 200, page, [("content-type", "text/html; charset=utf-8"), ("set-cookie", cookie)]
            )
        else:
            await _plain(send, 303, "", [("location", to), ("set-cookie", cookie)])
        return True

    def _session(self, headers: dict[str, str]) -> Session | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._keys.is_token(given.strip()):
            return Session(None)
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._keys.cookie)
            return self._keys.session(cookie.value) if cookie is not None else None
        except (CookieError, ValueError):
            return None

    def _need_session(self, scope: Scope, session: Session | None) -> None:
        path = scope["path"][len(self._options.base) :]
        if session is None and not path.startswith(OPEN):
            raise Refused(401, "Open the address that `leftoff serve` printed: it carries the token.")

    async def _limited(self, scope: Scope, headers: dict[str, str], receive: Receive) -> Receive:
        """The body, read at once, if it is not too long."""
        import asyncio

        most = self._options.limits.body
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length[:19]) > most:
            raise Refused(413, f"A request may have {most:,} bytes.")
        if scope["method"] != CHANGING:
            return receive
        body = b""
        try:
            async with asyncio.timeout(self._options.limits.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "The request was cut off.")
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise Refused(413, f"A request may have {most:,} bytes.")
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise Refused(408, "The request took too long to come.") from None
        return _again(body, receive)


def _again(body: bytes, receive: Receive) -> Receive:
    """What was read, to be read by the route; then whatever comes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def defect(error: Exception) -> str:
    """What is said of a defect of ours. Where it lies is in no browser and no log, unless somebody looks for it."""
    if debugging():
        traceback.print_exception(error, file=sys.stderr)
    return f"This failed inside of leftoff: {type(error).__name__}. LEFTOFF_DEBUG=1 shows where."


def is_own(session: Session | None, given: str) -> bool:
    """Whether a change was asked for by our own page, or by a program that holds the token."""
    if session is None:
        return False
    return session.csrf is None or hmac.compare_digest(given.encode(), session.csrf.encode())


def _headers(scope: Scope) -> dict[str, str]:
    """By name. One that must be there once, and is there twice, is refused."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "origin", "content-length", "authorization"):
            raise Refused(400, f"The request has {key} twice.")
        text = value.decode("latin-1")
        found[key] = f"{found[key]}; {text}" if key in found else text
    return found


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()


def _with_headers(message: Message) -> Message:
    """Every answer says what a browser may do with it; what a route says itself comes first."""
    if message["type"] == "http.response.start":
        there = {name.lower() for name, _ in message.get("headers", ())}
        more = [(name, value) for name, value in _HEADERS if name not in there]
        message["headers"] = [*message.get("headers", ()), *more]
    return message


async def _refuse(refused: Refused, scope: Scope, send: Send) -> None:
    more = [("allow", ", ".join(METHODS))] if refused.status == 405 else []
    if refused.status == 401:
        more.append(("www-authenticate", 'Bearer realm="leftoff"'))
    if "/api/" in scope["path"]:
        code = {401: "token", 403: "origin", 421: "host", 500: "defect"}.get(refused.status, "refused")
        text = json.dumps({"error": {"code": code, "message": refused.why, "hint": ""}})
        more.append(("content-type", "application/json"))
    else:
        text = f"{refused.why}\n"
        more.append(("content-type", "text/plain; charset=utf-8"))
    await _plain(send, refused.status, text, more)


async def _plain(send: Send, status: int, text: str, headers: list[tuple[str, str]]) -> None:
    body = text.encode()
    listed = [("content-length", str(len(body))), *headers]
    lines = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in listed]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
