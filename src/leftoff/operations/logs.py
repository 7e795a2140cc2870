"""What the steps of a run printed: which logs there are, now or as they are written."""

from __future__ import annotations

import time

from leftoff.engine.read.logs import find_logs
from leftoff.errors import LeftoffError, NotFound
from leftoff.operations.reports import current_row
from leftoff.operations.runs import target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.logs import Choice, Found
    from leftoff.store.rows import RunRow

EVERY_S = 0.2


def logged_run(project: Project, caller: Caller, ref: str) -> RunRow:
    """The run that is meant; where none was named and nothing is unfinished, the one that ended last."""
    from leftoff.engine.read.find import list_runs

    try:
        return target(project, caller, ref).row
    except NotFound as error:
        named = ref != "@" or caller.named or caller.run
        last = [] if named else list_runs(project.store, branch=caller.branch, limit=1)
        if last:
            return last[0]
        _perhaps_step(project, caller, ref, error)
        raise


def _perhaps_step(project: Project, caller: Caller, word: str, error: NotFound) -> None:
    """A step where a run is expected: say how it is done."""
    try:
        run = current_row(project, caller).run
        if project.store.read(lambda view: view.row(run, "step", word)) is not None:
            error.hint = f"{word} is a step of the current run: `leftoff logs @ {word}`."
    except LeftoffError:
        pass


def find(project: Project, row: RunRow, choice: Choice) -> Found:
    """The logs that are wanted, in the order of the steps."""
    return find_logs(project.store, row.run, row.run_id, choice, project.now)


def follow(project: Project, row: RunRow, choice: Choice) -> Iterator[tuple[Found, bool]]:
    """The logs again and again, and whether more may come: until nobody is there who could add anything."""
    more = True
    while more:
        began = time.monotonic()
        found = find(project, row, choice)
        more = found.driven or any(log.is_written for log in found.logs)  # asked before the files are read
        yield found, more
        if more:
            time.sleep(max(EVERY_S, 4 * (time.monotonic() - began)))
