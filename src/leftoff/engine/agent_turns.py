"""Turns of a session: what the user asked, what the agent did, where it stopped, and which files changed.

A prompt opens a turn. It ends well, or with a question to the user, or with an error of the agent's service, or is
interrupted. If its session dies, it stays open. Each turn is a record of the run. The run's own record names the last
one while there is something to continue (`open_turn`).

A turn that was cut off stays open until a later turn ends well and changed something that it asked for, a todo list
says that all is done, or a person closes it. A turn that ended with a question is open until the user answers.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine.commit import Terms, report_in
from leftoff.engine.file_state import look_at_files
from leftoff.engine.find import OPEN_TURN, SESSION, has_open_step, is_spent
from leftoff.engine.git import uncommitted
from leftoff.engine.lease import epoch_of
from leftoff.engine.lease import state as lease_state
from leftoff.engine.opening import status_changes
from leftoff.engine.run_reader import Reader
from leftoff.engine.step_lifecycle import Steps, complete, ensure_try, put_back, skip, start
from leftoff.engine.tracking import own_files
from leftoff.errors import Conflict
from leftoff.host import ALIVE
from leftoff.model.changes import ChangeSet, counts_of
from leftoff.model.ids import quote_part, slug
from leftoff.model.words import QUESTION, STEP_ENDED, UNFINISHED
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import Holder, RunRow

if TYPE_CHECKING:
    from leftoff.engine.project import Project
    from leftoff.engine.sessions import Who

RUNNING, COMPLETED, FAILED, INTERRUPTED = "running", "completed", "failed", "interrupted"
WAITING = "waiting"  # the agent asked the user something
HANDED_OVER = "handed_over"  # in a turn: leftoff wrote its prompt, to hand the run over
CLOSED_BY = "closed_by"  # in a turn that did not end well: the later turn that did what was left of it
HEAD = "You continue unfinished work: leftoff run "  # the first words of a brief, also where it is a prompt
_MOST_FILES = 200  # names that are stored of a turn; the rest are counted
_MOST_FAILURES = 20
_MOST_SAID, _BEFORE = 20, 500  # texts that are stored before the last one, and characters of each
_MOST_OPEN = 50  # open turns that are looked at
_LAST = "\U0010ffff"  # after every key


class AgentTurn:
    """The last turn of a run, while something is open. The methods put its record into a change set.

    ``record`` is ``None`` if there is no such turn.
    """

    def __init__(self, reader: Reader, row: RunRow, changes: ChangeSet, at: int) -> None:
        self._reader, self._row = reader, row
        self._changes, self._at = changes, at
        self.key = row.card.get(OPEN_TURN) or ""
        value = reader.value("turn", self.key) if self.key else None
        known = value.plain if value is not None else None
        self.record: dict[str, Any] | None = dict(known) if isinstance(known, dict) else None

    @property
    def is_running(self) -> bool:
        return self.record is not None and self.record.get("status") == RUNNING

    @property
    def first(self) -> str:
        """The key of the first turn that is open, which a new turn continues; empty if there is none."""
        return (self.record or {}).get("continues") or self.key

    def open(
        self, who: Who, prompt: str, transcript: str = "", git_head: str | None = None, handed: bool = False
    ) -> None:
        """Begin the next turn. One that has not ended was interrupted. ``transcript``: the file in which the agent
        writes what it says, if that is known. ``git_head``: the commit that is checked out. ``handed``: leftoff wrote
        the prompt, to hand the run over."""
        self.end(INTERRUPTED)
        first = self.first
        self.key = next_key(self._reader.view, self._row.run)
        self.record = {
            "prompt": "" if handed else prompt,
            "status": RUNNING,
            "agent": who.agent,
            "session": who.session,
            "started_at": iso(self._at),
            "seq": self._row.seq + 1,
            **({"continues": first} if first else {}),
            **({HANDED_OVER: True} if handed else {}),
        }
        if transcript:
            self.record["transcript"] = transcript
        if git_head is not None:
            self.record["git_head"] = git_head
        self._changes.put("turn", self.key, self.record)
        self._changes.put("run", OPEN_TURN, self.key)
        self._ask("")

    def end(
        self, status: str, said: str = "", error: dict[str, Any] | None = None, killed: bool = False
    ) -> None:
        """End the turn, unless it has ended. ``killed``: its process is gone, since the last commit at the latest."""
        if self.record is None or not self.is_running:
            return
        question = question_at_end(said) if status == COMPLETED else ""
        status = WAITING if question else status
        self.record.update(status=status, ended_at=iso(self._row.updated_at if killed else self._at))
        given = {"said": said, "error": error, "question": question, "killed": killed}
        self.record.update({key: value for key, value in given.items() if value})
        self._ask(question)
        if status in (COMPLETED, WAITING):
            first = self._close_earlier()
            self.record.pop("continues", None)
            if first:
                self.record["continues"] = first
        self._changes.put("turn", self.key, self.record)
        if status == COMPLETED and "continues" not in self.record:
            self._changes.delete("run", OPEN_TURN)

    def _ask(self, question: str) -> None:
        """Put into the run's own record what the agent asks the user, so that listings can show it."""
        if question:
            self._changes.put("run", QUESTION, question)
        elif self._row.card.get(QUESTION):
            self._changes.delete("run", QUESTION)

    def _close_earlier(self) -> str:
        """Close the earlier turns of which this one did what was left. Return the first that is still open."""
        first = (self.record or {}).get("continues") or ""
        if not first.isdigit():
            return ""
        open_keys, done = [], self._is_listed_as_done(first)
        for number in range(max(int(first), int(self.key) - _MOST_OPEN), int(self.key)):
            key = f"{number:06d}"
            value = self._reader.value("turn", key)
            turn = value.plain if value is not None else None
            if not isinstance(turn, dict) or turn.get("status") == COMPLETED or CLOSED_BY in turn:
                continue
            if done or self._settles(turn):
                self._changes.put("turn", key, {**turn, CLOSED_BY: self.key})
            else:
                open_keys.append(key)
        return next(iter(open_keys), "")

    def _settles(self, turn: dict[str, Any]) -> bool:
        """Return whether this turn answered an earlier one, or changed something that the earlier one asked for."""
        assert self.record is not None
        prompt = self.record.get("prompt") or ""
        continues = self.record.get(HANDED_OVER) is True or asks_to_go_on(prompt)
        files, known = self.record.get("files") or [], turn.get("files") or ()
        if turn.get("status") == WAITING and not continues:
            return True
        if turn.get(HANDED_OVER) is True or asks_to_go_on(turn.get("prompt") or ""):
            return bool(files)  # it asked for what the turn before it had asked for
        asked = _words(turn.get("prompt") or "")
        return bool(files) and (continues or any(path in known or _is_named(path, asked) for path in files))

    def _is_listed_as_done(self, first: str) -> bool:
        """Return whether the todo list changed since that turn began, and no entry of it is open."""
        if has_open_step(self._row) or not sum(counts_of(self._row.counts).values()):
            return False
        value = self._reader.value("turn", first)
        began = value.plain.get("seq") if value is not None and isinstance(value.plain, dict) else None
        steps = self._reader.view.records(self._row.run, "step")
        return isinstance(began, int) and any(step.seq > began for step in steps)

    def say(self, words: str) -> None:
        """Store what the agent said in a turn that is not over, next to what it said before."""
        if self.record is not None and words and words != self.record.get("said"):
            if self.record.get("said"):
                before = [*(self.record.get("said_before") or ()), self.record["said"][:_BEFORE]]
                self.record["said_before"] = before[-_MOST_SAID:]
            self.record["said"] = words
            self._changes.put("turn", self.key, self.record)

    def changed(self, paths: list[str]) -> None:
        """Add files that were changed in the turn. Those for which there is no room are counted."""
        known = (self.record or {}).get("files") or []
        fresh = [path for path in dict.fromkeys(paths) if path not in known]
        if self.record is None or not fresh:
            return
        room = max(_MOST_FILES - len(known), 0)
        self.record["files"] = [*known, *fresh[:room]]
        if fresh[room:]:
            self.record["more_files"] = self.record.get("more_files", 0) + len(fresh[room:])
        self._changes.put("turn", self.key, self.record)

    def failed(self, command: str, error: str) -> None:
        """Add a command that failed in the turn. Of many, the last are stored."""
        if self.record is not None:
            known = self.record.get("failed") or []
            self.record["failed"] = [*known, {"command": command, "error": error}][-_MOST_FAILURES:]
            self._changes.put("turn", self.key, self.record)

    @property
    def only_talked(self) -> bool:
        """Whether nothing was committed since the turn began."""
        return self.record is None or self.record.get("seq") == self._row.seq


