"""Execute a workflow file: which run is meant, what must be there first, its driver; and how the work on a run ends.

A face watches, answers and ends the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from leftoff import seams
from leftoff.engine.commit import Seal, Terms, report
from leftoff.engine.continue_run import Ending, end_work
from leftoff.engine.find import Deciding, Fit, twins, unmoved_run
from leftoff.engine.findings import ASK, REFUSE, Finding, levels_of
from leftoff.engine.git import git_branch
from leftoff.engine.lease import state as lease_state
from leftoff.engine.opening import Opening, is_taken
from leftoff.engine.project import Project
from leftoff.engine.run_info import RunInfo
from leftoff.engine.run_reader import definition_of, read_collection
from leftoff.engine.settings import CALLER, Caller
from leftoff.engine.step_lifecycle import StepReport, step_changes, steps_in, why_failed
from leftoff.engine.tracking import for_checkpoint
from leftoff.errors import BadDefinition, CannotResume, Conflict
from leftoff.host import ALIVE, UNKNOWN
from leftoff.model.changes import ChangeSet
from leftoff.model.words import FINISHED, UNFINISHED, was
from leftoff.operations.run_reports import this_run
from leftoff.operations.runs import info_of, whole_run
from leftoff.operations.store_upkeep import say_outside
from leftoff.store.base import Tx, View
from leftoff.store.rows import RunRow
from leftoff.workflow import driver as driving
from leftoff.workflow import stop_run as stopping
from leftoff.workflow.actions import action_of
from leftoff.workflow.definition import Workflow
from leftoff.workflow.driver import Driver, Observer, Setting
from leftoff.workflow.parse_definition import load_definition
from leftoff.workflow.process_groups import check_seen
from leftoff.workflow.reuse import Foreseen, Foresight
from leftoff.workflow.run_state import RunState, check_first, missing


class RunRequest(NamedTuple):
    """A workflow file to execute. ``resume``, ``fresh``: what becomes of an unfinished run of it. ``reuse``: take the
    results that an earlier run has."""

    workflow: Workflow
    variables: Mapping[str, Any] = {}
    title: str | None = None
    issue: str | None = None
    run_id: str | None = None
    resume: bool = False
    fresh: bool = False
    reuse: bool = False


class Execution(NamedTuple):
    """How it is executed: who watches, how many steps at once, for whom.

    ``secrets``: that a person typed. ``starts`` is called in the moment before a new run is stored.
    """

    observer: Observer
    secrets: Mapping[str, str] = {}
    max_parallel: int | None = None
    who: str = "leftoff run"
    starts: Callable[[], None] | None = None


def is_driven(project: Project, row: RunRow) -> bool:
    """Return whether this is a run of a workflow file, which a driver executes."""
    return definition_of(project.store, row) is not None


# -- which run


def find_twins(project: Project, caller: Caller, request: RunRequest) -> list[RunRow]:
    """Return the unfinished runs of the same work, newest first. An id names one run, and no other."""
    store, run_id = project.store, request.run_id
    if not store.exists():
        return []
    row = store.read(lambda view: view.find_run(run_id)) if run_id is not None else None
    if row is None and run_id is not None and store.read(lambda view: is_taken(view, run_id)):
        raise Conflict(
            f"Run {run_id} already exists, in the trash.",
            hint=f"`leftoff undelete {run_id}` brings it back; choose another id for a new run.",
        )
    if row is None:
        if run_id is not None and not request.fresh:
            return []
        return store.read(lambda view: _twins(view, caller, request))
    if request.resume and row.status in UNFINISHED and row.workflow == request.workflow.name:
        return [row]
    what, does = ("resume", "continues") if row.status in UNFINISHED else ("show", "shows")
    raise Conflict(
        f"Run {run_id} already exists: {row.workflow}, {row.status}.",
        hint=f"`leftoff {what} {run_id}` {does} it; choose another id for a new run.",
    )


def _twins(view: View, caller: Caller, request: RunRequest) -> list[RunRow]:
    """Return the unfinished runs of this workflow and branch, and of this title and issue if they are given."""
    return twins(view, request.workflow.name, caller.branch, request.title, request.issue, limit=None)


def definition_of_twin(
    project: Project, caller: Caller, path: str, given: Mapping[str, Any]
) -> Workflow | None:
    """Return the definition, with the variables of the unfinished run to resume; ``None`` if there is no such run."""
    if not project.store.exists():
        return None
    where: dict[str, Any] = {"branch": caller.branch, "status": UNFINISHED}
    for row in project.store.read(lambda view: view.list_runs(where, 50)):
        try:
            workflow = load_definition(
                path, given={**given, **read_collection(project.store, row.run, row.run_id, "variable")}
            )
        except BadDefinition:
            continue
        if workflow.name == row.workflow:
            return workflow
    return None


# -- what must be there


def check_step_agents(project: Project, workflow: Workflow, *, fresh: bool = True) -> None:
    """Raise if an agent that a step names is missing. ``fresh``: also if a file that a prompt is read from is."""
    if workflow.has("agent"):
        seams.prepare_agents(workflow, project.folder, fresh)


def check_executable(project: Project, workflow: Workflow, *, fresh: bool = True) -> None:
    """Raise if an agent or an action of a workflow cannot be executed, before anything starts."""
    check_seen()
    check_step_agents(project, workflow, fresh=fresh)
    for step in workflow.leaves():
        if step.kind not in ("approval", "manual"):
            action_of(step)


def requirements(project: Project, workflow: Workflow) -> list[Finding]:
    """Return what a new run of a workflow needs and lacks, if a person must decide: first tools, variables and paths,
    then secrets."""
    found, absent = [], [name for name in workflow.secrets if not CALLER.has(name)]
    lacks = missing(workflow, project.folder)
    if lacks:
        message = f"The workflow needs something that is missing: {'; '.join(lacks)}."
        found.append(Finding("prerequisite.missing", message, "Provide it, or continue anyway with --yes."))
    if absent:
        message = f"The workflow needs secrets that are not in the environment: {', '.join(absent)}."
        hint = f"Secrets are never stored. Set {absent[0]} in the environment, then try again."
        found.append(Finding("variables.redacted", message, hint, secrets=tuple(absent)))
    levels = project.settings.parsed("verify", levels_of)
    for finding in found:
        finding.set_level(levels)
        if finding.level == REFUSE:
            raise CannotResume(
                finding.message, hint=finding.hint if finding.secrets else "Provide it, then try again."
            )
    return [finding for finding in found if finding.level == ASK]


def secrets_of(workflow: Workflow, typed: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that a workflow names, from the environment, or as a person typed them."""
    known = CALLER.environment()
    found = {name: known.get(name) or typed.get(name, "") for name in workflow.secrets}
    return {name: value for name, value in found.items() if value}


