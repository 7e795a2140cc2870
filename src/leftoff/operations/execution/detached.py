"""Going on with a run in a process of its own, as if its user had typed it: it outlives whoever started it."""

from __future__ import annotations

import os
import subprocess
import threading
import time

from leftoff.errors import CannotResume, Conflict, LeftoffError, NeedsPerson
from leftoff.host import python
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

PATIENCE_S = 20.0  # until a process that was started drives its run, or says why not
EVERY_S = 0.05
_DROVE = (0, 1, 7)  # exit codes of one that may have driven its run
_ERRORS: dict[int, type[LeftoffError]] = {
    error.exit_code: error for error in (Conflict, CannotResume, NeedsPerson)
}
_TAIL = 4000  # bytes of what it printed


class Apart(Fields):
    """A process that was started: where what it prints goes, from which place on."""

    child: subprocess.Popen[bytes]
    log: str
    start: int

    def printed(self) -> str:
        """What it has printed."""
        with open(self.log, "rb") as file:
            file.seek(max(self.start, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read().decode("utf-8", "replace")


def resume_apart(project: Project, caller: Caller, words: Sequence[str], log: str) -> Apart:
    """`leftoff resume WORDS` in a session of its own. ``log``: the file beside the store that it prints to."""
    path = os.path.join(project.store_folder, log)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        start = os.fstat(file).st_size
        child = subprocess.Popen(
            [*python("leftoff"), "--project", project.folder, "resume", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env=caller.environment({"LEFTOFF_STORE": project.store.location}),
        )
    finally:
        os.close(file)
    threading.Thread(target=child.wait, daemon=True).start()  # else it would be a zombie as long as we live
    return Apart(child, path, start)


def begun(project: Project, row: RunRow, apart: Apart) -> None:
    """Wait until a process drives its run. One that ended without that says why."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        code = apart.child.poll()
        if project.store.read(lambda view: _drives(view, row, apart.child.pid)):
            return
        if code is not None:
            if code in _DROVE and project.store.read(lambda view: _moved(view, row)):
                return  # it has done all that was left
            raise _ended(apart, row.run_id, code)
        time.sleep(EVERY_S)


def _drives(view: View, row: RunRow, pid: int) -> bool:
    """Whether that process has the run, and has begun with it: whoever looks now sees it at work."""
    lease, now = view.lease(row.run), view.run_row(row.run)
    has = lease is not None and lease.process is not None and lease.process.pid == pid
    return has and now is not None and now.status == "running"


def _moved(view: View, row: RunRow) -> bool:
    now = view.run_row(row.run)
    return now is not None and now.seq != row.seq


def _ended(apart: Apart, run_id: str, code: int) -> LeftoffError:
    lines = [line for line in apart.printed().splitlines() if line.strip()]
    said = " ".join(lines[-4:])[:1000] or f"It ended with exit code {code}."
    error = _ERRORS.get(code, LeftoffError)
    return error(
        f"Run {run_id} does not continue. {said}", hint=f"`leftoff resume {run_id}` in a shell says more."
    )
