"""How one life of an agent's process went, and what the service behind it said: whether to wait, and for how long."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from leftoff.engine.quoting import without_escapes

_REFUSED = re.compile(
    r"no conversation found|no rollout found|rollout \S+ is empty|no recorded session"
    r"|(?:session|thread|conversation)\b[^\n]{0,80}\b(?:not found|not loaded|does not exist|is gone)"
    r"|invalid session|no (?:previous |saved )?sessions? found|unknown (?:session|thread)",
    re.IGNORECASE,
)
_OUT_OF_REACH = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONN\w+|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|getaddrinfo|fetch failed|network|offline"
    r"|connection (?:error|refused|reset|closed)|unable to connect|could not resolve|timed? ?out|\bdns\b|\b50[234]\b",
    re.IGNORECASE,
)
MISUSED = re.compile(
    r"^error: (?:option|unknown|unexpected|unrecognized|invalid|the argument|a value is required)"
    r"|^(?:Invalid values|Unknown arguments?|Not enough arguments):?",
    re.IGNORECASE | re.MULTILINE,
)
_WORKER_KILLED = 1  # of Gemini, if the process that does its work was killed
_BY_SIGNAL = 128  # exit codes from here on say that a signal ended it


class Outcome:
    """What is known of one life of an agent's process so far. An adapter fills it from the lines."""

    def __init__(self) -> None:
        self.session: str | None = None
        self.begun = False  # it said what only a session says that is there
        self.worked = False  # the model said or did something
        self.ended = False  # it said how it ended
        self.ok = False
        self.sure = True  # what it said last holds, even if it was killed afterwards
        self.last_words = False  # nothing that it does by itself comes after its word of success
        self.text = ""
        self.shown: list[str] = []  # what it printed last for people
        self.subtype = ""
        self.error = ""
        self.warned = ""  # on stderr, at last
        self.rejected = False  # the service said "not now", in a line of its own
        self.until: float | None = None  # when it will not any more, in seconds since 1970
        self.cost: float | None = None  # of this life
        self.total: float | None = None  # of its session in all its lives, where that is what it says
        self.turns: int | None = None
        self.seen: set[str] = set()  # what was counted already

    def close(self, code: int) -> None:
        """Note that its process has ended. What it said last is how, unless a kill may have cut that short."""
        self.warned = without_escapes(self.warned)
        if code < 0 and not self.sure:
            self.ended = self.ok = False
        elif not self.ended and self.error and 0 <= code < _BY_SIGNAL:
            self.ended = True

    def done(self, code: int) -> bool:
        """Return whether it did what it was asked.

        A word of success counts also if the process was killed afterwards, but not if it then failed by itself.
        """
        return self.ok and (code <= 0 or (self.last_words and code == _WORKER_KILLED))

    @property
    def said(self) -> str:
        """Why it failed, in its own words, or else what it printed last on stderr."""
        return self.error or (self.warned if not self.ended else "")

    @property
    def limited(self) -> bool:
        """Whether the service refused work for now."""
        return not self.ok and (self.rejected or is_limit(self.subtype) or is_limit(self.said))

    @property
    def refused(self) -> bool:
        """Whether the session that was to be resumed does not exist any more."""
        if self.worked or self.ok:
            return False
        words = f"{self.error}\n{self.warned}"
        return bool(_REFUSED.search(words)) or (self.ended and not self.begun and not self.out_of_reach)

    @property
    def out_of_reach(self) -> bool:
        """Whether the service cannot be reached, whichever session is asked for."""
        return bool(_OUT_OF_REACH.search(f"{self.error}\n{self.warned}"))

    def misused(self, code: int, misuses: tuple[int, ...]) -> bool:
        """Whether it did not even begin, for a reason that remains. ``misuses``: the agent's exit codes for that."""
        if self.begun or self.limited or self.out_of_reach or not 0 < code < _BY_SIGNAL:
            return False
        return code in misuses or bool(MISUSED.search(self.warned))

    def wait(self, now: float) -> float | None:
        """Return how many seconds to wait, if it said so."""
        return max(1.0, self.until - now) if self.until else wait_told(self.said, now)

    def count(self, what: object) -> None:
        """Count a turn, unless this one was counted."""
        if what is None or str(what) not in self.seen:
            self.turns = (self.turns or 0) + 1
            self.seen.add(str(what))

    def fail(self, error: str) -> None:
        """Note that it said that it failed, and why."""
        self.ended, self.ok, self.error = True, False, error or self.error or "it failed"


# -- rate limits

# What a service says, and not what a model says about a rate limiter that it works on.
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
    """Return whether these are the words of a service that is overloaded, or of a plan that is used up."""
    return bool(_LIMITED.search(text))


def wait_told(text: str, now: float) -> float | None:
    """Return how many seconds to wait, if that is said. A bare number means seconds."""
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
    """Return when the wait is over, in seconds since 1970."""
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
    """Return the moment that a time of day means, with or without a date."""
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