def next_key(view: View, run: int) -> str:
    """Return the key of a run's next turn: its number, so that keys are in order."""
    last = view.last_key(run, "turn", "", _LAST) or "0"
    return f"{int(last) + 1 if last.isdigit() else 1:06d}"


def close_turn(row: RunRow, changes: ChangeSet) -> None:
    """Put into a change set that no turn of the run is open."""
    for key in (OPEN_TURN, QUESTION):
        if row.card.get(key):
            changes.delete("run", key)


# -- what prompts and answers mean

# What a user says to have the same work continued, at the beginning of a prompt or anywhere in it.
_GO_ON = (
    *("resume", "continue", "reprendre", "go on", "carry on", "keep going", "go ahead", "proceed"),
    *("try again", "finish it", "finish the", "leftoff resume"),
)
_THE_REST = ("what is left", "where you left off", "where it stopped", "the rest")
_POLITE = ("please", "ok", "okay", "yes", "and", "now", "then", "so")
_COURTESIES = (
    *("anything else", "else i can", "can i help", "may i help", "what would you like", "can i do for"),
)
_SHORT = 160  # characters of a prompt that may only ask to continue
_STEM = 4  # letters by which a word of a prompt and one of a path are the same
_COMMON = ("src", "lib")


def asks_to_go_on(prompt: str) -> bool:
    """Return whether a prompt asks to continue the same work, and for nothing new."""
    words = _spaced(prompt).split() if len(prompt) <= _SHORT else []
    while words and words[0] in _POLITE:
        del words[0]
    text = " ".join(words)
    return text.startswith(_GO_ON) or any(phrase in text for phrase in _THE_REST)


