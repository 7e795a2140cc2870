"""What a step printed, made fit to be shown: read in blocks, and without secrets.

A log may be of any size and hold any bytes, so it is never read whole. It was redacted when it was written; it is once
more when it is shown, by the rules of today.
"""

from __future__ import annotations

from leftoff.files import open_below
from leftoff.store.rows import ATTEMPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.engine.redaction.redactor import Redactor

BLOCK = 1 << 18
LONGEST = 1 << 20  # of a line that is kept together


class LogFile:
    """A log that may still be written: what was added since the last look, in whole lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._at = 0
        self._rest = b""

    def skip_to(self, most: int) -> int:
        """Leave out all but the last so many bytes; how many were left out."""
        import os

        try:
            self._at = max(0, os.stat(self.path).st_size - most)
        except OSError:
            self._at = 0
        return self._at

    def read(self, *, ended: bool) -> Iterator[bytes]:
        """Blocks that end with a line; what comes behind the last end of line only where nothing more will."""
        try:
            file = open(open_below(self.path, ATTEMPTS), "rb")  # noqa: SIM115 - closed below, whoever stops reading
        except (FileNotFoundError, NotADirectoryError):
            return
        with file:
            file.seek(self._at)
            while block := file.read(BLOCK):
                self._at += len(block)
                block = self._rest + block
                cut = block.rfind(b"\n") + 1
                if not cut and len(block) >= LONGEST:
                    cut = len(block)
                self._rest = block[cut:]
                if cut:
                    yield block[:cut]
        if ended and self._rest:
            block, self._rest = self._rest, b""
            yield block


def without_secrets(block: bytes, redactor: Redactor) -> bytes:
    """The same object where there is nothing to hide."""
    text = block.decode("utf-8", "surrogateescape")
    if not redactor.suspicious("", text):
        return block
    if "PRIVATE KEY" in text:  # the one kind that has several lines
        text = redactor.mask(text)
    return "\n".join(map(redactor.mask, text.split("\n"))).encode("utf-8", "surrogateescape")


def shown(block: bytes) -> str:
    """Text for JSON and for terminals, whatever the bytes are."""
    return block.decode("utf-8", "backslashreplace")