# -- drivers


def start_workflow(
    project: Project, caller: Caller, request: RunRequest, execution: Execution, known: list[RunRow]
) -> Driver:
    """Start a run, driven by this process, and abandon the newest of the ``known`` unfinished ones.

    Raise ``Conflict`` if a twin was started since these were found.
    """
    workflow, variables = request.workflow, {**request.workflow.vars, **request.variables}
    check_first(project.store, workflow, variables, project.folder)
    setting = setting_of(project, execution, secrets_of(workflow, execution.secrets), request.issue)
    setting = setting._replace(reuse=request.reuse)
    why = {}
    if request.fresh:
        why["why"] = "you asked with --fresh" + (
            f": {known[0].run_id} {was(known[0].status)}" if known else ""
        )
    if known:
        give_up(project, known[0], "abandoned: started afresh")
        project.say(f"leftoff: {known[0].run_id} is abandoned.")
    before = {row.run for row in known}

    def alone(view: View) -> None:
        found = [] if request.run_id else _twins(view, caller, request)
        for twin in found:
            if twin.run not in before:
                raise Conflict(
                    f"Run {twin.run_id} of this workflow was started just now.",
                    hint=f"`leftoff status` shows its progress, `leftoff resume {twin.run_id}` continues it.",
                )
        if execution.starts is not None:  # only here: a command that waits for the store can be interrupted
            execution.starts()

    git = project.git_facts()
    opening = Opening(
        workflow.name,
        title=request.title,
        branch=caller.branch,
        run_id=request.run_id,
        variables=variables,
        facts={**git, "issue": request.issue, "description": workflow.description or None, **why},
        context=project.surroundings(request.issue, git.get("git_branch")),
    )
    driver = driving.start_driver(setting, workflow, opening, alone=alone)
    say_outside(project, driver.run_id)
    return driver


