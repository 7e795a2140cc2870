"""The application: all routes, behind the guard."""

from __future__ import annotations

import os
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from leftoff._version import __version__
from leftoff.errors import LeftoffError
from leftoff.web import actions, api, events, files, screens
from leftoff.web.actions import Said
from leftoff.web.events import Hub
from leftoff.web.failures import failed, refused
from leftoff.web.jobs import Jobs
from leftoff.web.measures import metrics
from leftoff.web.options import Options
from leftoff.web.projects import Projects
from leftoff.web.security import Guard
from leftoff.web.verdicts import Verdicts

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="{fill}"/>'
    '<text x="16" y="23" font-family="sans-serif" font-size="20" font-weight="bold" text-anchor="middle" '
    'fill="#fff">{text}</text></svg>'
)


class Static(StaticFiles):
    """Our own files: a browser keeps them, and asks whether they are still the same."""

    def file_response(self, *args: Any, **named: Any) -> Response:
        response = super().file_response(*args, **named)
        response.headers["cache-control"] = "no-cache"
        return response


def make_app(projects: Projects, options: Options) -> Starlette:
    """The application of what is served."""
    app = Starlette(
        routes=_routes(options),
        middleware=[Middleware(Guard, options=options)],
        exception_handlers={LeftoffError: failed, HTTPException: refused},
    )
    app.state.projects = projects
    app.state.options = options
    app.state.templates = screens.environment()
    app.state.hub = hub = Hub(projects, options.limits.streams)
    app.state.said = Said()
    app.state.jobs = Jobs(hub.tell_all)
    app.state.verdicts = Verdicts()
    return app


def _routes(options: Options) -> list[BaseRoute]:
    static = Static(directory=os.path.join(screens.HERE, "static"))
    return [
        *screens.routes(),
        *events.routes(),
        *files.routes(),
        *([] if options.read_only else actions.routes()),
        *api.routes(read_only=options.read_only),
        Route("/metrics", metrics, name="metrics"),
        Route("/healthz", healthz, name="healthz"),
        Route("/favicon.svg", favicon, name="favicon"),
        Mount("/static", static, name="static"),
    ]


def healthz(request: Request) -> Response:
    """Whether the server answers; what it serves is not said."""
    return JSONResponse({"ok": True, "version": __version__})


def favicon(request: Request) -> Response:
    """The icon; ``?need=3``: how many runs need a person."""
    need = request.query_params.get("need", "0")
    number = int(need) if need.isascii() and need.isdigit() and len(need) < 6 else 0
    text = "l" if not number else str(number) if number < 10 else "9+"
    icon = _ICON.format(fill="#b3261e" if number else "#2f5d8a", text=text)
    return Response(icon, media_type="image/svg+xml", headers={"cache-control": "max-age=3600"})
