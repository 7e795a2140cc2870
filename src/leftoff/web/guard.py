"""Decide who may ask: the checks in front of every route, and the headers of every answer.

Any other page that a browser has open can send requests to a page on this machine. So the name in ``Host`` must be ours
(Starlette's TrustedHostMiddleware checks it), ``Origin`` must be ours if there is one, nothing is shown without the
token or the cookie that it was exchanged for, and nothing is changed without a second token (CSRF) that only our own
pages hold.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sys
import time
import traceback
from collections.abc import Callable
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leftoff.errors import LeftoffError
from leftoff.host import debugging
from leftoff.web.served import LOOPBACK, PageOptions

_OPEN = ("/healthz", "/static/", "/favicon.svg")  # answered without a token: nothing of any run is there
CSRF_HEADER, CSRF_FIELD = "x-leftoff-csrf", "csrf"

_POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all, forms would be sent without their origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_CONTINUE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={to}">'
    '<title>leftoff</title><p><a href="{to}">Continue</a></p></html>'
)


class NotOurs(LeftoffError):
    """A change that none of our pages asked for."""

    code = "csrf"
    exit_code = 2
    default_hint = "Nothing was changed. Open the page again, and repeat it there."


def middleware(options: PageOptions) -> list[Middleware]:
    """Return what every request passes, in this order."""
    hosts = [*LOOPBACK, *options.hosts]
    return [
        Middleware(SafeAnswers),
        Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
        Middleware(RequestGuard, options=options),
    ]


class SafeAnswers:
    """Add our headers to every answer, also to refusals, and answer an internal error with one sentence."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception as error:
            said = defect(error)
            if not begun:
                await _refusal(scope, 500, said)(scope, receive, answer)


def defect(error: Exception) -> str:
    """Return the sentence for an internal error. The traceback is printed only for debugging."""
    if debugging():
        traceback.print_exception(error, file=sys.stderr)
    return f"This failed inside of leftoff: {type(error).__name__}. LEFTOFF_DEBUG=1 shows where."


def _refusal(scope: Scope, status: int, why: str) -> Response:
    headers = {"www-authenticate": 'Bearer realm="leftoff"'} if status == 401 else {}
    if "/api/" not in scope["path"]:
        return PlainTextResponse(f"{why}\n", status, headers)
    code = {401: "token", 403: "origin", 500: "defect"}.get(status, "refused")
    text = json.dumps({"error": {"code": code, "message": why, "hint": ""}})
    return Response(text, status, headers, "application/json")


class BrowserSession:
    """The sender of a request. ``csrf``: what its forms carry; ``None``: a program that sent the token itself."""

    def __init__(self, csrf: str | None) -> None:
        self.csrf = csrf


def need_own(request: Request, given: str) -> None:
    """Raise ``NotOurs`` unless our own page, or a program that has the token, asked for a change."""
    session: BrowserSession | None = request.scope.get("leftoff")
    if session is not None and session.csrf is None:
        return
    if session is None or not hmac.compare_digest(given.encode(), str(session.csrf).encode()):
        raise NotOurs("This does not come from one of our pages.")


class SessionKeys:
    """Make tokens and cookies, and compare them in constant time."""

    def __init__(self, options: PageOptions, now: Callable[[], float] = time.time) -> None:
        self._options = options
        self._now = now
        # A browser sends the cookies of all ports, so the name tells servers apart.
        self.cookie = f"leftoff-{hashlib.sha256(options.key).hexdigest()[:8]}"

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._options.token.encode())

    def new_cookie(self) -> str:
        """Return a session: a random name, the time of its end, and our signature."""
        until = int(self._now()) + self._options.limits.session_s
        body = f"{secrets.token_urlsafe(16)}.{until}"
        return f"{body}.{self._sign('session', body)}"

    def session(self, cookie: str) -> BrowserSession | None:
        """Return the session of a cookie that we signed and that has not ended."""
        body, _, signed = cookie.rpartition(".")
        if not hmac.compare_digest(signed.encode(), self._sign("session", body).encode()):
            return None
        until = body.rpartition(".")[2]
        return BrowserSession(self._sign("csrf", body)) if int(until) > self._now() else None

    def _sign(self, what: str, text: str) -> str:
        return hmac.new(self._options.key, f"{what} {text}".encode(), hashlib.sha256).hexdigest()


class RequestGuard:
    """Refuse requests of other pages and those without a session, and sign in the ones that bring the token."""

    def __init__(self, app: ASGIApp, options: PageOptions) -> None:
        self._app = app
        self._options = options
        self._keys = SessionKeys(options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app if scope["type"] == "lifespan" else self._checked(scope) or self._app
        await app(scope, receive, send)

    def _checked(self, scope: Scope) -> Response | None:
        """Return the answer to a request that no route may see; ``None`` if it may pass."""
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if any(origin.partition("://")[2].lower() != host for origin in headers.getlist("origin")):
            return _refusal(scope, 403, "The request comes from another page.")
        if scope["method"] == "POST" and headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _refusal(scope, 403, "The request comes from another page.")
        base, path = self._options.base, scope["path"]
        if "\0" in path or "\\" in path:
            return _refusal(scope, 400, "The path has characters that no path here has.")
        scope["root_path"] = base
        if base and not (path == base or path.startswith(base + "/")):  # the proxy has removed its path
            scope["path"] = base + path
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == "token"), None)
        if token is not None and scope["method"] != "POST":
            if not self._keys.is_token(token):
                why = "That token is not the one of this server. It is printed when the server starts."
                return _refusal(scope, 401, why)
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            return self._sign_in(scope, headers, rest)
        scope["leftoff"] = self._session(headers)
        if scope["leftoff"] is None and not scope["path"][len(base) :].startswith(_OPEN):
            return _refusal(
                scope, 401, "Open the address that `leftoff serve` printed: it carries the token."
            )
        return None

    def _sign_in(self, scope: Scope, headers: Headers, query: str) -> Response:
        """Exchange the token of the printed URL for a cookie, and remove it from the address bar."""
        to = "/" + quote(scope["path"].lstrip("/")) + (f"?{query}" if query else "")  # never another machine
        # A redirect from a link in another page would not carry the new cookie. A page of leftoff does.
        answer: Response = Response(status_code=303, headers={"location": to})
        if headers.get("sec-fetch-site") == "cross-site":
            answer = HTMLResponse(_CONTINUE.format(to=escape(to)))
        answer.set_cookie(
            self._keys.cookie,
            self._keys.new_cookie(),
            self._options.limits.session_s,
            path=self._options.base or "/",
            secure=headers.get("x-forwarded-proto") == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    def _session(self, headers: Headers) -> BrowserSession | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._keys.is_token(given.strip()):
            return BrowserSession(None)
        try:
            cookie = SimpleCookie("; ".join(headers.getlist("cookie"))).get(self._keys.cookie)
            return self._keys.session(cookie.value) if cookie is not None else None
        except (CookieError, ValueError):
            return None
