"""Files of a run and logs of its steps, to view or to download. Nothing in them is ever executed.

A text is sent as plain text, whatever its name says: a page or a drawing with a script in it is shown as its source.
Pictures of a kind that cannot hold anything else are shown. All else can only be downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from leftoff.engine.attempt_logs import Choice
from leftoff.engine.caller import Caller
from leftoff.errors import NotFound, Usage
from leftoff.operations.run_files import file_at
from leftoff.operations.watching import LogFile, logs_of, redacted_log
from leftoff.web.served import served_by

_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"
_PLAIN, _ANY = "text/plain; charset=utf-8", "application/octet-stream"
_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_MOST = 64 << 20  # bytes of a file that is sent


def _raw(request: Request) -> Response:
    """Send the file ``?path=`` as the run has it, or as version ``?at=`` had it. ``?download``: as an attachment."""
    query = request.query_params
    ref, at, path = request.path_params["run"], query.get("at"), query.get("path", "")
    if at and not (at.isascii() and at.isdigit()):
        raise Usage(f"at is the number of a version, not {at!r}.", hint="Nothing was read.")
    if not path:
        raise Usage("Which file?", hint="?path= says it.")
    data = bytearray()
    with served_by(request).open() as project:
        for chunk in file_at(project, Caller(), f"{ref}@{at}" if at else ref, path).chunks():
            data += chunk
            if len(data) > _MOST:
                hint = f"`leftoff cat REF:{path}` prints it."
                raise Usage(f"{path} has more than {_MOST >> 20} MB.", hint=hint)
    kind = _ANY if "download" in query else media_type_of(bytes(data))
    how = "attachment" if kind == _ANY else "inline"
    return Response(bytes(data), headers=_headers(how, path.rpartition("/")[2] or "file"), media_type=kind)


def media_type_of(data: bytes) -> str:
    """Return the media type to show a file as, by its first bytes: a picture, plain text, or neither."""
    for begins, kind in _PICTURES.items():
        if data.startswith(begins):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    try:
        data.decode()
    except UnicodeDecodeError:
        return _ANY
    return _PLAIN if b"\0" not in data else _ANY


def _log(request: Request) -> Response:
    """Send all that the attempt ``?attempt=`` of ``?step=`` printed, as plain text to download."""
    query, run = request.query_params, request.path_params["run"]
    attempt = query.get("attempt", "")
    if attempt and not (attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        raise Usage(f"attempt is a number, not {attempt!r}.", hint="Nothing was read.")
    step = query.get("step") or None
    with served_by(request).open() as project:
        found = logs_of(project, Caller(), run, Choice(step, int(attempt) if attempt else None)).find()
        if not found.logs:
            raise NotFound(
                f"There is no log of {step or run}.", hint="Only steps that leftoff runs have one."
            )
        redactor = project.redactor
    last = found.logs[-1]
    name = f"{run}-{last.step}.log".replace("/", "-")
    text = _redacted(last.path or "", last.raised, redactor)
    return StreamingResponse(text, media_type=_PLAIN, headers=_headers("attachment", name))


def _redacted(path: str, end: str, redactor: Any) -> Iterator[bytes]:
    for block in LogFile(path).read(ended=True):
        yield redacted_log(block, redactor)
    yield end.encode()


def _headers(how: str, name: str) -> dict[str, str]:
    return {
        "content-disposition": f"{how}; filename*=UTF-8''{quote(name, safe='')}",
        "content-security-policy": _POLICY,
    }


def raw_routes() -> list[Route]:
    return [
        Route("/p/{project}/runs/{run}/raw", _raw, name="raw"),
        Route("/p/{project}/runs/{run}/log", _log, name="log"),
    ]