def _spaced(text: str) -> str:
    return "".join(char if char.isalnum() else " " for char in text.lower())


def _words(text: str) -> set[str]:
    return set(_spaced(text).split())


def _is_named(path: str, asked: set[str]) -> bool:
    """Return whether a prompt, of which these are the words, names a file: by a word of its path or a similar one."""
    parts = [part for part in _words(path.rpartition(".")[0] or path) if part not in _COMMON]
    stems = {word[:_STEM] for word in asked if len(word) >= _STEM}
    return any(part in asked or (len(part) >= _STEM and part[:_STEM] in stems) for part in parts)


def question_at_end(said: str) -> str:
    """Return the question that an answer ends with; empty if it ends otherwise, or only offers help. A list of options
    may follow it."""
    lines = [line.strip() for line in said.splitlines() if line.strip(" *_`>#")]
    while len(lines) > 1 and (lines[-1][0] in "-*•" or lines[-1][1:2] in (".", ")")):
        del lines[-1]
    last = lines[-1].strip(" *_`>\"'”’)") if lines else ""
    head, opened, _ = last.rpartition(" (")
    question = last_question(last if last.endswith("?") else head.strip() if opened else "")
    return "" if any(words in question.lower() for words in _COURTESIES) else question


def last_question(said: str) -> str:
    """Return the last sentence of a text that is a question; empty if there is none."""
    text = " ".join(said.split()) + " "
    end = max(text.rfind(mark) for mark in ("? ", "?* ", "?` ", "?) ", '?" '))
    start = max(text.rfind(mark, 0, max(end, 0)) for mark in (". ", "! ", "? "))
    return text[start + 2 if start >= 0 else 0 : end + 1].strip(" *_`") if end >= 0 else ""


def close_cut_off(store: SqlStore, tx: Tx, row: RunRow, changes: ChangeSet, at: int) -> None:
    """Close a turn that was cut off, because a step of its run was reported: now the steps say what is left. If an
    agent is working on the turn, it stays open."""
    turn = AgentTurn(Reader(store, tx, row.run, row.run_id), row, changes, at)
    if not turn.is_running or lease_state(tx.lease(row.run), at) not in (ALIVE, "unknown"):
        turn.end(INTERRUPTED)
        close_turn(row, changes)


