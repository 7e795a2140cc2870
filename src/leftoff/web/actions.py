"""What is decided on the page: looked at first (GET), then done (POST), then the run is shown again.

A server that is read-only has none of these routes.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from leftoff.operations import Caller
from leftoff.operations.pages.actions import ACTIONS, PAGE, Acted, act, prune_as_seen
from leftoff.operations.pages.previews import Preview, preview
from leftoff.web.asking import projects_of, urls
from leftoff.web.forms import fields_of, form
from leftoff.web.screens import render

MOST_SAID = 200


class Said:
    """What came of actions, to be shown once on the page that follows: URLs carry only a name for it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, str] = OrderedDict()

    def keep(self, text: str) -> str:
        name = secrets.token_urlsafe(9)
        self._kept[name] = text
        while len(self._kept) > MOST_SAID:
            self._kept.popitem(last=False)
        return name

    def get(self, name: str) -> str:
        return self._kept.get(name, "")


def page_caller() -> Caller:
    """Whoever sits at the page: a person, who is the user of this server, and who is asked by forms."""
    caller = Caller()
    caller.via = PAGE
    return caller


def ask(request: Request) -> Response:
    """What an action would do, in plain words, and the form that does it."""
    name, run = request.path_params["action"], request.path_params["run"]
    query = {key: request.query_params.getlist(key) for key in request.query_params}
    given = fields_of(name, query)
    served = projects_of(request).of(request.path_params["project"])
    with served.open() as project:
        shown: Preview = preview(project, page_caller(), name, run, given)
    return render(
        request, "ask.html", here=served, action=name, preview=shown, given=given, fields=ACTIONS[name]
    )


async def do(request: Request) -> Response:
    """Do it, then show the run that it is about."""
    given = fields_of(request.path_params["action"], await form(request))
    done = await run_in_threadpool(_done, request, given)
    said = request.app.state.said.keep(done.told)
    project = request.path_params["project"]
    to = urls(request)("run", project=project, run=done.run_id, query={"said": said})
    return RedirectResponse(to, 303)


def _done(request: Request, given: dict[str, Any]) -> Acted:
    served = projects_of(request).of(request.path_params["project"])
    with served.open() as project:
        return act(project, page_caller(), request.path_params["action"], request.path_params["run"], given)


async def let_go(request: Request) -> Response:
    """What retention no longer keeps goes."""
    given = await form(request)
    done = await run_in_threadpool(_pruned, request, given.get("plan", [""])[-1])
    went, freed = len(done["removed"]), done["bytes_freed"]
    told = f"{went} {'thing' if went == 1 else 'things'} went; {freed:,} bytes are free again."
    if done["bytes_in_trash"]:
        told += f" The trash takes about {done['bytes_in_trash']:,} bytes; `leftoff prune --empty-trash` frees them."
    return _to_store(request, told)


def _pruned(request: Request, plan: str) -> dict[str, Any]:
    with projects_of(request).of(request.path_params["project"]).open() as project:
        return prune_as_seen(project, plan).to_json()


async def check(request: Request) -> Response:
    """Begin an fsck; the page of the store shows how far it is."""
    await form(request)
    request.app.state.jobs.check(projects_of(request).of(request.path_params["project"]))
    return _to_store(request, "The check has begun.")


def _to_store(request: Request, told: str) -> Response:
    said = request.app.state.said.keep(told)
    to = urls(request)("store", project=request.path_params["project"], query={"said": said})
    return RedirectResponse(to, 303)


def routes() -> list[Route]:
    """``ask`` and ``do`` (project, run, action); ``prune`` and ``check`` (project)."""
    path = "/p/{project}/runs/{run}/do/{action}"
    return [
        Route(path, ask, name="ask", methods=["GET"]),
        Route(path, do, name="do", methods=["POST"]),
        Route("/p/{project}/do/prune", let_go, name="prune", methods=["POST"]),
        Route("/p/{project}/do/check", check, name="check", methods=["POST"]),
    ]
