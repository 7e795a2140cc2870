"""Decide on the page: a screen shows what an action would do (GET), a form does it (POST), then the run is shown.

A read-only server has none of these routes. The reader of forms and JSON bodies here also serves the API.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from leftoff.engine.settings import Caller
from leftoff.errors import Usage
from leftoff.operations.page_actions import (
    ACTIONS,
    FLAG,
    MAP,
    PAGE,
    TEXT,
    WORDS,
    Acted,
    act,
    dry_run,
)
from leftoff.web.guard import CSRF_FIELD, CSRF_HEADER, need_own
from leftoff.web.screens import render
from leftoff.web.served import served_by, urls

_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_MOST_FIELDS = 2000
_MOST_SAID = 200


def page_caller(via: str = PAGE) -> Caller:
    """Return the caller of an action: the user of this server, who is asked by forms."""
    caller = Caller()
    caller.via = via
    return caller


# -- bodies


async def read_form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form of the page."""
    body = await _body(request, "A form", _FORM)
    try:
        text = body.decode()
        found = parse_qs(text, True, bool(text), errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise Usage("The form cannot be read.", hint="Nothing was changed.") from None
    need_own(request, *found.pop(CSRF_FIELD, [""])[:1])
    return found


async def read_document(request: Request) -> dict[str, Any]:
    """Return the JSON object that a program or our script has sent."""
    need_own(request, request.headers.get(CSRF_HEADER, ""))
    body = await _body(request, "A document", _JSON)
    if not body:
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Usage("The document is not JSON.", hint="Nothing was changed.") from None
    if not isinstance(found, dict):
        raise Usage("The document is not a JSON object.", hint="Nothing was changed.")
    return found


async def _body(request: Request, what: str, kind: str) -> bytes:
    """Return the body of a request. Raise ``Usage`` if there is one of another kind."""
    limits = request.app.state.options.limits
    body = b""
    try:
        async with asyncio.timeout(limits.body_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body:
                    raise HTTPException(413, f"A request may have {limits.body:,} bytes.")
    except TimeoutError:
        raise HTTPException(408, "The request took too long to come.") from None
    if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
        raise Usage(f"{what} is sent as {kind}.", hint="Nothing was changed.")
    return body


def fields_of(action: str, given: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the fields of an action from a form or a URL. ``answers.CODE`` is one answer of ``answers``."""
    out: dict[str, Any] = {}
    kinds = ACTIONS[action].fields if action in ACTIONS else {}
    for name, values in given.items():
        field, _, key = name.partition(".")
        kind = kinds.get(name, MAP if key and kinds.get(field) == MAP else TEXT)
        if kind == MAP and key:
            if values[-1]:
                out.setdefault(field, {})[key] = values[-1]
        elif kind == WORDS:
            out[name] = [value for value in values if value]
        elif kind == FLAG:
            out[name] = values[-1] in ("1", "on", "true", "yes")
        else:
            out[name] = values[-1]
    return out


def query_lists(request: Request) -> dict[str, list[str]]:
    return {name: request.query_params.getlist(name) for name in request.query_params}


# -- routes


def _ask(request: Request) -> Response:
    """Show what an action would do, and the form that does it."""
    name = request.path_params["action"]
    given = fields_of(name, query_lists(request))
    served = served_by(request)
    with served.open() as project:
        shown = dry_run(project, page_caller(), name, request.path_params["run"], given)
    fields = ACTIONS[name].fields
    return render(request, "ask.html", here=served, action=name, preview=shown, given=given, fields=fields)


async def _do(request: Request) -> Response:
    """Do it, then show the run."""
    action, run = request.path_params["action"], request.path_params["run"]
    given = fields_of(action, await read_form(request))

    def work() -> Acted:
        with served_by(request).open() as project:
            return act(project, page_caller(), action, run, given)

    done = await run_in_threadpool(work)
    return _shown(request, "run", done.told, run=done.run_id)


async def _check(request: Request) -> Response:
    """Start an fsck; the page of the store shows its progress."""
    await read_form(request)
    request.app.state.checks.start(served_by(request))
    return _shown(request, "store", "The check has begun.")


def _shown(request: Request, screen: str, told: str, **parts: str) -> Response:
    """Show a screen with a sentence about the finished action, once: its URL carries only a name for that."""
    said: dict[str, str] = request.app.state.said
    name = secrets.token_urlsafe(9)
    said[name] = told
    if len(said) > _MOST_SAID:
        del said[next(iter(said))]
    to = urls(request)(screen, project=request.path_params["project"], query={"said": name}, **parts)
    return RedirectResponse(to, 303)


POST_ROUTES = [
    Route("/p/{project}/runs/{run}/do/{action}", _ask, name="ask", methods=["GET"]),
    Route("/p/{project}/runs/{run}/do/{action}", _do, name="do", methods=["POST"]),
    Route("/p/{project}/do/check", _check, name="check", methods=["POST"]),
]
