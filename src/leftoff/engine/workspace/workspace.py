"""Where files are looked at and copied to: the values that every function of this package needs together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from leftoff.engine.config.settings import Capture
from leftoff.engine.redaction.redactor import Redactor
from leftoff.store.base import Store


class Workspace(NamedTuple):
    """The files of a project at a moment. ``capture``: how much of them is copied (``None``: all)."""

    store: Store
    folder: str
    redactor: Redactor
    capture: Capture | None
    at: int
    say: Callable[[str], None] | None = None  # how to tell the user what was found
