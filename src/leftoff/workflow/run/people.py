"""What people decide while a run goes on, or while it rests: approvals, steps done by hand, deadlines that passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.engine.steps.approvals import expire_due, how
from leftoff.engine.write.commit import Seal
from leftoff.errors import StoreUnavailable
from leftoff.model.ids import step_word
from leftoff.model.times import millis
from leftoff.store.watch import NO_FILE

if TYPE_CHECKING:
    from leftoff.store.base import View
    from leftoff.store.watch import Watch
    from leftoff.workflow.run.ledger import Page
    from leftoff.workflow.run.turn import ActiveRun

MOST = 200  # steps that are looked at; a later one is looked at again when it is its turn
_OPEN = ("waiting", "blocked")
_THEIRS = (*_OPEN, "pending")  # steps of which somebody else may have something to say


class Ear:
    """Whether others may have committed something, while people are waited for: heard of, not asked for."""

    def __init__(self, active: ActiveRun) -> None:
        self._active = active
        self._watch: Watch | None = None

    def fileno(self) -> int:
        """What to wait for, if there is such a thing."""
        return self._watch.fileno() if self._watch is not None else NO_FILE

    def hears(self) -> bool:
        """Since it was last asked. A store that is out of reach is the next commit's affair."""
        ledger = self._active.ledger
        try:
            if self._watch is None:
                self._watch = ledger.store.watch()
                return True
            news = self._watch.wait(0)
        except StoreUnavailable:
            self.close()
            return False
        return ledger.concerned(news)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


def look_at_people(active: ActiveRun, *, heard: bool = True) -> None:
    """Take in what others committed on steps that nobody executes right now."""
    expire(active)
    if not (heard or active.ledger.foreign) or not active.ledger.moved():
        return
    active.state.forget_variables()
    paths = [path for status in _THEIRS for path in active.scheduler.of(status)][:MOST]
    for path, record in _records(active, paths).items():
        before, status = active.scheduler.status[path], str(record.get("status"))
        if status != before and active.state.steps.get(path) != record:
            active.state.steps[path] = record
            _decided(active, path, status, record)


def expire(active: ActiveRun) -> None:
    """Reject what waited past its deadline."""
    now, steps = active.ledger.clock.now(), active.state.steps
    due = [
        path
        for path in active.state.graph.leaves
        if active.state.status(path) == "waiting"
        and (until := millis(steps[path].get("waits_until"))) is not None
        and now > until
    ]
    if not due:
        return

    def entry(page: Page) -> Seal | None:
        expired = expire_due(active.ledger.store, page.tx, page.row(), page.changes, page.at)
        return Seal("approval", expired[0], "expired") if expired else None

    active.add(entry)
    active.close()
    active.ledger.foreign = True  # the step's record is another one now


def _records(active: ActiveRun, paths: list[str]) -> dict[str, dict[str, Any]]:
    def look(view: View) -> dict[str, dict[str, Any]]:
        reader = active.ledger.reader(view)
        found = {path: reader.value("step", path) for path in paths}
        return {path: dict(value.plain) for path, value in found.items() if value is not None}

    return active.ledger.store.read(look) if paths else {}


def _decided(active: ActiveRun, path: str, status: str, record: dict[str, Any]) -> None:
    step = active.scheduler.steps[path]
    facts = active.step_facts(step, path)
    if status in ("completed", "skipped"):
        active.tell("step_done" if status == "completed" else "step_skipped", **facts, why=_why(record))
        active.follow(path, active.scheduler.ended(path, path, status))
    elif status == "failed":
        error = record.get("error")
        active.tell("step_failed", **facts, error=error, tail="", will_retry_in=None)
        active.follow(path, active.scheduler.ended(path, path, "failed"))
    elif status != "pending":  # somebody has taken it on: it is theirs until they say how it ended
        active.scheduler.status[path] = status if status in _OPEN else "waiting"


def _why(record: dict[str, Any]) -> str:
    result = record.get("result")
    if isinstance(result, dict) and "choice" in result:
        return f"decided: {result['choice']}"
    return "somebody reported it"


def tell_waiting(active: ActiveRun) -> None:
    """What a run that is driven again still waits for."""
    waiting = [path for path in active.state.graph.leaves if active.state.status(path) == "waiting"]
    asked = active.ledger.read("approval") if waiting else {}
    for path in waiting:
        step, record, approval = active.scheduler.steps[path], active.state.steps[path], asked.get(path)
        told: dict[str, Any] = {"kind": "approval" if approval else "manual"}
        if approval:
            told.update({key: approval[key] for key in ("ask", "options", "deadline") if key in approval})
            told["how"] = how(active.ledger.run_id, path)
        else:
            told["ask"] = record.get("instructions") or step.title or path
            told["how"] = f"leftoff step done {step_word(path)} --run {active.ledger.run_id}"
        active.tell("waiting", **active.step_facts(step, path), **told)
