"""A job for a shim, and how it is sent.

Only a process of the same interpreter that was started a moment ago reads the wire form, so it is ``marshal``: nothing
to import, and bytes stay bytes. The driver encodes the text, since the launcher runs without the environment that may
have chosen another encoding.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Mapping, Sequence
from signal import SIGUSR1

from leftoff.model.fields import Fields

GRACE_S = 10.0
# The driver sends a shim its job, preceded by its length, and then GO. The shim sends lines that begin with a kind.
HEAD = 8
GO = b"g"
READY, ENDED, WRITTEN, FAILED = b"R", b"X", b"W", b"E"
FREE, LEAVING, UNWRITTEN = b"f", b"l", b"u"  # after ENDED and WRITTEN: what the shim does next
STOP = SIGUSR1  # asks a shim to end its command


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(HEAD, "big") + message


def receive(fd: int) -> bytes | None:
    """Return the next message; None if the sender is gone."""
    head = _exactly(fd, HEAD)
    return None if head is None else _exactly(fd, int.from_bytes(head, "big"))


def _exactly(fd: int, size: int) -> bytes | None:
    found = b""
    while len(found) < size:
        try:
            data = os.read(fd, size - len(found))
        except OSError:
            return None
        if not data:
            return None
        found += data
    return found


class Job(Fields):
    """One attempt: what to run, where, for how long, and the attempt's folder.

    ``folder`` and ``cwd`` are absolute. ``env`` is the whole environment. ``secrets`` are texts that must not be in the
    log. After ``timeout`` seconds the command gets SIGTERM, and ``grace`` seconds later SIGKILL.
    """

    token: str
    folder: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    timeout: float | None = None
    grace: float = GRACE_S
    secrets: Sequence[str] = ()

    def pack(self) -> bytes:
        code = os.fsencode
        return marshal.dumps(
            (
                code(self.folder),
                [code(word) for word in self.argv],
                {code(name): code(value) for name, value in self.env.items()},
                code(self.cwd),
                self.timeout,
                self.grace,
                [secret.encode("utf-8", "surrogateescape") for secret in self.secrets],
            )
        )


class Order:
    """A job as the shim receives it."""

    __slots__ = ("argv", "cwd", "env", "folder", "grace", "secrets", "timeout")

    def __init__(self, packed: bytes) -> None:
        self.folder: bytes
        self.argv: list[bytes]
        self.env: dict[bytes, bytes]
        self.cwd: bytes
        self.timeout: float | None
        self.grace: float
        self.secrets: list[bytes]
        self.folder, self.argv, self.env, self.cwd, self.timeout, self.grace, self.secrets = marshal.loads(
            packed
        )
