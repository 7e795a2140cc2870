"""Sessions of agents: who they are, and which run each of them works on.

A session gets a run of its own with its first prompt. `recording.py` records its events there.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from leftoff.engine import sessions
from leftoff.engine.find import is_spent
from leftoff.engine.git import git_branch, git_head, main_worktree, upward
from leftoff.engine.opening import Opening
from leftoff.engine.project import Project, find_project, in_git, is_project, local_folder, store_location
from leftoff.engine.quoting import both_ends
from leftoff.engine.sessions import Who
from leftoff.engine.settings import Caller
from leftoff.engine.tracking import Peeked, Workspace
from leftoff.engine.transcript import WorkflowRun
from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable, Unsupported
from leftoff.host import Process
from leftoff.store.rows import RunRow

if TYPE_CHECKING:  # slow to import
    from leftoff.engine.judge import Verdict

_LONGEST = 2000  # characters of a text that is stored


class AgentSession:
    """A session of an agent in a project, for the length of one event.

    ``driven``: the agent does a step of a run that a runner drives. ``anywhere``: its hooks are called in every folder,
    and must not make a store in each. ``deadline``: when the answer is due, by the monotonic clock. ``until``: when the
    agent continued after the event, in nanoseconds; ``None`` if it still waits. ``peeked``: the files that the agent is
    about to edit, as they were. ``head``: the commit that was checked out.
    """

    def __init__(self, project: Project, who: Who, branch: str, *, driven: bool, anywhere: bool) -> None:
        self.project = project
        self.who = who
        self.branch = branch
        self.driven = driven
        self.anywhere = anywhere
        self.deadline = time.monotonic()
        self.until: int | None = None
        self.peeked: list[Peeked] = []
        self.head: str | None = None

    @property
    def has_home(self) -> bool:
        """Whether a store is there already, or may be made."""
        return not self.anywhere or self.project.store.exists() or in_git(self.project.folder)

    @property
    def time_left(self) -> float:
        """Seconds until the answer is due."""
        return max(self.deadline - time.monotonic(), 0)

    @property
    def workspace(self) -> Workspace:
        return self.project.workspace(self.project.at)._replace(until=self.until)

    @property
    def row(self) -> RunRow | None:
        """The session's run, if it has one."""
        store = self.project.store
        return store.read(lambda view: sessions.bound_run(view, self.who)) if store.exists() else None

    @property
    def git_head(self) -> str | None:
        return self.head or git_head(self.project.folder)

    def fit(self, text: str, most: int = _LONGEST, tail: float = 0.5) -> str:
        """Return a text as it is stored: without secrets, and with both ends if it is long. ``tail``: the share of its
        end."""
        return both_ends(self.mask(text), most, tail)

    def mask(self, text: str) -> str:
        """Return a text that can be stored, without secrets."""
        return self.project.redactor.mask(text.encode("utf-8", "replace").decode().replace("\0", "").strip())

    def free_runs(self) -> list[RunRow]:
        """Return the runs that have something left to do and that no process works on, newest first."""
        store, at = self.project.store, self.project.at
        return store.read(lambda view: list(sessions.free_runs(view, self.branch, at)))

    def brief(self, found: SessionRun) -> str:
        """Return what a session must know of its run."""
        from leftoff.engine.find import Target
        from leftoff.operations.checkpoints import brief_of

        assert found.run is not None
        return brief_of(self.project, Target(found.run, None), max(self.time_left / 2, 0.2))

    def record_workflows(self, found: list[WorkflowRun]) -> None:
        """Record workflow runs of Claude Code, which no other agent has."""
        sessions.record_workflows(self.project, "claude", found)

    def opening(self, title: str | None) -> Opening:
        return sessions.session_opening(self.who, self.branch, title, self.project.git_facts())


def find_place(cwd: str, started_in: str | None, project: str | None, store: str | None) -> tuple[str, str]:
    """The folder of a session's project, and that of its store. ``project``, ``store``: as somebody said."""
    start = _looked_from(cwd, started_in)
    folder = find_project(start if os.path.isdir(start) else None, project)
    return folder, local_folder(store_location(folder, store, _configured(folder)))


def _configured(project: str) -> str | None:
    from leftoff.engine.settings import load

    try:
        return load(project).store
    except LeftoffError:  # whoever opens the store says so
        return None


