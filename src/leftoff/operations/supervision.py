"""Watch all runs of a store and resume those whose driver died, each in a new process."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

from leftoff.engine.attention import (
    Memory,
    RunChange,
    look_for_changes,
    may_restart,
    remember_restart,
)
from leftoff.engine.find import Target
from leftoff.engine.findings import RESUME, WARN
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import ResumeRequest
from leftoff.engine.run_info import RunInfo, list_info
from leftoff.engine.settings import Caller
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
        self._memory = Memory(project.store_folder)

    def look(self, restart: bool) -> Iterator[RunChange | str]:
        """Yield what changed since the last look. With ``restart``, resume each dead run, or yield once why not.

        A run of a workflow file is resumed if no finding blocks it and it was not tried too often.
        """
        project, store, now = self._project, self._project.store, self._project.now
        yield from look_for_changes(store, self._memory, now, project.limits)
        running = list_info(store, now, project.limits, status=["running"]) if restart else []
        for info in running:
            if info.health == "dead" and is_driven(project, info.row):
                yield from self.restart(info)
        if os.path.isdir(project.store_folder):  # so that no other process reports it again
            self._memory.save()

    def restart(self, info: RunInfo) -> Iterator[RunChange | str]:
        """Resume a dead run, or yield once why not."""
        told, limit, now = self._memory.of(info.run_id), self.settings.max_restarts, self._project.now
        why = ""
        if may_restart(told, info, self.settings, now):
            report = judge(self._project, self._caller, ResumeRequest(Target(info.row, None)))
            if report.verdict in (RESUME, WARN):
                told.pop("held", None)
                remember_restart(told, info, self.settings, now)
                start_resume(self._project, self._caller, [info.run_id], "supervise.log")
                tries = f"restart {told['restarts']} of {limit}"
                message = f"{info.run_id} was interrupted and is being resumed ({tries})."
                yield RunChange("restart", info.to_json(), message, now)
                return
            why = "; ".join(dict.fromkeys(finding.code for finding in report.findings))
        elif told.get("restarts", 0) >= limit:
            why = f"it died {limit} times without getting further"
        if why and told.get("held") != why:
            told["held"] = why
            yield f"{info.run_id} is not restarted: {why}."


# -- a resume that outlives the process that asked for it

PATIENCE_S = 20.0  # until a process that was started drives its run, or has said why not
EVERY_S = 0.05
_DROVE = (0, 1, 7)  # exit codes of a process that may have driven its run
_ERRORS: dict[int, type[LeftoffError]] = {
    error.exit_code: error for error in (Conflict, CannotResume, NeedsPerson)
}
_TAIL = 4000  # bytes of what it printed


def start_resume(
    project: Project, caller: Caller, words: Sequence[str], log: str
) -> tuple[subprocess.Popen[bytes], int]:
    """Start `leftoff resume WORDS` in its own session. Return it, and where its output begins in the log.

    ``log``: the file next to the store that it prints to.
    """
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
    return child, start


def resume_apart(project: Project, caller: Caller, row: RunRow, options: Sequence[str], log: str) -> None:
    """Continue a run in a new process, and wait until that drives it.

    If it ended before that, raise what it printed.
    """
    child, start = start_resume(project, caller, [row.run_id, *options], log)

    def drives(view: View) -> bool:
        lease, now = view.lease(row.run), view.run_row(row.run)
        if code in _DROVE and now is not None and now.seq != row.seq:
            return True  # it has done all that was left
        has = lease is not None and lease.process is not None and lease.process.pid == child.pid
        return has and now is not None and now.status == "running"

    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        code = child.poll()
        if project.store.read(drives):
            return
        if code is not None:
            with open(os.path.join(project.store_folder, log), "rb") as file:
                file.seek(max(start, os.fstat(file.fileno()).st_size - _TAIL))
                lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
            said = " ".join(lines[-4:])[:1000] or f"It ended with exit code {code}."
            raise _ERRORS.get(code, LeftoffError)(
                f"Run {row.run_id} does not continue. {said}",
                hint=f"`leftoff resume {row.run_id}` in a shell says more.",
            )
        time.sleep(EVERY_S)
