"""A command's output, on its way from a pipe into its log file. A disk that is full loses output, never the command."""

from __future__ import annotations

import os
from time import monotonic

from leftoff.workflow.processes.redacting_stream import Censor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leftoff.workflow.processes.redacting_stream import Masks

SILENCE_S = 1.0  # so long an unfinished line waits for its end


class Log:
    """Appends to a file, which is made for the first line of it.

    What cannot be written is counted, and said at the end where that is possible.
    """

    def __init__(self, path: str, redactor: Masks | None, secrets: Iterable[bytes]) -> None:
        self._censor = Censor(redactor, secrets)
        self._lost = 0
        self._why = ""
        self.due: float | None = None  # when what is held back is to be written
        self._path = path
        self._fd = -1

    def add(self, data: bytes) -> None:
        out = self._censored(self._censor.feed, data)
        if out:
            self._write(out)
        if not self._censor.pending:
            self.due = None
        elif out or self.due is None:
            self.due = monotonic() + SILENCE_S

    def flush(self) -> None:
        """Write what there is of an unfinished line."""
        self.due = None
        self._write(self._censored(self._censor.pause))

    def note(self, line: str) -> None:
        """A line of our own."""
        self._write(self._censored(self._censor.end))
        self._write(f"leftoff: {line}\n".encode("utf-8", "replace"))

    def close(self) -> None:
        self._write(self._censored(self._censor.end))
        if self._lost:
            self.note(f"{self._lost} bytes of output are missing here: {self._why}")
        if self._fd >= 0:
            os.close(self._fd)

    def _censored(self, step: Callable[..., bytes], *data: bytes) -> bytes:
        """Nothing is shown that could not be looked at; and what goes wrong with that is not the command's fault."""
        try:
            return step(*data)
        except Exception as error:
            self._censor.clear()
            return f"leftoff: output is withheld here, it could not be redacted: {error!r}\n".encode()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            if view and self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._why = error.strerror or str(error)
        self._lost += len(view)
