"""JSON as people write it: keys twice, Windows paths with single backslashes, NaN. Cut short, it is rejected."""

from __future__ import annotations

import json
import re

from leftoff.dialects.core.repairs import Rejected, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.repairs import Repairs

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BAD = re.compile(r'\\(?:[^"\\/bfnrtu]|u(?![0-9a-fA-F]{4}))')
_SINGLE = re.compile(r'(\\\\|\\")|\\')


def parse(text: str, path: str, repairs: Repairs) -> Any:
    try:
        try:
            return _loads(text, repairs, strict=True)
        except json.JSONDecodeError as error:
            return _again(text, repairs, error)
    except RecursionError:
        raise Rejected(f"{path} is nested too deep.") from None
    except json.JSONDecodeError as error:
        raise Rejected(f"{path}:{error.lineno}:{error.colno}: this is not JSON: {error.msg}.") from None
    except ValueError as error:
        raise Rejected(f"{path} is not JSON that can be read: {str(error).partition(';')[0]}.") from None


def _again(text: str, repairs: Repairs, first: json.JSONDecodeError) -> Any:
    """What is wrong inside a text (a backslash, a raw line break) can be mended; anything else cannot."""
    if "escape" not in first.msg and "control character" not in first.msg:
        raise first
    mended_texts: list[str] = []

    def mend(match: re.Match[str]) -> str:
        inside = match[1]
        if not _BAD.search(inside):
            return match[0]
        mended_texts.append(inside)
        return '"' + _SINGLE.sub(lambda m: m[1] or "\\\\", inside) + '"'

    mended = _STRING.sub(mend, text)
    value = _loads(mended, repairs, strict=False)
    for inside in mended_texts[:5]:
        repairs.add(f"{shown(inside)}: a backslash that starts no escape is read as itself.")
    if len(mended_texts) > 5:
        repairs.add(f"{len(mended_texts) - 5} more texts have a backslash that starts no escape.")
    if "control character" in first.msg or mended == text:
        repairs.add(f"line {first.lineno}: a raw control character in a text is read as itself.")
    return value


def _loads(text: str, repairs: Repairs, *, strict: bool) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) != len(items):
            _twice(items, repairs)
        return out

    def number(word: str) -> Any:
        value = float(word)
        return value if value - value == 0 else odd(word)

    def odd(word: str) -> str:
        repairs.add(f"{word} is no number in JSON; read as text.")
        return word

    return json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=odd, strict=strict)


def _twice(items: list[tuple[str, Any]], repairs: Repairs) -> None:
    seen: dict[str, Any] = {}
    for key, value in items:
        if key in seen:
            repairs.add(f"{shown(key)} is there twice; the last one counts, not {shown(seen[key])}.")
        seen[key] = value


def dump(document: Any) -> str:
    """As the protocols show their documents: two spaces, text as it is."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
