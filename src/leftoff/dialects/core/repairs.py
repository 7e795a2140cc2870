"""What an importer says of a document: the repairs that reading it took, and why it was rejected."""

from __future__ import annotations

from contextlib import contextmanager

from leftoff.errors import Invalid, LeftoffError, StoreUnavailable, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reject = Callable[[str, LeftoffError], None]

LONGEST = 120  # characters of a value that are shown in a line


class Rejected(Invalid):
    """A document that is none of ours, or too far from it to be read."""

    code = "invalid"
    default_hint = "Nothing of it was imported. `leftoff dialects` lists what is understood."


class TooNew(Unsupported):
    """A document in a version of its format that this leftoff does not know."""


class Repairs:
    """Lines, each of which says what was wrong and how it was read. The same line is said once."""

    def __init__(self, prefix: str = "") -> None:
        self._lines: dict[str, None] = {}
        self.prefix = prefix

    @property
    def lines(self) -> list[str]:
        return list(self._lines)

    def add(self, line: str) -> None:
        self._lines[self.prefix + line] = None

    def __len__(self) -> int:
        return len(self._lines)


@contextmanager
def rejecting(path: str, reject: Reject) -> Iterator[None]:
    """What is wrong with one document is told, and the others go on; without a store nothing does."""
    try:
        yield
    except StoreUnavailable:
        raise
    except LeftoffError as error:
        reject(path, error)


def shown(value: object) -> str:
    """A value in a line of a report."""
    text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
