"""What driver and shim exchange: the job of an attempt, the messages of their channel, and the attempt's folder.

The folder is ``<store>/attempts/<run>/<token>/``. ``exit`` is created empty right before the command is executed. When
the command has ended, the shim writes one line of JSON into it. ``log`` has stdout and stderr, redacted. ``vars`` has
the run variables that the step sets. ``result`` is the JSON result of a Python step. The last three exist only if there
is something in them.

If ``exit`` is missing, the command was not executed. That is believed only in the boot in which the attempt was
recorded, because the file is not synced when it is created. Callers compare ``Process.scope``.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Mapping, Sequence
from signal import SIGUSR1
from typing import NamedTuple

from leftoff.errors import Invalid, LeftoffError
from leftoff.files import failure, sync_folder
from leftoff.model.codec import decode, long_sha256, sha256, text

GRACE_S = 10.0
# The driver sends a shim its job, preceded by its length, and then GO. The shim sends lines that begin with a kind.
HEAD = 8
GO = b"g"
READY, ENDED, FAILED = b"R", b"X", b"E"
FREE, LEAVING = b"f", b"l"  # after ENDED: whether the shim takes another job
STOP = SIGUSR1  # asks a shim to end its command

LOG, EXIT, VARS, RESULT, ITEMS = "log", "exit", "vars", "result", "items"
SCRIPT, ARGS = "script-", "args"  # input that is too long for a command line
VOUCHED = (VARS, RESULT, ITEMS)  # files of an attempt whose hashes are in its exit
NOT_FOUND, NOT_EXECUTABLE, TIMED_OUT = 127, 126, 124  # exit codes, as shells and timeout(1) have them
_TAKEN_IN = (VARS, RESULT, EXIT, ARGS, ITEMS)
_SUM, _OF = "sum", "attempt"  # keys of an exit: the checksum of its other keys, and the token of the attempt
_PIECE = 1 << 18


# -- the channel


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


class Job(NamedTuple):
    """One attempt: what to run, where, for how long, and the attempt's folder.

    ``folder`` and ``cwd`` are absolute. ``env`` is the whole environment. ``secrets`` are texts that must not be in the
    log. After ``timeout`` seconds the command gets SIGTERM, and ``grace`` seconds later SIGKILL. ``bound``: it also
    does if the driver dies.
    """

    token: str
    folder: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    timeout: float | None = None
    grace: float = GRACE_S
    secrets: Sequence[str] = ()
    bound: bool = False

    def pack(self) -> bytes:
        """Return what ``Order`` is made from.

        It is ``marshal``, because only a process of the same interpreter reads it: nothing to import, and bytes stay
        bytes. The driver encodes the text, since the launcher may have another encoding.
        """
        code = os.fsencode
        argv = [code(word) for word in self.argv]
        env = {code(name): code(value) for name, value in self.env.items()}
        secrets = [secret.encode("utf-8", "surrogateescape") for secret in self.secrets]
        return marshal.dumps(
            (code(self.folder), argv, env, code(self.cwd), self.timeout, self.grace, secrets, self.bound)
        )


class Order(NamedTuple):
    """A job as the shim receives it."""

    folder: bytes
    argv: list[bytes]
    env: dict[bytes, bytes]
    cwd: bytes
    timeout: float | None
    grace: float
    secrets: list[bytes]
    bound: bool

    @classmethod
    def unpack(cls, packed: bytes) -> Order:
        return cls(*marshal.loads(packed))


# -- the folder


class Exit(NamedTuple):
    """How an attempt ended.

    ``code`` is 0 only if the command ended by itself with 0. A signal gives 128 + its number, a timeout 124, and a
    command that could not be executed 126 or 127 with the reason in ``error``. ``stopped``: leftoff was asked to end
    it. ``at`` is in milliseconds since 1970. ``left`` has the hashes of the files that it left; None: not known.
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
        """Return whether something else ended the command, so that it may be half done."""
        return self.timed_out or self.stopped or self.signal is not None

    def line(self, of: str) -> bytes:
        """Return the exit of attempt ``of`` as one line of JSON with a checksum."""
        about = {name: getattr(self, name) for name in self._fields} | {_OF: of}
        return text({**about, _SUM: _sum(about)}).encode("utf-8", "replace") + b"\n"

    @classmethod
    def read(cls, line: bytes, of: str) -> Exit | None:
        """Parse a line. Return None if it is unfinished, damaged or of another attempt."""
        if not line.endswith(b"\n"):
            return None
        try:
            found = decode(line[:-1].decode())
            if found.pop(_SUM) != _sum(found) or found[_OF] != of:
                return None
            return cls(**{name: found[name] for name in cls._fields})
        except (ValueError, LookupError, TypeError, AttributeError):
            return None


