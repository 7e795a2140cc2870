"""Turns of a session: what was asked, what was done, where it stopped. A turn is work.

A prompt opens a turn. It ends well, in an error of the agent's service, or is interrupted; one whose session died stays
as it was. Each is a record of the run, in order. The run's own record names the last one while there is something to
continue (`open_turn`): the last turn did not end well, or an earlier one did not and nothing was done since.
"""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.read.state import Reader
from leftoff.engine.read.which import OPEN_TURN, SESSION, has_open_step, is_spent
from leftoff.engine.write.commit import Terms
from leftoff.engine.write.lease import NOBODY
from leftoff.engine.write.lease import state as lease_state
from leftoff.engine.write.report import report_in
from leftoff.errors import Conflict
from leftoff.host import ALIVE
from leftoff.model.changes import ChangeSet
from leftoff.model.fields import Fields
from leftoff.model.versions import counts_of
from leftoff.model.words import UNFINISHED
from leftoff.store.rows import Holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.lifecycle.sessions import Who
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

RUNNING, COMPLETED, FAILED, INTERRUPTED = "running", "completed", "failed", "interrupted"
_MOST_FILES = 200  # names that a turn keeps; the rest are counted
_MOST_FAILURES = 20
_OTHERS = 200  # runs that are looked at for who else is at work
_LAST = "\U0010ffff"  # after every key


class Unclaimed(Fields):
    """Files that changed in a turn while so many others were at work, and that nobody says are theirs."""

    paths: list[str]
    others: int


class Turn:
    """The last turn of a run, while something is open; what is put into the change set is told of it here.

    ``record`` is ``None`` where there is none.
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

    def _put(self) -> None:
        self._changes.put("turn", self.key, self.record)

    def open(self, who: Who, prompt: str, transcript: str = "", git_head: str | None = None) -> None:
        """Begin the next turn. One that has not ended was interrupted. ``transcript``: the file in which the agent
        writes what it says, if that is known. ``git_head``: the commit that is checked out."""
        self.end(INTERRUPTED)
        first = self.first
        self.key = next_key(self._reader.view, self._row.run)
        self.record = {
            "prompt": prompt,
            "status": RUNNING,
            "agent": who.agent,
            "session": who.session,
            "started_at": iso(self._at),
            "seq": self._row.seq + 1,
            **({"continues": first} if first else {}),
        }
        if transcript:
            self.record["transcript"] = transcript
        if git_head is not None:
            self.record["git_head"] = git_head
        self._put()
        self._changes.put("run", OPEN_TURN, self.key)

    def end(
        self, status: str, said: str = "", error: dict[str, Any] | None = None, git_head: str | None = None
    ) -> None:
        """End the turn, unless it has ended. The run has something to continue if the turn did not end well, or if it
        continued one that did not and nothing was done. ``git_head``: the commit that is checked out; another one than
        at the start of the turn is something done."""
        if self.record is None or not self.is_running:
            return
        self.record.update(status=status, ended_at=iso(self._at))
        if said:
            self.record["said"] = said
        if error is not None:
            self.record["error"] = error
        committed = git_head is not None and git_head != self.record.get("git_head")
        if status == COMPLETED and (self.record.get("files") or committed or self._is_listed_as_done()):
            self.record.pop("continues", None)
        self._put()
        if status == COMPLETED and "continues" not in self.record:
            self._changes.delete("run", OPEN_TURN)

    def _is_listed_as_done(self) -> bool:
        """Whether the todo list changed since the first turn that is open began, and no entry of it is open."""
        assert self.record is not None
        if has_open_step(self._row) or not sum(counts_of(self._row.counts).values()):
            return False
        first = self._reader.value("turn", self.record.get("continues") or "")
        began = first.plain.get("seq") if first is not None and isinstance(first.plain, dict) else None
        steps = self._reader.view.records(self._row.run, "step")
        return isinstance(began, int) and any(step.seq > began for step in steps)

    def say(self, words: str) -> None:
        """The agent said something, and the turn is not over."""
        if self.record is not None and words:
            self.record["said"] = words
            self._put()

    def changed(self, paths: list[str], unclaimed: Unclaimed | None = None) -> None:
        """Files were changed in the turn; and some while others were at work, nobody knows by whom."""
        if self.record is None:
            return
        added = self._add("files", paths)
        if unclaimed is not None and self._add("unclaimed", unclaimed.paths):
            self.record["others"] = max(unclaimed.others, self.record.get("others", 0))
            added = True
        if added:
            self._put()

    def _add(self, name: str, paths: list[str]) -> bool:
        """Put paths into a list of the turn, as far as there is room; whether there were any new ones."""
        assert self.record is not None
        known = self.record.get(name) or []
        fresh = [path for path in dict.fromkeys(paths) if path not in known]
        room = max(_MOST_FILES - len(known), 0)
        if fresh[:room]:
            self.record[name] = [*known, *fresh[:room]]
        if fresh[room:]:
            self.record[f"more_{name}"] = self.record.get(f"more_{name}", 0) + len(fresh[room:])
        return bool(fresh)

    def failed(self, command: str, error: str) -> None:
        """A command failed in the turn. Of many, the last are kept."""
        if self.record is not None:
            known = self.record.get("failed") or []
            self.record["failed"] = [*known, {"command": command, "error": error}][-_MOST_FAILURES:]
            self._put()

    @property
    def only_talked(self) -> bool:
        """Whether nothing at all was committed since the turn began."""
        return self.record is None or self.record.get("seq") == self._row.seq


def next_key(view: View, run: int) -> str:
    """The key of a run's next turn: its number, so that keys are in order."""
    last = view.last_key(run, "turn", "", _LAST) or "0"
    return f"{int(last) + 1 if last.isdigit() else 1:06d}"


