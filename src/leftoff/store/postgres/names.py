"""Names that PostgreSQL can hold: an index takes some 2,700 bytes, a key of ours up to 4,096 characters; and no NUL.

A name over ``SHORT`` characters is cut, with its hash behind it, and the whole of it is kept beside it. So cut names
are unique, and sort as the whole ones do up to where they were cut.
"""

from __future__ import annotations

from leftoff.model.codec import sha256

MOST_TOLD = 50  # runs that one transaction names
SHORT, KEPT = 500, 470
_LAST = "\U0010ffff" * 20  # behind all that starts alike
_NUL = "␀"


def cut(name: str) -> str:
    """What the index has."""
    if len(name) <= SHORT:
        return name
    return f"{name[:KEPT]}\x01{sha256(name.encode()).hexdigest()}"


def whole(name: str) -> str | None:
    """The whole name, where it was cut."""
    return name if len(name) > SHORT else None


def low_bound(name: str) -> str:
    """No name from this one on is cut to less."""
    return name if len(name) <= KEPT else name[:KEPT]


def high_bound(name: str | None) -> str | None:
    """No name before this one is cut to this or more."""
    return name if name is None or len(name) <= KEPT else name[:KEPT] + _LAST


def plain(text: str | None) -> str | None:
    """A text for a column: PostgreSQL knows no NUL. The record itself, which is bytes, keeps it."""
    return text.replace("\0", _NUL) if text is not None and "\0" in text else text


def told(xid: str | None, runs: dict[str, int]) -> list[str]:
    """What those hear who watch: which transaction, if that is known; of each run its newest version and id; of many,
    nothing more."""
    who = xid or "-"
    return [f"{who} {seq} {run_id}" for run_id, seq in runs.items()] if len(runs) <= MOST_TOLD else [who]
