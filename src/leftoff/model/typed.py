"""What a word of a command line means as a value: ``K=V``.

The rule is that a value prints back as it was typed. So ``true``, ``false``, ``null`` and JSON containers are what
they say, a number is one only where it is written as leftoff would write it, and everything else is text:
``tag=1.10``, ``sha=1e5``, ``zip=007`` and ``name="x"`` lose nothing. ``K:=JSON`` says what is meant, ``K=@FILE`` takes
the value from a file, by the same rule, except that text is taken with every blank and newline that is in it.
"""

from __future__ import annotations

from leftoff.errors import Usage
from leftoff.model.codec import decode, encode, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LITERALS = {"true": True, "false": False, "null": None}
_NUMBER = "-0123456789"
MOST_BYTES = 64 << 20  # of a file that a value is taken from
TEXT, JSON, FILE = "text", "json", "file"


def typed(word: str) -> Any:
    """The value that a word stands for."""
    if word in _LITERALS:
        return _LITERALS[word]
    first = word.lstrip(" \t\r\n")[:1]
    if first and first in "[{":
        return _container(word)
    if word[:1] and word[0] in _NUMBER:
        return _number(word)
    return word


def _container(word: str) -> Any:
    """A list or an object; text that only starts like one stays text."""
    try:
        value = decode(word)
    except ValueError:
        return word
    return kept(value, "The value")


def _number(word: str) -> Any:
    try:
        value = decode(word)
        return value if text(value) == word else word
    except ValueError:  # no number, or one that cannot be written
        return word


def kept(value: Any, what: str) -> Any:
    """A value that the store can keep: no infinity, no half of a surrogate pair, no bottomless depth."""
    try:
        encode(value, what)
    except ValueError as error:
        raise Usage(getattr(error, "message", str(error)), hint=getattr(error, "hint", "")) from None
    return value


def json_value(word: str, what: str) -> Any:
    """A value that must be JSON; ``what`` names it where it is not."""
    try:
        value = decode(word)
    except ValueError as error:
        why = str(error)
        shown = word if len(word) <= 60 else word[:60] + "…"
        raise Usage(
            f"{what} is not JSON: {shown!r}" + (f" ({why})." if why != "not JSON" else "."),
            hint="""Text needs its own quotes: '"text"'. Lists and objects: '[1, 2]', '{"a": 1}'.""",
        ) from None
    return kept(value, what)


def from_file(content: str) -> Any:
    """The value of a file: a literal, number or container however it is padded, else the text as it is."""
    inner = content.strip(" \t\r\n")
    value = typed(inner)
    return content if value is inner else value


def split(word: str) -> tuple[str, str, str]:
    """Key, kind of value (``text``, ``json`` or ``file``) and value of ``K=V``, ``K:=JSON`` or ``K=@FILE``."""
    key, mark, value = word.partition("=")
    kind = TEXT
    if key.endswith(":"):
        key, kind = key[:-1], JSON
    elif value.startswith("@"):
        value, kind = value[1:], FILE
    if not mark or not key:
        raise Usage(
            f"{word[:80]!r} is not K=V.", hint="For example: count=3 · name=Ada · n:=1.10 · plan=@plan.md"
        )
    return key, kind, value
