"""Starting a command: found on its own PATH, in its own folder, with nothing inherited that is not meant for it."""

from __future__ import annotations

import errno
import os
import signal

from leftoff.workflow.processes.job import NOT_EXECUTABLE, NOT_FOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.workflow.processes.job import Order

# Whatever the shim ignores, and whoever started the driver ignored, the command must not.
_DEFAULT = sorted({int(number) for number in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP})
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


class Refused(Exception):
    """The command could not be executed: the exit code for that, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


def spawn(order: Order, output: int) -> int:
    """The pid of the command, in the caller's process group, with stdout and stderr going to ``output``."""
    _enter(order.cwd)
    name = order.argv[0] if order.argv else b""
    refused = Refused(NOT_FOUND, f"{_shown(name)}: command not found")
    for path in _candidates(name, order.env.get(b"PATH", os.defpath.encode())):
        try:
            return os.posix_spawn(
                path,
                order.argv,
                order.env,
                file_actions=(
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ),
                setsigmask=(),
                setsigdef=_DEFAULT,
            )
        except OSError as error:
            if error.errno not in _ABSENT or os.path.exists(path):
                refused = Refused(NOT_EXECUTABLE, _why_not(path, error))
        except ValueError as error:  # a NUL, or a name of a variable with = in it
            raise Refused(NOT_EXECUTABLE, f"{_shown(name)}: cannot be executed: {error}") from None
    raise refused


def _enter(folder: bytes) -> None:
    try:
        os.chdir(folder)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        why = os.strerror(number) if number else str(error)
        code = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE
        raise Refused(code, f"the working folder {_shown(folder)} cannot be entered: {why}") from None


def _candidates(name: bytes, path: bytes) -> list[bytes]:
    if b"/" in name:
        return [name]
    places = (os.path.join(place or b".", name) for place in path.split(b":"))
    return [place for place in places if name and os.path.isfile(place)]


def _why_not(path: bytes, error: OSError) -> str:
    why = os.strerror(error.errno or 0)
    if error.errno in _ABSENT:
        why = "the interpreter in its first line does not exist"
    elif error.errno == errno.ENOEXEC:
        why = "it is no program, and has no first line (#!) that names an interpreter"
    elif error.errno == errno.EACCES:
        why = "it is a folder" if os.path.isdir(path) else "permission denied (is it executable?)"
    return f"{_shown(path)}: cannot be executed: {why}"


def _shown(name: bytes) -> str:
    return name[:200].decode("utf-8", "replace")
