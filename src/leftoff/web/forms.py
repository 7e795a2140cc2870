"""What a POST carries: the fields of a form or a JSON document, from our own page or from a program with the token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request

from leftoff.errors import LeftoffError, Usage
from leftoff.operations.pages.actions import ACTIONS, FLAG, MAP, TEXT, WORDS
from leftoff.web.security import CSRF_FIELD, CSRF_HEADER, is_own

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
MOST_FIELDS = 2000
YES = ("1", "on", "true", "yes")


class NotOurs(LeftoffError):
    """A change that none of our pages asked for."""

    code = "csrf"
    exit_code = 2
    default_hint = "Nothing was changed. Open the page again, and repeat it there."


Fields = dict[str, list[str]]


async def form(request: Request) -> Fields:
    """The fields of a form of ours."""
    if _kind(request) != FORM:
        raise Usage(f"A form is sent as {FORM}.", hint="Nothing was changed.")
    try:
        text = (await request.body()).decode()
        found = parse_qs(
            text,
            keep_blank_values=True,
            strict_parsing=bool(text),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise Usage("The form cannot be read.", hint="Nothing was changed.") from None
    _need_own(request, *found.pop(CSRF_FIELD, [""])[:1])
    return found


async def document(request: Request) -> dict[str, Any]:
    """A JSON object, of a program or of our script."""
    _need_own(request, request.headers.get(CSRF_HEADER, ""))
    body = await request.body()
    if not body:
        return {}
    if _kind(request) != JSON:
        raise Usage(f"A document is sent as {JSON}.", hint="Nothing was changed.")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Usage("The document is not JSON.", hint="Nothing was changed.") from None
    if not isinstance(found, dict):
        raise Usage("The document is not a JSON object.", hint="Nothing was changed.")
    return found


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _need_own(request: Request, given: str = "") -> None:
    if not is_own(request.scope.get("leftoff"), given):
        raise NotOurs("This does not come from one of our pages.")


def fields_of(action: str, given: Mapping[str, list[str]]) -> dict[str, Any]:
    """The fields of an action, as a form or a URL has them: ``answers.CODE`` is one answer of ``answers``."""
    out: dict[str, Any] = {}
    kinds = ACTIONS.get(action, {})
    for name, values in given.items():
        field, _, key = name.partition(".")
        kind = kinds.get(name, MAP if key and kinds.get(field) == MAP else TEXT)
        if kind == MAP and key:
            out.setdefault(field, {})[key] = values[-1]
        elif kind == WORDS:
            out[name] = [value for value in values if value]
        elif kind == FLAG:
            out[name] = values[-1] in YES
        else:
            out[name] = values[-1]
    if "answers" in out and isinstance(out["answers"], dict):
        out["answers"] = {code: choice for code, choice in out["answers"].items() if choice}
    return out