def close(row: RunRow, changes: ChangeSet) -> None:
    """Put into a change set that no turn of the run is open any more."""
    if row.card.get(OPEN_TURN):
        changes.delete("run", OPEN_TURN)


def close_cut_off(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, at: int) -> None:
    """Close a turn that was cut off, as somebody reported a step of its run: from now on the steps say what is left.
    One that an agent is working on stays open."""
    turn = Turn(Reader(store, tx, row.run, row.run_id), row, changes, at)
    if not turn.is_running or lease_state(tx.lease(row.run), at) not in (ALIVE, "unknown"):
        turn.end(INTERRUPTED)
        close(row, changes)


def is_talk(reader: Reader) -> bool:
    """Whether a run has nothing but turns that ended well, in which nothing was changed and nothing failed."""
    if set(reader.collections()) - {"run", "turn", "file", "context"}:
        return False
    turns = reader.plain("turn").values()
    return all(
        turn.get("status") == COMPLETED and not any(map(turn.get, ("files", "unclaimed", "failed")))
        for turn in turns
    )


def drop_talk(store: Store, ended: list[RunRow]) -> None:
    """A session that only talked, and was answered, leaves no run."""
    for row in ended:
        if row.workflow == SESSION and is_spent(row) and not sum(counts_of(row.counts).values()):
            _drop_talk(store, row)


def _drop_talk(store: Store, row: RunRow) -> None:
    def allowed(view: View) -> None:
        there = view.run_row(row.run)
        done = there is not None and there.status == "completed"
        if not (done and is_talk(Reader(store, view, row.run, row.run_id))):
            raise Conflict(f"Run {row.run_id} has something to keep.")

    try:
        store.remove(row.run, allowed)
    except Conflict:
        pass


# -- whose a changed file is


class Others:
    """The turns of other sessions that went on since a moment, in the same folder.

    A workflow that somebody runs there is no session: most often, the agent itself has started it in its shell.
    """

    def __init__(self, store: Store, view: View, row: RunRow, since: int, now: int) -> None:
        self._view, self._since, self._now = view, since, now
        self.turns: list[dict[str, Any]] = []
        for one in view.list_runs({}, _OTHERS):
            if one.run != row.run and not (one.session and one.session == row.session):
                turn = self._at_work(store, one)
                if turn is not None:
                    self.turns.append(turn)

    @property
    def sessions(self) -> set[str]:
        return {str(turn.get("session")) for turn in self.turns}

    @property
    def claimed(self) -> set[str]:
        """The files that their turns have."""
        return {path for turn in self.turns for path in turn.get("files") or ()}

    def _at_work(self, store: Store, row: RunRow) -> dict[str, Any] | None:
        """The last turn of a run, where that went on since then; else ``None``."""
        if row.updated_at < self._since and not self._lives(row):
            return None
        key = self._view.last_key(row.run, "turn", "", _LAST) or ""
        value = Reader(store, self._view, row.run, row.run_id).value("turn", key)
        turn = value.plain if value is not None and isinstance(value.plain, dict) else {}
        return turn if turn and (turn.get("status") == RUNNING or self._ended_since(row, key)) else None

    def _lives(self, row: RunRow) -> bool:
        if row.status not in UNFINISHED:
            return False
        return lease_state(self._view.lease(row.run), self._now) in (ALIVE, "unknown")

    def _ended_since(self, row: RunRow, key: str) -> bool:
        found = self._view.record(row.run, "turn", key)
        version = self._view.version(row.run, found.seq) if found is not None else None
        return version is not None and version.at >= self._since


# -- a session that goes on in another run


def move_turn(store: Store, tx: Tx, session: str, run: int, at: int) -> list[RunRow]:
    """A session has started or taken a run: what it is doing belongs there from now on.

    The run that it got by itself, and that has no steps, is over; its turn, what is known of files, and the lease go to
    the other one. Those that are over are returned.
    """
    rows = tx.list_runs({"session": session, "workflow": SESSION, "status": UNFINISHED})
    rows = [row for row in rows if row.run != run and not sum(counts_of(row.counts).values())]
    for row in rows:
        _move(store, tx, row, run, at)
    found = [tx.run_row(row.run) for row in rows]
    return [row for row in found if row is not None]


def _move(store: Store, tx: Tx, row: RunRow, run: int, at: int) -> None:
    there = tx.run_row(run)
    assert there is not None
    reader = Reader(store, tx, row.run, row.run_id)

    def receive(tx: Tx, there: RunRow, changes: ChangeSet) -> None:
        turn = Turn(reader, row, ChangeSet(), at)
        if turn.record is not None:
            key, first = (
                next_key(tx, run),
                Turn(Reader(store, tx, run, there.run_id), there, changes, at).first,
            )
            moved = {**turn.record, "seq": there.seq + 1, "continues": first}
            changes.put("turn", key, {name: value for name, value in moved.items() if value != ""})
            changes.put("run", OPEN_TURN, key)
        for name in ("file", "context"):
            for key, record in reader.raw(name).items():
                if tx.row(run, name, key) is None:
                    changes.put_stored(name, key, record.stored)

    def leave(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        Turn(reader, row, changes, at).end(COMPLETED, f"It goes on in run {there.run_id}.")
        close(row, changes)
        status_changes(changes, "completed", at, summary=f"It goes on in run {there.run_id}.")

    report_in(store, tx, there, receive, Terms(at), ChangeSet())
    report_in(store, tx, row, leave, Terms(at), ChangeSet())
    lease, other = tx.lease(row.run), tx.lease(run) or NOBODY
    if lease is not None and lease.held and not getattr(other, "held", False):
        tx.put_lease(run, other.epoch + 1, Holder("session", lease.process, lease.session, lease.who, at))
        tx.put_lease(row.run, lease.epoch + 1)
