"""What the tools do: each opens the project's store, calls an operation, and gives back what the command would print.

Only this project's store is reachable: a run is named by a REF in it, files must be inside the project, and nothing
here deletes anything or rolls back files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from leftoff.agents.mcp.words import for_a_model
from leftoff.engine.config.caller import Caller
from leftoff.engine.lifecycle.finish import settle
from leftoff.engine.lifecycle.opening import Opening
from leftoff.engine.lifecycle.start import start_run
from leftoff.engine.read.brief import brief
from leftoff.engine.read.diff import diff
from leftoff.engine.read.find import Target, resolve
from leftoff.engine.read.info import list_info, run_info
from leftoff.engine.read.show import document
from leftoff.engine.resume.answers import Answerer, check_by_proxy
from leftoff.engine.resume.finding import NEVER_YES, REFUSE
from leftoff.engine.resume.request import ResumeRequest
from leftoff.engine.write.commit import Guard
from leftoff.engine.write.report import need_store
from leftoff.errors import CannotResume, Conflict, NeedsPerson, Usage
from leftoff.host import SHELLS, ancestor
from leftoff.model.words import RUN_STATUS, UNFINISHED
from leftoff.operations import Project, reports
from leftoff.operations.execution import is_driven
from leftoff.operations.resume import RUNNING, resume, stands_in_the_way, verify

if TYPE_CHECKING:
    from leftoff.engine.resume.verdict import Report
    from leftoff.errors import LeftoffError
    from leftoff.store.base import Store


class Work:
    """One call of a tool."""

    def __init__(self, project: str, store: str | None) -> None:
        self.project = Project(project, store)
        self.at = self.project.at
        self.agent = ancestor(SHELLS)  # whose hooks know it by the same process

    @property
    def store(self) -> Store:
        return self.project.store

    # -- which run

    def caller(self, run_id: str | None = None) -> Caller:
        """Whoever uses this server: the session it was told, or that of the agent which started it."""
        return Caller(named=run_id, agent=self.agent)

    def current(self, run_id: str | None) -> Any:
        """How to find the run that is meant."""
        return reports.current(self.project, self.caller(run_id))

    @property
    def session(self) -> str | None:
        caller = self.caller()
        return self.store.read(caller.session_in) if self.store.exists() else caller.session

    def target(self, ref: str | None) -> Target:
        need_store(self.store)
        find = self.current(None)
        if ref:
            return resolve(self.store, ref, find)
        return Target(self.store.read(find), None)

    def guard(self) -> Guard:
        return reports.guard_of(self.caller())

    def run_json(self, run: int) -> dict[str, Any]:
        found = run_info(self.store, run, self.at, self.project.limits)
        assert found is not None
        return found.to_json()

    # -- reporting

    def start(self, opening: dict[str, Any], resume: bool) -> dict[str, Any]:
        facts = {**self.project.git_facts(), "session_id": self.session}
        facts.update(opening.pop("facts"))
        branch = opening.pop("branch") or self.caller().branch
        made = Opening(opening.pop("workflow"), branch=branch, facts=facts, **opening)
        report = stands_in_the_way(self.project, self.caller(), made) if resume else None
        if report is not None:
            raise _not_now(_for_a_model(report))
        started = start_run(self.store, made, self.at, scrubber=self.project.redactor, resume=resume)
        out = self.run_json(started.run)
        if started.twin is not None:
            out["unfinished_twin"] = started.twin.run_id
        return out

    def finish(self, run_id: str | None, status: str, summary: str | None) -> dict[str, Any]:
        if status not in ("completed", "failed", "abandoned"):
            raise Usage(
                f"A run cannot be finished as {status!r}.", hint="status: completed, failed or abandoned."
            )
        done = settle(
            self.store,
            self.current(run_id),
            status,
            self.at,
            project=self.project.folder,
            scrubber=self.project.redactor,
            session=self.session,
            guard=self.guard(),
            summary=self.project.redactor.mask(summary) if summary else None,
        )
        return {**self.run_json(done.row.run), "left": done.left}

    # -- looking

    def runs(self, status: list[str] | None, workflow: str | None, branch: str | None, limit: int) -> Any:
        wrong = [word for word in status or () if word not in RUN_STATUS]
        if wrong:
            raise Usage(f"No run is {wrong[0]!r}.", hint=f"status: {', '.join(RUN_STATUS)}.")
        if not 1 <= limit <= 500:
            raise Usage(f"limit cannot be {limit}.", hint="A number from 1 to 500.")
        where = {"status": status, "workflow": workflow, "branch": branch, "limit": limit}
        found = list_info(self.store, self.at, self.project.limits, **where)
        return {"runs": [run.to_json() for run in found]}

    def show(self, ref: str | None) -> dict[str, Any]:
        return document(self.store, self.target(ref), self.at, self.project.limits)

    def brief(self, ref: str | None) -> str:
        return brief(self.store, self.target(ref), self.at, self.project.folder)

    def diff(self, old: str, new: str) -> dict[str, Any]:
        sides = [self.target(ref) for ref in (old, new)]
        left, right = ((side.row.run, side.row.run_id, side.seq) for side in sides)
        return diff(self.store, left, right).to_json()

    def checkpoint(self, ref: str) -> dict[str, Any]:
        target = self.target(ref)
        if target.version is None:
            raise Usage(f"{ref} names a run, not a checkpoint.", hint=f"run://{target.row.run_id} shows it.")
        return {**target.version.to_json(), "state": self.show(ref)}

    # -- resuming

    def verify(self, run_id: str | None) -> dict[str, Any]:
        request = ResumeRequest(self.target(run_id), resumes=False)
        return _for_a_model(verify(self.project, self.caller(), request)).to_json()

    def resume(self, run_id: str | None, accept: list[str]) -> dict[str, Any]:
        target = self.target(run_id)
        self._refuse(target, run_id)
        check_by_proxy(accept, target.row.run_id)
        done = resume(self.project, self.caller(), ResumeRequest(target, accept=accept), Answerer())
        report = _for_a_model(done.report)
        if done.outcome != RUNNING:
            raise _not_now(report)
        found = [finding.to_json() for finding in report.findings]
        return {
            **self.run_json(target.row.run),
            "findings": found,
            "brief": self.brief(target.row.run_id),
        }

    def _refuse(self, target: Target, given: str | None) -> None:
        """Runs that nobody can go on with from here."""
        row = target.row
        if target.version is not None:
            raise NeedsPerson(
                f"{given} is a checkpoint. Going back to one is a person's to do.",
                hint=f"run_id: {row.run_id} goes on from where it is; in a shell, leftoff resume {given} goes back.",
            )
        if row.status not in UNFINISHED:
            raise CannotResume(
                f"Run {row.run_id} is {row.status}: nothing is left to do.",
                hint="start_run starts a new one.",
            )
        if is_driven(self.project, row):
            raise Conflict(
                f"Run {row.run_id} is one of a workflow file, which a runner executes.",
                hint=f"Run this in a shell: leftoff resume {row.run_id}",
            )


def _for_a_model(report: Report) -> Report:
    """With hints that say what a tool can do."""
    for finding in report.findings:
        finding.hint = for_a_model(finding.hint)
    return report


def _not_now(report: Report) -> LeftoffError:
    """Why it does not go on: every finding that keeps it from it, and what to do."""
    run_id = report.world.run_id
    stand = [finding for finding in report.findings if finding.level == report.verdict]
    lines = [f"- {finding.code}: {finding.message} {finding.hint}".rstrip() for finding in stand]
    if report.verdict == REFUSE:
        return CannotResume(
            "\n".join([f"Run {run_id} cannot be resumed as things are:", *lines]),
            hint="\nNothing was changed. Tell the person; verify_resume shows whether it is resolved.",
        )
    codes = list(dict.fromkeys(finding.code for finding in stand))
    hint = f"\nNothing was changed. Ask the person. If they agree, call resume_run with accept: {json.dumps(codes)}."
    theirs = [code for code in codes if code in NEVER_YES]
    if theirs:
        hint = (
            f"\nNothing was changed. {', '.join(theirs)} cannot be accepted here: a person decides it, in a shell: "
            f"leftoff resume {run_id}"
        )
    return NeedsPerson("\n".join([f"A person must decide whether run {run_id} goes on:", *lines]), hint=hint)
