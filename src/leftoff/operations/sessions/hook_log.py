"""`.leftoff/hook.log`: what a hook could not do, one line each. No error of the log itself is reported."""

from __future__ import annotations

import os

from leftoff.clock import SYSTEM, iso

LARGEST = 1 << 20  # bytes; then the file becomes hook.log.1, and a new one begins
FILE = "hook.log"
# Follow no link, and do not wait for the reader of a pipe.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def note(folder: str, *words: str) -> None:
    """Add a line to the log in a store's folder, if there is such a folder."""
    line = " ".join(" ".join(word.split()) for word in (iso(SYSTEM.now()), *words))
    path = os.path.join(folder, FILE)
    try:
        if not os.path.isdir(folder) or (folder == ".leftoff" and _is_foreign(folder)):
            return
        if os.path.exists(path) and os.path.getsize(path) > LARGEST:
            os.replace(path, f"{path}.1")
        fd = os.open(path, _FLAGS, 0o600)
        try:
            os.write(fd, f"{line[:2000]}\n".encode("utf-8", "backslashreplace"))
        finally:
            os.close(fd)
    except OSError:
        pass


def _is_foreign(folder: str) -> bool:
    """Return whether a folder is a link or another user's: nobody may have trusted it."""
    return os.path.islink(folder) or os.stat(folder).st_uid != os.geteuid()
