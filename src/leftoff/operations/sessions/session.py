"""Sessions of agents: who they are, and which run each of them works on.

A session that nobody told of leftoff gets a run of its own with its first prompt. What its hooks tell is kept there
(`operations/sessions/reports.py`).
"""

from __future__ import annotations

import os
import time

from leftoff.engine.config.git_head import main_worktree, upward
from leftoff.engine.config.project import find_project, in_git, is_project, local_folder, store_location
from leftoff.engine.lifecycle import sessions
from leftoff.engine.lifecycle.sessions import Who
from leftoff.engine.read.which import is_spent
from leftoff.engine.workspace.hook_order import (
    KEPT,
    InOrder,
    OnItsWay,
    lost,
    name_of,
    settled,
    told_before,
)
from leftoff.engine.write.lease import NOBODY
from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable, Unsupported
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.resume.verdict import Report
    from leftoff.engine.workspace.workspace import Workspace
    from leftoff.host import Process
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

_TO_TELL = 0.1  # seconds that are left for the answer itself
_LOOKS = 50  # times that is looked for a run that nobody works on, while others come and go
_LONGEST = 2000  # characters of a text that is kept

Way = OnItsWay


class Session:
    """A session of an agent, at work in a project.

    ``way``: its event that is at work. ``anywhere``: its hooks are called in every folder, and must not make a store in
    each. ``until``: when the agent goes on at the latest, in nanoseconds.
    """

    def __init__(
        self, project: Project, caller: Caller, agent: str, way: Way, *, anywhere: bool, until: int
    ) -> None:
        self.project = project
        self.way = way
        self.anywhere = anywhere
        self.until = until
        self.belongs_to(caller, agent)

    def belongs_to(self, caller: Caller, agent: str) -> None:
        """Whose session it is."""
        self.who = Who(self.way.session, agent, caller.agent, caller.run, event=self.way.name)
        self.branch = caller.branch
        self.driven = bool(caller.attempt)  # the agent does a step of a run that a runner drives

    @property
    def has_home(self) -> bool:
        """Whether a store is there already, or may be made."""
        return not self.anywhere or self.project.store.exists() or in_git(self.project.folder)

    @property
    def time_left(self) -> float:
        """Seconds until the answer must be ready."""
        return max((self.until - time.time_ns()) / 1e9 - _TO_TELL, 0)

    @property
    def workspace(self) -> Workspace:
        return self.project.workspace(self.project.at)

    @property
    def row(self) -> RunRow | None:
        """The session's run, if it has one."""
        store = self.project.store
        return store.read(lambda view: sessions.bound_run(view, self.who)) if store.exists() else None

    def order(self, *, alone: bool = False) -> InOrder:
        """What is done under it comes after turns that began or ended before. ``alone``: after everything, and nothing
        else is done meanwhile."""
        return InOrder(self.workspace, self.who.session, self.way, alone=alone)

    def fit(self, text: str) -> str:
        """A text that the agent gave, fit to be kept: a secret that would be cut in two is masked first."""
        text = text.encode("utf-8", "replace").decode().replace("\0", "").strip()
        return self.project.redactor.mask(text[: 2 * _LONGEST])[:_LONGEST]

    def opening(self, title: str | None) -> Opening:
        return sessions.session_opening(self.who, self.branch, title, self.project.git_facts())


def find_place(cwd: str, started_in: str | None, project: str | None, store: str | None) -> tuple[str, str]:
    """The folder of a session's project, and that of its store. ``project``, ``store``: as somebody said."""
    start = _looked_from(cwd, started_in)
    folder = find_project(start if os.path.isdir(start) else None, project)
    return folder, local_folder(store_location(folder, store, _configured(folder)))


def _configured(project: str) -> str | None:
    from leftoff.engine.config.settings import load

    try:
        return load(project).store
    except LeftoffError:  # whoever opens the store says so
        return None


def _is_broken(project: str) -> bool:
    """Whether the settings of a project say nothing: then nothing is made there."""
    from leftoff.engine.config.settings import load

    try:
        load(project)
    except LeftoffError:
        return True
    return False


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


def process_of(project: Project, session: str, found: list[Process]) -> Process | None:
    """Of the processes that a session may have, its own: the one it had, else the first that no other session has."""
    store = project.store
    leases = store.read(lambda view: view.leases()) if store.exists() and found else []
    held = {lease.process: lease.session for _, lease in leases if lease.kind == "session"}
    own = [process for process in found if held.get(process) == session]
    free = [process for process in found if process not in held]
    return next(iter(own or free or found), None)


def on_its_way(place: tuple[str, str], session: str, *, turn: bool, begins: bool, anywhere: bool) -> Way:
    """Held while an event of a session is at work: see ``_offered``. ``place``: the project, the store.

    ``turn``: a turn begins or ends, or the session does; ``begins``: that of a prompt, for which a store is made.
    """
    project, store = place
    make = begins and (not anywhere or in_git(project)) and not _is_broken(project)
    return Way(store, session, turn=turn, make=make)


def not_kept(store: str, session: str) -> list[str]:
    """What to say of events whose hooks were killed before they were kept. ``session``: our own."""
    own = name_of(session)
    return [
        f"an event of {session if one == own else f'another session ({one})'} was not kept: its hook was killed"
        for one in lost(store)
    ]


