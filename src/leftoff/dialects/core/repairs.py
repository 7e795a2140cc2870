"""What an importer says of a document: the repairs that reading it took, and why it was rejected."""

from __future__ import annotations

from contextlib import contextmanager

from leftoff.engine.redaction.credentials import MASK
from leftoff.errors import Invalid, LeftoffError, StoreUnavailable, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from leftoff.model.changes import Scrubber

    Reject = Callable[[str, LeftoffError], None]

LONGEST = 120  # characters of a value that are shown in a line
MOST_LINES = 200  # of one document; what more there is, is counted


class Rejected(Invalid):
    """A document that is none of ours, or too far from it to be read."""

    code = "invalid"
    default_hint = "Nothing of it was imported. `leftoff dialects` lists what is understood."


class Unknown(Rejected):
    """A document of no protocol. ``way``: what the reader of such files would read, and from where."""

    way: str | None = None


class TooNew(Unsupported):
    """A document in a version of its format that this leftoff does not know."""


class Repairs:
    """Lines, each of which says what was wrong and how it was read. The same line is said once."""

    def __init__(self, prefix: str = "") -> None:
        self._lines: dict[str, None] = {}
        self._more = 0
        self._hidden: list[str] = []
        self.prefix = prefix

    @property
    def lines(self) -> list[str]:
        return (
            [*self._lines, f"{self._more:,} more of this kind are not told."]
            if self._more
            else [*self._lines]
        )

    def add(self, line: str) -> None:
        if len(self._lines) >= MOST_LINES:
            self._more += 1
        else:
            self._lines[self.prefix + self._without_secrets(line)] = None

    def hide(self, document: object, scrubber: Scrubber | None) -> None:
        """Leave out of every line what is secret in a document, whatever it is called there."""
        if scrubber is not None:
            self._hidden += _secrets(document, scrubber.scrub("", document)[0])
            self._lines = (
                {self._without_secrets(line): None for line in self._lines} if self._hidden else self._lines
            )

    def _without_secrets(self, line: str) -> str:
        for secret in self._hidden:
            said = repr(secret)[1:-1]
            line = line.replace(said, MASK)
            before, cut, _ = line.partition(said[:16])  # it may be shown cut short
            line = f"{before}{MASK}…" if cut else line
        return line

    def __len__(self) -> int:
        return len(self._lines) + self._more


@contextmanager
def rejecting(path: str, reject: Reject) -> Iterator[None]:
    """What is wrong with one document is told, and the others go on; without a store nothing does."""
    try:
        yield
    except StoreUnavailable:
        raise
    except LeftoffError as error:
        reject(path, error)


def _secrets(value: Any, clean: Any) -> list[str]:
    """The texts that are not there any more in a document that was cleaned: what is clean is the same object still."""
    if value is clean:
        return []
    if isinstance(value, str):
        return [value] if len(value) > 3 else []
    if isinstance(value, dict):
        known = clean if isinstance(clean, dict) else {}
        return [text for key, item in dict.items(value) for text in _secrets(item, known.get(key))]
    if isinstance(value, list):
        items = clean if isinstance(clean, list) and len(clean) == len(value) else [None] * len(value)
        pairs = zip(list.__iter__(value), items, strict=True)
        return [text for pair in pairs for text in _secrets(*pair)]
    return []


def shown(value: object) -> str:
    """A value in a line of a report."""
    text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
