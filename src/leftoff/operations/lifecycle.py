"""The life of a run that somebody reports on: it is started or gone on with, paused, and finished."""

from __future__ import annotations

from leftoff.errors import Usage
from leftoff.model.fields import Fields
from leftoff.operations.execution.stop import forsake
from leftoff.operations.reports import current, guard_of, session_of, this_run, usage_errors
from leftoff.operations.runs import info
from leftoff.operations.upkeep.init import say_outside
from leftoff.operations.upkeep.retention import by_itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.lifecycle.finish import EndedWork
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.resume.judge import Verdict

ENDS = ("completed", "failed", "abandoned")


class Start(Fields):
    """A run to start, on the caller's branch.

    ``total``: how many steps it will have, where they are not known yet. ``session``: the agent's session that drives
    it from now on; one that the environment names is bound, and drives nothing. ``resume``: go on with the unfinished
    run of the same work, if there is one.
    """

    workflow: str
    title: str | None = None
    run_id: str | None = None
    steps: Sequence[Any] = ()
    total: int | None = None
    variables: Mapping[str, Any] | None = None
    issue: str | None = None
    task: str | None = None
    agent: str | None = None
    session: str | None = None
    resume: bool = False


class Started(Fields):
    """The run, whether it was there before, and the unfinished one that a new run has beside it.

    ``report``: what keeps the unfinished run from going on; then nothing was started.
    """

    info: RunInfo | None
    resumed: bool = False
    twin: RunInfo | None = None
    report: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        assert self.info is not None
        return self.info.to_json()


def start(project: Project, caller: Caller, wanted: Start) -> Started:
    """Start a run; or go on with the unfinished one, where that is asked for and nothing stands in the way. One that
    others went on with, or began, meanwhile is judged anew."""
    if not wanted.resume:
        return _start(project, caller, wanted)
    from leftoff.engine.write.unmoved import until_unmoved

    return until_unmoved(lambda: _start(project, caller, wanted))


def _start(project: Project, caller: Caller, wanted: Start) -> Started:
    from leftoff.engine.lifecycle.start import Session, start_run

    store = project.store  # what is wrong with the settings is no wrong usage
    opening = usage_errors(lambda: _opening(project, caller, wanted))
    judged = None
    if wanted.resume:
        from leftoff.operations.resume.resuming import judge_twin

        judged = judge_twin(project, caller, opening)
        if judged.verdict is not None:
            return Started(None, report=judged.verdict)
    named = wanted.session
    session = Session(named, wanted.agent or f"session {named}") if named else None
    done = usage_errors(
        lambda: start_run(
            store,
            opening,
            project.now,
            scrubber=project.redactor,
            resume=judged.need if judged is not None else None,
            session=session,
        )
    )
    twin = info(project, done.twin) if done.twin is not None else None
    started = Started(info(project, done), done.resumed, twin)
    if done.resumed:
        from leftoff.operations.resume.resuming import sync_issue

        sync_issue(project, project.store.read(this_run(done.run, done.run_id)))
    else:
        say_outside(project, done.run_id)
    by_itself(project)
    return started


def _opening(project: Project, caller: Caller, wanted: Start) -> Opening:
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.model.ids import issue_id

    git, issue = project.git_facts(), issue_id(wanted.issue)
    facts = {
        **git,
        "issue": issue,
        "task": wanted.task,
        "agent": wanted.agent,
        "session_id": wanted.session or session_of(project, caller),
        "total": wanted.total,
    }
    return Opening(
        wanted.workflow,
        title=wanted.title,
        branch=caller.branch,
        run_id=wanted.run_id,
        steps=wanted.steps,
        variables=dict(wanted.variables or {}),
        facts=facts,
        context=project.surroundings(issue, git.get("git_branch")),
    )


class Ended(Fields):
    """The run, and whether anything changed; the first steps that are left, and whether there are more.

    ``stopped``: the steps that a dead driver had left running.
    """

    info: RunInfo
    changed: bool
    left: list[str]
    more: bool
    stopped: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return self.info.to_json()


def pause(project: Project, caller: Caller, note: str | None = None) -> Ended:
    """Stop working on a run for now: it is sealed, and stays unfinished."""
    done = _settle(project, caller, "paused", note=note)
    return Ended(info(project, done.row), done.changed, done.left, done.more)


def finish(project: Project, caller: Caller, status: str = "completed", summary: str | None = None) -> Ended:
    """End a run. It does not insist: steps that are left are left as they are."""
    if status not in ENDS:
        raise Usage(
            f"A run cannot be finished as {status!r}.", hint=f"status: {', '.join(ENDS[:2])} or {ENDS[2]}."
        )
    done = _settle(project, caller, status, summary=summary)
    stopped = forsake(project, done.row) if status == "abandoned" else []
    ended = Ended(info(project, done.row), done.changed, done.left, done.more, stopped)
    by_itself(project)
    return ended


def _settle(project: Project, caller: Caller, status: str, **words: str | None) -> EndedWork:
    from leftoff.engine.lifecycle.finish import Ending, end_work
    from leftoff.engine.write.commit import Terms

    masked = {key: project.redactor.mask(text) for key, text in words.items() if text}
    ending = Ending(status, project.folder, session_of(project, caller), **masked)
    terms = Terms(project.now, guard_of(caller))
    return end_work(project.store, current(project, caller), ending, terms, project.redactor)
