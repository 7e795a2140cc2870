"""The pages: which view and which template make each, at which path.

A page is rendered whole, and works without a script. What may change while it is open stands in elements with an ``id``
and the attribute ``data-live``: on an event the script asks for the same URL with the header ``X-Leftoff-Partial: 1``,
is given the block ``main`` alone, and replaces those elements whose text differs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from leftoff._version import __version__
from leftoff.errors import LeftoffError
from leftoff.web.asking import asked, options_of, projects_of, urls
from leftoff.web.views.words import FILTERS

HERE = os.path.dirname(__file__)
PARTIAL = "x-leftoff-partial"

# Of a run: the last part of the path, and which module of `views` and which template make it.
OF_RUN = {
    "": "run",
    "timeline": "timeline",
    "graph": "graph",
    "history": "history",
    "compare": "compare",
    "session": "session",
    "artifacts": "artifacts",
    "step": "step",
    "go": "go",
}
OF_PROJECT = {"store": "store"}


def environment() -> Environment:
    """The templates; every value is escaped."""
    made = Environment(
        loader=FileSystemLoader(os.path.join(HERE, "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    return made


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page. Besides ``context`` every template has ``url`` (see `asking.urls`), ``static`` (the path of a file of
    `static`), ``csrf`` (what each form carries as the hidden field of that name), ``read_only``, ``partial`` (whether
    the block ``main`` alone is wanted), ``cursor`` (where the stream of events goes on), ``told`` (what came of an
    action, on the page that follows it), ``served`` (all projects) and ``version``; those of one project have ``here``,
    that one, and ``job``, how far its last check is (see `jobs.Check.to_json`), if there was one."""
    url, here = urls(request), context.pop("here", None)
    session = request.scope.get("leftoff")
    page = request.app.state.templates.get_template(template).render(
        url=url,
        static=lambda name: url("static", path=name),
        csrf=session.csrf if session is not None else "",
        read_only=options_of(request).read_only,
        partial=PARTIAL in request.headers,
        served=list(projects_of(request)),
        version=__version__,
        told=request.app.state.said.get(request.query_params.get("said", "")),
        job=request.app.state.jobs.of(here.key) if here is not None else None,
        here=here,
        **{"cursor": "", **context},
    )
    # Half a character, as JSON may have it, is shown as ?
    return HTMLResponse(page.encode(errors="replace"), status)


def home(request: Request) -> Response:
    """All runs of all that is served. One of several that cannot be read is told, and the others are shown."""
    served, hub = projects_of(request), request.app.state.hub
    with ExitStack() as stack:
        places, cursors, troubled = [], [], []
        for one in served:
            project = stack.enter_context(one.open())
            try:
                cursors.append(hub.cursor([(one, project)]))
                places.append((one, project))
            except LeftoffError as error:
                if len(served) == 1:
                    raise
                troubled.append((one, error))
        found = _view("home")(places, asked(request))
        return render(request, "home.html", cursor=",".join(cursors), troubled=troubled, **found)


def _screen(name: str) -> Callable[[Request], Response]:
    view, template = _view(name), f"{name}.html"

    def show(request: Request) -> Response:
        served = projects_of(request).of(request.path_params["project"])
        with served.open() as project:
            cursor = request.app.state.hub.cursor([(served, project)])
            found = view(project, asked(request))
            return render(request, template, cursor=cursor, here=served, **found)

    show.__name__ = name
    return show


def _view(name: str) -> Callable[..., dict[str, Any]]:
    found: Callable[..., dict[str, Any]] = import_module(f"leftoff.web.views.{name}").view
    return found


def routes() -> list[Route]:
    """The pages, by name: ``home``; ``run``, ``timeline`` and so on (project, run); ``store`` (project)."""
    found = [Route("/", home, name="home")]
    for part, name in OF_RUN.items():
        path = "/p/{project}/runs/{run}" + (f"/{part}" if part else "")
        found.append(Route(path, _screen(name), name=name))
    for part, name in OF_PROJECT.items():
        found.append(Route(f"/p/{{project}}/{part}", _screen(name), name=name))
    return found
