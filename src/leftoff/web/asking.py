"""What a screen is asked for, and how its URLs are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from leftoff.model.fields import Fields
from leftoff.operations import Caller
from leftoff.web.options import Options
from leftoff.web.projects import Projects
from leftoff.web.verdicts import Verdicts


class Asked(Fields):
    """What a view is asked for. ``query``: of the URL, the first value of each name. ``run``: the run's id, of a screen
    that shows one. ``url``: see ``urls``. ``verdicts``: what is known of runs that stand still."""

    caller: Caller
    query: Mapping[str, str]
    url: Callable[..., str]
    verdicts: Verdicts
    run: str = ""


def asked(request: Request) -> Asked:
    """What a request asks of a view."""
    query = {name: request.query_params[name] for name in request.query_params}
    return Asked(
        Caller(), query, urls(request), request.app.state.verdicts, request.path_params.get("run", "")
    )


def urls(request: Request) -> Callable[..., str]:
    """``url(route, query={…}, **parts)``: the path of a route, below a proxy's path; of ``query``, what is empty or
    ``None`` is left out."""
    base = request.scope.get("root_path", "")

    def url(route: str, *, query: Mapping[str, Any] | None = None, **parts: Any) -> str:
        path: str = base + str(request.app.url_path_for(route, **parts))
        given = [(name, str(value)) for name, value in (query or {}).items() if value not in (None, "")]
        return path + (f"?{urlencode(given)}" if given else "")

    return url


def projects_of(request: Request) -> Projects:
    """All that is served."""
    found: Projects = request.app.state.projects
    return found


def options_of(request: Request) -> Options:
    """How it is served."""
    found: Options = request.app.state.options
    return found
