"""What each event does. A table: the event's name, and the function that takes it to the store and answers."""

from __future__ import annotations

import os

from leftoff.agents.hooks import files, lists, log
from leftoff.clock import iso
from leftoff.engine.config.caller import CALLER
from leftoff.engine.config.project import git_head, main_worktree
from leftoff.engine.lifecycle import sessions
from leftoff.engine.read.find import SESSION, is_spent
from leftoff.engine.read.state import Reader
from leftoff.engine.workspace.surroundings import remember_git
from leftoff.engine.workspace.tracking import BEFORE, keep_first
from leftoff.engine.write.commit import Seal
from leftoff.engine.write.notes import put_note
from leftoff.errors import Corrupt, StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.agents.hooks.events import Event
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.lifecycle.sessions import Who
    from leftoff.engine.steps.artifacts import Captured
    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.write.report import Make, Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.operations import Project
    from leftoff.store.base import Tx
    from leftoff.store.rows import BlobRow, RunRow

NOTHING = b""
_WORDS = ("resume", "continue", "reprendre")
_LONGEST = 2000  # characters of a message that is kept
_ERROR = "session"  # the key of the error that ended a turn


class Hook:
    """One event at one project. ``anywhere``: the hook is called in every folder, and must not make a store in each."""

    def __init__(
        self, project: Project, event: Event, who: Who, *, anywhere: bool, driven: bool, until: int
    ) -> None:
        self.project = project
        self.event = event
        self.who = who
        self.anywhere = anywhere
        self.driven = driven  # the agent does a step of a run that a runner drives
        self.until = until  # when the agent goes on at the latest, nanoseconds

    # -- committing

    def report(
        self, make: Make, *, title: str | None = None, start: bool = False, blobs: list[BlobRow] | None = None
    ) -> Reported | None:
        """Commit to the session's run. ``start``: it is worth a run, where there is none."""
        project, opening, saved = self.project, None, list(blobs or ())
        if start and (not self.anywhere or self.has_home()):
            opening = self._opening(title)
            if self.row() is None:
                self._begin(opening)
        return sessions.report_session(
            project.store, self.who, make, project.at, scrubber=project.redactor, opening=opening, blobs=saved
        )

    def begin(self, title: str) -> RunRow | None:
        """Start the session's run with what was there at its last prompt."""
        self._begin(self._opening(title))
        return self.row()

    def _opening(self, title: str | None) -> Opening:
        return sessions.session_opening(self.who, CALLER.branch, title, self.project.git_facts())

    def row(self) -> RunRow | None:
        """The session's run, if it has one."""
        store = self.project.store
        return store.read(lambda view: sessions.bound_run(view, self.who)) if store.exists() else None

    def _begin(self, opening: Opening) -> None:
        """The run's first checkpoint: the files as they were at the session's last prompt."""
        pending = files.Pending(self.project, self.who.session)
        try:
            self._commit_start(opening, pending.take())
        except (Corrupt, StoreUnavailable):  # what was remembered is not there any more
            self._commit_start(opening, pending.look())
        pending.forget()

    def _commit_start(self, opening: Opening, found: Found | None) -> None:
        project = self.project

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
            if row.seq != 1:  # another hook of this session was faster, or it has a run from before
                return None
            if found is not None:
                found.put(changes, row.seq + 1)
            return Seal("agent_start", note=f"a session of {self.who.agent} begins")

        blobs = found.blobs if found is not None else []
        sessions.report_session(
            project.store, self.who, make, project.at, scrubber=project.redactor, opening=opening, blobs=blobs
        )

    def has_home(self) -> bool:
        """Whether a store is there already, or may be made: in a git repository."""
        return self.project.store.exists() or is_git(self.project.folder)

    def seal(
        self,
        trigger: str,
        note: str,
        make: Make | None = None,
        *,
        changed: bool = False,
        blobs: list[BlobRow] | None = None,
    ) -> None:
        """A checkpoint; with ``changed``, only if something did since the last one."""
        head = git_head(self.project.folder)

        def work(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
            if make is not None:
                make(tx, row, changes)
            if changed and row.checkpoint is not None and not changes.changes:
                return None
            remember_git(head, row, changes)
            return Seal(trigger, note=note)

        self.report(work, blobs=blobs)

    def message(self, key: str) -> str:
        """A text of the event, fit to be kept."""
        text = self.event.text(key).encode("utf-8", "replace").decode().strip()
        return self.project.redactor.mask(text[:_LONGEST])


def is_git(folder: str) -> bool:
    """Whether a folder is in a git repository, without asking git."""
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True


# -- sessions


def session_start(hook: Hook) -> bytes:
    """The brief of the session's own run; or a line about one that nobody works on; or nothing."""
    project, who = hook.project, hook.who
    row = None
    if not hook.driven and project.store.exists():
        sessions.finish_spent(project.store, CALLER.branch, project.at)
        row = sessions.take_run(
            project.store, who, project.at, branch=CALLER.branch, scrubber=project.redactor, offered=False
        )
    _export(hook, row)
    if hook.driven or not project.store.exists():
        return NOTHING
    from leftoff.agents.hooks import answers

    if row is not None:
        if is_spent(row):
            return NOTHING
        return answers.context(hook.event.raw, answers.whole_brief(project, row, who.agent))
    free = project.store.read(lambda view: sessions.offered_run(view, CALLER.branch, project.at))
    return answers.context(hook.event.raw, answers.offer(free)) if free is not None else NOTHING


def _export(hook: Hook, row: RunRow | None) -> None:
    """Tell the agent's shell whose session it is, so that its own reports reach its own run."""
    path = os.environ.get("CLAUDE_ENV_FILE")
    if not path or hook.driven:
        return
    given = {"LEFTOFF_SESSION": hook.who.session, "LEFTOFF_RUN": row.run_id if row is not None else ""}
    quoted = {key: value.replace("'", "'\\''") for key, value in given.items() if "\n" not in value}
    lines = "".join(
        f"export {key}='{value}'\n" if value else f"unset {key}\n" for key, value in quoted.items()
    )
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(lines)
    except OSError as error:  # what the agent is told does not depend on it
        log.note(os.path.dirname(files.Pending(hook.project, "").folder), "CLAUDE_ENV_FILE", str(error))


def prompted(hook: Hook) -> bytes:
    """Whoever says only "resume" gets the brief, and the run that nobody works on if the session has none."""
    word = hook.event.text("prompt").strip().rstrip(".!").lower()
    told = _taken(hook) if word in _WORDS and not hook.driven else NOTHING
    _turn(hook, lambda make, blobs: hook.report(make, blobs=blobs))
    return told


def _taken(hook: Hook) -> bytes:
    """The session's own run; or the one that nobody works on, unless the world does not allow to go on with it."""
    project, who = hook.project, hook.who
    if not project.store.exists():
        return NOTHING
    from leftoff.agents.hooks import answers

    own, free = project.store.read(
        lambda view: (sessions.told_run(view, who), sessions.offered_run(view, CALLER.branch, project.at))
    )
    found = answers.findings(project, free, who.session) if own is None and free is not None else None
    if found is not None and found.refused:
        return answers.context(hook.event.raw, found.text)
    row = sessions.take_run(
        project.store, who, project.at, branch=CALLER.branch, scrubber=project.redactor, offered=True
    )
    if row is None:
        return NOTHING
    said = found.text if found is not None and free is not None and row.run == free.run else ""
    return answers.context(hook.event.raw, answers.whole_brief(project, row, who.agent, said))


def _turn(hook: Hook, then: Callable[[Make, list[BlobRow]], object]) -> None:
    """A turn begins or ends: what a shell changed is known from now on, too."""
    begins = hook.event.name == "UserPromptSubmit"
    until = hook.until if begins else None  # what is changed later is the turn's
    row = hook.row()
    if row is None and is_git(hook.project.folder):
        first = files.Pending(hook.project, hook.who.session, until).turn(begins=begins)
        row = hook.begin(_edits([first])) if first is not None else None
    if row is None:
        return
    found = files.changed(hook.project, row, until)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        _forget_error(tx, row, changes)
        if found.news(Reader(hook.project.store, tx, row.run, row.run_id), row.seq):
            found.put(changes, row.seq + 1)
        return None

    then(make, found.blobs)


def _forget_error(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
    """A new turn begins: what ended the last one is over."""
    if tx.row(row.run, "error", _ERROR) is not None:
        changes.delete("error", _ERROR)
    return None


def session_end(hook: Hook) -> bytes:
    project = hook.project
    if not hook.driven:
        pending = files.Pending(project, hook.who.session)
        if os.path.exists(pending.path):  # interrupted in its first turn, perhaps with something done
            _turn(hook, lambda make, blobs: hook.report(make, blobs=blobs))
        why = hook.message("reason") or "the session ended"
        sessions.end_session(project.store, hook.who, project.at, scrubber=project.redactor, why=why)
        pending.end()
    return NOTHING


# -- tools


def before_tool(hook: Hook) -> bytes:
    """A file is captured before it is first changed."""
    project = hook.project
    paths = files.inside(project, hook.event.paths())
    if not paths or (hook.anywhere and not hook.has_home()):
        return NOTHING
    peeked = files.peek(project, paths, hook.until)  # first of all: the store may be locked for long
    with files.Turn(project, hook.who.session):
        _keep_first(hook, files.before(project, hook.row(), peeked))
    return NOTHING


def _keep_first(hook: Hook, found: list[Captured]) -> None:
    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        reader = Reader(hook.project.store, tx, row.run, row.run_id)
        for got in found:
            there = reader.value("file", got.key)
            first = tx.row(row.run, "context", BEFORE + got.key)
            if there is None or (first is None and files.later(there.plain, got.about)):
                keep_first(changes, got, known=there is not None)
        return None

    if found:
        blobs = [got.blob for got in found if got.blob is not None]
        hook.report(make, title=_edits([got.key for got in found]), start=True, blobs=blobs)


def after_tool(hook: Hook) -> bytes:
    """A file that was written is tracked; a todo list or a plan becomes the run's steps."""
    event, project = hook.event, hook.project
    items = lists.listed(event.tool, event.given, project.redactor)
    if items is not None:
        _keep_list(hook, items)
    elif event.tool in ("TaskCreate", "TaskUpdate"):
        _task_tool(hook)
    else:
        paths = files.inside(project, event.paths())
        if paths and (not hook.anywhere or hook.has_home()):
            found = files.after(project, hook.row(), paths)

            def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
                for got in found:
                    got.put(changes, "file")
                return None

            blobs = [got.blob for got in found if got.blob is not None]
            hook.report(make, title=_edits(paths), start=True, blobs=blobs)
    return NOTHING


def _edits(paths: list[str]) -> str:
    return f"edits {os.path.basename(paths[0])}"


def _keep_list(hook: Hook, items: list[lists.Item]) -> None:
    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if row.workflow == SESSION:
            lists.put_list(hook.project.store, tx, row, changes, items, hook.project.at)
        else:  # a run with steps of its own: the list is only the agent's
            told = [{"text": item.text, "status": item.status} for item in items]
            changes.put(
                "context", f"todos of {hook.who.session}", {"todos": told, "at": iso(hook.project.at)}
            )
        return None

    title = next((item.text for item in items if item.status == "running"), items[0].text if items else None)
    hook.report(make, title=title[:100] if title else None, start=bool(items))


def _task_tool(hook: Hook) -> None:
    """`TaskCreate` and `TaskUpdate`: one entry of the list at a time."""
    given, answer = hook.event.given, hook.event.data.get("tool_response")
    made = answer.get("task", answer) if isinstance(answer, dict) else None
    task = given.get("taskId") or (made.get("id") if isinstance(made, dict) else None)
    status = lists.status_of(given)
    if hook.event.tool == "TaskUpdate" and "status" not in given:
        return
    subject = hook.project.redactor.mask(str(given.get("subject") or ""))
    _keep_task(hook, lists.Item(subject, status, str(task) if task else None))


def _keep_task(hook: Hook, item: lists.Item, seal: Seal | None = None) -> None:
    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if row.workflow == SESSION:
            lists.put_task(hook.project.store, tx, row, changes, item, hook.project.at)
            return seal
        return None

    hook.report(make, title=item.text[:100] or None, start=bool(item.text))


def task_created(hook: Hook) -> bytes:
    subject, task = hook.message("task_subject"), hook.event.text("task_id")
    if subject:
        _keep_task(hook, lists.Item(subject, "pending", task or None))
    return NOTHING


def task_completed(hook: Hook) -> bytes:
    subject, task = hook.message("task_subject"), hook.event.text("task_id")
    if subject or task:
        _keep_task(hook, lists.Item(subject, "completed", task or None), Seal("step_complete", note=subject))
    return NOTHING


# -- turns


def subagent_stop(hook: Hook) -> bytes:
    """A helper is done: who it was, what it said last."""
    event = hook.event
    name = event.text("agent_id")
    about = {
        "type": event.text("agent_type"),
        "message": hook.message("last_assistant_message"),
        "status": "completed",
        "at": iso(hook.project.at),
    }

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if name:
            changes.put("member", name[:200], {key: value for key, value in about.items() if value})
        return None

    hook.seal("agent_complete", about["type"] or name or "a subagent", make)
    return NOTHING


def before_compact(hook: Hook) -> bytes:
    hook.seal("manual", f"before the context is compacted ({hook.message('trigger') or 'auto'})")
    return NOTHING


def after_compact(hook: Hook) -> bytes:
    """What the agent itself thinks worth knowing."""
    summary = hook.message("compact_summary")

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        put_note(tx, row, changes, summary, hook.project.at)
        return None

    if summary:
        hook.report(make)
    return NOTHING


def stopped(hook: Hook) -> bytes:
    """The end of a turn: a checkpoint if something changed."""

    def seal(make: Make, blobs: list[BlobRow]) -> None:
        hook.seal("manual", "the agent's turn ended", make, changed=True, blobs=blobs)

    _turn(hook, seal)
    return NOTHING


def stop_failed(hook: Hook) -> bytes:
    """A turn ended in an error of the agent's service: why, for whoever goes on."""
    kind = hook.message("error") or "error"
    detail = hook.message("error_details") or hook.message("last_assistant_message")

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        about = {"type": kind, "message": detail or kind, "at": iso(hook.project.at)}
        changes.put("error", _ERROR, about)
        return None

    hook.seal("error", kind, make)
    return NOTHING


EVENTS: dict[str, Callable[[Hook], bytes]] = {
    "SessionStart": session_start,
    "UserPromptSubmit": prompted,
    "PreToolUse": before_tool,
    "PostToolUse": after_tool,
    "TaskCreated": task_created,
    "TaskCompleted": task_completed,
    "SubagentStop": subagent_stop,
    "PreCompact": before_compact,
    "PostCompact": after_compact,
    "Stop": stopped,
    "StopFailure": stop_failed,
    "SessionEnd": session_end,
}


def where(event: Event) -> str:
    """The folder to look for the project from: the session's, wherever the agent's shell may be by now."""
    given = os.environ.get("CLAUDE_PROJECT_DIR") or ""
    here = event.cwd or given or os.getcwd()
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
