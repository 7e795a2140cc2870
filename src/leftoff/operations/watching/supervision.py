"""Watching all runs of a store: what changed since the last look, and which of those that died may be resumed."""

from __future__ import annotations

import os

from leftoff.engine.read.find import Target
from leftoff.engine.read.info import list_info
from leftoff.engine.read.watch import Change, Memory, Settings, look, may_restart, restarted
from leftoff.engine.resume.finding import RESUME, WARN
from leftoff.engine.resume.request import ResumeRequest
from leftoff.model.fields import Fields
from leftoff.operations.execution.workflow_file import is_driven
from leftoff.operations.resume.resuming import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.info import RunInfo


class Consideration(Fields):
    """Whether a dead run is to be resumed; if not, ``why`` it is left to a person, where that was not told yet."""

    resumes: bool
    why: str = ""


class Supervision:
    """All runs of a project, as somebody watches them: what was told of each is remembered."""

    def __init__(self, project: Project, caller: Caller) -> None:
        self._project = project
        self._caller = caller
        self.settings = project.settings.parsed("supervise", Settings)
        self.folder = project.store_folder
        self._memory = Memory(self.folder)

    def changes(self) -> list[Change]:
        """What changed since the last look."""
        return look(self._project.store, self._memory, self._project.now, self._project.limits)

    def dead(self) -> list[RunInfo]:
        """The runs that nobody drives though they are running."""
        project = self._project
        infos = list_info(project.store, project.now, project.limits, status=["running"])
        return [info for info in infos if info.health == "dead"]

    def consider(self, info: RunInfo) -> Consideration:
        """A dead run of a workflow file is resumed, unless something stands in the way or it was tried too often."""
        told, limit = self._memory.of(info.run_id), self.settings.limit
        if not is_driven(self._project, info.row):
            return Consideration(resumes=False)
        why = ""
        if may_restart(told, info, self.settings, self._project.now):
            report = judge(self._project, self._caller, ResumeRequest(Target(info.row, None)))
            if report.verdict in (RESUME, WARN):
                return Consideration(resumes=True)
            why = "; ".join(dict.fromkeys(finding.code for finding in report.findings))
        elif told.get("restarts", 0) >= limit:
            why = f"it died {limit} times without getting further"
        if not why or told.get("held") == why:
            return Consideration(resumes=False)
        told["held"] = why
        return Consideration(resumes=False, why=why)

    def restarted(self, info: RunInfo) -> Change:
        """A dead run was resumed: what is told of that."""
        told, now = self._memory.of(info.run_id), self._project.now
        told.pop("held", None)
        restarted(told, info, self.settings, now)
        message = f"{info.run_id} was dead and is being resumed (restart {told['restarts']} of {self.settings.limit})."
        return Change("restart", info.to_json(), message, now)

    def save(self) -> None:
        """What was told is told once, whoever looks next."""
        if os.path.isdir(self.folder):
            self._memory.save()
