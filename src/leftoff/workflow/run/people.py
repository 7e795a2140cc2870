"""What people decide while a run is driven: approvals, steps done by hand, deadlines that pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.clock import millis
from leftoff.engine.steps.approvals import how
from leftoff.errors import StoreUnavailable
from leftoff.model.ids import step_word
from leftoff.store.base import View
from leftoff.store.news import NO_FILE, Watch
from leftoff.workflow.run.entries import ApprovalsExpire

if TYPE_CHECKING:
    from leftoff.workflow.run.driver import Driver

MOST = 200  # steps that are looked at; a later one is looked at again when it is due
_OPEN = ("waiting", "blocked")
_THEIRS = (*_OPEN, "pending")  # steps about which others may report


class Ear:
    """Listens for commits of others while the run waits for people."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._watch: Watch | None = None

    def fileno(self) -> int:
        return self._watch.fileno() if self._watch is not None else NO_FILE

    def hears(self) -> bool:
        """Return whether others may have committed to this run. If the store is away, the next commit notices."""
        try:
            if self._watch is None:
                self._watch = self._driver.store.watch()
                return True
            news = self._watch.wait(0)
        except StoreUnavailable:
            self.close()
            return False
        return news.others or self._driver.is_behind(news.runs)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


def look_at_people(driver: Driver, *, heard: bool = True) -> None:
    """Take in what others committed on steps that this driver does not execute right now."""
    expire(driver)
    if not (heard or driver.foreign) or not driver.moved():
        return
    state, scheduler = driver.state, driver.scheduler
    state.forget_variables()
    paths = [path for status in _THEIRS for path in scheduler.of(status)][:MOST]

    def look(view: View) -> dict[str, dict[str, Any]]:
        reader = state.reader(view)
        found = {path: reader.value("step", path) for path in paths}
        return {path: dict(value.plain) for path, value in found.items() if value is not None}

    for path, record in (driver.store.read(look) if paths else {}).items():
        status = str(record.get("status"))
        if status != scheduler.status[path] and state.steps.get(path) != record:
            state.steps[path] = record
            _decided(driver, path, status, record)


def _decided(driver: Driver, path: str, status: str, record: dict[str, Any]) -> None:
    facts = driver.step_facts(driver.scheduler.steps[path], path)
    if status in ("completed", "skipped"):
        result = record.get("result")
        chosen = isinstance(result, dict) and "choice" in result
        why = f"decided: {result['choice']}" if chosen else "somebody reported it"  # type: ignore[index]
        driver.tell("step_done" if status == "completed" else "step_skipped", **facts, why=why)
        driver.follow(path, driver.scheduler.ended(path, path, status))
    elif status == "failed":
        driver.tell("step_failed", **facts, error=record.get("error"), tail="", will_retry_in=None)
        driver.follow(path, driver.scheduler.ended(path, path, "failed"))
    elif status != "pending":  # somebody works on it, and will report how it ended
        driver.scheduler.status[path] = status if status in _OPEN else "waiting"


def expire(driver: Driver) -> None:
    """Reject approvals whose deadline has passed."""
    now, state = driver.clock.now(), driver.state
    for path in state.graph.leaves:
        if state.status(path) == "waiting":
            until = millis(state.steps[path].get("waits_until"))
            if until is not None and now > until:
                break
    else:
        return
    driver.add(ApprovalsExpire(state))
    driver.commit()
    driver.foreign = True  # the step's record has changed


def tell_waiting(driver: Driver) -> None:
    """Report what a resumed run still waits for."""
    state = driver.state
    waiting = [path for path in state.graph.leaves if state.status(path) == "waiting"]
    asked = state.read("approval") if waiting else {}
    for path in waiting:
        step, approval = driver.scheduler.steps[path], asked.get(path)
        told: dict[str, Any] = {"kind": "approval" if approval else "manual"}
        if approval:
            told.update({key: approval[key] for key in ("ask", "options", "deadline") if key in approval})
            told["how"] = how(driver.run_id, path)
        else:
            told["ask"] = state.steps[path].get("instructions") or step.title or path
            told["how"] = f"leftoff step done {step_word(path)} --run {driver.run_id}"
        driver.tell("waiting", **driver.step_facts(step, path), **told)
