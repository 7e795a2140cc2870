"""What the hooks of an agent tell of a session, kept in its run: turns, files, lists, compactions, helpers.

A turn is work: a prompt opens it, and whatever becomes of it is the run's. The first checkpoint of a session's run is
what was there at the prompt that the work began with; a session that only talked has none.
"""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.config.git_head import git_head
from leftoff.engine.lifecycle import sessions
from leftoff.engine.lifecycle.turns import COMPLETED, FAILED, INTERRUPTED, Prompt, Turn, Unclaimed
from leftoff.engine.read.state import Reader
from leftoff.engine.read.which import OPEN_TURN, SESSION
from leftoff.engine.workspace.git import remember_git
from leftoff.engine.workspace.hook_order import on_their_way
from leftoff.engine.write.commit import Seal
from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.steps.artifacts import Captured
    from leftoff.engine.steps.lists import Item
    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.write.report import Make
    from leftoff.model.changes import ChangeSet
    from leftoff.operations.sessions.session import Session
    from leftoff.store.base import Tx
    from leftoff.store.rows import BlobRow, RunRow

_ERROR = "session"  # the key of the error that ended a turn
_TITLE = 100  # characters
_MESSAGE = 500  # characters of what a failed command said


# -- committing


def _report(
    session: Session,
    make: Make,
    *,
    blobs: list[BlobRow] | None = None,
    start: bool = False,
    title: str | None = None,
    what: str = "",
) -> None:
    """Commit to the session's run. ``start``: it is work, and worth a run where there is none. ``what``: which commit
    of its event that is, where there are several."""
    opening = None
    if start and session.has_home:
        opening = session.opening(title)
        _begin_work(session, title)
    sessions.report_session(session.project, session.who, make, opening, blobs or [], what)


def _begin_work(session: Session, title: str | None = None) -> None:
    """The run's first checkpoint, before anything that is done is kept: the files as they were at the last prompt."""
    row, store = session.row, session.project.store
    if session.driven or (
        row is not None and store.read(lambda view: view.versions(row.run, sealed=True, limit=1))
    ):
        return
    try:
        found = _look(session, None) if row is None else None
        _commit_start(session, title, found)
    except (Corrupt, StoreUnavailable):  # what was remembered is not there any more
        _commit_start(session, title, _look(session, row))


def _commit_start(session: Session, title: str | None, found: Found | None) -> None:
    from leftoff.engine.workspace.tracking import still_complete

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if tx.versions(row.run, sealed=True, limit=1):  # another hook of this session was faster
            return None
        if found is not None:
            found.put(changes, row.seq + 1)
        else:  # what was dirty at the prompt is all that was
            still_complete(Reader(session.project.store, tx, row.run, row.run_id), changes, row.seq + 1)
        return Seal("agent_start", note=f"a session of {session.who.agent} begins")

    blobs = found.blobs if found is not None else []
    sessions.report_session(session.project, session.who, make, session.opening(title), blobs, "start")


def _checkpoint(session: Session, seal: Seal, put: Make | None = None) -> None:
    """Commit, and seal it."""
    head = git_head(session.project.folder)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if put is not None:
            put(tx, row, changes)
        remember_git(head, row, changes)
        return seal

    _report(session, make)


def _turn(session: Session, tx: Tx, row: RunRow, changes: ChangeSet) -> Turn:
    """The turn that is open in a run."""
    return Turn(Reader(session.project.store, tx, row.run, row.run_id), row, changes, session.project.at)


# -- turns


def _look(session: Session, row: RunRow | None, until: int | None = None) -> Found | None:
    """All files that are not as they were committed; without git, those that the run knows and that changed."""
    from leftoff.engine.workspace.edits import changed

    return changed(session.workspace, row, until)


