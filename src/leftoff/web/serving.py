"""What ``leftoff serve`` needs of the page, in one place."""

from __future__ import annotations

import secrets
import socket

from leftoff.operations import Caller
from leftoff.web.app import make_app
from leftoff.web.options import Options
from leftoff.web.projects import serve_folders, serve_stores
from leftoff.web.server import listen, serve, session_key

__all__ = [
    "Options",
    "address",
    "listen",
    "make_app",
    "new_token",
    "serve",
    "serve_folders",
    "serve_stores",
    "session_key",
]


def new_token(caller: Caller) -> str:
    """What the printed address carries: as LEFTOFF_WEB_TOKEN says, else a new one."""
    return caller.take_web_token() or secrets.token_urlsafe(24)


def address(sock: socket.socket, options: Options) -> str:
    """Where a browser finds the page: under the first name that was allowed, where it is for others."""
    host, port = sock.getsockname()[:2]
    if host in ("0.0.0.0", "::") or options.hosts:
        host = options.hosts[0] if options.hosts else "127.0.0.1"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{port}{options.base}/"
