"""The process that serves the page: its port, its keys, and an end without loose threads."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette

from leftoff.errors import Conflict, StoreUnavailable, Usage
from leftoff.operations import Caller
from leftoff.web.options import Limits

KEY = "web.key"  # in the user's own folder: what sessions are signed with, so that they outlive a restart
_KEY_BYTES = 32
_END_S = 3


def session_key(caller: Caller) -> bytes:
    """What sessions are signed with: made once for a user, and readable by nobody else."""
    folder = caller.user_folder
    path = os.path.join(folder, KEY)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            with open(path, "rb") as kept:
                key = kept.read(_KEY_BYTES + 1)
            if len(key) == _KEY_BYTES:
                return key
            file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
        key = secrets.token_bytes(_KEY_BYTES)
        with os.fdopen(file, "wb") as new:
            new.write(key)
        return key
    except OSError:  # a home that cannot be written: signed in until the server ends
        return secrets.token_bytes(_KEY_BYTES)


def listen(host: str, port: int) -> socket.socket:
    """A socket that hears at an address; one that is taken, or that there is not, is told."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise Usage(
            f"There is no address {host!r} here.",
            hint=f"--host 127.0.0.1, or a name of this machine ({error}).",
        ) from None
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(Limits.connections)
    except OSError as error:
        sock.close()
        raise _not_heard(host, port, error) from None
    return sock


def _not_heard(host: str, port: int, error: OSError) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"Port {port} of {host} is taken by another program.",
            hint="Is the page served already? Else choose another port: --port 0 takes any that is free.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return Usage(f"Port {port} is not for everyone.", hint="Choose one above 1023: --port 8765")
    if error.errno == errno.EADDRNOTAVAIL:
        return Usage(f"{host} is not an address of this machine.", hint="--host 127.0.0.1")
    return StoreUnavailable(
        f"Nothing can be heard at port {port} of {host}: {error.strerror}.", hint="Choose another port."
    )


class Server(uvicorn.Server):
    """A server that says when it hears, and ends open streams when it is told to end."""

    def __init__(self, app: Starlette, limits: Limits, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                http="h11",  # it limits what comes before a body; another, where it is installed, does not
                ws="none",
                limit_concurrency=limits.connections,
                timeout_graceful_shutdown=_END_S,
                h11_max_incomplete_event_size=1 << 16,
                callback_notify=self._hang_up,
                timeout_notify=1,
            )
        )
        self._ready = ready
        self._app = app
        self._head_s = limits.head_s
        self._idle: dict[Any, float] = {}  # connections that ask for nothing, and since when

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def _hang_up(self) -> None:
        """End connections that have asked for nothing whole for long: whoever sends half a request would hold one for
        ever, and so, with enough of them, keep everybody else out."""
        now, before = time.monotonic(), self._idle
        idle = [one for one in self.server_state.connections if is_idle(one)]
        self._idle = {one: before.get(one, now) for one in idle}
        for one, since in self._idle.items():
            if now - since > self._head_s:
                one.transport.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.hub.close()
        await super().shutdown(sockets)


def is_idle(connection: Any) -> bool:
    """Whether a connection waits for its first request, or for the next one."""
    cycle = connection.cycle
    return cycle is None or bool(cycle.response_complete)


def serve(app: Starlette, sock: socket.socket, limits: Limits, ready: Callable[[], None]) -> None:
    """Serve until a signal comes; Ctrl-C and SIGTERM are ``KeyboardInterrupt``."""
    import signal

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        Server(app, limits, ready).run([sock])
    finally:
        signal.signal(signal.SIGTERM, before)