def has_kept(store: str) -> bool:
    """Whether events wait for a store that was out of reach: see `operations.sessions.kept_events`."""
    return os.path.isdir(os.path.join(store, KEPT))


def is_told(session: Session, event: bytes, *, last: bool = False) -> bool:
    """Whether this very event was told already, by the hooks of the project where these are the user's, or else.
    ``last``: the session ends with it."""
    hooks = "user" if session.anywhere else "project"
    told = told_before(session.project.store_folder, session.who.session, event, hooks)
    if told and last:
        session.order().forget()  # whoever told of it saw that we are still at work
    return told


# -- which run


class SessionRun(Fields):
    """The run that a session works on from now on; else the one that it may. ``report``: what was found before it was
    taken; one that refuses is why it was not. ``fault``: what is wrong with the store, which could be read as far."""

    run: RunRow | None = None
    offered: RunRow | None = None
    report: Report | None = None
    fault: Corrupt | Unsupported | None = None

    @property
    def open(self) -> bool:
        """Whether the session's run has something left to do."""
        return self.run is not None and not is_spent(self.run)


def begin(session: Session, *, again: bool = True) -> SessionRun:
    """A session begins, or goes on: its own run, or one that nobody works on. ``again``: its process is a new one.

    A store that is locked, or takes nothing, can be read: what is there is told, and the next event binds the session.
    """
    project, store = session.project, session.project.store
    if session.driven or not store.exists():
        return SessionRun()
    row = store.read(lambda view: sessions.told_run(view, session.who))
    offered = _offered(session) if row is None else None
    store.patience = min(store.patience, session.time_left)
    fault = None
    try:
        sessions.finish_spent(project, session.branch)
        if row is not None:
            row = sessions.take_run(project, session.who, again=again)
            offered = _offered(session) if row is None else None
    except StoreUnavailable as error:
        if row is not None:  # else somebody else will finish what is spent
            project.say(error.message)
    except (Corrupt, Unsupported) as error:
        project.say(error.message)
        fault = error
    return SessionRun(row, offered, fault=fault)


def _offered(session: Session, *, anyway: bool = False) -> RunRow | None:
    """The run that nobody works on: its agent is gone, then no event of its session is at work, then it is still open.

    In that order: an agent lives until its last event is at work, and that is at work until it is in the store. Events
    are waited for as long as there is time; then the next one is looked at. ``anyway``: after half of the time it is
    offered all the same, so that there is some left to tell it.
    """
    store, told = session.project.store, set[str]()
    for _ in range(_LOOKS):
        found = _free(session, told)
        if found is None or not found[0].session or found[0].session == session.who.session:
            return found[0] if found is not None else None
        row, epoch = found
        patience = session.time_left / 2 if anyway else session.time_left
        if not settled(store.folder, row.session, patience) and not anyway:
            told.add(row.session)
            continue
        again = _free(session, told)
        if again is not None and (again[0].run, again[1]) == (row.run, epoch):
            return again[0]
    return None


def _free(session: Session, without: set[str]) -> tuple[RunRow, int] | None:
    """The latest run that nobody works on, but those of some sessions; and the epoch of whoever drove it."""
    project = session.project

    def look(view: View) -> tuple[RunRow, int] | None:
        row = sessions.offered_run(view, session.branch, project.at, without)
        return (row, (view.lease(row.run) or NOBODY).epoch) if row is not None else None

    return project.store.read(look)


def resume(session: Session) -> SessionRun:
    """The session's own run; or the one that nobody works on, unless the world does not allow to go on with it. What
    others do to it meanwhile makes it another one to judge."""
    from leftoff.engine.write.unmoved import until_unmoved

    return until_unmoved(lambda: _resume(session))


def _resume(session: Session) -> SessionRun:
    project, store, who = session.project, session.project.store, session.who
    if session.driven or not store.exists():
        return SessionRun()
    own = store.read(lambda view: sessions.told_run(view, who))
    free = _offered(session, anyway=True) if own is None or is_spent(own) else None
    report = _verified(session, free) if free is not None else None
    if report is not None and report.verdict == "refuse":
        return SessionRun(offered=free, report=report)
    row = sessions.take_run(project, who, offered=free)
    same = row is not None and free is not None and row.run == free.run
    return SessionRun(row, report=report if same else None)


def _verified(session: Session, row: RunRow) -> Report:
    """The world, checked against a run as `leftoff resume` does it."""
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.operations.resume.verdict import verify

    return verify(session.project, Caller(session=session.who.session), ResumeRequest(Target(row, None)))


def source_of_run(session: Session, row: RunRow) -> str:
    """Where a run came from that nobody here started; empty: it was started here."""
    from leftoff.engine.read.quoting import source_of

    return session.project.store.read(lambda view: source_of(view, row))


def brief(session: Session, row: RunRow, room: int) -> str:
    """What a session must know of its run, in so many characters."""
    from leftoff.engine.read.find import Target
    from leftoff.operations.checkpoints import told

    return told(session.project, Target(row, None), room, session.time_left / 2)
