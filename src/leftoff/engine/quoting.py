"""Quote text of others for an agent's context: as data, with its source.

Anyone may have written a title, a note, an issue's text or an imported document, also to be read by an agent as if its
user had said it. So each such text is one line between quotation marks that it cannot close, cut in length, without
control characters, and without anything that an agent might take for framing: tags such as ``<system>`` or
``</hook_context>`` lose their bracket. Every face passes what it tells an agent through here.
"""

from __future__ import annotations

from typing import Any

from leftoff.model.codec import text
from leftoff.store.base import View
from leftoff.store.rows import RunRow

LINE = 300  # characters of one fact
FROM = "from"  # in the name of a fact about a run: the bundle that brought it
_WORD, _IN_WORDS = 100, "._-:+@#/~[]"  # how long a name without marks is, and which signs it may contain
_MARKS = str.maketrans("“”", '""')
# Letters and marks that are invisible: blank ones, and selectors of variants, which can carry hidden text.
_BLANK = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)
_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_UNSEEN = dict.fromkeys((*_BLANK, *_SELECTORS))
_ESCAPES = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and its like: titles, links
    r"|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)


def without_escapes(text: str) -> str:
    """Return text without the sequences that colour a terminal, move its cursor or set its title."""
    if "\x1b" not in text and "\x9b" not in text:
        return text
    import re  # slow to import

    return re.sub(_ESCAPES, "", text)


def tame(words: str) -> str:
    """Return text without control characters, invisible characters and tags; lines stay lines."""
    if not words.isascii():
        words = words.translate(_UNSEEN)
    if not words.isprintable():
        words = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in words)
    if "<" not in words and "[" not in words:
        return words
    ends = zip(words, words[1:] + " ", strict=True)
    words = "".join(
        "‹" if char == "<" and (after.isalpha() or after in "/!?|<_") else char for char, after in ends
    )
    return words.replace("[INST]", "(INST)").replace("[/INST]", "(/INST)")


def short(value: str, most: int = LINE) -> str:
    """Return one line, cut to so many characters, with the number of all."""
    line = " ".join(value.split())
    return line if len(line) <= most else f"{line[:most]}… ({len(line):,} characters)"


def ends(value: str, most: int, tail: float = 0.5) -> str:
    """Return one line, cut to so many characters in its middle. ``tail``: the share of its end."""
    return both_ends(" ".join(value.split()), most, tail)


def both_ends(text: str, most: int, tail: float = 0.5) -> str:
    """Return a text, cut to so many characters in its middle. ``tail``: the share of its end."""
    last = int((most - 3) * tail)
    return text if len(text) <= most else f"{text[: most - 3 - last]} … {text[len(text) - last :]}"


_FAULTS = ("error", "fail", "assert", "exception", "panic", "fatal", "expected", "not found", "denied")


def fault_lines(output: str) -> str:
    """Return the lines of a command's output that name a fault; empty if none does."""
    lines = (line.strip() for line in output.splitlines())
    return "\n".join(dict.fromkeys(line for line in lines if any(mark in line.lower() for mark in _FAULTS)))


def telling_part(output: str, most: int) -> str:
    """Return what says most of a command's output: all of it, or the lines that name a fault, and then its end."""
    if len(output) <= most:
        return output
    faults = both_ends(fault_lines(output), most // 2, 0.6)
    return f"{faults}\n…\n{both_ends(output, most - len(faults) - 3, 0.8)}"


def named(value: Any, most: int = LINE) -> str:
    """Return a name, or what leftoff itself says of something: one line, without marks."""
    return tame(short(value, most) if isinstance(value, str) else as_json(value, most))


def word(value: Any) -> str:
    """Return a name, a kind or a time as it is, if it is one harmless word; else quoted."""
    line = str(value)
    plain = len(line) <= _WORD and all(char.isalnum() or char in _IN_WORDS for char in line)
    return line if plain and tame(line) == line else quoted(value)


def quoted(value: Any, most: int = LINE) -> str:
    """Return text of others: one line, between marks."""
    return f"“{named(value, most).translate(_MARKS)}”"


def as_json(value: Any, most: int = LINE) -> str:
    """Return a value as JSON on one line, with redacted places marked."""
    return short(text(_marked(value)), most)


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        if value == {"redacted": True}:
            return "[redacted]"
        return {key: _marked(item) for key, item in dict.items(value)}
    return [_marked(item) for item in list.__iter__(value)] if isinstance(value, list) else value


def source_of(view: View, row: RunRow) -> str:
    """Return where an imported run came from; empty if it was started here."""
    bundle = view.fact(f"{FROM} {row.run}")
    if bundle:
        return f"the bundle {word(bundle)}"
    found = row.card.get("imported")
    return (
        f"the file {word(found.get('path'))} ({word(found.get('protocol') or found.get('dialect'))})"
        if isinstance(found, dict)
        else ""
    )
