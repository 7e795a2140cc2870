"""Capturing files: hashed always, copied into the store unless they look like secrets."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.errors import NotFound, StoreUnavailable
from leftoff.model.hashing import long_sha256 as sha256
from leftoff.model.values import blob_stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.engine.redact import Redactor
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store
    from leftoff.store.rows import BlobRow

CHUNK = 1 << 18


class Captured:
    """A file as it was when it was looked at: what its record says, and the blob that holds its content."""

    __slots__ = ("about", "blob", "key")

    def __init__(self, key: str, about: dict[str, Any], blob: BlobRow | None) -> None:
        self.key = key
        self.about = about
        self.blob = blob

    def stored(self) -> bytes | None:
        """Stored bytes that hold on to the blob; ``None`` where there is none and plain JSON will do."""
        return blob_stored(self.blob.hash, self.about) if self.blob is not None else None

    def put(self, changes: ChangeSet, collection: str = "artifact") -> None:
        """Into a change set; the blob must have its row in the same commit."""
        stored = self.stored()
        if stored is None:
            changes.put(collection, self.key, self.about)
        else:
            changes.put_stored(collection, self.key, stored)


def relative(project: str, path: str) -> str:
    """As records name files: relative to the project where they are inside it."""
    full = os.path.abspath(os.path.join(project, path)) if not os.path.isabs(path) else os.path.normpath(path)
    inside = os.path.relpath(full, project)
    return full if inside == ".." or inside.startswith("../") else inside


def capture(
    store: Store,
    project: str,
    path: str,
    redactor: Redactor,
    at: int,
    *,
    step: str | None = None,
    name: str | None = None,
    most: int | None = None,
) -> Captured:
    """Hash a file and keep a copy, durable before any record refers to it. ``most``: larger ones are only hashed."""
    full = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    if not os.path.isfile(full):
        what = f"{path} is a folder, not a file" if os.path.isdir(full) else f"There is no file {path}"
        raise NotFound(f"{what}.", hint="Nothing was recorded. Write the file before you record it.")
    shown = relative(project, full)
    about: dict[str, Any] = {"path": shown, "step": step, "name": name, "captured_at": iso(at)}
    if redactor.secret_file(shown) or (most is not None and os.path.getsize(full) > most):
        digest, size = hash_file(full)
        about.update(hash="sha256:" + digest.hex(), size=size, captured=False)
        return Captured(name or shown, _known(about), None)
    row = store.save_blob(_chunks(full))
    about.update(hash="sha256:" + row.hash.hex(), size=row.size, captured=True)
    return Captured(name or shown, _known(about), row)


def _known(about: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if value is not None}


def _chunks(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror}.", hint="Nothing was recorded. Check its permissions."
        ) from None


def hash_file(path: str) -> tuple[bytes, int]:
    """Its sha256, and how long it is."""
    digest, size = sha256(), 0
    for chunk in _chunks(path):
        digest.update(chunk)
        size += len(chunk)
    return digest.digest(), size