class AttemptFolder:
    """One attempt's folder, which need not exist."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def of(cls, store_folder: str, run_id: str, token: str) -> AttemptFolder:
        return cls(os.path.join(os.path.abspath(store_folder), "attempts", run_id, token))

    def __fspath__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        """Return the attempt's token."""
        return os.path.basename(self.path)

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def below(self, name: str) -> AttemptFolder:
        """Return the folder of a check of this attempt."""
        return AttemptFolder(self.file(name))

    def make(self) -> None:
        """Create the folder, private to its owner."""
        try:
            try:
                os.mkdir(self.path, 0o700)
            except FileNotFoundError:
                _make_parents(os.path.dirname(self.path))
                os.mkdir(self.path, 0o700)
        except OSError as error:
            raise failure(error, self.path) from error

    def began(self) -> bool:
        """Return whether the command may have been executed. A folder that is gone proves nothing."""
        marks = (EXIT, LOG, VARS, RESULT)
        return not os.path.isdir(self.path) or any(os.path.lexists(self.file(name)) for name in marks)

    # -- how it ended

    def exit(self) -> Exit | None:
        """Return how the attempt ended; None if that is not recorded."""
        try:
            fd = os.open(self.file(EXIT), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return Exit.read(os.read(fd, 65536), self.name)
        except OSError:
            return None
        finally:
            os.close(fd)

    def hashes(self) -> dict[str, str] | None:
        """Return the hashes of the files that the attempt left for the run; None if one cannot be read."""
        try:
            return {name: hash for name in VOUCHED if (hash := _hash(self.file(name))) is not None}
        except OSError:
            return None

    def damaged(self, exit: Exit) -> str | None:
        """Return the first file that differs from what it was when the attempt ended."""
        now = exit.left if exit.left is None else self.hashes()
        if now == exit.left:
            return None
        return next(name for name in VOUCHED if now is None or now.get(name) != (exit.left or {}).get(name))

    # -- what it printed and set

    def tail(self, lines: int = 20, most: int = 4096) -> str:
        """Return the last lines of the log, at most ``most`` bytes."""
        try:
            with open(self.file(LOG), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - most))
                data = file.read(most)
        except OSError:
            return ""
        found = data.decode("utf-8", "replace").splitlines()
        if size > most and len(found) > 1:
            del found[0]  # it starts in the middle of a line
        return "\n".join(found[-lines:])

    def variables(self) -> dict[str, object]:
        """Return the run variables that the step set. A later line wins.

        ``K=V`` lines are typed as in ``leftoff set`` (``K:=JSON`` too, but ``K=@…`` is text). A line that begins with
        ``{`` is a JSON object of variables.
        """
        from leftoff.model import typed  # the launcher and the shims do without it

        path = self.file(VARS)
        try:
            with open(path, "rb") as file:
                data = file.read(typed.MOST_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Invalid(
                f"What it wrote to LEFTOFF_VARS cannot be read: {error.strerror}.",
                hint="Leave that file as it is.",
            ) from None
        if len(data) > typed.MOST_BYTES:
            raise Invalid(
                f"{path} is larger than {typed.MOST_BYTES >> 20} MiB.",
                hint="Keep large data in files: outputs.",
            )
        found: dict[str, object] = {}
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip():
                found.update(_variables(line, f"{path}:{number}"))
        return found

    # -- cleaning up

    def tidy(self) -> None:
        """Remove everything but the log. Call it after the end of the attempt was committed durably."""
        for name in os.listdir(self.path) if os.path.isdir(self.path) else ():
            path = self.file(name)
            try:
                if os.path.isdir(path):
                    AttemptFolder(path).remove()
                elif name in _TAKEN_IN or name.startswith(SCRIPT) or not os.path.getsize(path):
                    os.unlink(path)
            except OSError:
                pass
        try:
            os.rmdir(self.path)
        except OSError:
            pass  # there is a log

    def remove(self) -> None:
        from shutil import rmtree  # the launcher and the shims do without it

        rmtree(self.path, ignore_errors=True)


class LogFollower:
    """Returns what was added to a log since the last call, in whole lines. The file need not exist yet."""

    MOST = 1 << 20  # bytes that are read at once

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._rest = b""

    def read(self, *, last: bool = False) -> str:
        """Return whole lines, at most 1 MiB: call it until it is empty. With ``last``, an unfinished line too."""
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return ""
        data = self._rest + os.read(self._fd, self.MOST - len(self._rest))
        cut = data.rfind(b"\n") + 1
        if (len(data) == self.MOST and not cut) or (last and len(data) < self.MOST):
            cut = len(data)
        self._rest = data[cut:]
        return data[:cut].decode("utf-8", "replace")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _make_parents(path: str) -> None:
    """Create a folder and its parents durably."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    _make_parents(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    sync_folder(above)


def _hash(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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


def _sum(about: dict[str, object]) -> str:
    return sha256(text(about).encode("utf-8", "replace")).hexdigest()


def _variables(line: bytes, where: str) -> dict[str, object]:
    from leftoff.model import typed
    from leftoff.model.ids import check_key

    try:
        word = line.decode().rstrip("\r")
        if word.lstrip().startswith("{"):
            values = typed.json_value(word, "The line")
        else:
            key, kind, value = typed.split(word)
            json = kind == typed.JSON
            plain = (
                typed.json_value(value, f"The value of {key}")
                if json
                else typed.typed(word.partition("=")[2])
            )
            values = {key: plain}
        return {check_key(key, "variable"): value for key, value in values.items()}
    except (LeftoffError, ValueError) as error:
        why = error.message if isinstance(error, LeftoffError) else str(error)
        raise Invalid(
            f"{where}: {why}",
            hint="A step sets variables with lines of K=V, K:=JSON or {…} in the file that LEFTOFF_VARS names.",
        ) from None
