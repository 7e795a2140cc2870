"""What an attempt leaves on disk: ``<store>/attempts/<run>/<token>/``.

``exit`` made empty right before the command is executed; then how it ended, one line of JSON (no whole line: not known)
· ``log`` stdout and stderr, redacted · ``vars`` run variables that the step sets · ``result`` JSON, of a Python step.

The folder is made with the sticky bit, which goes when ``exit`` is made. With the bit and without the file, on a
machine that has not been restarted since, the command never ran. So that is told by something that is there: whatever
is lost, nobody takes a command that ran for one that did not.

The last three are there only where there is something in them: on a journaling file system, a new file costs as much
as a process.
"""

from __future__ import annotations

import os
import stat
import sys

from leftoff.errors import Invalid, LeftoffError, UnsafePath
from leftoff.files import failure, sync_folder
from leftoff.model import typed
from leftoff.model.ids import check_key
from leftoff.workflow.processes.job import VOUCHED, Exit, opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG, EXIT, VARS, RESULT = "log", "exit", "vars", "result"
_MARK = 0o170000 | stat.S_ISVTX
_WAITS = stat.S_IFDIR | stat.S_ISVTX  # a folder for a command that was not executed yet


def folder(store_folder: str, run_id: str, token: str) -> str:
    return os.path.join(os.path.abspath(store_folder), "attempts", run_id, token)


def prepare(folder: str) -> None:
    """Make an attempt's folder, private to its owner; never in one that a link leads to."""
    above = os.path.dirname(folder)
    if os.path.islink(above):
        raise UnsafePath(
            f"{above} is a link: what steps print is not written through it.",
            hint="Remove it; it is not leftoff's.",
        )
    try:
        try:
            os.mkdir(folder, 0o1700)
        except FileNotFoundError:
            _make_parents(above)
            os.mkdir(folder, 0o1700)
        if sys.platform != "linux":  # elsewhere the mode of a new folder may have no such bit
            os.chmod(folder, 0o1700)
    except OSError as error:
        raise failure(error, folder) from error


def _make_parents(path: str) -> None:
    """The folder and those above it, durable."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    _make_parents(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    sync_folder(above)


def log_path(folder: str) -> str:
    return os.path.join(folder, LOG)


def vars_path(folder: str) -> str:
    return os.path.join(folder, VARS)


def began(folder: str) -> bool:
    """Whether the command may have run: of a folder that is gone, or that came from elsewhere, nobody can tell."""
    try:
        waits = os.lstat(folder).st_mode & _MARK == _WAITS
    except OSError:
        return True
    return not waits or any(os.path.lexists(os.path.join(folder, name)) for name in (EXIT, LOG, VARS, RESULT))


def needs_exit(folder: str) -> bool:
    """Whether something is there that only its exit could vouch for, or an exit that says nothing: of another attempt,
    damaged. Then nothing else proves what it left for the run."""
    if any(os.path.lexists(os.path.join(folder, name)) for name in VOUCHED):
        return True
    try:
        about = os.lstat(os.path.join(folder, EXIT))
    except OSError:
        return False
    return about.st_size > 0 or not stat.S_ISREG(about.st_mode)


def read_exit(folder: str) -> Exit | None:
    """How the attempt ended; None where that is not known."""
    return Exit.of(folder)


def tail(folder: str, lines: int = 20, most: int = 4096) -> str:
    """The last lines of the log, at most that many bytes of it; empty where there is none."""
    try:
        with open(opened(log_path(folder)), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return ""
    found = data.decode("utf-8", "replace").splitlines()
    if size > most and len(found) > 1:
        del found[0]  # begins somewhere in the middle
    return "\n".join(found[-lines:])


def read_vars(folder: str) -> dict[str, Any]:
    """The run variables that a step left, the later line winning.

    ``K=V`` lines are typed as ``leftoff set`` does it (``K:=JSON`` too; but ``K=@…`` is text: a file may be gone by
    now); a line that begins with ``{`` is a JSON object of any number of variables.
    """
    path = vars_path(folder)
    try:
        with open(opened(path), "rb") as file:
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
            f"{path} is larger than {typed.MOST_BYTES >> 20} MiB.", hint="Keep large data in files: outputs."
        )
    found: dict[str, Any] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            found.update(_variables(line, f"{path}:{number}"))
    return found


def _variables(line: bytes, where: str) -> dict[str, Any]:
    try:
        word = line.decode().rstrip("\r")
        if word.lstrip().startswith("{"):
            values = typed.json_value(word, "The line")
        else:
            key, kind, value = typed.split(word)
            json = kind == typed.JSON
            values = {
                key: typed.json_value(value, f"The value of {key}")
                if json
                else typed.typed(word.partition("=")[2])
            }
        return {check_key(key, "variable"): value for key, value in values.items()}
    except (LeftoffError, ValueError) as error:
        why = error.message if isinstance(error, LeftoffError) else str(error)
        raise Invalid(
            f"{where}: {why}",
            hint="A step sets variables with lines of K=V, K:=JSON or {…} in the file that LEFTOFF_VARS names.",
        ) from None
