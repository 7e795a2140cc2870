"""What each hook event records in the run of its session: turns, files, todo lists, compactions, sub-agents.

A prompt opens a turn, and what the agent does in it belongs to the run. The first checkpoint of a session's run has the
files as they were at the prompt that the work began with. A session that only talked has no checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from leftoff.agents.agent_session import AgentSession
from leftoff.agents.hook_events import HookEvent
from leftoff.clock import iso
from leftoff.engine import sessions
from leftoff.engine.agent_turns import (
    COMPLETED,
    FAILED,
    HEAD,
    INTERRUPTED,
    AgentTurn,
    ListItem,
    put_list,
    put_task,
)
from leftoff.engine.commit import Seal
from leftoff.engine.find import OPEN_TURN, SESSION
from leftoff.engine.git import changed_between, remember_git
from leftoff.engine.quoting import telling_part
from leftoff.engine.run_reader import Reader
from leftoff.engine.step_lifecycle import steps_in
from leftoff.engine.tracking import (
    Found,
    capture_edits,
    changed_in_turn,
    edited_paths,
    is_news,
    known_to,
    put_first,
    still_complete,
    store_first,
)
from leftoff.engine.transcript import ANSWERED, CANCELLED, failed_commands, workflow_runs
from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.model.changes import ChangeSet
from leftoff.store.base import Tx
from leftoff.store.rows import BlobRow, RunRow

Make = Callable[[Tx, RunRow, ChangeSet], Seal | None]

_ERROR = "session"  # the key of the error that ended a turn
_TITLE = 100  # characters
_MESSAGE = 1500  # characters of the error of a command, of which the end says most


def record_event(session: AgentSession, event: HookEvent) -> None:
    """Record an event. Each of its commits has a token, so that an event that is recorded again changes nothing."""
    EVENTS[event.name](session, event)


# -- committing


def _commit(
    session: AgentSession,
    make: Make,
    *,
    blobs: Sequence[BlobRow] = (),
    work: bool = False,
    title: str = "",
    what: str = "",
) -> None:
    """Commit to the session's run. ``work``: if it has none, start one with the title. ``what``: which commit of the
    event this is, if it makes several."""
    opening = None
    if work and session.has_home:
        opening = session.opening(_title(title))
        _begin_work(session, title)
    sessions.report_session(session.project, session.who, make, opening, list(blobs), what)


def _begin_work(session: AgentSession, title: str = "") -> None:
    """Make the run's first checkpoint before the work is recorded: the files as they were at the last prompt."""
    row, store = session.row, session.project.store
    if session.driven or (
        row is not None and store.read(lambda view: view.versions(row.run, sealed=True, limit=1))
    ):
        return
    try:
        _commit_start(session, title, changed_in_turn(session.workspace, None) if row is None else None)
    except (Corrupt, StoreUnavailable):  # the content from the prompt is not there any more
        _commit_start(session, title, changed_in_turn(session.workspace, row))


def _commit_start(session: AgentSession, title: str, found: Found | None) -> None:
    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if found is not None:
            found.put(changes, row.seq + 1)
        else:  # the prompt has recorded all files that were not committed then
            still_complete(Reader(session.project.store, tx, row.run, row.run_id), changes, row.seq + 1)
        return Seal("agent_start", note=f"a session of {session.who.agent} begins")

    opening, blobs = session.opening(_title(title)), found.blobs if found is not None else []
    sessions.report_session(session.project, session.who, make, opening, blobs, "start")


def _title(text: str) -> str | None:
    """Return the title of a run: the first words of a text."""
    line = " ".join(text.split())
    return (line if len(line) <= _TITLE else f"{line[:_TITLE].rpartition(' ')[0] or line[:_TITLE]}…") or None


def _turn(session: AgentSession, tx: Tx, row: RunRow, changes: ChangeSet) -> AgentTurn:
    """Return the open turn of a run."""
    return AgentTurn(Reader(session.project.store, tx, row.run, row.run_id), row, changes, session.project.at)


