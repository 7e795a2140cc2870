"""Read values as people and agents write them: status words, times, versions. Each repair is a line in the report."""

from __future__ import annotations

import re
from calendar import monthrange, timegm
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from leftoff.clock import DAY_MS, iso
from leftoff.engine.redactor import Redactor
from leftoff.errors import Invalid, LeftoffError, StoreUnavailable, Unsupported
from leftoff.model.words import RUN_STATUS, STEP_STATUS

Reject = Callable[[str, LeftoffError], None]

LONGEST = 120  # characters of a value that are shown in a line


class Rejected(Invalid):
    """The document does not belong to the protocol, or is too damaged to be read."""

    code = "invalid"
    default_hint = "Nothing of it was imported. `leftoff protocols` lists what is understood."


class TooNew(Unsupported):
    """The document has a newer format version than this leftoff knows."""


class Repairs:
    """The lines that say what was wrong in a document and how it was read. Equal lines are stored once."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    @property
    def lines(self) -> list[str]:
        return list(self._lines)

    def add(self, line: str) -> None:
        self._lines[line] = None


@contextmanager
def rejecting(path: str, reject: Reject) -> Iterator[None]:
    """Report an error of one document and continue with the others. An unavailable store ends the import."""
    try:
        yield
    except StoreUnavailable:
        raise
    except LeftoffError as error:
        reject(path, error)


def shown_value(value: object) -> str:
    """Return a value as a line of the report shows it."""
    text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def shown_under(key: object, value: object) -> str:
    """Return the value of a key as a line of the report shows it, unless it is a secret by its name."""
    return shown_value(Redactor().scrub(str(key), value)[0])


def version_numbers(given: Any) -> list[int] | None:
    """Return `2.1` as numbers, or ``None`` if it is not a version."""
    parts = str(given).split(".")
    return [*map(int, parts)] if all(p.isascii() and p.isdigit() and len(p) < 6 for p in parts) else None


# -- status words

# Words that people write besides those of the protocols.
_LOOSE = {
    "completed": "complete completed done finished success successful succeeded passed pass ok ✓ ✔ ✅ ☑",
    "running": "in_progress running active started ongoing wip working current alive 🔄 🚧 ▶ 🏃",
    "pending": "pending todo open planned queued new ready not_started waiting ⏳ ⬜ ☐ 🕐",
    "failed": "failed fail failure error errored broken ❌ ✗ ✘ 💥",
    "blocked": "blocked stuck on_hold hold 🚫 ⛔ 🛑",
    "skipped": "skipped skip ⏭",
    "paused": "paused pause suspended interrupted ⏸",
    "abandoned": "abandoned cancelled canceled aborted dropped",
}
_MEANING = {word: ours for ours, words in _LOOSE.items() for word in words.split()}
_SIGNS = frozenset(word for word in _MEANING if not word.isascii())
_NO_SIGNS = str.maketrans(dict.fromkeys([*_SIGNS, *"*`.,:;!?()[]{}<>/|~=+\"'"], " "))
_NOT = ("not", "never", "no", "without")  # the word after one of these does not count


def meaning(word: Any) -> str | None:
    """Return our status for a word in any spelling, or ``None``. A known word counts more than an emoji."""
    if not isinstance(word, str):
        return None
    plain = word.replace("\ufe0f", "").lower().replace("-", "_")
    parts = [part for each in plain.translate(_NO_SIGNS).split() if (part := each.strip("_"))]
    for first, second in zip(parts, [*parts[1:], ""], strict=False):
        found = _MEANING.get(f"{first}_{second}") or _MEANING.get(first)
        if found is not None or first.partition("_")[0] in _NOT:
            return found
    return next((_MEANING[sign] for sign in plain if sign in _SIGNS), None)


class Words:
    """The status words of a protocol: ``write`` maps our words to its own, ``also`` are its further words. If

    the protocol writes one word for several of leftoff's, the first of them is what the word is read as.
    """

    def __init__(
        self, ours: tuple[str, ...], loose: dict[str, str], write: dict[str, str], also: dict[str, str]
    ) -> None:
        self._write = {word: word for word in ours} | write
        self._loose = loose
        self._read = {theirs: word for word, theirs in reversed(self._write.items())} | also

    def read(self, word: Any, default: str, repairs: Repairs, where: str) -> str:
        """Return our word. A word that the protocol does not have is read by its meaning, and reported."""
        if isinstance(word, str) and word in self._read:
            return self._read[word]
        found = meaning(word)
        ours = self._loose.get(found, found) if found is not None else None
        if ours is None or ours not in self._write:
            if word is not None:
                said = shown_under(where, word)
                repairs.add(f"{where}: the status {said} is unknown; read as {self.write(default)}.")
            return default
        repairs.add(f"{where}: the status {shown_value(word)} is read as {self.write(ours)}.")
        return ours

    def write(self, ours: str) -> str:
        return self._write.get(ours, ours)


def step_words(write: dict[str, str], also: dict[str, str] | None = None) -> Words:
    return Words(STEP_STATUS, {"paused": "pending", "abandoned": "skipped"}, write, also or {})


def run_words(write: dict[str, str], also: dict[str, str] | None = None) -> Words:
    return Words(RUN_STATUS, {"pending": "paused", "skipped": "abandoned"}, write, also or {})


# -- times

_FULL = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ]+(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"\s*(Z|z|UTC|GMT|[+-]\d\d:?\d\d)?\Z"
)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?\Z")
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)[-_](\d\d)(\d\d)(\d\d)\Z")
_EPOCH = (10**8, 10**10)  # seconds; milliseconds are a thousand times that
_LAST = timegm((9999, 12, 31, 23, 59, 59)) * 1000


def read_time(value: Any, repairs: Repairs, where: str, day: int | None = None) -> int | None:
    """Return milliseconds since 1970, or ``None`` if it is not a time. ``day``: the day of a bare ``HH:MM``."""
    if value is None or value == "":
        return None
    found: int | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for factor, unit in ((1000, "seconds"), (1, "milliseconds")):
            if found is None and _EPOCH[0] * 1000 <= value * factor < _EPOCH[1] * 1000:
                repairs.add(f"{where}: {shown_value(value)} is read as {unit} since 1970.")
                found = int(value * factor)
    elif isinstance(value, str):
        text = value.strip()
        full, clock = _FULL.match(text), _CLOCK.match(text)
        if full is not None:
            found = _full_time(text, full, repairs, where)
        elif clock is not None and day is not None:
            since = _millis(1970, 1, 1, int(clock[1]), int(clock[2]), int(clock[3] or 0))
            if since is not None:
                repairs.add(f"{where}: {shown_value(text)} has no date; read as of {iso(day)[:10]}, in UTC.")
                found = day // DAY_MS * DAY_MS + since
    if found is None:
        repairs.add(f"{where}: {shown_value(value)} is no time; kept as it is written.")
    return found


def _full_time(text: str, match: re.Match[str], repairs: Repairs, where: str) -> int | None:
    found = _millis(*(int(match[n] or 0) for n in range(1, 7)))
    if found is None:
        return None
    zone, ahead = match[8], 0
    if match[4] is None:
        repairs.add(f"{where}: {shown_value(text)} has no time of day; read as midnight, in UTC.")
    elif zone is None:
        repairs.add(f"{where}: {shown_value(text)} has no time zone; read as UTC.")
    elif match[6] is None or zone in ("UTC", "GMT"):
        repairs.add(f"{where}: {shown_value(text)} is no ISO-8601 time; read as {iso(found)}.")
    if zone is not None and zone[0] in "+-":
        ahead = (int(zone[1:3]) * 60 + int(zone[-2:])) * (60_000 if zone[0] == "+" else -60_000)
    moved = found + int((match[7] or "").ljust(3, "0")[:3]) - ahead
    return moved if 0 <= moved <= _LAST else None


def _millis(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int | None:
    if not (1970 <= year and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    return timegm((year, month, day, hour, minute, min(second, 59))) * 1000


def read_stamp(text: str) -> int | None:
    """Return the time in an id: ``20260227-143022`` or ``20251003_184530``."""
    match = _STAMP.match(text)
    return _millis(*map(int, match.groups())) if match is not None else None
