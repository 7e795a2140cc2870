"""Files of a run and logs of its steps, to view or to download. Nothing in them is ever executed.

A text is sent as plain text, whatever its name says: a page or a drawing with a script in it is shown as its source.
Pictures of a kind that cannot hold anything else are shown. All else can only be downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from leftoff.engine.attempt_logs import Choice
from leftoff.errors import NotFound, Usage
from leftoff.operations.run_files import file_at
from leftoff.operations.watching import LogFile, logs_of, redacted_log
from leftoff.web.served import screen_request, served_by

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
    asked = screen_request(request)
    path = asked.query.get("path", "")
    if not path:
        raise Usage("Which file?", hint="?path= says it.")
    data = bytearray()
    with served_by(request).open() as project:
        for chunk in file_at(project, asked.caller, asked.ref, path).chunks():
            data += chunk
            if len(data) > _MOST:
                hint = f"`leftoff cat REF:{path}` prints it."
                raise Usage(f"{path} has more than {_MOST >> 20} MB.", hint=hint)
    kind = _ANY if "download" in asked.query else media_type_of(bytes(data))
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
    asked = screen_request(request)
    choice = Choice(asked.text("step"), asked.number("attempt", 1))
    with served_by(request).open() as project:
        found = logs_of(project, asked.caller, asked.run, choice).find()
        redactor = project.redactor
    if not found.logs:
        told = f"There is no log of {choice.step or asked.run}."
        raise NotFound(told, hint="Only steps that leftoff runs have one.")
    last = found.logs[-1]

    def text() -> Iterator[bytes]:
        for block in LogFile(last.path or "").read(ended=True):
            yield redacted_log(block, redactor)
        yield last.raised.encode()

    name = f"{asked.run}-{last.step}.log".replace("/", "-")
    return StreamingResponse(text(), media_type=_PLAIN, headers=_headers("attachment", name))


def _headers(how: str, name: str) -> dict[str, str]:
    return {
        "content-disposition": f"{how}; filename*=UTF-8''{quote(name, safe='')}",
        "content-security-policy": _POLICY,
    }


RAW_ROUTES = [
    Route("/p/{project}/runs/{run}/raw", _raw, name="raw"),
    Route("/p/{project}/runs/{run}/log", _log, name="log"),
]
