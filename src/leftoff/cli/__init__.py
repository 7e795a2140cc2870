"""The command. The verb is found in ``sys.argv`` before anything heavy is imported; each has a module of its own.

A verb's module has ``SPEC`` (its options, see ``leftoff.cli.options``) and ``run(args, ctx)``, which calls operations
of the engine and renders what they give back. Adding a verb is adding a line to ``leftoff.cli.verbs`` and a module.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

LONG = frozenset("run resume reprendre continue supervise status logs".split())


def main(argv: list[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else argv
    if argv is None:
        as_process(args)
        if any(["://" in word and ("@" in word or "password" in word) for word in args]):
            from leftoff.cli.secrets import hide

            hide(args)
    from leftoff.cli.dispatch import dispatch

    return dispatch(args)


def as_process(args: list[str]) -> None:
    """In a process that is nothing but the command, SIGTERM is Ctrl-C for a verb that drives, asks or watches."""
    if not LONG.isdisjoint(args):
        import signal

        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)


def end(code: int) -> NoReturn:
    """End the process. Where nothing waits for its end, at once: taking Python apart costs as much as half a start."""
    if "atexit" not in sys.modules and "threading" not in sys.modules:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            sys.exit(code)  # Python knows what to say of it
        os._exit(code)
    sys.exit(code)
