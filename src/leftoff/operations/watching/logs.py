"""What the steps of a run printed: which logs there are, now or as they are written."""

from __future__ import annotations

import time

from leftoff.engine.read.attempt_logs import Choice as Choice
from leftoff.engine.read.attempt_logs import find_logs
from leftoff.errors import LeftoffError, NotFound
from leftoff.operations.reports import current_row, step_of
from leftoff.operations.runs import target
from leftoff.operations.watching.changes import watch
from leftoff.operations.watching.log_files import LogFile, shown, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.attempt_logs import AttemptLog, FoundLogs
    from leftoff.store.rows import RunRow

EVERY_S = 0.2
MOST_JSON = 1 << 20  # bytes of one log in a document


class RunLogs:
    """The logs of a run that are wanted. ``shared``: other machines may have some that are not in the store."""

    def __init__(self, project: Project, row: RunRow, choice: Choice) -> None:
        self.run_id = row.run_id
        self.choice = choice
        self.archived = row.is_archived
        self._project = project
        self._store, self._run = project.store, row.run
        self.shared = self._store.shared

    def find(self) -> FoundLogs:
        """Those that there are, in the order of the steps."""
        return find_logs(self._store, self._run, self.run_id, self.choice, self._project.now)

    def follow(self) -> Iterator[tuple[FoundLogs, bool]]:
        """Again and again, and whether more may come: until nobody is there who could add anything.

        The store is asked when something happened to the run; its files are for whoever shows them."""
        with watch(self._project) as changes:
            found, more = self.find(), True
            while more:
                began = time.monotonic()
                # Asked before files are read.
                more = found.driven or any(log.is_written for log in found.logs)
                yield found, more
                if more and changes.wait(max(EVERY_S, 4 * (time.monotonic() - began))).concerns(self.run_id):
                    found = self.find()


def logs_of(project: Project, caller: Caller, ref: str | None, choice: Choice) -> RunLogs:
    """Logs of the run that is meant."""
    row = _logged_run(project, caller, ref)
    step = step_of(project, row, choice.step) if choice.step else None
    return RunLogs(project, row, choice.but(step=step))


def _logged_run(project: Project, caller: Caller, ref: str | None) -> RunRow:
    try:
        return target(project, caller, ref).row
    except NotFound as error:
        if ref is not None:
            _perhaps_step(project, caller, ref, error)
        raise


def _perhaps_step(project: Project, caller: Caller, word: str, error: NotFound) -> None:
    """A step where a run is expected: say how it is done."""
    try:
        run = current_row(project, caller, "reads").run
        if project.store.read(lambda view: view.row(run, "step", word)) is not None:
            error.hint = f"{word} is a step of the current run: `leftoff logs @ {word}`."
    except LeftoffError:
        pass


def document(project: Project, log: AttemptLog) -> dict[str, Any]:
    """A log as JSON; of a long one its end, and how much was cut."""
    about = {**log.to_json(), **({"error": log.error} if log.raised else {})}
    if not log.there:
        return {**about, "text": None}
    file = LogFile(log.path or "")
    cut = file.skip_to(MOST_JSON)
    text = "".join(shown(without_secrets(block, project.redactor)) for block in file.read(ended=True))
    return {**about, "text": text, **({"cut": cut} if cut else {})}
