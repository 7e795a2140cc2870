"""What the services behind agents say when they refuse work for now, and for how long: read from their words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

# What a service says, and not what somebody says about a rate limiter that he was to write.
_LIMITED = re.compile(
    r"""\brate_limit\w*|\brateLimitExceeded|resource_exhausted|usage_limit_reached|overloaded_error
    | \brate[ -]?limited\b
    | \brate[ -]limits?\b [^.\n]{0,40} (?:reached|exceeded|hit|error|retry|try\ again|wait|reset)
    | (?:hit|reached|exceed\w*|over) [^.\n]{0,40} \b (?:rate|usage|session|weekly|[0-9]-hour|your) [ -] limits?\b
    | \b (?:usage|session|weekly|[0-9]-hour) \ limits?\b [^\n]{0,80} (?:reached|exceeded|hit|try\ again|reset)
    | \b (?:usage\ limit|quota) \b [^.\n]{0,40} (?:reached|exceeded|exhausted)
    | (?:exceed\w*|exhausted|out\ of) [^.\n]{0,40} \b quota \b
    | too\ many\ requests
    | (?:error|status|code|http|api) [^\n]{0,20} \b (?:429|529) \b
    | \A\W* (?:429|529) \b
    | \A\W* (?:rate[ -]limits?|overload(?:ed)?|quota|usage\ limits?) \W*\Z
    | (?:server|service|model|api|system|provider|currently|temporarily|503)\b [^.\n]{0,40} \b overload(?:ed)? \b
    | error:\ overloaded | at\ capacity
    """,
    re.IGNORECASE | re.VERBOSE,
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"\d+(?:\.\d+)?"
_PART = re.compile(rf"({_NUMBER})\s*(ms|milli|d|h|m|s)", re.IGNORECASE)
_LENGTH = rf"{_NUMBER}\s*(?:ms|milliseconds?|d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)\b"
_WAIT = re.compile(
    rf"(?:retry|try|again|wait|reset)\D{{0,30}}?({_LENGTH}(?:,?\s*(?:and\s+)?{_LENGTH})*)", re.IGNORECASE
)
_BARE = re.compile(
    rf"(?:retry[-_ ]?after|resets?_in|retry in|again in)(?:[-_](ms|seconds))?[\"']?\s*[:=]?\s*({_NUMBER})",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"(?:\||resets?_?at[\"']?\s*[:=]\s*)(\d{10})\b", re.IGNORECASE)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)")
_CLOCK = re.compile(
    r"(?:resets?|again)(?: at| on)?\s+(?:([a-z]{3})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?,?(?: (\d{4}),?)?(?: at)? )?"
    r"(\d{1,2})(?::(\d\d))?\s*(am|pm)(?:\s*\(([\w/+-]+)\))?",
    re.IGNORECASE,
)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DUE = timedelta(hours=2)  # a time of day that passed no longer ago is the one that was meant, not tomorrow's
_ONCE_MORE = 60.0  # seconds until a service is asked again whose time has come, and that still says no
_HALF_A_YEAR = timedelta(days=183)


def is_limit(text: str) -> bool:
    """Whether these are the words of a service that has too much to do, or of a plan that is used up."""
    return bool(_LIMITED.search(text))


def wait_told(text: str, now: float) -> float | None:
    """How many seconds to wait, where it is said: a length, a moment, a time of day. A bare number means seconds."""
    epoch = _EPOCH.search(text)
    if epoch:
        return max(1.0, float(epoch.group(1)) - now)
    length = _WAIT.search(text)
    if length:
        return sum(float(number) * _UNITS[_unit(unit)] for number, unit in _PART.findall(length.group(1)))
    bare = _BARE.search(text)
    if bare:
        return float(bare.group(2)) * (0.001 if (bare.group(1) or "").lower() == "ms" else 1.0)
    moment = _moment(text, now)
    if moment is None:
        return None
    return max(1.0, moment - now) if moment > now else _ONCE_MORE


def _unit(word: str) -> str:
    word = word.lower()
    return "ms" if word in ("ms", "milli") else word[0]


def _moment(text: str, now: float) -> float | None:
    """When it is over, in seconds since 1970."""
    stamp = _STAMP.search(text)
    try:
        if stamp:
            found = datetime.fromisoformat(stamp.group(1).replace("Z", "+00:00"))
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        clock = _CLOCK.search(text)
        return None if clock is None else _by_the_clock(clock, now)
    except (ValueError, KeyError, OSError):  # no such day, no such zone
        return None


def _by_the_clock(found: re.Match[str], now: float) -> float:
    """The moment that a time of day means, with or without a date."""
    month, day, year, hour, minute, half, zone = found.groups()
    here: tzinfo | None = ZoneInfo(zone) if zone else None
    today = datetime.fromtimestamp(now, here)
    at = today.replace(
        hour=int(hour) % 12 + (12 if half.lower() == "pm" else 0),
        minute=int(minute or 0),
        second=0,
        microsecond=0,
    )
    if month:
        at = at.replace(year=int(year or today.year), month=_MONTHS.index(month.lower()) + 1, day=int(day))
        if not year and today - at > _HALF_A_YEAR:
            at = at.replace(year=at.year + 1)
    elif (
        today - at > _DUE
    ):  # it has no seconds, and clocks differ: whoever comes in that minute is not a day early
        at += timedelta(days=1)
    elif at - today >= timedelta(days=1) - _DUE:  # it was before midnight
        at -= timedelta(days=1)
    return at.timestamp()
