"""Where files are looked at and kept, as one value: what every function here and its callers need together."""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.engine.config.settings import Capture
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.store.base import Store


class Workspace(Fields):
    """The files of a project at a moment: where they are, what is secret, how much of them is kept (``None``: all)."""

    store: Store
    folder: str
    redactor: Redactor
    capture: Capture | None
    at: int
    say: Callable[[str], None] | None = None  # to whoever should know what was found
