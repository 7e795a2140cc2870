"""The one place where errors of PostgreSQL and its driver become ours: each says what is wrong and what to do.

A server tells what happened by a code of five characters. Before a connection is made there is only its text, in which
the words of a restart are looked for. No text leaves without being cleared of the password.
"""

from __future__ import annotations

import psycopg

from leftoff.errors import Corrupt, Invalid, LeftoffError, StoreUnavailable, Unsupported, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.server_location import Place

SAFE = "Nothing was changed. What was committed before is safe."
CONNECTION = "08"  # starts the codes of a connection that failed
#: what passes by itself: serialisation, deadlock; somebody took the id or the bytes that were just looked at
AGAIN = frozenset({"40001", "40P01", "23505", "23503"})
#: the server goes down, comes up, or ended the connection
RESTARTS = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})
FULL = "53300"  # it takes no more connections, for now: also one of ours may be given back

_BY_CODE = {
    "53100": ("The disk of {where} is full.", f"{SAFE} Free some space on the server, then try again."),
    "53200": ("{where} is out of memory.", SAFE),
    FULL: (
        "{where} takes no more connections.",
        "Raise max_connections there, or end what holds them.",
    ),
    "25006": (
        "{where} is read-only: a standby, a server after a failover, or set so (default_transaction_read_only).",
        f"{SAFE} Name the server that takes writes (libpq: target_session_attrs=read-write), or wait until it does.",
    ),
    "55P03": (
        "Another process has been writing to the same run of {where} for too long.",
        f"{SAFE} `leftoff status` says who drives it. LEFTOFF_LOCK_TIMEOUT waits longer.",
    ),
    "57014": ("{where} ended a query that took too long.", f"{SAFE} Its statement_timeout may be too short."),
    "42501": (
        "The user of {where} may not do that: {text}",
        f"{SAFE} docs/postgres.md lists the grants that each role needs.",
    ),
}
#: words of a text that came before a connection was made, and the code that says the same
_BY_TEXT = {
    "too many clients": FULL,
    "too many connections": FULL,
    "remaining connection slots": FULL,
    "starting up": "57P03",
    "shutting down": "57P03",
    "in recovery mode": "57P03",
    "not yet accepting connections": "57P03",
}
#: start the codes of resources that are short, of the server's system, of its bugs, of statements that a pooler forgot
_TROUBLE = ("53", "58", "XX", "26", "42P05")
_TLS = ("certificate", "SSL", "ssl")
#: begin what libpq says of an option, before anything was sent
_WRONG = ("invalid ", "definition of service", "service file")
#: words that a server answers to `options` that it cannot take, before a connection stands
_WRONG_THERE = (
    "unrecognized configuration parameter",
    "invalid value for parameter",
    "invalid command-line argument",
    "requires a value",
    "cannot be changed",
    "permission denied to set parameter",
)


def code_of(error: psycopg.Error) -> str:
    """Return the server's code. If there is none yet, return what the text says."""
    if error.sqlstate:
        return error.sqlstate
    text = str(error).rpartition("FATAL:")[2]
    return next((code for words, code in _BY_TEXT.items() if words in text), "")


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection is gone, or will be, or there was none: the same may succeed on another one."""
    code = code_of(error)
    if not code:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return code in RESTARTS or code == FULL or code.startswith(CONNECTION)


def translate(error: BaseException, place: Place) -> LeftoffError:
    """The typed error for a failure of the driver or the server."""
    if isinstance(error, LeftoffError):
        return error
    if not isinstance(error, psycopg.Error):
        raise error
    code, text = code_of(error), place.clean(_first_line(error))
    if code in _BY_CODE:
        message, hint = _BY_CODE[code]
        return _unavailable(message.format(where=place.name, text=text), hint, code != "42501")
    if code in ("XX001", "XX002"):
        return Corrupt(f"{place.name} is damaged: {text}", where=place.name)
    if code in ("42P01", "42703", "42883", "3F000"):
        return Unsupported(
            f"{place.name} has another layout than this leftoff knows: {text}",
            hint="`leftoff store migrate` brings an older one up to date, for all who use it.",
        )
    if code == "54000":
        return Invalid(f"A name is too long for {place.name}: {text}")
    if code in AGAIN:
        return _unavailable(
            f"{place.name} is too busy: others always were faster.", f"{SAFE} Try again.", True
        )
    if not code and (isinstance(error, psycopg.ProgrammingError) or _is_wrong(text)):
        return Usage(
            f"The URL of {place.name} is wrong: {text}", hint="docs/postgres.md says what it may contain."
        )
    if is_lost(error):
        return _out_of_reach(place, code, text)
    if code.startswith(_TROUBLE):
        return _unavailable(f"{place.name} has trouble: {text}", f"{SAFE} Its log says more.", True)
    raise error


def _is_wrong(text: str) -> bool:
    """Whether it is about what was asked for: by libpq, or by the server."""
    refused = text.partition("FATAL:")[2]
    return text.startswith(_WRONG) or any(words in refused for words in _WRONG_THERE)


def unheard(place: Place, error: LeftoffError) -> StoreUnavailable:
    """Of a commit whose answer was lost, where what became of it cannot be found out either."""
    return StoreUnavailable(
        f"{place.name} did not say whether it made the last change: {error.message}",
        hint="That is not known. Look when it is back (`leftoff status`) before you do it again; a program that drives "
        "the run finds out by itself.",
    )


def _out_of_reach(place: Place, code: str, text: str) -> StoreUnavailable:
    if code in RESTARTS:
        return _unavailable(
            f"{place.name} is being restarted: {text}", f"{SAFE} Try again in a moment.", True
        )
    is_refused = "FATAL" in text or any(word in text for word in _TLS)
    return _unavailable(
        f"{place.name} is out of reach: {text}",
        f"{SAFE} Check that the server runs, and that the URL, the user, the password (PGPASSWORD, ~/.pgpass) and the "
        "TLS settings are right: docs/postgres.md.",
        not is_refused,
    )


def _unavailable(message: str, hint: str, retry: bool) -> StoreUnavailable:
    error = StoreUnavailable(message, hint=hint)
    error.retry = retry
    return error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text.removeprefix("connection failed: ").removeprefix("connection is bad: ")
