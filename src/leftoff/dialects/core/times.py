"""Times as people and agents write them, as milliseconds since 1970."""

from __future__ import annotations

import re
from calendar import monthrange, timegm

from leftoff.clock import iso
from leftoff.dialects.core.repairs import shown
from leftoff.model.times import DAY_MS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.repairs import Repairs

_FULL = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ]+(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"\s*(Z|z|UTC|GMT|[+-]\d\d:?\d\d)?\Z"
)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?\Z")
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)[-_](\d\d)(\d\d)(\d\d)\Z")
_EPOCH = (10**8, 10**10)  # seconds; a thousand times that, milliseconds
LAST = timegm((9999, 12, 31, 23, 59, 59)) * 1000


def read_time(value: Any, repairs: Repairs, where: str, day: int | None = None) -> int | None:
    """Milliseconds, or ``None`` where it is no time. ``day``: the one that a bare ``HH:MM`` is of."""
    if value is None or value == "":
        return None
    found: int | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        found = _epoch(value, repairs, where)
    elif isinstance(value, str):
        found = _text(value.strip(), repairs, where, day)
    if found is None:
        repairs.add(f"{where}: {shown(value)} is no time; kept as it is written.")
    return found


def _epoch(value: float, repairs: Repairs, where: str) -> int | None:
    for factor in (1000, 1):
        if _EPOCH[0] * 1000 <= value * factor < _EPOCH[1] * 1000:
            unit = "seconds" if factor == 1000 else "milliseconds"
            repairs.add(f"{where}: {shown(value)} is read as {unit} since 1970.")
            return int(value * factor)
    return None


def _text(text: str, repairs: Repairs, where: str, day: int | None) -> int | None:
    match = _FULL.match(text)
    if match is not None:
        return _full(text, match, repairs, where)
    match = _CLOCK.match(text)
    if match is not None and day is not None:
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        if hour < 24 and minute < 60 and second < 60:
            repairs.add(f"{where}: {shown(text)} has no date; read as of {iso(day)[:10]}, in UTC.")
            return day // DAY_MS * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000
    return None


def _full(text: str, match: re.Match[str], repairs: Repairs, where: str) -> int | None:
    year, month, dom = int(match[1]), int(match[2]), int(match[3])
    hour, minute, second = int(match[4] or 0), int(match[5] or 0), int(match[6] or 0)
    found = _millis(year, month, dom, hour, minute, second)
    if found is None:
        return None
    zone = match[8]
    if match[4] is None:
        repairs.add(f"{where}: {shown(text)} has no time of day; read as midnight, in UTC.")
    elif zone is None:
        repairs.add(f"{where}: {shown(text)} has no time zone; read as UTC.")
    elif match[6] is None or zone in ("UTC", "GMT"):
        repairs.add(f"{where}: {shown(text)} is no ISO-8601 time; read as {iso(found)}.")
    fraction = int((match[7] or "").ljust(3, "0")[:3])
    moved = found + fraction - _offset(zone)
    return moved if 0 <= moved <= LAST else None


def _offset(zone: str | None) -> int:
    """Milliseconds that a zone is ahead of UTC."""
    if zone is None or zone[0] not in "+-":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (minutes if zone[0] == "+" else -minutes) * 60_000


def _millis(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int | None:
    if not (1970 <= year and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    return timegm((year, month, day, hour, minute, min(second, 59))) * 1000


def read_stamp(text: str) -> int | None:
    """The time in an id: ``20260227-143022`` or ``20251003_184530``."""
    match = _STAMP.match(text)
    return _millis(*map(int, match.groups())) if match is not None else None
