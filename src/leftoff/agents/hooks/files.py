"""The files of a session: as they are before an agent first changes them, and after each change."""

from __future__ import annotations

import os

from leftoff.engine.artifacts import capture, relative
from leftoff.errors import LeftoffError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.agents.desk import Desk
    from leftoff.engine.artifacts import Captured
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow


def inside(desk: Desk, paths: list[str]) -> list[str]:
    """Those of the paths that are the project's own, and not the store's."""
    found = [(path, relative(desk.project, path)) for path in paths]
    return [
        path for path, name in found if not os.path.isabs(name) and name.partition(os.sep)[0] != ".leftoff"
    ]


def unknown(desk: Desk, row: RunRow | None, paths: list[str]) -> list[str]:
    """Those that a run knows nothing of yet."""
    if row is None:
        return paths
    run = row.run

    def look(view: View) -> list[str]:
        return [p for p in paths if view.row(run, "file", relative(desk.project, p)) is None]

    return desk.store.read(look)


def captured(desk: Desk, paths: list[str]) -> list[Captured]:
    """The files as they are now, each with a copy in the store; what is not there or cannot be read is left out."""
    out = []
    for path in paths:
        if os.path.isfile(path) and not os.path.islink(path):
            try:
                most = desk.settings.capture.max_file
                out.append(capture(desk.store, desk.project, path, desk.redactor, desk.at, most=most))
            except LeftoffError as error:
                if "cannot be read" not in error.message:
                    raise
    return out
