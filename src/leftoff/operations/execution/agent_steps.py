"""Steps that agents do: what is kept of an agent's work while it works, in the step's own record, under the attempt's
token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine.lifecycle.opening import find
from leftoff.engine.read.find import Target
from leftoff.engine.read.state import Reader
from leftoff.engine.steps.lifecycle import steps_in
from leftoff.engine.write.commit import Seal, Terms
from leftoff.engine.write.report import beat, report
from leftoff.errors import LeftoffError
from leftoff.operations.checkpoints import told
from leftoff.operations.reports import guard_of
from leftoff.workflow.processes.attempt_folder import AttemptFolder
from leftoff.workflow.processes.groups import Rest

if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

__all__ = ["AgentStep", "Rest"]

KEY = "session"  # of the step's record: which session of which agent does it


class AgentStep:
    """The run and the step that a caller's process works for."""

    def __init__(self, project: Project, caller: Caller) -> None:
        assert caller.run and caller.step, "only a step's process is told both"
        self.project = project
        self.run_id = caller.run
        self.step = caller.step
        self.guard = guard_of(caller)

    def _find(self, view: View) -> RunRow:
        return find(view, self.run_id)

    def known(self) -> dict[str, Any]:
        """What an earlier try left: its agent and session; its outcome, where that was known."""
        found = self._record("step").get(KEY)
        return dict(found) if isinstance(found, dict) else {}

    def failure(self, known: dict[str, Any]) -> str:
        """Why the try that left this failed; empty where it did not fail, or did not live to say so."""
        error = self._record("step").get("last_error")
        if not isinstance(error, dict):  # it was left as failed, and resumed
            error = self._record("error")
            if error.get("attempt") != known.get("number"):
                return ""
        return " ".join(str(error.get("message") or "").split())

    @staticmethod
    def variables(path: str) -> dict[str, Any] | None:
        """What the step has left in its file for variables, each by its name, by which a secret is known. None: there
        are none, or they cannot be read: whoever takes the step in says so."""
        try:
            return AttemptFolder(os.path.dirname(path)).variables() or None
        except LeftoffError:
            return None

    def _record(self, collection: str) -> dict[str, Any]:
        """What a collection has about the step."""
        store = self.project.store

        def look(view: View) -> Any:
            row = self._find(view)
            return Reader(store, view, row.run, row.run_id).value(collection, self.step)

        found: Any = store.read(look)
        return dict(found.plain) if found is not None and isinstance(found.plain, dict) else {}

    def outcome(self, known: dict[str, Any]) -> dict[str, Any] | None:
        """The result of the last try, where nobody lived to take it in: then that try is not on record as ended well.

        A step that was completed and is to be done once more has none.
        """

        def look(view: View) -> bool:
            tries = view.attempts(self._find(view).run)
            last = [one for one in tries if one.step == self.step and one.number == known.get("number")]
            return bool(last) and last[0].exit_code != 0

        found = known.get("outcome")
        return found if isinstance(found, dict) and self.project.store.read(look) else None

    def keep(self, trigger: str | None, note: str | None, **facts: Any) -> None:
        """Put facts about the session into the step's record; with ``trigger``, as a checkpoint.

        With an agent among them a life begins, and what was known of the one before it goes. None takes a fact away.
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
            return Seal(trigger, self.step, note) if trigger else None

        report(store, self._find, make, Terms(now, self.guard), scrubber=self.project.redactor)

    def beat(self) -> None:
        """A sign of life; that it cannot be given is no reason to stop working."""
        try:
            beat(self.project.store, self._find, self.project.now, self.guard)
        except LeftoffError:
            pass

    def brief(self) -> str:
        """What an agent must know that has never seen this work."""
        return told(self.project, Target(self.project.store.read(self._find), None))
