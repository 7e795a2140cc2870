"""The command. ``main`` finds the verb and imports only its module, because agents call some verbs by the thousand."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

LONG = frozenset("run resume reprendre continue supervise status logs".split())


def main(argv: list[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else argv
    if argv is None:
        as_process(args)
    from leftoff.cli.dispatch import dispatch  # it imports modules of this package

    return dispatch(args)


def as_process(args: list[str]) -> None:
    """Treat SIGTERM as Ctrl-C for a verb that drives, asks or watches, if this process is only the command."""
    if not LONG.isdisjoint(args):
        import signal

        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)


def end_process(code: int) -> NoReturn:
    """End the process, at once if nothing waits for its end: an orderly shutdown costs as much as half a start."""
    if "atexit" not in sys.modules and "threading" not in sys.modules:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            sys.exit(code)  # Python reports it
        os._exit(code)
    sys.exit(code)
