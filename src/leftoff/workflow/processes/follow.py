"""Reading a log while it grows."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

MOST = 1 << 20  # read at once: however fast a log grows, that much is in memory
LONGEST = 1 << 16  # a line that is longer is given in pieces


class LogFollower:
    """Gives what was added to a file since the last call, in whole lines. The file need not exist yet."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def read(self, *, last: bool = False) -> str:
        """Whole lines, at most 1 MiB of them (call again until it is empty); with ``last`` an unfinished one, too."""
        if self._file is None:
            try:
                self._file = open(self.path, "rb")  # noqa: SIM115
            except OSError:
                return ""
        data = self._rest + self._file.read(MOST - len(self._rest))
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > LONGEST:
            cut = _between_characters(data)
        if last and len(data) < MOST:
            cut = len(data)
        self._rest = data[cut:]
        return data[:cut].decode("utf-8", "replace")

    def skip(self, most: int) -> int:
        """Leave out all but the last so many bytes of what is there; how many were left out."""
        if self._file is None:
            return 0
        at = self._file.tell()
        left = self._file.seek(0, 2) - at
        unseen = max(0, left - most)
        self._file.seek(at + unseen)
        if unseen:
            self._rest = b""
        return unseen

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> LogFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _between_characters(data: bytes) -> int:
    """Where to cut so that no character of UTF-8 is cut in two."""
    cut = len(data)
    while cut and len(data) - cut < 4 and data[cut - 1] & 0xC0 == 0x80:
        cut -= 1
    return cut - 1 if cut and data[cut - 1] >= 0xC0 else len(data)