def foresee_run(project: Project, request: RunRequest) -> list[Foreseen]:
    """Return what a run would do, step by step, and why. Nothing is changed."""
    workflow, variables = request.workflow, {**request.workflow.vars, **request.variables}
    check_first(project.store, workflow, variables, project.folder)
    with TemporaryDirectory(prefix="leftoff-") as folder:
        foresight = Foresight(RunState(workflow, project.folder, project.store), project.redactor, folder)
        return foresight.plan(variables, reuse=request.reuse)


def setting_of(project: Project, execution: Execution, secrets: dict[str, str], issue: str | None) -> Setting:
    """Return where and for whom a run is driven. Files with a secret of the workflow in them are only hashed."""
    settings = project.settings
    redactor = settings.redactor(exact=tuple(value for value in secrets.values() if value))

    def seen() -> dict[str, Any]:
        from leftoff.engine.issue_tracker import take_issue

        return take_issue(settings, project.folder, issue, git_branch(project.folder), project.now)

    return Setting(
        project.store,
        project.folder,
        settings.redaction,
        redactor,
        project.clock,
        execution.observer,
        store_url=project.store.location,
        secrets=secrets,
        seen=seen,
        tree=lambda row: for_checkpoint(project.workspace(redactor=redactor), row),
        most=execution.max_parallel,
        heartbeat=settings.heartbeat.interval,
        grace=settings.run.stop_timeout,
        who=execution.who,
    )


def skip_failed(project: Project, driver: Driver, failed: list[tuple[str, str]]) -> None:
    """Skip steps that failed, each with why, because a person decided so. One that has not failed so any more stays."""
    at = project.now
    for path, why in failed:
        said = StepReport("skip", path, note=f"skipped after it failed: {why}", decided=True)
        said.masked(project.redactor)

        def make(
            tx: Tx, row: RunRow, changes: ChangeSet, said: StepReport = said, why: str = why
        ) -> Seal | None:
            now = steps_in(project.store, tx, row, changes, at).get_or_new(said.path)
            if now.get("status") != "failed" or why_failed(now) not in (why, project.redactor.mask(why)):
                return None
            return step_changes(project.store, tx, row, changes, said, at)

        report(project.store, this_run(driver.run, driver.run_id), make, Terms(at))


# -- the end of the work on a run


class StoppedRun(NamedTuple):
    """The run as it is now (``None``: it is gone), and the status it had; whether it was driven; which steps ended."""

    run_id: str
    run: RunInfo | None
    status: str | None
    driven: bool
    ended: list[str]

    @property
    def over(self) -> bool:
        """Return whether there was nothing to stop any more."""
        return self.status is None or self.status in FINISHED


def stop_run(project: Project, caller: Caller, ref: str | None = None) -> StoppedRun:
    """Have the driver of a run seal a checkpoint and end the processes of its steps, and pause the run."""

    def runs(view: View, row: RunRow) -> bool:
        is_held = lease_state(view.lease(row.run), project.now) in (ALIVE, UNKNOWN)
        return row.status == "running" or is_held

    row = whole_run(
        project,
        caller,
        ref,
        Deciding(caller, project.now, Fit(runs, "is running", "are running", "stop RUN")),
    ).row
    store = project.store
    driven = stopping.stop_driver(store, row, project.now, project.settings.run.stop_timeout)
    ended = end_steps_of(project, row)
    now = store.read(lambda view: view.run_row(row.run))
    if now is None:
        return StoppedRun(row.run_id, None, None, driven, ended)
    if now.status not in FINISHED and (now.status == "running" or ended):
        words = {"project": project.folder, "note": "stopped"}
        stopping.pause(store, now, project.now, scrubber=project.redactor, **words)
    return StoppedRun(row.run_id, info_of(project, row), now.status, driven, ended)


def give_up(project: Project, row: RunRow, note: str | None = None) -> None:
    """Abandon a run and end what runs of it. Raise ``Moved`` if it has changed since ``row`` was read."""
    ending = Ending("abandoned", project.folder, note=note)
    end_work(project.store, unmoved_run(row), ending, Terms(project.now), project.redactor)
    forsake(project, row)


def forsake(project: Project, row: RunRow) -> list[str]:
    """End the steps that a dead driver of an abandoned run left running. Return them."""
    if not is_driven(project, row):
        return []
    grace = project.settings.run.stop_timeout
    return stopping.forsake_attempts(project.store, row, project.store_folder, project.now, grace)


def end_steps_of(project: Project, row: RunRow) -> list[str]:
    """End the steps of a run that live without a driver. Return them."""
    grace = project.settings.run.stop_timeout
    return stopping.end_attempts(project.store, row, project.store_folder, project.now, grace)
