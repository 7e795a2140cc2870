"""The application: all routes, behind the guard."""

from __future__ import annotations

import os
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from leftoff._version import __version__
from leftoff.errors import LeftoffError
from leftoff.web import live_events, page_api, page_posts, raw_files, screens
from leftoff.web.background import StoreChecks, Verdicts
from leftoff.web.guard import middleware
from leftoff.web.live_events import Hub
from leftoff.web.page_posts import Said
from leftoff.web.served import PageOptions, Projects

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="{fill}"/>'
    '<text x="16" y="23" font-family="sans-serif" font-size="20" font-weight="bold" text-anchor="middle" '
    'fill="#fff">{text}</text></svg>'
)


class StaticPages(StaticFiles):
    """Our own files. A browser stores them, and asks whether they are still the same."""

    def file_response(self, *args: Any, **named: Any) -> Response:
        response = super().file_response(*args, **named)
        response.headers["cache-control"] = "no-cache"
        return response


def make_app(projects: Projects, options: PageOptions) -> Starlette:
    app = Starlette(
        routes=_routes(options),
        middleware=middleware(options),
        exception_handlers={LeftoffError: screens.error_answer, HTTPException: screens.http_error_answer},
    )
    app.state.projects = projects
    app.state.options = options
    app.state.templates = screens.template_environment()
    app.state.hub = hub = Hub(projects, options.limits.streams)
    app.state.said = Said()
    app.state.checks = StoreChecks(hub.tell_all)
    app.state.verdicts = Verdicts()
    return app


def _routes(options: PageOptions) -> list[BaseRoute]:
    return [
        *screens.screen_routes(),
        *live_events.event_routes(),
        *raw_files.raw_routes(),
        *([] if options.read_only else page_posts.post_routes()),
        *page_api.api_routes(read_only=options.read_only),
        Route("/healthz", healthz, name="healthz"),
        Route("/favicon.svg", favicon, name="favicon"),
        Mount("/static", StaticPages(directory=os.path.join(screens.HERE, "static")), name="static"),
    ]


def healthz(request: Request) -> Response:
    """Say that the server answers, and nothing about what it serves."""
    return JSONResponse({"ok": True, "version": __version__})


def favicon(request: Request) -> Response:
    """Return the icon. ``?need=3``: how many runs need a person."""
    need = request.query_params.get("need", "0")
    number = int(need) if need.isascii() and need.isdigit() and len(need) < 6 else 0
    text = "l" if not number else str(number) if number < 10 else "9+"
    icon = _ICON.format(fill="#b3261e" if number else "#2f5d8a", text=text)
    return Response(icon, media_type="image/svg+xml", headers={"cache-control": "max-age=3600"})