def drop_talk(store: SqlStore, ended: list[RunRow]) -> None:
    """Delete the runs of sessions that only talked: all turns ended well, nothing was changed and nothing failed."""
    for row in ended:
        if row.workflow == SESSION and is_spent(row) and not sum(counts_of(row.counts).values()):
            with suppress(Conflict):
                store.remove(row.run, partial(_need_talk, store, row))


def _need_talk(store: SqlStore, row: RunRow, view: View) -> None:
    """Raise ``Conflict`` if a run has anything but talk, or is not completed any more."""
    reader, there = Reader(store, view, row.run, row.run_id), view.run_row(row.run)
    is_talk = not set(reader.collections()) - {"run", "turn", "file", "context"} and all(
        turn.get("status") == COMPLETED and not (turn.get("files") or turn.get("failed"))
        for turn in reader.plain("turn").values()
    )
    if there is None or there.status != "completed" or not is_talk:
        raise Conflict(f"Run {row.run_id} has something to keep.")


# -- a session that continues in another run


def move_turn(store: SqlStore, tx: Tx, session: str, run: int, at: int) -> list[RunRow]:
    """Move the open turn of a session to the run that it has started or taken.

    The session's automatic run, if it has no steps, is completed. Its turn, its file records and its lease go to the
    other run. Return the completed runs.
    """
    rows = tx.list_runs({"session": session, "workflow": SESSION, "status": UNFINISHED})
    rows = [row for row in rows if row.run != run and not sum(counts_of(row.counts).values())]
    for row in rows:
        _move(store, tx, row, run, at)
    found = [tx.run_row(row.run) for row in rows]
    return [row for row in found if row is not None]


