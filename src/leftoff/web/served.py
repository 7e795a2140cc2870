"""What is served and how: the options of one server, its projects, and what a request asks of a screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from leftoff.engine.project import Project
from leftoff.engine.settings import Caller
from leftoff.errors import NotFound, Usage
from leftoff.model.ids import slug

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class PageLimits:
    body: int = 1 << 20  # bytes of a request
    body_s: float = 20.0  # until all of them must have come
    connections: int = 500
    streams: int = 200
    session_s: int = 30 * 24 * 3600  # a browser stays signed in so long


@dataclass(frozen=True)
class PageOptions:
    token: str  # in the printed URL
    key: bytes  # signs sessions
    hosts: tuple[str, ...] = ()  # names of the server, in addition to those of the loopback
    base: str = ""  # the path below which a proxy shows the page
    read_only: bool = False
    limits: PageLimits = field(default_factory=PageLimits)


@dataclass(frozen=True)
class Served:
    """A project that is served. ``key``: its name in URLs. ``store``: its store, if the user named one."""

    key: str
    name: str
    folder: str
    store: str | None = None

    @contextmanager
    def open(self) -> Iterator[Project]:
        """Open the project for one request: its settings and its store may have changed since the last one."""
        # What the command would print next to its result is dropped.
        project = Project(self.folder, self.store, say=lambda text: None)
        try:
            yield project
        finally:
            project.close(soon=True)


Projects = tuple[Served, ...]  # all that is served, in the order in which it was named


def serve_folders(folders: Sequence[str], store: str | None = None) -> Projects:
    """Return the projects of these folders, each once. Two of the same name get different numbers."""
    served: dict[str, Served] = {}
    for folder in dict.fromkeys(os.path.realpath(folder) for folder in folders):
        name = os.path.basename(folder) or folder
        key = base = slug(name)
        number = 1
        while key in served:
            number += 1
            key = f"{base}-{number}"
        served[key] = Served(key, name, folder, store)
    return (*served.values(),)


# -- a request


@dataclass(frozen=True)
class ScreenRequest:
    """What a request asks of a screen or of the API. ``query``: one value of each name. ``run``: the one that is meant.

    ``url``: see ``urls``.
    """

    caller: Caller
    query: Mapping[str, str]
    url: Callable[..., str]
    run: str = ""

    @property
    def ref(self) -> str:
        """The run, or the version of it that ``?at=`` names."""
        at = self.number("at")
        return f"{self.run}@{at}" if at is not None else self.run

    def text(self, name: str) -> str | None:
        return self.query.get(name) or None

    def words(self, name: str) -> list[str]:
        return [word.strip() for word in self.query.get(name, "").split(",") if word]

    def number(self, name: str, least: int = 0, most: int = 10**12) -> int | None:
        given = self.query.get(name)
        if not given:
            return None
        if not (given.isascii() and given.isdigit() and len(given) < 16 and least <= int(given) <= most):
            raise Usage(
                f"{name} is a whole number from {least} to {most}, not {given[:40]!r}.",
                hint=f"For example: {name}=20",
            )
        return int(given)


def screen_request(request: Request) -> ScreenRequest:
    query = {name: request.query_params[name] for name in request.query_params}
    run = request.path_params.get("run", "")
    return ScreenRequest(Caller(), query, urls(request), run)


def urls(request: Request) -> Callable[..., str]:
    """Return ``url(route, query={…}, **parts)``: the path of a route, below a proxy's path, without empty values."""
    base = request.scope.get("root_path", "")

    def url(route: str, *, query: Mapping[str, Any] | None = None, **parts: Any) -> str:
        path: str = base + str(request.app.url_path_for(route, **parts))
        given = [(name, str(value)) for name, value in (query or {}).items() if value not in (None, "")]
        return path + (f"?{urlencode(given)}" if given else "")

    return url


def projects_of(request: Request) -> Projects:
    found: Projects = request.app.state.projects
    return found


def served_by(request: Request) -> Served:
    """Return the project that the path names."""
    key = request.path_params["project"]
    found = next((one for one in projects_of(request) if one.key == key), None)
    if found is None:
        raise NotFound(f"No project {key!r} is served here.", hint="The home page lists those that are.")
    return found
