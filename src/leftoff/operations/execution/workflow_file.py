"""Executing a workflow file: which run is meant, what must be there first, and the runner that drives it.

A face watches, answers and ends it; nothing here waits for the run's end.
"""

from __future__ import annotations

from leftoff import seams
from leftoff.engine.config.caller import CALLER
from leftoff.engine.config.git_head import git_branch
from leftoff.engine.lifecycle.opening import Opening, is_taken
from leftoff.engine.read.find import Target
from leftoff.engine.read.logs import failures
from leftoff.engine.read.state import definition_of, read
from leftoff.engine.read.which import twins
from leftoff.engine.resume.finding import ASK, REFUSE, Finding, levels_of
from leftoff.engine.resume.request import ResumeRequest
from leftoff.engine.steps.lifecycle import steps_in
from leftoff.engine.steps.reports import StepReport, step_changes
from leftoff.engine.write.commit import Terms
from leftoff.engine.write.report import report
from leftoff.errors import BadDefinition, CannotResume, Conflict
from leftoff.model.fields import Fields
from leftoff.model.words import UNFINISHED
from leftoff.operations.execution.stop import give_up
from leftoff.operations.reports import this_run
from leftoff.operations.upkeep.init import say_outside
from leftoff.operations.upkeep.retention import by_itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.logs import Failures
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.model import Workflow
    from leftoff.workflow.run.driver import Driver, Observer, Setting
    from leftoff.workflow.run.reuse import Foreseen


class RunRequest(Fields):
    """A workflow file that shall be executed. ``resume``, ``fresh``: what becomes of an unfinished run of it."""

    workflow: Workflow
    variables: Mapping[str, Any] = {}
    title: str | None = None
    issue: str | None = None
    run_id: str | None = None
    resume: bool = False
    fresh: bool = False
    reuse: bool = False  # what an earlier run has is taken from there


class Execution(Fields):
    """How it is executed: who watches, how many steps at once, for whom. ``secrets``: that a person typed. ``starts``:
    called in the moment before a new run is there."""

    observer: Observer
    secrets: Mapping[str, str] = {}
    max_parallel: int | None = None
    who: str = "leftoff run"
    starts: Callable[[], None] | None = None


# -- which run


def find_twins(project: Project, caller: Caller, request: RunRequest) -> list[RunRow]:
    """The unfinished runs that this would be a second one of, newest first. An id that is given names one run, and no
    other."""
    if not project.store.exists():
        return []
    named = request.run_id
    row = project.store.read(lambda view: view.find_run(named)) if named is not None else None
    if row is None and named is not None and project.store.read(lambda view: is_taken(view, named)):
        raise Conflict(
            f"Run {named} already exists, in the trash.",
            hint=f"`leftoff undelete {named}` brings it back; choose another id for a new run.",
        )
    if row is None:
        other = named is None or request.fresh
        return project.store.read(lambda view: _all(view, caller, request)) if other else []
    if request.resume and row.status in UNFINISHED and row.workflow == request.workflow.name:
        return [row]
    what = "resume" if row.status in UNFINISHED else "show"
    does = "continues it" if row.status in UNFINISHED else "shows it"
    raise Conflict(
        f"Run {request.run_id} already exists: {row.workflow}, {row.status}.",
        hint=f"`leftoff {what} {request.run_id}` {does}; choose another id for a new run.",
    )


def _all(view: View, caller: Caller, request: RunRequest) -> list[RunRow]:
    """The unfinished runs of this workflow and branch; of this title and issue, where they are given. Newest first."""
    return twins(view, request.workflow.name, caller.branch, request.title, request.issue, limit=None)


