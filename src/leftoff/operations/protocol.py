"""A run that follows a protocol goes on by its rules: what its protocol settles, says and asks."""

from __future__ import annotations

from leftoff.dialects.core.versions import state_at
from leftoff.dialects.verdict import state_of
from leftoff.engine.lifecycle.finish import Ending, settle
from leftoff.engine.steps.lifecycle import steps_in
from leftoff.engine.write.commit import Terms
from leftoff.engine.write.report import report
from leftoff.operations.reports import this_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.draft import State
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.answers import Answerer
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow


def begin(project: Project, dialect: Dialect, request: ResumeRequest, answerer: Answerer) -> bool:
    """Whether to go on, now that nothing stands in the way. Who would rather begin anew gives the run up."""
    question = dialect.question(greet(project, dialect, request.target))
    if question is None or request.yes or not answerer.present or answerer.says_yes(question, default=True):
        return True
    give_up(project, request.target.row)
    return False


def greet(project: Project, dialect: Dialect, target: Target) -> State:
    """Settle what an output settles, and say in the protocol's words what goes on."""
    last = state_of(project.store, target, dialect).at
    if target.version is None:
        _settle(project, dialect, target.row)
    state = state_of(project.store, target, dialect)
    state.at = last  # what was settled just now is no activity of the run
    for line in dialect.greeting(state, project.folder, project.now):
        project.say(line)
    return state


def _settle(project: Project, dialect: Dialect, row: RunRow) -> None:
    """What was in flight and left an output that says how it ended, ended so; unless somebody reported on it since."""
    store = project.store
    state = store.read(lambda view: state_at(store, view, row, dialect))
    ended = dialect.settled(state, project.folder)
    settled: dict[str, dict[str, Any]] = {}

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        steps, before = steps_in(store, tx, row, changes, project.now), state.of("step")
        settled.clear()
        settled.update((path, record) for path, record in ended.items() if steps.get(path) == before[path])
        for path, record in settled.items():
            steps.move(path, record)
        return None

    report(store, this_run(row.run, row.run_id), make, Terms(project.now), scrubber=project.redactor)
    for path, record in settled.items():
        project.say(f"leftoff: {path} is {record['status']}: its output says so.")


def give_up(project: Project, row: RunRow) -> None:
    """Start fresh: the run is abandoned, and its files are archived."""
    ending = Ending("abandoned", project.folder)
    settle(project.store, this_run(row.run, row.run_id), ending, Terms(project.now), project.redactor)
    project.say(f"leftoff: {row.run_id} is abandoned. `leftoff start {row.workflow}` starts anew.")
