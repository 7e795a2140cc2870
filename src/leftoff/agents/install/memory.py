"""What install remembers, beside the settings: what was there before, so that uninstall can give it back.

By file (its path in the project or the user's home): whether it was ``made``, or was ``blank``; which objects and lists
were there and ``empty``, and how they were written; what our entries said where there were such before (``server``,
``hooks``); and, for files of our own, the digest of what was written (``own``).
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from leftoff.agents.install.files import read
from leftoff.errors import Invalid

NAME = ".leftoff-install.json"
_SHAPES: dict[str, type] = {
    "made": bool,
    "blank": str,
    "empty": dict,
    "server": dict,
    "hooks": dict,
    "own": str,
}


class Memory:
    """The memory of one agent's settings."""

    def __init__(self, folder: str, base: str) -> None:
        self.path = os.path.join(folder, NAME)
        self._base = base
        self.written = read(self.path)
        self._parts = self._read(self.written)

    def _read(self, text: str | None) -> dict[str, dict[str, Any]]:
        if text is None:
            return {}
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(map(_sound, found.values())):
            raise Invalid(
                f"{self.path} is not as leftoff wrote it.",
                hint="Nothing was changed. Remove it: then what leftoff put into the settings is known by its form.",
            )
        return found

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self._base)

    def of(self, path: str) -> dict[str, Any] | None:
        """What is known of a file; ``None`` where nothing of ours was put into it."""
        return self._parts.get(self._name(path))

    def keep(self, path: str, part: dict[str, Any]) -> None:
        self._parts[self._name(path)] = part

    @property
    def text(self) -> str:
        return json.dumps(self._parts, indent=2, sort_keys=True) + "\n"


def _sound(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    if not all(isinstance(value, _SHAPES.get(key, object)) for key, value in part.items()):
        return False
    return all(isinstance(inner, str) for inner in part.get("empty", {}).values()) and all(
        isinstance(record, dict) for record in part.get("hooks", {}).values()
    )


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
