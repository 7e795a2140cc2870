"""What the mirror may keep of a document on disk: all of it but what looks like a secret.

Two versions of a file are compared to see what somebody changed, and one of them was kept so. Where the other has a
secret in the same place, and is the same but for it, nothing was changed there: ``restored`` puts it back, in memory.
"""

from __future__ import annotations

from leftoff.dialects.document_text import pack, read_packed, unpack
from leftoff.dialects.loose_values import Repairs
from leftoff.errors import LeftoffError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.protocol import Dialect
    from leftoff.engine.redaction.redactor import Redactor


class Keeper:
    """What looks like a secret in the documents of a project, and what is left without it."""

    def __init__(self, redactor: Redactor, dialect: Dialect) -> None:
        self._redactor = redactor
        self._dialect = dialect

    def keep(self, path: str, data: bytes) -> bytes:
        """What a file holds, without its secrets; the same object where there is none."""
        try:
            text = _text(path, data)
            if not self._redactor.suspicious("", text) and "\\" not in text:
                return data
            document = read_packed(data, path, Repairs())
        except LeftoffError:
            return self.masked(data)
        clean = self.clean(document)
        return data if clean is document else pack(self._dialect.dump(clean).encode(), path)

    def masked(self, data: bytes) -> bytes:
        """What nobody can read, without what looks like a secret in it."""
        text = data.decode("utf-8", "surrogateescape")
        masked = self._redactor.mask(text)
        return data if masked is text else masked.encode("utf-8", "surrogateescape")

    def clean(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document without its secrets; the same object where there is none."""
        found: Any = self._redactor.scrub("", document)[0]
        clean: dict[str, Any] = self._texts(found)
        return clean

    def _texts(self, value: Any) -> Any:
        """In texts for people, a secret beside its name counts too."""
        if isinstance(value, str):
            return self._redactor.mask(value)
        if isinstance(value, dict):
            new = {key: self._texts(item) for key, item in dict.items(value)}
            return value if all(new[key] is item for key, item in dict.items(value)) else new
        if isinstance(value, list):
            items = [self._texts(item) for item in list.__iter__(value)]
            return value if all(map(_is, items, list.__iter__(value))) else items
        return value

    def restored(self, kept: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
        """A document that was kept, with the secrets of another one that is the same there."""
        clean = self.clean(now)
        found: dict[str, Any] = kept if clean is now else _restored(kept, clean, now)
        return found


def _text(path: str, data: bytes) -> str:
    plain = unpack(data, path) if path.endswith(".gz") else data
    return plain.decode("utf-8", "surrogateescape")


def _is(left: object, right: object) -> bool:
    return left is right


def _restored(kept: Any, clean: Any, now: Any) -> Any:
    if clean is now:
        return kept
    if kept == clean:
        return now
    if isinstance(kept, dict) and isinstance(clean, dict) and isinstance(now, dict):
        both = {key for key in kept if key in clean and key in now}
        return {
            key: _restored(value, clean[key], now[key]) if key in both else value
            for key, value in dict.items(kept)
        }
    if isinstance(kept, list) and isinstance(clean, list) and isinstance(now, list) and len(kept) == len(now):
        items = zip(list.__iter__(kept), list.__iter__(clean), list.__iter__(now), strict=True)
        return [_restored(*each) for each in items]
    return kept