# -- turns


class _Changed(NamedTuple):
    """The files that are not as they were committed. ``names``: those that the run knew differently."""

    found: Found | None
    names: list[str]

    @property
    def blobs(self) -> list[BlobRow]:
        return self.found.blobs if self.found is not None else []

    def put(self, session: AgentSession, tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        reader = Reader(session.project.store, tx, row.run, row.run_id)
        if self.found is not None and self.found.news(reader, row.seq):
            self.found.put(changes, row.seq + 1)


def _changed_files(session: AgentSession, row: RunRow | None) -> _Changed:
    """Look at the files; outside of git, at those that the run knows."""
    found = changed_in_turn(session.workspace, row)
    if found is None or row is None:
        return _Changed(found, [])
    known = known_to(session.project.store, row)
    return _Changed(
        found, [got.key for got in found.captured if known.get(got.key) != got.about] + found.dropped
    )


def _prompt(session: AgentSession, event: HookEvent) -> None:
    """Open a turn. What changed in an earlier turn that did not end was the work of that turn.

    A prompt that Gemini CLI wrote itself is part of the turn before, and so is a notification of Claude Code. That of a
    hand-over is leftoff's own, and not stored.
    """
    if event.is_nudge or not session.has_home:
        return
    # Claude Code's notifications and, after each tool of Qwen Code, an empty prompt.
    is_notification = not event.prompt or event.prompt.startswith("<task-notification>")
    handed = event.prompt.startswith(HEAD)
    row, asked, head = session.row, session.fit(event.prompt), session.git_head
    changed = _changed_files(session, row)
    if row is not None and changed.names and row.card.get(OPEN_TURN):
        _begin_work(session)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        changed.put(session, tx, row, changes)
        if session.driven:
            return
        if tx.row(row.run, "error", _ERROR) is not None:  # the error of the last turn is over
            changes.delete("error", _ERROR)
        turn = _turn(session, tx, row, changes)
        if turn.is_running and is_notification:
            turn.changed(changed.names)
            return
        if turn.record is None or turn.record.get("status") != COMPLETED:
            turn.changed(changed.names)
        turn.open(session.who, asked, event.text("transcript_path"), head, handed)

    opening = None if session.driven or handed else session.opening(_title(asked))
    sessions.report_session(session.project, session.who, make, opening, changed.blobs)


def _stop(session: AgentSession, event: HookEvent) -> None:
    """End the turn well, or note that it continues: sub-agents of it are still running.

    Gemini CLI reports the end also after an interrupt or an error, and does not say so.
    """
    status, said, busy = COMPLETED, event.last_words, event.has_helpers
    seal = Seal("manual", note="the agent's turn ended")
    if (
        event.text("turn_id") and session.who.agent == "codex"
    ):  # Codex reports failed commands only in its transcript
        _failed(session, failed_commands(event.text("transcript_path"), event.text("turn_id")))
    if event.raw == "AfterAgent":
        end = event.text("gemini_end")
        busy = end != ANSWERED if end else not said
        if end == CANCELLED:
            status, busy = INTERRUPTED, False
            seal = Seal("user_interrupt", note="the user interrupted the turn")
    _end_turn(session, status, said, seal, busy=busy)
    session.record_workflows(workflow_runs(event.text("transcript_path")))


def _stop_failure(session: AgentSession, event: HookEvent) -> None:
    """End the turn with an error of the agent's service. There is something to continue."""
    kind = session.fit(event.text("error").strip() or "error")
    detail = session.fit(event.text("error_details").strip() or event.text("last_assistant_message"))
    error = {"type": kind, "message": detail or kind, "at": iso(session.project.at)}
    _end_turn(session, FAILED, "", Seal("error", note=kind), error=error)


def _end_turn(
    session: AgentSession,
    status: str,
    said: str,
    seal: Seal,
    *,
    error: dict[str, str] | None = None,
    busy: bool = False,
) -> None:
    """End the turn, with a checkpoint if anything changed in it or went wrong. ``busy``: it is not over yet."""
    row = session.row
    if row is None:
        return
    changed, words, head = _changed_files(session, row), session.fit(said), session.git_head
    committed = _committed(session, row, head)
    if changed.names or error is not None:
        _begin_work(session)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        turn = _turn(session, tx, row, changes)
        is_quiet = turn.only_talked if turn.record is not None else row.checkpoint is not None
        changed.put(session, tx, row, changes)
        if error is not None:
            changes.put("error", _ERROR, error)
        turn.changed([*changed.names, *committed])
        if busy:
            turn.say(words)
        else:
            turn.end(status, words, error)
        if is_quiet and not changed.names and error is None:
            return None
        remember_git(head, row, changes)
        return seal

    _commit(session, make, blobs=changed.blobs, what="end")


def _committed(session: AgentSession, row: RunRow, head: str | None) -> list[str]:
    """Return the files that were committed since the open turn began. ``head``: the commit that is checked out."""
    store, key = session.project.store, row.card.get(OPEN_TURN)
    turn = (
        store.read(lambda view: Reader(store, view, row.run, row.run_id).value("turn", key)) if key else None
    )
    began = turn.plain.get("git_head") if turn is not None and isinstance(turn.plain, dict) else None
    return changed_between(session.project.folder, began, head) if began and head != began else []


def _text(session: AgentSession, event: HookEvent) -> None:
    """Store what an agent without a transcript says in its turn."""
    words = session.fit(event.last_words)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        turn = _turn(session, tx, row, changes)
        if turn.is_running:
            turn.say(words)

    if not session.driven:
        _commit(session, make)


def _failed(session: AgentSession, failures: list[tuple[str, str]]) -> None:
    """Record commands that failed, each with its error."""
    fitted = [
        (session.fit(command), telling_part(session.mask(error), _MESSAGE)) for command, error in failures
    ]

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        turn = _turn(session, tx, row, changes)
        for command, error in fitted:
            turn.failed(command, error)

    if fitted:
        _commit(session, make, what="failed")


def _session_end(session: AgentSession, event: HookEvent) -> None:
    """End the session: its runs are completed if nothing is open, else paused. An open turn was cut off."""
    if session.driven:
        return
    row, changed = session.row, _Changed(None, [])
    if row is not None and row.card.get(OPEN_TURN):
        changed = _changed_files(session, row)
        if changed.names:
            _begin_work(session)

    def last(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        turn = _turn(session, tx, row, changes)
        if turn.is_running:
            changed.put(session, tx, row, changes)
            turn.changed(changed.names)
            turn.end(INTERRUPTED)

    why = session.fit(event.text("reason")) or "the session ended"
    sessions.end_session(session.project, session.who, why, last, changed.blobs)


# -- checkpoints in a turn


def _checkpoint(
    session: AgentSession, seal: Seal, key: str = "", about: dict[str, str] | None = None
) -> None:
    """Make a checkpoint. ``key``, ``about``: the sub-agent that is done."""
    head = session.git_head

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        if key:
            changes.put("member", key, about)
        remember_git(head, row, changes)
        return seal

    _commit(session, make)


def _subagent_stop(session: AgentSession, event: HookEvent) -> None:
    """Record the answer of a sub-agent. One without a type is the agent's own compaction."""
    kind, said = event.text("agent_type"), session.fit(event.text("last_assistant_message"))
    if kind:
        about = {"type": kind, "message": said, "status": "completed", "at": iso(session.project.at)}
        about = {key: value for key, value in about.items() if value}
        _checkpoint(session, Seal("agent_complete", note=kind), event.text("agent_id")[:200], about)


def _pre_compact(session: AgentSession, event: HookEvent) -> None:
    """Make a checkpoint. Gemini CLI reports an automatic compression before each request, whether it comes or not."""
    trigger = session.fit(event.text("trigger")) or "auto"
    if event.raw != "PreCompress" or trigger == "manual":
        _checkpoint(session, Seal("manual", note=f"before the context is compacted ({trigger})"))


def _post_compact(session: AgentSession, event: HookEvent) -> None:
    """Record the agent's own summary as a note."""
    from leftoff.engine.step_lifecycle import note_record, put_note

    text, at = session.fit(event.text("compact_summary")), session.project.at

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        put_note(tx, row, changes, note_record(text, at), at)

    if text:
        _commit(session, make)


# -- tools


def _pre_tool(session: AgentSession, event: HookEvent) -> None:
    """Record the files that the agent was about to edit as they were, if the run does not know them yet."""
    found = store_first(session.workspace, session.row, session.peeked) if session.has_home else []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        put_first(session.project.store, tx, row, changes, found)

    if found:
        blobs = [got.blob for got in found if got.blob is not None]
        _commit(session, make, blobs=blobs, work=True, title=f"edits {os.path.basename(found[0].key)}")


def _post_tool(session: AgentSession, event: HookEvent) -> None:
    """Make a todo list or a plan the run's steps. Else record a command that failed, and files that were written."""
    items, task = event.todo_list(), event.task()
    if event.name == "PostToolUseFailure":
        items = task = None
    if items is not None:
        _record_list(session, items)
    elif task is not None:
        _record_task(session, task, seal=event.name == "TaskCompleted")
    else:
        _failed(session, [event.failure] if event.failure is not None else [])
        _record_edit(session, edited_paths(session.project.folder, event.paths()))


def _record_edit(session: AgentSession, names: list[str]) -> None:
    """Record files as they are after an edit."""
    if not names or not session.has_home:
        return
    found = capture_edits(session.workspace, session.row, names)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        reader = Reader(session.project.store, tx, row.run, row.run_id)
        _turn(session, tx, row, changes).changed([got.key for got in found if is_news(reader, got)])
        for got in found:
            got.put(changes, "file")

    blobs = [got.blob for got in found if got.blob is not None]
    _commit(session, make, blobs=blobs, work=True, title=f"edits {os.path.basename(names[0])}")


def _record_list(session: AgentSession, items: list[ListItem]) -> None:
    """Record a whole todo list: as the steps of the session's own run, or next to those of a run that has steps."""
    at, who = session.project.at, session.who.session
    for item in items:
        item.text = session.project.redactor.mask(item.text)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if row.workflow == SESSION:
            put_list(steps_in(session.project.store, tx, row, changes, at), items, who)
            return
        todos = [{"text": item.text, "status": item.status} for item in items]
        changes.put("context", f"todos of {who}", {"todos": todos, "at": iso(at)})

    running = [item.text for item in items if item.status == "running"]
    title = next(iter(running or [item.text for item in items]), "")
    _commit(session, make, work=bool(items), title=title)


def _record_task(session: AgentSession, item: ListItem, *, seal: bool) -> None:
    """Record one entry of the todo list. ``seal``: with a checkpoint."""
    text = item.text = session.project.redactor.mask(item.text)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if row.workflow != SESSION:
            return None
        steps = steps_in(session.project.store, tx, row, changes, session.project.at)
        step = put_task(steps, item, session.who.session)
        return Seal("step_complete", step, text) if seal else None

    _commit(session, make, work=bool(text), title=text)


EVENTS: dict[str, Callable[[AgentSession, HookEvent], None]] = {
    "UserPromptSubmit": _prompt,
    "PreToolUse": _pre_tool,
    "PostToolUse": _post_tool,
    "PostToolUseFailure": _post_tool,
    "TaskCreated": _post_tool,
    "TaskCompleted": _post_tool,
    "SubagentStop": _subagent_stop,
    "PreCompact": _pre_compact,
    "PostCompact": _post_compact,
    "AgentText": _text,
    "Stop": _stop,
    "StopFailure": _stop_failure,
    "SessionEnd": _session_end,
}
