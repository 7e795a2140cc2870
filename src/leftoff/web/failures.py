"""What went wrong, as an answer: a status, and the same words that the command would print. Never a traceback."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from leftoff.errors import LeftoffError
from leftoff.web.asking import urls
from leftoff.web.forms import NotOurs
from leftoff.web.screens import render

# By the exit code that the command would end with.
STATUS = {1: 500, 2: 400, 3: 404, 4: 422, 5: 409, 6: 409, 7: 409, 8: 503}
_SAID = {
    400: ("bad_request", "The request cannot be read."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method", "This address does not take that method."),
}


def failed(request: Request, error: Exception) -> Response:
    """An operation's own error."""
    assert isinstance(error, LeftoffError)
    about = {"code": error.code, "message": error.whole, "hint": error.hint}
    status = 403 if isinstance(error, NotOurs) else STATUS.get(error.exit_code, 500)
    return answer(request, status, about)


def refused(request: Request, error: Exception) -> Response:
    """No route, a wrong method."""
    assert isinstance(error, HTTPException)
    code, message = _SAID.get(error.status_code, ("refused", str(error.detail)))
    response = answer(request, error.status_code, {"code": code, "message": message, "hint": ""})
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _back(request: Request) -> str:
    """Where somebody decides anew what was refused: the page with its form."""
    is_form = request.method == "POST" and "action" in request.path_params
    return urls(request)("ask", **request.path_params) if is_form else ""


def answer(request: Request, status: int, about: dict[str, Any]) -> Response:
    """As JSON to programs, as a page to people."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    if path.startswith("/api/"):
        return JSONResponse({"error": about}, status)
    try:
        return render(request, "error.html", status, number=status, error=about, back=_back(request))
    except Exception:  # a defect of the page itself
        return PlainTextResponse(f"{about['message']}\n{about['hint']}\n", status)
