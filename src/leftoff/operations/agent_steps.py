"""What is stored of an agent's work on a step while it works: facts in the step's record, under the attempt's token."""

from __future__ import annotations

import os
from typing import Any

from leftoff.clock import iso
from leftoff.engine.commit import Seal, Terms, beat, report
from leftoff.engine.find import Target
from leftoff.engine.opening import run_by_id
from leftoff.engine.project import Project
from leftoff.engine.run_reader import Reader
from leftoff.engine.settings import Caller
from leftoff.engine.step_lifecycle import steps_in
from leftoff.errors import LeftoffError
from leftoff.model.changes import ChangeSet
from leftoff.model.words import WAITS
from leftoff.operations.checkpoints import brief_of
from leftoff.operations.run_reports import guard_of
from leftoff.store.base import Tx, View
from leftoff.store.rows import RunRow
from leftoff.workflow.attempt_folder import AttemptFolder
from leftoff.workflow.process_groups import Rest

__all__ = ["AgentStep", "Rest"]

KEY = "session"  # of the step's record: which session of which agent does it


class AgentStep:
    """The run and the step that a process works for, as the driver told it."""

    def __init__(self, project: Project, caller: Caller) -> None:
        assert caller.run and caller.step, "only a step's process has both"
        self.project = project
        self.run_id = caller.run
        self.step = caller.step
        self.guard = guard_of(caller)

    def _find(self, view: View) -> RunRow:
        return run_by_id(view, self.run_id)

    def known(self) -> dict[str, Any]:
        """Return what an earlier try left: its agent and session; its outcome, if it was known."""
        found = self._record("step").get(KEY)
        return dict(found) if isinstance(found, dict) else {}

    def failure(self, known: dict[str, Any]) -> str:
        """Return why that try failed; empty if it did not fail, or was killed before it could report that."""
        error = self._record("step").get("last_error")
        if not isinstance(error, dict):  # it was left as failed, and resumed
            error = self._record("error")
            if error.get("attempt") != known.get("number"):
                return ""
        return " ".join(str(error.get("message") or "").split())

    @staticmethod
    def variables(path: str) -> dict[str, Any] | None:
        """Return the variables that the step set so far. ``None``: it set none, or they cannot be read, which is
        reported when the step ends."""
        try:
            return AttemptFolder(os.path.dirname(path)).variables() or None
        except LeftoffError:
            return None

    def _record(self, collection: str) -> dict[str, Any]:
        """Return the record of a collection about the step."""
        store = self.project.store

        def look(view: View) -> Any:
            row = self._find(view)
            return Reader(store, view, row.run, row.run_id).value(collection, self.step)

        found: Any = store.read(look)
        return dict(found.plain) if found is not None and isinstance(found.plain, dict) else {}

    def outcome(self, known: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result of the last try if its driver died before it could record that.

        A step that was completed and runs again has none.
        """

        def look(view: View) -> bool:
            tries = view.attempts(self._find(view).run)
            last = [one for one in tries if one.step == self.step and one.number == known.get("number")]
            return bool(last) and last[0].exit_code != 0

        found = known.get("outcome")
        return found if isinstance(found, dict) and self.project.store.read(look) else None

    def keep(self, trigger: str | None, note: str | None, **facts: Any) -> None:
        """Put facts about the session into the step's record; with ``trigger``, as a checkpoint.

        An agent among them starts a new session, and the facts of the one before are dropped. None removes a fact.
        """
        store, now = self.project.store, self.project.now

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
            steps = steps_in(store, tx, row, changes, now)
            record = {"status": "running", **steps.get_or_new(self.step)}
            begun = {"since": iso(now), "number": record.get("attempt")}
            before: Any = record.get(KEY)
            about: dict[str, Any] = begun if "agent" in facts or not isinstance(before, dict) else before
            kept = {key: value for key, value in {**about, **facts}.items() if value is not None}
            steps.put(self.step, {**record, KEY: kept})
            waits: Any = row.card.get(WAITS)
            if kept.get("waits_until"):
                why = {"agent": kept.get("agent"), "why": kept["waits_for"], "until": kept["waits_until"]}
                changes.put("run", WAITS, {"step": self.step, **why})
            elif isinstance(waits, dict) and waits.get("step") == self.step:
                changes.delete("run", WAITS)
            return Seal(trigger, self.step, note) if trigger else None

        report(store, self._find, make, Terms(now, self.guard), scrubber=self.project.redactor)

    def beat(self) -> None:
        """Give a sign of life. After an error it continues to work."""
        try:
            beat(self.project.store, self._find, self.project.now, self.guard)
        except LeftoffError:
            pass

    def brief(self) -> str:
        """Return what an agent must know that has never seen this work."""
        return brief_of(self.project, Target(self.project.store.read(self._find), None))
