"""What leftoff does, for whoever looks for a fault: lines of the logger `leftoff`, or on stderr with LEFTOFF_DEBUG=1.

A program that has `logging` gets them at level DEBUG. One that has not loaded it does not pay for it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging

_DEBUG = 10  # logging.DEBUG
_logger: logging.Logger | None = None
#: what this process is doing, for those who have to wait for it
doing = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""


def debugging() -> bool:
    """Whether somebody wants to see tracebacks and every line."""
    return os.environ.get("LEFTOFF_DEBUG") == "1"


_stderr = debugging()  # asked once: a commit costs little more than a look at the environment


def begin() -> None:
    """A command begins."""
    global _stderr
    _stderr = debugging()


def debug(text: str, *about: object) -> None:
    """One line, with ``%``: nothing is formatted where nobody listens."""
    if _stderr:
        sys.stderr.write(f"leftoff: [{os.getpid()}] {text % about}\n")
    logger = _logger or _find_logger()
    if logger is not None and logger.isEnabledFor(_DEBUG):
        logger.debug(text, *about)


def _find_logger() -> logging.Logger | None:
    """The logger, once the program has `logging`."""
    global _logger
    there = sys.modules.get("logging")
    _logger = there.getLogger("leftoff") if there is not None else None
    return _logger
