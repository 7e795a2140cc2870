"""Secrets in synced files: they are left out of leftoff's copies, and stay in the user's file.

`keep` returns a document without its secrets, for the base. `with_secrets` puts the file's own secrets into a document
that is about to be written, because the store does not have them.
"""

from __future__ import annotations

from typing import Any

from leftoff.dialects.document_text import pack, read_packed, unpack
from leftoff.dialects.loose_values import Repairs
from leftoff.dialects.protocol import Dialect
from leftoff.engine.redaction.credentials import MASK
from leftoff.engine.redaction.redactor import Redactor
from leftoff.errors import LeftoffError

_MARK = {"redacted": True}


class SecretFilter:
    """Removes secrets from the documents of a project, and restores them."""

    def __init__(self, redactor: Redactor, dialect: Dialect) -> None:
        self._redactor = redactor
        self._dialect = dialect

    def keep(self, path: str, data: bytes) -> bytes:
        """Return the bytes of a document without secrets; the same object if there are none."""
        try:
            plain = unpack(data, path) if path.endswith(".gz") else data
            text = plain.decode("utf-8", "surrogateescape")
            if not self._redactor.suspicious("", text) and "\\" not in text:
                return data
            document = read_packed(data, path, Repairs())
        except LeftoffError:  # not a document
            text = data.decode("utf-8", "surrogateescape")
            masked = self._redactor.mask(text)
            return data if masked is text else masked.encode("utf-8", "surrogateescape")
        clean = self.clean(document)
        return data if clean is document else pack(self._dialect.dump(clean).encode(), path)

    def clean(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a document without secrets; the same object if there are none."""
        found: dict[str, Any] = self._masked(self._redactor.scrub("", document)[0])
        return found

    def _masked(self, value: Any) -> Any:
        """Mask secrets that stand next to their name in a text."""
        if isinstance(value, str):
            return self._redactor.mask(value)
        if isinstance(value, dict):
            new = {key: self._masked(item) for key, item in value.items()}
            return value if all(new[key] is item for key, item in value.items()) else new
        if isinstance(value, list):
            items = [self._masked(item) for item in value]
            return value if all(one is other for one, other in zip(items, value, strict=True)) else items
        return value

    def with_secrets(self, document: dict[str, Any], path: str, there: bytes | None) -> dict[str, Any]:
        """Return a document with the file's own values where the stored ones were redacted."""
        if there is None or not (_has_marks(document) or MASK in str(document)):
            return document
        try:
            found: dict[str, Any] = self._filled(document, read_packed(there, path, Repairs()))
        except LeftoffError:
            return document
        return found

    def _filled(self, value: Any, there: Any) -> Any:
        if isinstance(value, dict):
            if value == _MARK:
                return value if there is None else there
            known = there if isinstance(there, dict) else {}
            return {key: self._filled(item, known.get(key)) for key, item in value.items()}
        if isinstance(value, list):
            items = there if isinstance(there, list) and len(there) == len(value) else [None] * len(value)
            return [self._filled(*pair) for pair in zip(value, items, strict=True)]
        if isinstance(value, str) and isinstance(there, str) and MASK in value:
            masked = self._redactor.mask(there)  # text that was appended to it is appended there, too
            return there + value[len(masked) :] if value.startswith(masked) else value
        return value


def _has_marks(value: Any) -> bool:
    if isinstance(value, dict):
        return value == _MARK or any(map(_has_marks, value.values()))
    return isinstance(value, list) and any(map(_has_marks, value))
