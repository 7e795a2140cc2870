"""Reports: one transaction that finds the run which is meant, looks, changes and commits; what all operations share."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.which import Which
    from leftoff.engine.write.commit import Guard, Seal, Terms
    from leftoff.engine.write.report import Find, Make, Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import BlobRow, RunRow

    T = TypeVar("T")


def current(project: Project, caller: Caller, rule: str = "reports") -> Which:
    """How to find the run that is meant: the one named, that of the environment or the session, else by what a verb
    does (``engine.read.which``)."""
    from leftoff.engine.read.which import Which

    return Which(caller, project.now, rule, project.explain)


def current_row(project: Project, caller: Caller, rule: str = "reports") -> RunRow:
    """The run that is meant, as it is now."""
    from leftoff.errors import StoreUnavailable

    try:
        row = project.store.read(current(project, caller, rule))
    except StoreUnavailable:
        project.need_store()
        raise
    return row


def this_run(run: int, run_id: str) -> Find:
    """How to find a run that is known, as it is by now."""
    from leftoff.engine.write.head import need_run

    return lambda view: need_run(view, run, run_id)


def step_of(project: Project, row: RunRow, path: str) -> str:
    """The step of a run that is meant by a name: an item may be named as it is shown."""
    if "[" not in path and "\\" not in path:
        return path
    from leftoff.engine.steps.reports import known_step

    return project.store.read(lambda view: known_step(view, row.run, path))


def session_of(project: Project, caller: Caller) -> str | None:
    """The agent's session that the caller belongs to."""
    if caller.session or caller.agent is None or not project.store.exists():
        return caller.session or caller.first_session
    return project.store.read(caller.session_in)


def check_free(project: Project, caller: Caller, target: Target) -> None:
    """An error where somebody else drives the run."""
    from leftoff.engine.resume.continue_run import driver_of

    driver_of(project.store, target, project.now, session_of(project, caller))


def guard_of(caller: Caller) -> Guard:
    """Reports of a step that leftoff started carry its attempt's token."""
    from leftoff.engine.write.commit import NO_GUARD, Guard

    return Guard(attempt=caller.attempt) if caller.attempt else NO_GUARD


def usage_errors(call: Callable[[], T]) -> T:
    """What comes of a request: a value in it that cannot be kept is wrong usage, not bad data."""
    from leftoff.errors import Invalid, Usage

    try:
        return call()
    except Invalid as error:
        raise Usage(error.message, hint=error.hint) from None


def nothing_more(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
    """For a report whose changes are made beforehand."""
    return None


def report(
    project: Project,
    caller: Caller,
    make: Make = nothing_more,
    *,
    at: int | None = None,
    changes: ChangeSet | None = None,
) -> Reported:
    """Report on the run that is meant. ``make`` fills the change set inside the transaction; ``changes`` are those that
    do not depend on what is there."""
    return _write(project, current(project, caller), make, _terms(project, caller, at), changes)


def report_on(
    project: Project,
    caller: Caller,
    looked: RunRow | None,
    make: Make,
    blobs: Sequence[BlobRow],
    at: int | None = None,
) -> Reported:
    """The same with what was found by looking around first. ``looked``: the run that was meant then; ``Moved`` where
    that is another one by now."""
    find: Find = current(project, caller)
    find = find if looked is None else _same_run(find, looked)
    return _write(project, find, make, _terms(project, caller, at, blobs))


def _write(
    project: Project, find: Find, make: Make, terms: Terms, changes: ChangeSet | None = None
) -> Reported:
    from leftoff.engine.write.report import report

    project.need_store()
    return report(project.store, find, make, terms, project.redactor, changes)


def _terms(project: Project, caller: Caller, at: int | None, blobs: Sequence[BlobRow] = ()) -> Terms:
    from leftoff.engine.write.commit import Terms

    return Terms(project.now if at is None else at, guard_of(caller), blobs=blobs)


def _same_run(find: Find, looked: RunRow) -> Find:
    def same(view: View) -> RunRow:
        row = find(view)
        if row.run != looked.run:
            from leftoff.engine.write.unmoved import Moved

            raise Moved(
                f"Run {looked.run_id} was meant when this began; by now that would be {row.run_id}.",
                hint="Nothing was changed. Say which one you mean: --run RUN.",
            )
        return row

    return same
