"""What is kept of an agent's work while it works: in the step's own record, under the attempt's token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.agents.desk import Desk
from leftoff.clock import iso
from leftoff.engine.brief import brief
from leftoff.engine.commit import NO_GUARD, Guard, Seal
from leftoff.engine.find import Target
from leftoff.engine.report import beat, report
from leftoff.engine.runs import find
from leftoff.engine.state import Reader
from leftoff.errors import LeftoffError

if TYPE_CHECKING:
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

KEY = "session"  # of the step's record: which session of which agent does it


class Ledger:
    """The run and the step that this process works for, as its environment says."""

    def __init__(self) -> None:
        self.desk = Desk(os.environ["LEFTOFF_PROJECT"], os.environ.get("LEFTOFF_STORE"))
        self.run_id = os.environ["LEFTOFF_RUN"]
        self.step = os.environ["LEFTOFF_STEP"]
        self.token = os.environ.get("LEFTOFF_ATTEMPT") or ""
        self.guard = Guard(attempt=self.token) if self.token else NO_GUARD

    def _find(self, view: View) -> RunRow:
        return find(view, self.run_id)

    def known(self) -> dict[str, Any]:
        """What an earlier try left: its agent and session; its outcome, where that was known."""
        store = self.desk.store

        def look(view: View) -> Any:
            row = self._find(view)
            found = Reader(store, view, row.run, row.run_id).value("step", self.step)
            return found.plain.get(KEY) if found is not None else None

        found: Any = store.read(look)
        return dict(found) if isinstance(found, dict) else {}

    def outcome(self, known: dict[str, Any]) -> dict[str, Any] | None:
        """The result of the last try, where nobody lived to take it in: then that try is not on record as ended well.

        A step that was completed and is to be done once more has none.
        """
        attempt = self.desk.store.read(lambda view: view.attempt(str(known.get("token"))))
        found = known.get("outcome")
        taken = attempt is None or attempt.exit_code == 0
        return found if isinstance(found, dict) and not taken else None

    def done(self, result: dict[str, Any]) -> None:
        """The agent is done: that is on record before its process may be forgotten."""
        self.keep(None, None, done=True, outcome=result)

    def keep(self, trigger: str | None, note: str | None, **facts: Any) -> None:
        """Put facts about the session into the step's record; with ``trigger``, as a checkpoint."""
        store, now = self.desk.store, self.desk.clock.now()

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
            found = Reader(store, tx, row.run, row.run_id).value("step", self.step)
            record = dict(found.plain) if found is not None else {"status": "running"}
            begun = {"since": iso(now), "token": self.token}
            before: Any = record.get(KEY)
            about: dict[str, Any] = begun if "agent" in facts or not isinstance(before, dict) else before
            changes.put("step", self.step, {**record, KEY: {**about, **facts}})
            return Seal(trigger, self.step, note) if trigger else None

        report(store, self._find, make, now, guard=self.guard, scrubber=self.desk.redactor)

    def beat(self) -> None:
        """A sign of life; that it cannot be given is no reason to stop working."""
        try:
            beat(self.desk.store, self._find, self.desk.clock.now(), self.guard)
        except LeftoffError:
            pass

    def brief(self) -> str:
        """What an agent must know that has never seen this work."""
        store = self.desk.store
        row = store.read(self._find)
        return brief(store, Target(row, None), self.desk.clock.now(), self.desk.project)
