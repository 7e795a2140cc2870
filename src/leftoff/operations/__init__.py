"""The operations: one function per verb, the same behind every face.

A face (the command, MCP, hooks, the page) parses what it was given, calls one operation with the
`Project` it works in, the `Caller` it works for and a request, and shows the answer. Rules live here and below, never
in a face; a face that needs a new behaviour gets a new operation.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller as Caller
    from leftoff.engine.config.project import Project as Project
    from leftoff.store.rows import RunRow as RunRow  # for faces that pass one on

_HOME = {
    "Caller": "leftoff.engine.config.caller",
    "Project": "leftoff.engine.config.project",
    "RunRow": "leftoff.store.rows",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import sys

    __import__(_HOME[name])  # `importlib` would cost what a hot verb cannot spare
    return getattr(sys.modules[_HOME[name]], name)
