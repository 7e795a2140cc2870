"""Secrets in a mirrored file: the store does not have them, so what the file says in their place stays there."""

from __future__ import annotations

from leftoff.engine.redaction.credentials import MASK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MARK = {"redacted": True}


def needs_secrets(document: dict[str, Any]) -> bool:
    """Whether anything was left out of a document."""
    return _has_marks(document) or MASK in str(document)


def _has_marks(value: Any) -> bool:
    if isinstance(value, dict):
        return value == _MARK or any(map(_has_marks, dict.values(value)))
    return isinstance(value, list) and any(map(_has_marks, list.__iter__(value)))


def with_secrets(value: Any, there: Any, mask: Callable[[str], str]) -> Any:
    """A document with what is there where something was left out."""
    if isinstance(value, dict):
        if value == _MARK:
            return value if there is None else there
        known = there if isinstance(there, dict) else {}
        return {key: with_secrets(item, known.get(key), mask) for key, item in dict.items(value)}
    if isinstance(value, list):
        known_list = there if isinstance(there, list) and len(there) == len(value) else [None] * len(value)
        return [with_secrets(*pair, mask) for pair in zip(list.__iter__(value), known_list, strict=True)]
    if isinstance(value, str) and isinstance(there, str) and MASK in value:
        masked = mask(there)  # what was added behind it is added there, too
        return there + value[len(masked) :] if value.startswith(masked) else value
    return value
