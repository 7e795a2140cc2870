"""The pages: at which path each is, which function computes its values, and which template renders them.

A page is rendered whole and works without a script. Elements that may change while it is open have an ``id`` and the
attribute ``data-live``: on an event the script asks for the same URL with the header ``X-Leftoff-Partial: 1``, gets the
block ``main`` alone, and replaces those elements whose text differs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from leftoff._version import __version__
from leftoff.engine.attention import URGENT
from leftoff.engine.project import Project
from leftoff.errors import LeftoffError
from leftoff.model.words import RUN_STATUS
from leftoff.operations.page_actions import RunFilter, overview
from leftoff.operations.runs import list_project_runs
from leftoff.operations.store_upkeep import list_trash, store_info
from leftoff.protocols.project_retention import prune_project
from leftoff.web.diagrams import graph_screen, history_screen, timeline_screen
from leftoff.web.guard import NotOurs
from leftoff.web.page_text import FILTERS
from leftoff.web.run_screens import (
    compare_screen,
    files_screen,
    go_on_screen,
    run_screen,
    session_screen,
    step_screen,
)
from leftoff.web.served import ScreenRequest, Served, projects_of, screen_request, served_by, urls

# -- home and store

_REST_PAGE = 50
_FIRST, _ALL = 24, 500  # shown of the runs that need a person, and of those under way
_FIELDS = ("status", "text")
_LARGEST = 15
_SIZED = 500  # runs whose size is asked for
_REMOVED = 50
_SHOWN_APART = ("store", "exists", "folder")


def home_screen(places: Sequence[tuple[Served, Project]], asked: ScreenRequest) -> dict[str, Any]:
    """Runs of all projects, the latest of each part first. ``?project=``: of that one alone."""
    only = asked.query.get("project", "")
    filters = RunFilter(
        **{name: asked.query.get(name, "").strip() for name in _FIELDS},
        before=asked.number("before"),
        first=_ALL if asked.query.get("all") else _FIRST,
        most=_REST_PAGE,
    )
    if filters.status not in RUN_STATUS:
        filters = filters._replace(status="")
    given = {name: getattr(filters, name) for name in _FIELDS}
    found = [(served, overview(project, filters)) for served, project in places if only in ("", served.key)]
    works = [(served, each) for served, one in found for each in one.works]
    needs = [(served, each) for served, one in found for each in one.needs]
    works.sort(key=lambda run: -run[1].info.row.updated_at)
    needs.sort(key=lambda run: (URGENT.index(run[1].why or ""), -run[1].info.row.updated_at))
    rests = []
    for served, one in found:
        more = {**given, "project": served.key, "before": one.next}
        rests.append((served, one.rest, asked.url("home", query=more) if one.next is not None else ""))
    return {
        "needs": needs,
        "works": works,
        "rests": rests,
        "needing": sum(overview.needing for _, overview in found),
        "needed": sum(overview.needed for _, overview in found),
        "worked": sum(overview.worked for _, overview in found),
        "all": asked.url("home", query={**given, "project": only, "all": 1}),
        "filters": filters,
        "is_filtered": any(given.values()),
        "statuses": RUN_STATUS,
        "only": only,
        "is_empty": not any(one.needs or one.works or one.rest for _, one in found),
    }


def store_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """The store, the largest runs. ``?preview=1``: with what retention would remove."""
    about = store_info(project)
    found = list_project_runs(project, limit=_SIZED, sizes=True) if about["exists"] else None
    sizes = found.sizes if found is not None else {}
    runs = sorted(found.runs, key=lambda run: -sizes.get(run.run_id, 0)) if found is not None else []
    most = max(sizes.values(), default=0) or 1
    pruned = prune_project(project, dry=True) if about["exists"] and asked.query.get("preview") else None
    return {
        "about": about,
        "facts": [(name.replace("_", " "), about[name]) for name in about if name not in _SHOWN_APART],
        "runs": [
            (run, sizes.get(run.run_id, 0), 100 * sizes.get(run.run_id, 0) // most) for run in runs[:_LARGEST]
        ],
        "more_runs": found is not None and found.more,
        "pruned": pruned,
        "removed": pruned.removed[:_REMOVED] if pruned is not None else [],
        "trash": list_trash(project) if about["exists"] else [],
        "fsck": asked.query.get("fsck"),
    }


# -- pages

HERE = os.path.dirname(__file__)
_PARTIAL = "x-leftoff-partial"

# The path of each screen below a run; its name is also that of the template.
_Screen = Callable[[Project, ScreenRequest], dict[str, Any]]
_OF_RUN: dict[str, tuple[str, _Screen]] = {
    "run": ("", run_screen),
    "timeline": ("/timeline", timeline_screen),
    "graph": ("/graph", graph_screen),
    "history": ("/history", history_screen),
    "compare": ("/compare", compare_screen),
    "session": ("/session", session_screen),
    "artifacts": ("/artifacts", files_screen),
    "step": ("/step", step_screen),
    "go": ("/go", go_on_screen),
}


def template_environment() -> Environment:
    """Return the templates; every value is escaped."""
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
    """Return a page. In addition to ``context``, every template has these values:

    ``url`` (see `served.urls`), ``static`` (the path of a file of `static`), ``csrf`` (each form carries it as a hidden
    field), ``read_only``, ``partial`` (only the block ``main`` is wanted), ``told`` (the result of the action before),
    ``served`` (all projects), ``version``, ``here`` (the project, if the page is of one) and ``job`` (the last check of
    that project's store).
    """
    url, here, state = urls(request), context.pop("here", None), request.app.state
    session = request.scope.get("leftoff")
    page = state.templates.get_template(template).render(
        url=url,
        static=lambda name: url("static", path=name),
        csrf=session.csrf if session is not None else "",
        read_only=state.options.read_only,
        partial=_PARTIAL in request.headers,
        served=list(projects_of(request)),
        version=__version__,
        told=state.said.get(request.query_params.get("said", "")),
        job=state.checks.of(here.key) if here is not None else None,
        here=here,
        **context,
    )
    # A lone surrogate, which JSON may hold, is shown as ?
    return HTMLResponse(page.encode(errors="replace"), status)


def _home(request: Request) -> Response:
    """Show all runs of all projects. If one of several cannot be read, the page says it and shows the others."""
    served = projects_of(request)
    with ExitStack() as stack:
        places, troubled = [], []
        for one in served:
            project = stack.enter_context(one.open())
            try:
                project.store.exists()
                places.append((one, project))
            except LeftoffError as error:
                if len(served) == 1:
                    raise
                troubled.append((one, error))
        found = home_screen(places, screen_request(request))
        return render(request, "home.html", troubled=troubled, **found)


def _route(path: str, name: str, screen: _Screen) -> Route:
    def show(request: Request) -> Response:
        served = served_by(request)
        with served.open() as project:
            found = screen(project, screen_request(request))
            return render(request, f"{name}.html", here=served, **found)

    return Route(path, show, name=name)


def screen_routes() -> list[Route]:
    return [
        Route("/", _home, name="home"),
        *(_route("/p/{project}/runs/{run}" + path, name, screen) for name, (path, screen) in _OF_RUN.items()),
        _route("/p/{project}/store", "store", store_screen),
    ]


# -- errors

_STATUS = {1: 500, 2: 400, 3: 404, 4: 422, 5: 409, 6: 409, 7: 409, 8: 503}  # by the command's exit code
_SAID = {
    400: ("bad_request", "The request cannot be read."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method", "This address does not take that method."),
}


def error_answer(request: Request, error: Exception) -> Response:
    """Answer with an error of an operation."""
    assert isinstance(error, LeftoffError)
    about = {"code": error.code, "message": error.whole, "hint": error.hint}
    return _error(request, 403 if isinstance(error, NotOurs) else _STATUS.get(error.exit_code, 500), about)


def http_error_answer(request: Request, error: Exception) -> Response:
    """Answer with an error of Starlette: no route, a wrong method, a body that is too long."""
    assert isinstance(error, HTTPException)
    code, message = _SAID.get(error.status_code, ("refused", str(error.detail)))
    response = _error(request, error.status_code, {"code": code, "message": message, "hint": ""})
    response.headers.update(error.headers or {})
    return response


def _error(request: Request, status: int, about: dict[str, Any]) -> Response:
    """Return an error as JSON to programs, as a page to people."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    if path.startswith("/api/"):
        return JSONResponse({"error": about}, status)
    is_form = request.method == "POST" and "action" in request.path_params
    back = urls(request)("ask", **request.path_params) if is_form else ""
    try:
        return render(request, "error.html", status, number=status, error=about, back=back)
    except Exception:  # a defect of the page itself
        return PlainTextResponse(f"{about['message']}\n{about['hint']}\n", status)
