"""Definitions, graph, runner and durable functions: how work is described, ordered and done.

The package is also the decorator ``@leftoff.workflow``: one name for both, and whichever of the two a program meets
first, it has the other too. So the module itself can be called.
"""

from __future__ import annotations

import sys
from typing import Any


class _Decorator(type(sys)):  # type: ignore[misc]
    """The package, as the decorator that it is too."""

    def __call__(self, function: Any = None, **options: Any) -> Any:
        """Make a function durable as a whole: see ``leftoff.python.durable.workflow``."""
        from leftoff.python.durable import workflow

        return workflow(function, **options)


sys.modules[__name__].__class__ = _Decorator
