"""What a shim is told, and what it tells: a job, its wire form, and how it ended.

The wire form is read by a process of the same interpreter that was started a moment ago and by nothing else, so it is
Python's own ``marshal``: no import, and bytes stay bytes. What the operating system takes as bytes is encoded on the
driver's side, since the launcher runs without the environment that may have chosen another encoding.
"""

from __future__ import annotations

import errno
import marshal
import os

from leftoff.model.codec import decode, sha256, text
from leftoff.model.fields import Fields
from leftoff.model.hashing import long_sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

GRACE_S = 10.0
# What is said on a channel. To the shim: its job, after the length of it, then one byte. By it: lines that begin so.
HEAD = 8
GO = b"g"
READY, ENDED, WRITTEN, FAILED = b"R", b"X", b"W", b"E"
FREE, LEAVING, UNWRITTEN = b"f", b"l", b"u"  # follows the two in the middle: what becomes of the shim
NOT_FOUND, NOT_EXECUTABLE, TIMED_OUT = 127, 126, 124  # exit codes, as shells and timeout(1) have them
VOUCHED = ("vars", "result", "items")  # files that an attempt may leave, and whose hashes its exit has
SUM, OF = "sum", "attempt"  # of an exit: the checksum of its other keys, and whose exit it is
_PIECE = 1 << 20
_KIND, _FILE = 0o170000, 0o100000  # of a mode


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(HEAD, "big") + message


def receive(fd: int) -> bytes | None:
    """The next message; None where whoever sends them is gone."""
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
    """One attempt: what to run, where, for how long, and the folder that keeps what it leaves.

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
    """A job as the shim gets it."""

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


class Exit(Fields):
    """How an attempt ended.

    ``code`` is 0 only where the command ended by itself with 0: a signal gives 128 + its number, a timeout 124, and a
    command that could not be executed at all 126 or 127, with ``error`` saying why. ``stopped`` is True where somebody
    asked for the end. ``at`` is in milliseconds since 1970. ``left`` has the hashes of the files that it left; None:
    they are not known.
    """

    code: int
    signal: int | None = None
    timed_out: bool = False
    at: int = 0
    error: str | None = None
    stopped: bool = False
    left: dict[str, str] | None = None

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def cut_off(self) -> bool:
        """Whether something else ended it, so that nobody knows how far it came."""
        return self.timed_out or self.stopped or self.signal is not None

    def line(self, of: str) -> bytes:
        """One line of JSON for the attempt whose folder has this name, with a checksum of the rest of it."""
        about = {name: getattr(self, name) for name in self._fields} | {OF: of}
        return text({**about, SUM: _sum(about)}).encode("utf-8", "replace") + b"\n"

    @classmethod
    def read(cls, line: bytes, of: str) -> Exit | None:
        """What a line says; None where it is unfinished, damaged, another attempt's or no such line."""
        if not line.endswith(b"\n"):
            return None
        try:
            found: dict[str, Any] = decode(line[:-1].decode())
            if found.pop(SUM) != _sum(found) or found[OF] != of:
                return None
            return cls(**{name: found[name] for name in cls._fields})
        except (ValueError, LookupError, TypeError, AttributeError):
            return None

    def damaged(self, folder: str) -> str | None:
        """The first file of an attempt's folder that is not as it was when the attempt ended."""
        now = self.left if self.left is None else left_in(folder)
        if now == self.left:
            return None
        return next(name for name in VOUCHED if now is None or now.get(name) != (self.left or {}).get(name))

    @classmethod
    def of(cls, folder: str) -> Exit | None:
        """How the attempt with this folder ended; None where nobody wrote it down."""
        try:
            fd = opened(f"{folder}/exit")
        except OSError:
            return None
        try:
            return cls.read(os.read(fd, 65536), os.path.basename(folder))
        except OSError:
            return None
        finally:
            os.close(fd)


def opened(path: str) -> int:
    """A file of an attempt, to be read. Nobody waits for what is none: a pipe, a device, a folder."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if os.fstat(fd).st_mode & _KIND == _FILE:
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no file", path)


def left_in(folder: str) -> dict[str, str] | None:
    """The hashes of what an attempt left there for the run; None where that cannot be read."""
    try:
        return {name: hash for name in VOUCHED if (hash := _hash(f"{folder}/{name}")) is not None}
    except OSError:
        return None


def _hash(path: str) -> str | None:
    try:
        fd = opened(path)
    except FileNotFoundError:
        return None
    try:
        piece = os.read(fd, _PIECE)
        digest = (long_sha256 if len(piece) == _PIECE else sha256)(piece)
        while piece := os.read(fd, _PIECE):
            digest.update(piece)
        return digest.hexdigest()
    finally:
        os.close(fd)


def _sum(about: dict[str, Any]) -> str:
    return sha256(text(about).encode("utf-8", "replace")).hexdigest()
