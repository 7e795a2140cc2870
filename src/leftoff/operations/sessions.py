"""Sessions of agents: what their hooks tell of them, kept in the run that a session works on.

A session that nobody told of leftoff gets a run of its own with the first thing that is worth keeping: a list of what
it is going to do, or a file that it changes.
"""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.config.git_head import git_head, main_worktree
from leftoff.engine.config.project import find_project, in_git, store_location
from leftoff.engine.lifecycle import sessions
from leftoff.engine.lifecycle.sessions import Who
from leftoff.engine.read.state import Reader
from leftoff.engine.read.which import SESSION, is_spent
from leftoff.engine.workspace.pending import Pending, Turn
from leftoff.engine.workspace.surroundings import remember_git
from leftoff.engine.write.commit import Seal
from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.verdict import Report
    from leftoff.engine.steps.artifacts import Captured
    from leftoff.engine.steps.lists import Item
    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.workspace.workspace import Workspace
    from leftoff.engine.write.report import Make
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import BlobRow, RunRow

_LONGEST = 2000  # characters of a message that is kept
_ERROR = "session"  # the key of the error that ended a turn
_TURN_ENDED = Seal("manual", note="the agent's turn ended")


class Session:
    """A session of an agent, at work in a project.

    ``anywhere``: its hooks are called in every folder, and must not make a store in each. ``until``: when the agent
    goes on at the latest, in nanoseconds.
    """

    def __init__(
        self, project: Project, caller: Caller, id: str, agent: str, *, anywhere: bool, until: int
    ) -> None:
        self.project = project
        self.who = Who(id, agent, caller.agent, caller.run)
        self.branch = caller.branch
        self.driven = bool(caller.attempt)  # the agent does a step of a run that a runner drives
        self.anywhere = anywhere
        self.until = until

    @property
    def has_home(self) -> bool:
        """Whether a store is there already, or may be made."""
        return not self.anywhere or self.project.store.exists() or in_git(self.project.folder)

    @property
    def workspace(self) -> Workspace:
        return self.project.workspace(self.project.at)

    @property
    def row(self) -> RunRow | None:
        """The session's run, if it has one."""
        store = self.project.store
        return store.read(lambda view: sessions.bound_run(view, self.who)) if store.exists() else None

    def fit(self, text: str) -> str:
        """A text that the agent gave, fit to be kept."""
        text = text.encode("utf-8", "replace").decode().strip()
        return self.project.redactor.mask(text[:_LONGEST])

    def opening(self, title: str | None) -> Opening:
        return sessions.session_opening(self.who, self.branch, title, self.project.git_facts())


def find_place(cwd: str, started_in: str | None, project: str | None, store: str | None) -> tuple[str, str]:
    """The folder of a session's project, and that of its store. ``project``, ``store``: as somebody said."""
    start = _looked_from(cwd, started_in)
    folder = find_project(start if os.path.isdir(start) else None, project)
    location = store_location(folder, store)
    return folder, location if "://" not in location else os.path.join(folder, ".leftoff")


def _looked_from(cwd: str, given: str | None) -> str:
    """Where to look for the project: in the session's folder, wherever the agent's shell may be by now."""
    here = cwd or given or os.getcwd()
    if not given or not os.path.isdir(given):
        return _there(here)
    real, top = os.path.realpath(here), os.path.realpath(given)
    if real == top or real.startswith(top.rstrip(os.sep) + os.sep):
        return _there(here)
    folder = real
    while not os.path.exists(os.path.join(folder, ".git")) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return here if os.path.isdir(here) and main_worktree(folder) == top else given


def _there(folder: str) -> str:
    """The folder, or the nearest one above it that is still there."""
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def in_order(session: Session, *, alone: bool, begins: bool) -> Turn:
    """What is done under it comes after what the session's hooks before did. ``alone``: a turn begins or ends."""
    make = begins and in_git(session.project.folder)
    return Turn(session.workspace, session.who.session, alone=alone, make=make)


# -- which run


class Taken(Fields):
    """The run that a session works on from now on; else the one that it may. ``report``: what was found before it was
    taken; one that refuses is why it was not."""

    run: RunRow | None = None
    offered: RunRow | None = None
    report: Report | None = None

    @property
    def open(self) -> bool:
        """Whether the session's run has something left to do."""
        return self.run is not None and not is_spent(self.run)


