"""What attempts leave on disk, once it is not needed any more."""

from __future__ import annotations

import os
import shutil

from leftoff.files import is_led_away
from leftoff.store.rows import ATTEMPTS, MOST_OUTPUT
from leftoff.workflow.processes.files import EXIT, RESULT, VARS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.base import Store

PIECE = 1 << 18

SCRIPT, ARGS = "script-", "args"  # what is too long for a command line
ITEMS = "items"  # what the command of a `foreach` printed
_TAKEN_IN = (VARS, RESULT, EXIT, ARGS, ITEMS)


def tidy(folder: str) -> None:
    """An attempt ended, and that is durable: its log stays, where it printed anything."""
    if is_led_away(folder, ATTEMPTS):
        return
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if name in _TAKEN_IN or name.startswith(SCRIPT) or (name == "log" and os.path.getsize(path) == 0):
            _unlink(path)
        elif os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
    try:
        os.rmdir(folder)
    except OSError:
        pass  # something is left to be read


def keep_log(store: Store, folder: str) -> None:
    """All of a long log into a store that machines share; its end went there with the attempt's."""
    path = os.path.join(folder, "log")
    if not store.shared or not os.path.exists(path) or os.path.getsize(path) <= MOST_OUTPUT:
        return
    with open(path, "rb") as file:
        whole = store.save_blob(iter(lambda: file.read(PIECE), b""))
    store.write(lambda tx: tx.keep_log(os.path.basename(folder), None, whole))


def remove(folder: str) -> None:
    if not is_led_away(folder, ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
