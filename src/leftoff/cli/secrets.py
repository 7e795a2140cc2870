"""A password on the command line: everybody on the machine can see it there, so the command begins again without it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def hide(args: Sequence[str]) -> None:
    """Become the same command, whose URLs of stores name a private file in the place of a password."""
    from leftoff.errors import LeftoffError
    from leftoff.operations.upkeep.stores import passed_on

    try:
        safe = [passed_on(word) for word in args]
    except LeftoffError:  # whoever opens it says what is wrong with it
        return
    if safe != list(args):
        own = sys.orig_argv[: len(sys.orig_argv) - len(args)]
        os.execv(sys.executable, [own[0], *own[1:], *safe])