def definition_of_twin(
    project: Project, caller: Caller, path: str, given: Mapping[str, Any]
) -> Workflow | None:
    """The definition, with the variables of the unfinished run that is to be resumed; ``None`` without such a run."""
    from leftoff.workflow.definition.parse import load

    if not project.store.exists():
        return None
    where: dict[str, Any] = {"branch": caller.branch, "status": UNFINISHED}
    for row in project.store.read(lambda view: view.list_runs(where, 50)):
        try:
            workflow = load(path, given={*given, *read(project.store, row.run, row.run_id, "variable")})
        except BadDefinition:
            continue
        if workflow.name == row.workflow:
            return workflow
    return None


def failures_of(project: Project, driver: Driver) -> Failures:
    """What is to be said of the steps of a run that failed."""
    return failures(project.store, driver.run, driver.run_id)


def is_driven(project: Project, row: RunRow) -> bool:
    """Whether it is a run of a workflow file, which a runner executes."""
    return definition_of(project.store, row) is not None


# -- what must be there


def check_agents(project: Project, workflow: Workflow, *, fresh: bool = True) -> None:
    """Agents that the workflow's steps name must be there, and can be called from now on. ``fresh``: nothing of it is
    done yet, so what their prompts are read from must be there too."""
    if workflow.has("agent"):
        seams.prepare_agents(workflow, project.folder, fresh)


def check_executable(project: Project, workflow: Workflow, *, fresh: bool = True) -> None:
    """Raise if an agent or an action of the workflow's steps cannot be executed, before anything starts."""
    from leftoff.workflow.processes.groups import check_seen
    from leftoff.workflow.run.actions import action_of

    check_seen()
    check_agents(project, workflow, fresh=fresh)
    for step in workflow.leaves():
        if step.kind not in ("approval", "manual"):
            action_of(step)


def requirements(project: Project, workflow: Workflow) -> list[Finding]:
    """Return what a new run of a workflow needs and lacks: tools, variables and paths; then secrets."""
    from leftoff.workflow.run.driver import missing

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
            again = "Provide it, then try again."
            hint = again if finding.code == "prerequisite.missing" else finding.hint
            raise CannotResume(finding.message, hint=hint)
    return [finding for finding in found if finding.level == ASK]


