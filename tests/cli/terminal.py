"""The real command on a pseudo-terminal: what a person would see, and what comes of what they type."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from pathlib import Path
from types import TracebackType

from tests.cli.command import PATIENCE, environment
from tests.cli.warm import Process

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """One call of the command on a terminal of so many columns."""

    def __init__(
        self,
        *words: str,
        cwd: Path,
        columns: int = 80,
        rows: int = 40,
        stdout: int | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.columns = columns
        self.raw = ""
        self._seen = 0
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        env = env or {}
        given = environment(**{"TERM": "xterm-256color", **env})
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            if name not in env:
                given.pop(name, None)
        fds = [slave, slave if stdout is None else stdout, slave]
        self._process = Process([*words], str(cwd), given, fds, terminal=True)
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux says that the other side is gone
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    def expect(self, text: str, timeout: float = PATIENCE) -> None:
        """Wait until this is shown, after what was waited for before."""
        end = time.monotonic() + timeout
        while (at := self.shown.find(text, self._seen)) < 0:
            assert self._read(end), f"waited for {text!r}, saw:\n{self.shown[self._seen :]}"
        self._seen = at + len(text)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._master)
        self._master = os.open(os.devnull, os.O_RDWR)  # to be closed at the end

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for the end without looking; the exit code."""
        return self._process.wait(timeout)

    def end(self, timeout: float = PATIENCE) -> int:
        """Wait for the end; the exit code."""
        until = time.monotonic() + timeout
        while self._read(until):
            pass
        return self._process.wait(max(0.1, until - time.monotonic()))

    @property
    def shown(self) -> str:
        """What was written, without colours."""
        return ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    @property
    def coloured(self) -> bool:
        return "\x1b[" in self.raw


def shown(*words: str, cwd: Path, columns: int = 80, **env: str) -> Terminal:
    """Run a command that asks nothing, to its good end."""
    with Terminal(*words, cwd=cwd, columns=columns, env=env) as terminal:
        assert 0 == terminal.end(), terminal.shown
    return terminal
