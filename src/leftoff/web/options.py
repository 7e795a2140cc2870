"""How the page is served: where, for whom, and with which limits."""

from __future__ import annotations

from leftoff.model.fields import Fields

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Limits(Fields):
    """What one server takes. ``head_s``: seconds that a connection may be open without a whole request. ``body``: bytes
    of a request. ``body_s``: seconds until all of them must have come. ``connections``, ``streams``: at once.
    ``session_s``: how long a browser stays signed in. ``once_s``: until when one that was started must have come."""

    head_s: float = 20.0
    body: int = 1 << 20
    body_s: float = 20.0
    connections: int = 500
    streams: int = 200
    session_s: int = 30 * 24 * 3600
    once_s: float = 60.0


class Options(Fields):
    """``token``: what the printed URL carries. ``key``: what sessions are signed with. ``hosts``: the names under which
    the page may be asked for, beside those of this machine. ``base``: the path below which a proxy shows it, or ``""``.
    ``read_only``: nothing can be changed. ``once``: what lets in one browser that we start, soon: everybody on the
    machine sees the words that it is started with."""

    token: str
    key: bytes
    hosts: tuple[str, ...] = ()
    base: str = ""
    read_only: bool = False
    once: str = ""
    limits: Limits = Limits()
