"""The processes of checks. They change nothing, so they are no attempts; but none may outlive its driver unnoticed.

Who runs a check is noted beside it, in the folder of the attempt that it is about, before it is told to go.
"""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from leftoff.host import Process
from leftoff.workflow.processes import files, groups

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTE = "process"


def note(folder: str, process: Process) -> None:
    """Write down who runs the check of this folder. A disk without room for it is no reason not to check."""
    try:
        with open(os.path.join(folder, NOTE), "w", encoding="utf-8") as file:
            file.write(f"{process.pid}\n{process.started}\n{process.scope}\n")
    except OSError:
        pass


def left(folder: str) -> Iterator[Process]:
    """The processes of checks that still run for the attempt of this folder. Their shim may serve another by now."""
    for path in glob.glob(os.path.join(glob.escape(folder), "*", NOTE)):
        process = _read(path)
        ended = files.read_exit(os.path.dirname(path)) is not None
        if process is not None and not ended and groups.alive(process):
            yield process


def _read(path: str) -> Process | None:
    try:
        with open(path, encoding="utf-8") as file:
            pid, started, scope = file.read().splitlines()
        return Process(scope, int(pid), started)
    except (OSError, ValueError):
        return None
