"""What others wrote, as it goes into an agent's context: quoted, as data, and said where it comes from.

A title, a note, an issue's text or an imported document may have been written by anybody, also to be read by an agent
as if its user had said it. So each such text is one line between quotation marks that it cannot close, cut in length,
without control characters, and without what an agent might take for framing of its own: tags such as ``<system>`` or
``</hook_context>`` lose their bracket. Whatever an agent is told goes through here, whichever face tells it.
"""

from __future__ import annotations

from leftoff.model.codec import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

LINE = 300  # characters of one fact
FROM = "from"  # of a fact beside a run: the bundle that brought it
_WORD, _IN_WORDS = 100, "._-:+@#/~[]"  # how long a name is that needs no marks, and what may stand in it
_MARKS = str.maketrans("“”", '""')
# Letters and marks that nobody sees: blank ones, and selectors of variants, which can carry a text of their own.
_BLANK = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)
_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_UNSEEN = dict.fromkeys((*_BLANK, *_SELECTORS))


def tame(words: str) -> str:
    """Without control characters, what nobody sees, and tags; lines stay lines."""
    if not words.isascii():
        words = words.translate(_UNSEEN)
    if not words.isprintable():
        words = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in words)
    if "<" not in words and "[" not in words:
        return words
    ends = zip(words, words[1:] + " ", strict=True)
    words = "".join("‹" if char == "<" and _opens(after) else char for char, after in ends)
    return words.replace("[INST]", "(INST)").replace("[/INST]", "(/INST)")


def _opens(char: str) -> bool:
    """Whether a bracket before this would be that of a tag."""
    return char.isalpha() or char in "/!?|<_"


def short(value: str, most: int = LINE) -> str:
    """On one line, with what was cut off counted."""
    line = " ".join(value.split())
    return line if len(line) <= most else f"{line[:most]}… ({len(line):,} characters)"


def named(value: Any, most: int = LINE) -> str:
    """A name, or what leftoff itself says of something: one line, without marks."""
    return tame(short(value, most) if isinstance(value, str) else shown(value, most))


def word(value: Any) -> str:
    """A name, a kind or a time as it is, if it is one word of such; else what somebody wrote, and quoted."""
    line = str(value)
    plain = len(line) <= _WORD and all(char.isalnum() or char in _IN_WORDS for char in line)
    return line if plain and tame(line) == line else quoted(value)


def quoted(value: Any, most: int = LINE) -> str:
    """What somebody wrote: one line, between marks."""
    return f"“{named(value, most).translate(_MARKS)}”"


def shown(value: Any, most: int = LINE) -> str:
    """A value as JSON on one line; what was redacted says so."""
    return short(text(_marked(value)), most)


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        if value == {"redacted": True}:
            return "[redacted]"
        return {key: _marked(item) for key, item in dict.items(value)}
    return [_marked(item) for item in list.__iter__(value)] if isinstance(value, list) else value


def note_bundle(name: str) -> Callable[[Tx, int, str], None]:
    """What notes beside a run, in a transaction, that it came from a bundle."""
    return lambda tx, run, run_id: tx.put_fact(f"{FROM} {run}", name)


def source_of(view: View, row: RunRow) -> str:
    """Return where an imported run came from; empty if it was started here."""
    bundle = view.fact(f"{FROM} {row.run}")
    return f"the bundle {word(bundle)}" if bundle else origin(row.card)


def origin(facts: Mapping[str, Any]) -> str:
    """The document that a run was imported from, as its own record or its card says."""
    found = facts.get("imported")
    if not isinstance(found, dict):
        return ""
    return f"the file {word(found.get('path'))} ({word(found.get('dialect'))})"