def _looked_from(cwd: str, given: str | None) -> str:
    """Return the folder where the search for a session's project starts. ``given``: where the session was started.

    The agent's shell may be anywhere by now. Its folder counts if it is in the session's repository or in a linked
    worktree of it. Another repository inside a project does not take the session over."""
    here = _there(cwd or given or os.getcwd())
    if not given or not os.path.isdir(given):
        return here
    top, above = os.path.realpath(given), upward(os.path.realpath(here))
    root = next((folder for folder in above if os.path.exists(os.path.join(folder, ".git"))), os.sep)
    if main_worktree(root) == top:
        return here
    is_same = top in above and (root in upward(top) or not is_project(find_project(top)))
    return here if is_same else given


def _there(folder: str) -> str:
    """The folder, or the nearest one above it that is still there."""
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


# -- which run


class SessionRun(NamedTuple):
    """The run that a session works on from now on, or the one it is offered. ``report``: the verdict on the offered
    run. If that refuses, the run was not taken. ``fault``: an error of the store, which could only be read."""

    run: RunRow | None = None
    offered: RunRow | None = None
    report: Verdict | None = None
    fault: LeftoffError | None = None

    @property
    def open(self) -> bool:
        """Whether the session's run has something left to do."""
        return self.run is not None and not is_spent(self.run)


def begin(session: AgentSession, *, again: bool = True) -> SessionRun:
    """Return the run of a session that begins or continues, or the run that it is offered. ``again``: it has a new
    process.

    If the store cannot be written, the answer is what can be read. The next event binds the session.
    """
    project, store = session.project, session.project.store
    if session.driven or not store.exists():
        return SessionRun()
    row = store.read(lambda view: sessions.told_run(view, session.who))
    offered = _offered(session) if row is None else None
    fault = None
    try:
        sessions.finish_spent(project, session.branch)
        if row is not None:
            row = sessions.take_run(project, session.who, again=again)
            offered = _offered(session) if row is None else None
    except StoreUnavailable as error:
        if row is not None:  # else another session will complete the spent runs
            project.say(error.message)
    except (Corrupt, Unsupported) as error:
        project.say(error.message)
        fault = error
    return SessionRun(row, offered, fault=fault)


def _offered(session: AgentSession) -> RunRow | None:
    """Return the newest run that has something left to do and that no process works on."""
    free = session.free_runs()
    # Another worktree of the repository may have a newer one.
    here = git_branch(session.project.folder)
    own = (row for row in free if here and row.card.get("git_branch") == here)
    return next(own, free[0] if free else None)


def resume_session(session: AgentSession) -> SessionRun:
    """Give the session its own run, or else the one that no process works on, unless the verdict refuses that.

    If the run moves meanwhile, it is judged again.
    """
    from leftoff.engine.find import until_unmoved

    return until_unmoved(lambda: _resume(session))


def _resume(session: AgentSession) -> SessionRun:
    project, store, who = session.project, session.project.store, session.who
    if session.driven or not store.exists():
        return SessionRun()
    own = store.read(lambda view: sessions.told_run(view, who))
    free = _offered(session) if own is None or is_spent(own) else None
    report = _verified(session, free) if free is not None else None
    if report is not None and report.verdict == "refuse":
        return SessionRun(offered=free, report=report)
    row = sessions.take_run(project, who, offered=free)
    same = row is not None and free is not None and row.run == free.run
    return SessionRun(row, report=report if same else None)


def _verified(session: AgentSession, row: RunRow) -> Verdict:
    """Return the verdict on a run, the same as that of `leftoff resume`."""
    from leftoff.engine.find import Target
    from leftoff.engine.resume_answers import ResumeRequest
    from leftoff.operations.resuming import judge

    return judge(session.project, Caller(session=session.who.session), ResumeRequest(Target(row, None)))


def process_of(project: Project, session: str, found: list[Process]) -> Process | None:
    """Return which of several processes is the session's: the one that it had, else the first that no other session
    has."""
    store = project.store
    leases = store.read(lambda view: view.leases()) if store.exists() and found else []
    held = {lease.process: lease.session for _, lease in leases if lease.kind == "session"}
    own = [process for process in found if held.get(process) == session]
    free = [process for process in found if process not in held]
    return next(iter(own or free or found), None)