def begin(session: Session) -> Taken:
    """A session begins, or goes on: its own run, or one that nobody works on."""
    project, store = session.project, session.project.store
    if session.driven or not store.exists():
        return Taken()
    sessions.finish_spent(project, session.branch)
    row = sessions.take_run(project, session.who, session.branch, offered=False)
    if row is not None:
        return Taken(row)
    return Taken(offered=store.read(lambda view: sessions.offered_run(view, session.branch, project.at)))


def resume(session: Session) -> Taken:
    """The session's own run; or the one that nobody works on, unless the world does not allow to go on with it."""
    project, store, who = session.project, session.project.store, session.who
    if session.driven or not store.exists():
        return Taken()
    own, free = store.read(
        lambda view: (sessions.told_run(view, who), sessions.offered_run(view, session.branch, project.at))
    )
    report = _verified(session, free) if own is None and free is not None else None
    if report is not None and report.verdict == "refuse":
        return Taken(offered=free, report=report)
    row = sessions.take_run(project, who, session.branch, offered=True)
    same = row is not None and free is not None and row.run == free.run
    return Taken(row, report=report if same else None)


def _verified(session: Session, row: RunRow) -> Report:
    """The world, checked against a run as `leftoff resume` does it."""
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.operations.verdict import verify

    return verify(session.project, Caller(session=session.who.session), ResumeRequest(Target(row, None)))


def brief(session: Session, row: RunRow, room: int) -> str:
    """What a session must know of its run, in so many characters."""
    from leftoff.engine.read.brief import fit, parts
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.show import document

    project = session.project
    found = document(project.store, Target(row, None), project.at, project.limits)
    return fit(parts(found, project.at, project.folder), room)


def whole_brief(project: Project, target: Target) -> str:
    """What an agent must know that has never seen the work."""
    from leftoff.engine.read.brief import brief

    return brief(project.store, target, project.now, project.folder)


def end(session: Session, why: str) -> None:
    """The session ends: its runs are completed where nothing is open, else paused."""
    if session.driven:
        return
    pending = Pending(session.workspace, session.who.session)
    if os.path.exists(pending.path):  # interrupted in its first turn, perhaps with something done
        turn(session)
    sessions.end_session(session.project, session.who, session.fit(why))
    pending.end()


# -- committing


def _report(
    session: Session,
    make: Make,
    *,
    blobs: list[BlobRow] | None = None,
    start: bool = False,
    title: str | None = None,
) -> None:
    """Commit to the session's run. ``start``: it is worth a run, where there is none."""
    opening = None
    if start and session.has_home:
        opening = session.opening(title)
        if session.row is None:
            _start(session, opening)
    sessions.report_session(session.project, session.who, make, opening, blobs or [])


def _start(session: Session, opening: Opening) -> None:
    """The run's first checkpoint: the files as they were at the session's last prompt."""
    pending = Pending(session.workspace, session.who.session)
    try:
        _commit_start(session, opening, pending.take())
    except (Corrupt, StoreUnavailable):  # what was remembered is not there any more
        _commit_start(session, opening, pending.look())
    pending.forget()


def _commit_start(session: Session, opening: Opening, found: Found | None) -> None:
    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if row.seq != 1:  # another hook of this session was faster, or it has a run from before
            return None
        if found is not None:
            found.put(changes, row.seq + 1)
        return Seal("agent_start", note=f"a session of {session.who.agent} begins")

    blobs = found.blobs if found is not None else []
    sessions.report_session(session.project, session.who, make, opening, blobs)


def _checkpoint(
    session: Session,
    seal: Seal,
    put: Make | None = None,
    *,
    changed: bool = False,
    blobs: list[BlobRow] | None = None,
) -> None:
    """Commit, and seal it; with ``changed``, only if something did since the last checkpoint."""
    head = git_head(session.project.folder)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if put is not None:
            put(tx, row, changes)
        if changed and row.checkpoint is not None and not changes.changes:
            return None
        remember_git(head, row, changes)
        return seal

    _report(session, make, blobs=blobs)


# -- turns


