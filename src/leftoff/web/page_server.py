"""The server: its port and keys, the application with all routes behind the guard, and an orderly end."""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from leftoff._version import __version__
from leftoff.engine.settings import Caller
from leftoff.errors import Conflict, LeftoffError, Usage
from leftoff.model.codec import text
from leftoff.web import background, page_api, page_posts, raw_files, screens
from leftoff.web.background import Hub, StoreChecks
from leftoff.web.guard import middleware
from leftoff.web.served import PageLimits, PageOptions, Projects

_END_S = 3
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="{fill}"/>'
    '<text x="16" y="23" font-family="sans-serif" font-size="20" font-weight="bold" text-anchor="middle" '
    'fill="#fff">{text}</text></svg>'
)

# -- the application


class StaticPages(StaticFiles):
    """Our own files. A browser stores them, and asks whether they are still the same."""

    def file_response(self, *args: Any, **named: Any) -> Response:
        response = super().file_response(*args, **named)
        response.headers["cache-control"] = "no-cache"
        return response


def make_app(projects: Projects, options: PageOptions) -> Starlette:
    routes: list[BaseRoute] = [
        *screens.screen_routes(),
        *background.EVENT_ROUTES,
        *raw_files.RAW_ROUTES,
        *([] if options.read_only else page_posts.POST_ROUTES),
        *page_api.api_routes(read_only=options.read_only),
        Route("/healthz", healthz, name="healthz"),
        Route("/favicon.svg", favicon, name="favicon"),
        Mount("/static", StaticPages(directory=os.path.join(screens.HERE, "static")), name="static"),
    ]
    app = Starlette(
        routes=routes,
        middleware=middleware(options),
        exception_handlers={LeftoffError: screens.error_answer, HTTPException: screens.http_error_answer},
    )
    app.state.projects = projects
    app.state.options = options
    app.state.templates = screens.template_environment()
    app.state.hub = hub = Hub(projects, options.limits.streams)
    app.state.said = {}  # sentences about finished actions
    app.state.checks = StoreChecks(lambda key: hub.tell(key, everything=True))
    return app


def healthz(request: Request) -> Response:
    """Say that the server answers, and nothing about what it serves."""
    return JSONResponse({"ok": True, "version": __version__})


def favicon(request: Request) -> Response:
    """Return the icon. ``?need=3``: how many runs need a person."""
    need = request.query_params.get("need", "0")
    number = int(need) if need.isascii() and need.isdigit() and len(need) < 6 else 0
    shown = "l" if not number else str(number) if number < 10 else "9+"
    icon = _ICON.format(fill="#b3261e" if number else "#2f5d8a", text=shown)
    return Response(icon, media_type="image/svg+xml", headers={"cache-control": "max-age=3600"})


# -- the process


def page_secrets(caller: Caller, projects: Projects, *, read_only: bool) -> dict[str, Any]:
    """Return ``token`` (LEFTOFF_WEB_TOKEN, else a new one) and ``key`` for ``PageOptions``.

    With LEFTOFF_WEB_TOKEN, a session is valid again if the same projects are served with no more rights. Else it
    ends with the server.
    """
    token = caller.take_web_token() or secrets.token_urlsafe(24)
    served = sorted([one.folder, one.store or ""] for one in projects)
    return {"token": token, "key": hmac.digest(token.encode(), text([read_only, served]).encode(), "sha256")}


def open_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise an error that says why if that is not possible."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise Usage(
            f"There is no address {host!r} here.",
            hint=f"--host 127.0.0.1, or a name of this machine ({error}).",
        ) from None
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(PageLimits.connections)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"Port {port} of {host} is taken by another program.",
                hint="Is the page served already? Else choose another port: --port 0 takes any that is free.",
            ) from None
        raise Usage(
            f"Cannot listen on {host}:{port}: {error.strerror}.",
            hint="--host takes an address of this machine, --port a number above 1023.",
        ) from None
    return sock


def page_address(sock: socket.socket, options: PageOptions) -> str:
    """Return the URL of the page: with the first allowed name, if the page is for other machines."""
    host, port = sock.getsockname()[:2]
    if host in ("0.0.0.0", "::") or options.hosts:
        host = options.hosts[0] if options.hosts else "127.0.0.1"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{port}{options.base}/"


class PageServer(uvicorn.Server):
    """A server that says when it listens, and ends open streams when it ends."""

    def __init__(self, app: Starlette, limits: PageLimits, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                http="h11",  # it limits what comes before a body; httptools does not
                ws="none",
                limit_concurrency=limits.connections,
                timeout_graceful_shutdown=_END_S,
                h11_max_incomplete_event_size=1 << 16,
            )
        )
        self._ready = ready
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.hub.close()
        await super().shutdown(sockets)


def serve_page(app: Starlette, sock: socket.socket, limits: PageLimits, ready: Callable[[], None]) -> None:
    """Serve until a signal comes; Ctrl-C and SIGTERM raise ``KeyboardInterrupt``."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        PageServer(app, limits, ready).run([sock])
    finally:
        signal.signal(signal.SIGTERM, before)
