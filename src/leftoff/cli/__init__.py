"""The command. ``main`` finds the verb and imports only its module, because agents call some verbs by the thousand."""

from __future__ import annotations

import os
import sys

from leftoff.hints import NoReturn

LONG = frozenset("run resume reprendre continue supervise status logs".split())


def main(argv: list[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else argv
    if argv is None:
        as_process(args)
        if any("://" in word and ("@" in word or "password" in word) for word in args):
            _hide_passwords(args)
    from leftoff.cli.dispatch import dispatch  # it imports modules of this package

    return dispatch(args)


def as_process(args: list[str]) -> None:
    """Treat SIGTERM as Ctrl-C for a verb that drives, asks or watches, if this process is only the command."""
    if not LONG.isdisjoint(args):
        import signal

        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)


def _hide_passwords(args: list[str]) -> None:
    """Start the same command again with a private file in place of each password: every user can list arguments."""
    from leftoff.engine.project import without_password
    from leftoff.errors import LeftoffError

    option = "--store="
    try:
        safe = [
            option + without_password(word[len(option) :])
            if word.startswith(option)
            else without_password(word)
            for word in args
        ]
    except LeftoffError:  # opening the store reports what is wrong with the URL
        return
    if safe != args:
        own = sys.orig_argv[: len(sys.orig_argv) - len(args)]
        os.execv(sys.executable, [own[0], *own[1:], *safe])


def end(code: int) -> NoReturn:
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
