"""Files of a run and logs of its steps, to look at or to keep. Nothing that somebody else wrote is ever executed.

A text is plain text, whatever it calls itself: a page or a drawing with a script in it is shown as its source. Pictures
of a kind that holds nothing but a picture are shown. All else can be downloaded, and is opened by nobody here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from leftoff.errors import NotFound, Usage
from leftoff.operations import Caller
from leftoff.operations.files import file_at
from leftoff.operations.watching.log_files import LogFile, without_secrets
from leftoff.operations.watching.logs import Choice, logs_of
from leftoff.web.asking import projects_of

POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"
PLAIN, ANY = "text/plain; charset=utf-8", "application/octet-stream"
# By how they begin: a name says nothing.
PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
MOST = 64 << 20  # bytes of a file that is sent


def raw(request: Request) -> Response:
    """``?path=``: a file as the run has it, or with ``at`` as a version had it. ``download``: to be kept."""
    query = request.query_params
    ref, at = request.path_params["run"], query.get("at")
    if at and not (at.isascii() and at.isdigit()):
        raise Usage(f"at is the number of a version, not {at!r}.", hint="Nothing was read.")
    path = query.get("path", "")
    if not path:
        raise Usage("Which file?", hint="?path= says it.")
    with projects_of(request).of(request.path_params["project"]).open() as project:
        found = file_at(project, Caller(), f"{ref}@{at}" if at else ref, path)
        data = _within(found.chunks(), path)
    return _answer(data, path, download="download" in query)


def _within(chunks: Iterable[bytes], path: str) -> bytes:
    out = bytearray()
    for chunk in chunks:
        out += chunk
        if len(out) > MOST:
            raise Usage(f"{path} has more than {MOST >> 20} MB.", hint=f"`leftoff cat REF:{path}` prints it.")
    return bytes(out)


def _answer(data: bytes, path: str, *, download: bool) -> Response:
    kind = kind_of(data)
    how = "attachment" if download or kind == ANY else "inline"
    name = quote(path.rpartition("/")[2] or "file", safe="")
    headers = {
        "content-disposition": f"{how}; filename*=UTF-8''{name}",
        "content-security-policy": POLICY,
    }
    return Response(data, headers=headers, media_type=ANY if download else kind)


def kind_of(data: bytes) -> str:
    """As what a file may be shown: a picture, plain text, or not at all."""
    for begins, kind in PICTURES.items():
        if data.startswith(begins):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    try:
        data.decode()
    except UnicodeDecodeError:
        return ANY
    return PLAIN if b"\0" not in data else ANY


def log(request: Request) -> Response:
    """``?step=``, ``?attempt=``: all that an attempt printed, as plain text to be kept."""
    query, run = request.query_params, request.path_params["run"]
    attempt = query.get("attempt", "")
    if attempt and not (attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        raise Usage(f"attempt is a number, not {attempt!r}.", hint="Nothing was read.")
    step = query.get("step") or None
    with projects_of(request).of(request.path_params["project"]).open() as project:
        found = logs_of(project, Caller(), run, Choice(step, int(attempt) if attempt else None)).find()
        if not found.logs:
            raise NotFound(
                f"There is no log of {step or run}.", hint="Only steps that leftoff runs have one."
            )
        redactor = project.redactor
    last = found.logs[-1]

    def text() -> Iterator[bytes]:
        for block in LogFile(last.path or "").read(ended=True):
            yield without_secrets(block, redactor)
        yield last.raised.encode()

    name = quote(f"{run}-{last.step}.log".replace("/", "-"), safe="")
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "content-security-policy": POLICY,
    }
    return StreamingResponse(text(), media_type=PLAIN, headers=headers)


def routes() -> list[Route]:
    """``raw`` and ``log`` (project, run)."""
    return [
        Route("/p/{project}/runs/{run}/raw", raw, name="raw"),
        Route("/p/{project}/runs/{run}/log", log, name="log"),
    ]