def secrets_of(workflow: Workflow, typed: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that a workflow names, from the environment, or as a person typed them."""
    known = CALLER.environment()
    found = {name: known.get(name) or typed.get(name, "") for name in workflow.secrets}
    return {name: value for name, value in found.items() if value}


def setting_of(project: Project, execution: Execution, secrets: dict[str, str], issue: str | None) -> Setting:
    """Where and for whom a run of a workflow is driven."""
    from leftoff.engine.workspace.issue_tracker import take_issue
    from leftoff.workflow.run.driver import Setting

    settings = project.settings
    redactor = settings.redactor(exact=tuple(value for value in secrets.values() if value))

    def seen() -> dict[str, Any]:
        branch = git_branch(project.folder)
        return take_issue(settings, project.folder, issue, branch, project.now)

    return Setting(
        project.store,
        project.folder,
        project.store_folder,
        settings.redaction,
        redactor,
        project.clock,
        execution.observer,
        store_url=project.store.location,
        secrets=secrets,
        seen=seen,
        tree=_tree(project, redactor),
        most=execution.max_parallel,
        heartbeat=settings.heartbeat.interval,
        grace=settings.run.grace,
        who=execution.who,
    )


def _tree(project: Project, redactor: Redactor) -> Callable[[RunRow], Found]:
    """What a checkpoint says of files. Those with a secret of the workflow in them are only hashed."""
    from leftoff.engine.workspace.tracking import for_checkpoint

    return lambda row: for_checkpoint(project.workspace(redactor=redactor), row)


# -- starting, and going on


def start(
    project: Project, caller: Caller, request: RunRequest, execution: Execution, known: list[RunRow]
) -> Driver:
    """A new run, driven by this process. ``known``: the unfinished ones that were found when it was decided to start
    one; the newest is abandoned. One that was started since is in the way."""
    from leftoff.workflow.run.driver import start
    from leftoff.workflow.run.run_state import check_first

    check_first(request.workflow, {**request.workflow.vars, **request.variables}, project.folder)
    secrets = secrets_of(request.workflow, execution.secrets)
    setting = setting_of(project, execution, secrets, request.issue)
    setting.reuse = request.reuse
    if known:
        _abandon(project, known[0])
    before = {row.run for row in known}

    def alone(view: View) -> None:
        if not request.run_id:
            _refuse_twin(_all(view, caller, request), before)
        if execution.starts is not None:  # only here: who waits for the store may be interrupted
            execution.starts()

    driver = start(setting, request.workflow, _opening(project, caller, request), alone=alone)
    say_outside(project, driver.run_id)
    return driver


def foresee(project: Project, request: RunRequest) -> list[Foreseen]:
    """What a run would do, step by step, and why; nothing is changed."""
    from tempfile import TemporaryDirectory

    from leftoff.workflow.run.reuse import Foresight
    from leftoff.workflow.run.run_state import check_first

    workflow = request.workflow
    variables = {**workflow.vars, **request.variables}
    check_first(workflow, variables, project.folder)
    with TemporaryDirectory(prefix="leftoff-") as folder:
        foresight = Foresight(workflow, project.store, project.folder, project.redactor, folder)
        return foresight.plan(variables, reuse=request.reuse)


def _refuse_twin(twins: list[RunRow], before: Container[int]) -> None:
    """Somebody started the same in this very moment, when it was known already what becomes of those before."""
    twin = next((row for row in twins if row.run not in before), None)
    if twin is not None:
        raise Conflict(
            f"Run {twin.run_id} of this workflow was started just now.",
            hint=f"`leftoff status` shows its progress, `leftoff resume {twin.run_id}` continues it.",
        )


def _abandon(project: Project, twin: RunRow) -> None:
    """Start fresh: the old run is not deleted; nothing of it runs on."""
    give_up(project, twin, "abandoned: started afresh")
    project.say(f"leftoff: {twin.run_id} is abandoned.")


def _opening(project: Project, caller: Caller, request: RunRequest) -> Opening:
    workflow = request.workflow
    facts = {
        **project.git_facts(),
        "issue": request.issue,
        "description": workflow.description or None,
    }
    return Opening(
        workflow.name,
        title=request.title,
        branch=caller.branch,
        run_id=request.run_id,
        variables={**workflow.vars, **request.variables},
        facts=facts,
        context=project.surroundings(facts["issue"], facts["git_branch"]),
    )


def drive(project: Project, driver: Driver) -> int:
    """To the end; its exit code. Afterwards what retention no longer keeps goes, where the project wants that."""
    code = driver.drive()
    by_itself(project)
    return code


def skip_failed(project: Project, driver: Driver, failed: list[tuple[str, str]]) -> None:
    """Steps that failed, and why, are skipped: a person decided that the run goes on without them. One that has not
    failed so any more stays as it is."""
    for path, why in failed:
        said = StepReport("skip", path, note=f"skipped after it failed: {why}", decided=True)
        said.masked(project.redactor)
        _skip(project, driver, said, (why, project.redactor.mask(why)))


def _skip(project: Project, driver: Driver, said: StepReport, shown: tuple[str, str]) -> None:
    from leftoff.engine.steps.lifecycle import why_failed

    at = project.now

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        now = steps_in(project.store, tx, row, changes, at).get_or_new(said.path)
        if now.get("status") != "failed" or why_failed(now) not in shown:
            return None
        return step_changes(project.store, tx, row, changes, said, at)

    report(project.store, this_run(driver.run, driver.run_id), make, Terms(at))


def once_more(project: Project, driver: Driver, accept: Collection[str], *, yes: bool) -> ResumeRequest:
    """Return the request to continue a run that came to its end, from where it is."""
    row = project.store.read(this_run(driver.run, driver.run_id))
    return ResumeRequest(Target(row, None), accept=accept, yes=yes)
