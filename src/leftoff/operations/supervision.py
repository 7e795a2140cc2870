"""Watch all runs of a store and resume those whose driver died, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from leftoff.engine.attention import (
    Memory,
    RunChange,
    look_for_changes,
    may_restart,
    remember_restart,
)
from leftoff.engine.caller import Caller
from leftoff.engine.find import Target
from leftoff.engine.findings import RESUME, WARN
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import ResumeRequest
from leftoff.engine.run_info import RunInfo, list_info
from leftoff.errors import CannotResume, Conflict, LeftoffError, NeedsPerson
from leftoff.host import python
from leftoff.operations.resuming import judge
from leftoff.operations.workflow_runs import is_driven
from leftoff.store.base import View
from leftoff.store.rows import RunRow


class Supervision:
    """All runs of a project, and what was reported of each."""

    def __init__(self, project: Project, caller: Caller) -> None:
        self._project = project
        self._caller = caller
        self.settings = project.settings.supervise
        self.folder = project.store_folder
        self._memory = Memory(self.folder)

    def changes(self) -> list[RunChange]:
        """Return what changed since the last look."""
        return look_for_changes(self._project.store, self._memory, self._project.now, self._project.limits)

    def dead(self) -> list[RunInfo]:
        """Return the runs that are recorded as running and have no driver."""
        project = self._project
        infos = list_info(project.store, project.now, project.limits, status=["running"])
        return [info for info in infos if info.health == "dead"]

    def consider(self, info: RunInfo) -> tuple[bool, str]:
        """Return whether to resume a dead run, and if not, why, unless that was reported before.

        A run of a workflow file is resumed if nothing stands in the way and it was not tried too often.
        """
        told, limit = self._memory.of(info.run_id), self.settings.limit
        if not is_driven(self._project, info.row):
            return False, ""
        why = ""
        if may_restart(told, info, self.settings, self._project.now):
            report = judge(self._project, self._caller, ResumeRequest(Target(info.row, None)))
            if report.verdict in (RESUME, WARN):
                return True, ""
            why = "; ".join(dict.fromkeys(finding.code for finding in report.findings))
        elif told.get("restarts", 0) >= limit:
            why = f"it died {limit} times without getting further"
        if not why or told.get("held") == why:
            return False, ""
        told["held"] = why
        return False, why

    def restarted(self, info: RunInfo) -> RunChange:
        """Remember that a dead run was resumed, and return what to report."""
        told, now = self._memory.of(info.run_id), self._project.now
        told.pop("held", None)
        remember_restart(told, info, self.settings, now)
        message = f"{info.run_id} was dead and is being resumed (restart {told['restarts']} of {self.settings.limit})."
        return RunChange("restart", info.to_json(), message, now)

    def save(self) -> None:
        """Store what was reported, so that no other process reports it again."""
        if os.path.isdir(self.folder):
            self._memory.save()


# -- a resume that outlives the process that asked for it

PATIENCE_S = 20.0  # until a process that was started drives its run, or has said why not
EVERY_S = 0.05
_DROVE = (0, 1, 7)  # exit codes of a process that may have driven its run
_ERRORS: dict[int, type[LeftoffError]] = {
    error.exit_code: error for error in (Conflict, CannotResume, NeedsPerson)
}
_TAIL = 4000  # bytes of what it printed


class ResumeProcess(NamedTuple):
    """A process that was started, and where its output begins in the log."""

    child: subprocess.Popen[bytes]
    log: str
    start: int


def start_resume(project: Project, caller: Caller, words: Sequence[str], log: str) -> ResumeProcess:
    """Start `leftoff resume WORDS` in a session of its own. ``log``: the file next to the store that it prints to."""
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
    threading.Thread(target=child.wait, daemon=True).start()  # else it would stay a zombie
    return ResumeProcess(child, path, start)


def wait_until_driven(project: Project, row: RunRow, process: ResumeProcess) -> None:
    """Wait until the process drives its run. If it ended before that, raise what it printed."""

    def drives(view: View) -> bool:
        lease, now = view.lease(row.run), view.run_row(row.run)
        if code in _DROVE and now is not None and now.seq != row.seq:
            return True  # it has done all that was left
        has = lease is not None and lease.process is not None and lease.process.pid == process.child.pid
        return has and now is not None and now.status == "running"

    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        code = process.child.poll()
        if project.store.read(drives):
            return
        if code is not None:
            with open(process.log, "rb") as file:
                file.seek(max(process.start, os.fstat(file.fileno()).st_size - _TAIL))
                lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
            said = " ".join(lines[-4:])[:1000] or f"It ended with exit code {code}."
            raise _ERRORS.get(code, LeftoffError)(
                f"Run {row.run_id} does not continue. {said}",
                hint=f"`leftoff resume {row.run_id}` in a shell says more.",
            )
        time.sleep(EVERY_S)
