"""Signals, as something to poll: a child ended, or somebody asks for the end.

Set up once, in the launcher, so that a fork has nothing left to do but to say that it is one.
"""

from __future__ import annotations

import os
import signal

STOP = signal.SIGUSR1  # asks a shim to end its command
# What ends a driver, or is sent to a whole group, must end neither launcher nor shims.
IGNORED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM,
    signal.SIGPROF, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
)  # fmt: skip


class Bell:
    """In the launcher it reaps the shims that ended, and does not care for more; in a shim it can be polled."""

    def __init__(self) -> None:
        self.stop = False  # somebody asked for the end of the command
        self.idle = True  # there is no command: who asks for the end gets it at once
        self._fd = -1
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, self._child)
        signal.signal(STOP, self._stop)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whoever started the driver may have held some back

    def arm(self) -> None:
        """In the shim, before anybody knows of it."""
        self._fd, write = os.pipe()
        os.set_blocking(self._fd, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._fd

    def quiet(self) -> None:
        try:
            os.read(self._fd, 4096)
        except BlockingIOError:
            pass

    def _stop(self, *_: object) -> None:
        if self._fd < 0:
            return
        if self.idle:
            os._exit(0)
        self.stop = True

    def _child(self, *_: object) -> None:
        if self._fd < 0:
            reap()


def reap() -> bool:
    """Take note of the children that ended, so that none of them stays a zombie. Whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