class _Seen(Fields):
    """Files that were looked at, and which of them are not as the run knew them: its turn's, and nobody's."""

    found: Found | None
    names: list[str]
    unclaimed: Unclaimed | None = None

    @property
    def blobs(self) -> list[BlobRow]:
        return self.found.blobs if self.found is not None else []

    @property
    def any(self) -> bool:
        return bool(self.names or self.unclaimed)

    def put(self, session: Session, tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        reader = Reader(session.project.store, tx, row.run, row.run_id)
        if self.found is not None and self.found.news(reader, row.seq):
            self.found.put(changes, row.seq + 1)


def _seen(session: Session, row: RunRow | None, until: int | None = None) -> _Seen:
    from leftoff.engine.workspace.tracking import files_of

    found = _look(session, row, until)
    if found is None or row is None:
        return _Seen(found, [])
    known = files_of(session.project.store, row)
    names = [got.key for got in found.captured if known.get(got.key) != got.about] + found.dropped
    if not names:
        return _Seen(found, [])
    from leftoff.engine.lifecycle.changed_files import whose

    # Before turns are read: what is told meanwhile is there then.
    busy = on_their_way(session.project.store_folder)
    project, own = session.project, session.who.session
    return project.store.read(lambda view: _Seen(found, *whose(project, own, view, row, names, busy)))


def begin_turn(session: Session, asked: str, transcript: str = "", *, goes_on: bool = False) -> None:
    """The session is asked for something: a turn is open from now on, whatever becomes of the session.

    What changed since the last turn ended, nobody knows who did; what changed in one that did not end was its work.
    ``goes_on``: nobody asked; the agent goes on with a turn that is open.
    """
    if not session.has_home:
        return
    row = session.row
    seen = _seen(session, row, session.until)  # what is changed later is the turn's
    prompt = Prompt(session.fit(asked), transcript, git_head(session.project.folder))
    if row is not None and seen.any and row.card.get(OPEN_TURN):
        _begin_work(session)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        seen.put(session, tx, row, changes)
        if session.driven:
            return None
        if tx.row(row.run, "error", _ERROR) is not None:  # what ended the last turn is over
            changes.delete("error", _ERROR)
        turn = _turn(session, tx, row, changes)
        if turn.is_running and goes_on:
            return None
        if turn.record is None or turn.record.get("status") != COMPLETED:
            turn.changed(seen.names, seen.unclaimed)
        turn.open(session.who, prompt)
        return None

    title = " ".join(prompt.text.split())[:_TITLE] or None
    opening = None if session.driven else session.opening(title)
    sessions.report_session(session.project, session.who, make, opening, seen.blobs)


def end_turn(session: Session, said: str, *, busy: bool = False) -> None:
    """The turn ended well. ``busy``: helpers of the agent are still at work, and it will go on with what they say."""
    _end_turn(session, COMPLETED, said, Seal("manual", note="the agent's turn ended"), busy=busy)


def interrupt_turn(session: Session, said: str) -> None:
    """The user interrupted the turn: it stays open."""
    _end_turn(session, INTERRUPTED, said, Seal("user_interrupt", note="the user interrupted the turn"))


def fail_turn(session: Session, kind: str, detail: str) -> None:
    """A turn ended in an error of the agent's service: why, for whoever goes on."""
    kind, detail = session.fit(kind), session.fit(detail)
    about = {"type": kind, "message": detail or kind, "at": iso(session.project.at)}
    _end_turn(session, FAILED, "", Seal("error", note=kind), error=about)


def _end_turn(
    session: Session,
    status: str,
    said: str,
    seal: Seal,
    *,
    error: dict[str, str] | None = None,
    busy: bool = False,
) -> None:
    """A checkpoint where anything changed in the turn, or something went wrong."""
    row = session.row
    if row is None:
        return
    seen, words, head = _seen(session, row), session.fit(said), git_head(session.project.folder)
    if seen.any or error is not None:
        _begin_work(session)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        turn = _turn(session, tx, row, changes)
        talked = turn.only_talked and not seen.any and error is None
        if turn.record is None:
            talked = row.checkpoint is not None and not seen.any and error is None
        seen.put(session, tx, row, changes)
        if error is not None:
            changes.put("error", _ERROR, error)
        turn.changed(seen.names, seen.unclaimed)
        if busy:
            turn.say(words)
        else:
            turn.end(status, words, error, head)
        if talked:
            return None
        remember_git(head, row, changes)
        return seal

    sessions.report_session(session.project, session.who, make, None, seen.blobs, "end")


def failed_commands(session: Session, failures: list[tuple[str, str]]) -> None:
    """Commands of the agent's failed: each, and what it said."""
    told = [(session.fit(command), session.fit(error)[:_MESSAGE]) for command, error in failures]

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        turn = _turn(session, tx, row, changes)
        for command, error in told:
            turn.failed(command, error)

    if told:
        _report(session, make, what="failed")


def failed_in_transcript(session: Session, transcript: str, turn: str) -> None:
    """Codex tells of commands that failed only there."""
    from leftoff.engine.read.transcript import failed_commands as find

    failed_commands(session, find(transcript, turn))


def end_session(session: Session, why: str) -> None:
    """The session ends: its runs are completed where nothing is open, else paused. A turn that is open was cut off."""
    if session.driven:
        return
    row, seen = session.row, None
    if row is not None and row.card.get(OPEN_TURN):
        seen = _seen(session, row)
        if seen.any:
            _begin_work(session)

    def last(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        turn = _turn(session, tx, row, changes)
        if seen is not None and turn.is_running:
            seen.put(session, tx, row, changes)
            turn.changed(seen.names, seen.unclaimed)
            turn.end(INTERRUPTED)

    blobs = seen.blobs if seen is not None else []
    sessions.end_session(session.project, session.who, session.fit(why), last, blobs)
    session.order().forget()


# -- helpers and compactions


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
    with session.order():
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
        reader = Reader(session.project.store, tx, row.run, row.run_id)
        _turn(session, tx, row, changes).changed([got.key for got in found if edits.differs(reader, got)])
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
    from leftoff.engine.steps.lifecycle import steps_in
    from leftoff.engine.steps.lists import put_list

    at = session.project.at
    for item in items:
        item.text = session.project.redactor.mask(item.text)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if row.workflow == SESSION:
            put_list(steps_in(session.project.store, tx, row, changes, at), items, session.who.session)
            return
        todos = [{"text": item.text, "status": item.status} for item in items]
        changes.put("context", f"todos of {session.who.session}", {"todos": todos, "at": iso(at)})

    title = next((item.text for item in items if item.status == "running"), items[0].text if items else "")
    _report(session, make, start=bool(items), title=title[:_TITLE] or None)


def keep_task(session: Session, item: Item, *, seal: bool = False) -> None:
    """One entry of the agent's list. ``seal``: a checkpoint, too."""
    from leftoff.engine.steps.lifecycle import steps_in
    from leftoff.engine.steps.lists import put_task

    text = item.text = session.project.redactor.mask(item.text)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if row.workflow != SESSION:
            return None
        steps = steps_in(session.project.store, tx, row, changes, session.project.at)
        step = put_task(steps, item, session.who.session)
        return Seal("step_complete", step, text) if seal else None

    _report(session, make, start=bool(text), title=text[:_TITLE] or None)
