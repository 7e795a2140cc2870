"""What ``leftoff serve`` needs of the page, in one place."""

from __future__ import annotations

import hmac
import secrets
import socket
from typing import Any

from leftoff.model.codec import text
from leftoff.operations import Caller
from leftoff.web.app import make_app
from leftoff.web.options import Options
from leftoff.web.projects import Projects, serve_folders, serve_stores
from leftoff.web.server import listen, serve, session_key

__all__ = [
    "Options",
    "address",
    "listen",
    "make_app",
    "secrets_of",
    "serve",
    "serve_folders",
    "serve_stores",
]


def secrets_of(caller: Caller, projects: Projects, *, read_only: bool) -> dict[str, Any]:
    """Of `Options`: ``token``, as LEFTOFF_WEB_TOKEN says, else a new one; and ``key``. Who has signed in stays so when
    the same is served again, and nowhere else: neither where other projects are served, nor where more is allowed,
    nor after LEFTOFF_WEB_TOKEN was changed."""
    fixed = caller.take_web_token()
    served = sorted([one.folder, one.store or ""] for one in projects)
    about = text([fixed, read_only, served]).encode()
    key = hmac.digest(session_key(caller), about, "sha256")
    return {"token": fixed or secrets.token_urlsafe(24), "key": key}


def address(sock: socket.socket, options: Options) -> str:
    """Where a browser finds the page: under the first name that was allowed, where it is for others."""
    host, port = sock.getsockname()[:2]
    if host in ("0.0.0.0", "::") or options.hosts:
        host = options.hosts[0] if options.hosts else "127.0.0.1"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{port}{options.base}/"