def turn(session: Session, *, begins: bool = False, seal: bool = False) -> None:
    """A turn begins or ends: what a shell changed is known from now on, too. ``seal``: as a checkpoint, if anything
    changed since the last one."""
    from leftoff.engine.workspace.edits import changed

    until = session.until if begins else None  # what is changed later is the turn's
    row, workspace = session.row, session.workspace
    if row is None and in_git(session.project.folder):
        first = Pending(workspace, session.who.session, until).turn(begins=begins)
        if first is not None:
            _start(session, session.opening(_edits([first])))
            row = session.row
    if row is None:
        return
    found = changed(workspace, row, until)

    def put(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if tx.row(row.run, "error", _ERROR) is not None:  # what ended the last turn is over
            changes.delete("error", _ERROR)
        if found.news(Reader(workspace.store, tx, row.run, row.run_id), row.seq):
            found.put(changes, row.seq + 1)

    if seal:
        _checkpoint(session, _TURN_ENDED, put, changed=True, blobs=found.blobs)
    else:
        _report(session, put, blobs=found.blobs)


def fail_turn(session: Session, kind: str, detail: str) -> None:
    """A turn ended in an error of the agent's service: why, for whoever goes on."""
    kind, detail = session.fit(kind), session.fit(detail)
    about = {"type": kind, "message": detail or kind, "at": iso(session.project.at)}

    def put(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        changes.put("error", _ERROR, about)

    _checkpoint(session, Seal("error", note=kind), put)


def member_done(session: Session, name: str, kind: str, message: str) -> None:
    """A helper of the agent is done: who it was, what it said last."""
    at = iso(session.project.at)
    about = {"type": kind, "message": session.fit(message), "status": "completed", "at": at}

    def put(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if name:
            changes.put("member", name[:200], {key: value for key, value in about.items() if value})

    _checkpoint(session, Seal("agent_complete", note=kind or name or "a subagent"), put)


def before_compaction(session: Session, trigger: str) -> None:
    """The agent is about to forget: a checkpoint."""
    note = f"before the context is compacted ({session.fit(trigger) or 'auto'})"
    _checkpoint(session, Seal("manual", note=note))


def after_compaction(session: Session, summary: str) -> None:
    """What the agent itself thinks worth knowing."""
    from leftoff.engine.write.records import note_record, put_note

    text = session.fit(summary)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        put_note(tx, row, changes, note_record(text, session.project.at), session.project.at)

    if text:
        _report(session, make)


# -- files


def before_edit(session: Session, paths: list[str]) -> None:
    """Files are about to be written: as they are is kept, where nothing is known of them."""
    from leftoff.engine.workspace import edits

    names = edits.inside(session.project.folder, paths)
    if not names or not session.has_home:
        return
    workspace = session.workspace
    peeked = edits.peek(workspace, names, session.until)  # first of all: the store may be locked for long
    with Turn(workspace, session.who.session):
        found = edits.before(workspace, session.row, peeked)

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
            edits.put_first(workspace.store, tx, row, changes, found)

        if found:
            title = _edits([got.key for got in found])
            _report(session, make, blobs=_blobs(found), start=True, title=title)


def after_edit(session: Session, paths: list[str]) -> None:
    """Files were written, and are tracked from now on."""
    from leftoff.engine.workspace import edits

    names = edits.inside(session.project.folder, paths)
    if not names or not session.has_home:
        return
    found = edits.after(session.workspace, session.row, names)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        for got in found:
            got.put(changes, "file")

    _report(session, make, blobs=_blobs(found), start=True, title=_edits(names))


def _blobs(found: list[Captured]) -> list[BlobRow]:
    return [got.blob for got in found if got.blob is not None]


def _edits(paths: list[str]) -> str:
    return f"edits {os.path.basename(paths[0])}"


# -- lists


def keep_list(session: Session, items: list[Item]) -> None:
    """The agent's list, whole: the steps of its own run; beside those of a run that has steps of its own."""
    from leftoff.engine.steps.lists import put_list

    at = session.project.at
    for item in items:
        item.text = session.project.redactor.mask(item.text)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if row.workflow == SESSION:
            put_list(session.project.store, tx, row, changes, items, at)
            return
        todos = [{"text": item.text, "status": item.status} for item in items]
        changes.put("context", f"todos of {session.who.session}", {"todos": todos, "at": iso(at)})

    title = next((item.text for item in items if item.status == "running"), items[0].text if items else "")
    _report(session, make, start=bool(items), title=title[:100] or None)


def keep_task(session: Session, item: Item, *, seal: bool = False) -> None:
    """One entry of the agent's list. ``seal``: a checkpoint, too."""
    from leftoff.engine.steps.lists import put_task

    text = item.text = session.project.redactor.mask(item.text)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if row.workflow != SESSION:
            return None
        step = put_task(session.project.store, tx, row, changes, item, session.project.at)
        return Seal("step_complete", step, text) if seal else None

    _report(session, make, start=bool(text), title=text[:100] or None)