def _move(store: SqlStore, tx: Tx, row: RunRow, run: int, at: int) -> None:
    there = tx.run_row(run)
    assert there is not None
    reader = Reader(store, tx, row.run, row.run_id)

    def receive(tx: Tx, there: RunRow, changes: ChangeSet) -> None:
        turn = AgentTurn(reader, row, ChangeSet(), at)
        if turn.record is not None:
            key = next_key(tx, run)
            first = AgentTurn(Reader(store, tx, run, there.run_id), there, changes, at).first
            moved = {**turn.record, "seq": there.seq + 1, "continues": first}
            changes.put("turn", key, {name: value for name, value in moved.items() if value != ""})
            changes.put("run", OPEN_TURN, key)
        for name in ("file", "context"):
            for key, record in reader.raw(name).items():
                if tx.row(run, name, key) is None:
                    changes.put_stored(name, key, record.stored)

    def leave(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        told = f"It goes on in run {there.run_id}."
        AgentTurn(reader, row, changes, at).end(COMPLETED, told)
        close_turn(row, changes)
        status_changes(changes, "completed", at, summary=told)

    report_in(store, tx, there, receive, Terms(at), ChangeSet())
    report_in(store, tx, row, leave, Terms(at), ChangeSet())
    lease, other = tx.lease(row.run), tx.lease(run)
    if lease is not None and lease.held and not (other is not None and other.held):
        tx.put_lease(run, epoch_of(other) + 1, Holder("session", lease.process, lease.session, lease.who, at))
        tx.put_lease(row.run, lease.epoch + 1)


# -- files that changed in a turn, and that no hook event has reported


def add_unreported(
    project: Project, turn: dict[str, Any], files: list[dict[str, Any]], seconds: float
) -> None:
    """Add to the last turn of a run, as it was read, the files that git calls changed and that no event has reported.
    Nothing is stored. ``files``: those that the run knows. ``seconds``: how long git may take."""
    known = {about.get("path") for about in files} | own_files(project.store)
    seen, dirty = look_at_files(project.folder, files), uncommitted(project.folder, seconds) or []
    names = [*(path for path in dirty if path not in known), *seen.changed, *seen.gone]
    turn["files"] = list(dict.fromkeys([*(turn.get("files") or ()), *names]))


# -- the list that an agent keeps of its work, as the steps of its run
#
# A list is given whole each time. What is new is added, what changed is changed, what is no longer on it and was not
# done is dropped. What was done stays on record.
#
# An entry belongs to a session. Its id counts only there, because every session counts from 1, and only the session
# that wrote an entry drops it. If a session that took the run up writes an entry of the same text, it means the same
# step, which stays as it is until the entry says more than that it is pending.

_LONGEST = 60  # characters of a step's name
LISTED_BY = "listed_by"  # in a step's record: the session on whose list it is


class ListItem:
    """One entry of a list: its text and its status; the agent's own id of it, if it has one."""

    def __init__(self, text: str, status: str = "pending", task: str | None = None) -> None:
        self.text = " ".join(text.encode("utf-8", "replace").decode().replace("\0", "").split())
        self.status = status
        self.task = task

    @property
    def name(self) -> str:
        """Return the name of its step: one that is easy to type if that is possible."""
        if self.text.isascii():
            return slug(self.text.replace(".", " "))[:_LONGEST].rstrip("-").lower()
        return quote_part(self.text)[:_LONGEST].strip()


def put_list(steps: Steps, items: list[ListItem], session: str) -> None:
    """Make a list the steps of a run."""
    there = steps.all()
    wanted: dict[str, ListItem] = {}
    for item in items:
        name, number = item.name, 2
        while name in wanted:
            name, number = f"{item.name}-{number}", number + 1
        wanted[name] = item
    kept = []
    for path, record in there.items():
        if path in wanted or record.get("by") != "list":
            continue
        if record.get("status") in STEP_ENDED or not _is_ours(record, session):
            kept.append(record)
        else:
            steps.remove(path)
    first = 1 + max((record.get("order", 0) for record in kept), default=-1)
    for place, (name, item) in enumerate(wanted.items()):
        old = there.get(name)
        order = first + place if old is None or old.get("by") == "list" else None
        _put_item(steps, name, item, order, session)


def put_task(steps: Steps, item: ListItem, session: str) -> str | None:
    """Add a task, or change the one with that id or that text. Return its step, if there is one."""
    there = steps.all()
    path = _task_path(there, item, session)
    if path is None:
        return None
    old = there.get(path) or {}
    if not item.text:
        item.text = str(old.get("title") or path)
    last = max((entry.get("order", 0) for entry in there.values()), default=-1)
    _put_item(steps, path, item, None if "order" in old else last + 1, session)
    return path


def _task_path(there: dict[str, dict[str, Any]], item: ListItem, session: str) -> str | None:
    """Return the step of a task: the session's with that id, else that of the same text."""
    if item.task is not None:
        for path, record in there.items():
            if record.get("task") == item.task and _is_ours(record, session):
                return path
    if not item.text:
        return None
    same = there.get(item.name)
    taken = same is not None and _is_ours(same, session) and same.get("task") not in (None, item.task)
    return f"{item.name}-{item.task}" if taken else item.name


def _is_ours(record: dict[str, Any], session: str) -> bool:
    return bool(record.get(LISTED_BY, session) == session)


def _put_item(steps: Steps, path: str, item: ListItem, order: int | None, session: str) -> None:
    """Make a step what its entry says, unless a person decides it: an agent's list cannot."""
    if steps.is_approval(path):
        return
    old, status = steps.get(path), item.status
    # An entry may be a rewrite of another session's, or not have changed since.
    said = (old.get("entry") if _is_ours(old, session) else "pending") if old is not None else None
    if old is not None and said == status:
        record = {**old, "entry": status}
    else:
        record = {**(old or {"by": "list"})}
        if record.get("status") != status and status == "running":
            record = start(record, steps.now)
        elif record.get("status") != status and status == "completed":
            record = complete(ensure_try(record, steps.now), steps.now)
        elif record.get("status") != status:
            record = skip(record, steps.now) if status == "skipped" else put_back(record)
        record["title"] = item.text
        record.pop("entry", None)
    record[LISTED_BY] = session
    if item.task is not None:
        record["task"] = item.task
    if order is not None:
        record["order"] = order
    if record != old:
        steps.move(path, record)
