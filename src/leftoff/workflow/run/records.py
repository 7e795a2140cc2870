"""What the runner writes into a run's records, one entry of the ledger for each thing that happens.

A step's record keeps how it was declared (order, title, kind, item…) and the facts of its last try. An entry starts
from the record as it is in the transaction: a step's own process may have added outputs, or said that it is blocked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.steps import lifecycle
from leftoff.engine.workspace.git import remember_git
from leftoff.engine.write.commit import Seal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leftoff.host import Process
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.ledger import Entry, Page
    from leftoff.workflow.run.state import State
    from leftoff.workflow.run.unit import Left


def declared(step: Step, order: int, batch: int | None) -> dict[str, Any]:
    """A step's record before anything happened."""
    known = {
        "title": step.title,
        "kind": step.kind,
        "type": step.label,
        "description": step.description,
        "instructions": step.instructions,
        "estimate": step.estimate,
        "batch": batch,
    }
    return lifecycle.declare(order, {key: value for key, value in known.items() if value not in (None, "")})


class Entries:
    """Makes entries; what they put is remembered in the state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def _put(self, page: Page, path: str, record: dict[str, Any]) -> None:
        page.steps.move(path, record)
        self._state.steps[path] = record

    def _note(self, page: Page, path: str, record: dict[str, Any]) -> None:
        page.steps.put(path, record)
        self._state.steps[path] = record

    def begin(
        self, path: str, token: str, process: Process, log: str, above: Iterable[str], *, ended: list[str]
    ) -> Entry:
        """A try at a step is about to start. What contains the step runs from now on, too.

        ``ended`` gets the step's status where somebody has reported it done or skipped, or is at it: then nothing
        starts. One that is on record as running is never started beside itself.
        """

        def entry(page: Page) -> Seal | None:
            before = page.step(path)
            ended[:] = [before["status"]] if before["status"] in ("completed", "skipped", "running") else []
            if ended:
                self._state.steps[path] = before
                return None
            number = page.tx.add_attempt(token, page.run, path, page.at, process=process, log=log)
            record = lifecycle.start(before, page.steps.now, number)
            if before.get("error"):
                record["last_error"] = before["error"]  # whoever tries again may want to know
            for outer in above:
                self._running(page, outer)
            self._put(page, path, record)
            return None

        return entry

    def _running(self, page: Page, path: str) -> None:
        record = page.step(path)
        if record["status"] != "running":
            self._put(page, path, lifecycle.enter(record, page.steps.now))

    def complete(self, path: str, token: str, left: Left, why: str | None, *, save: bool) -> Entry:
        """A step is done, with everything it left."""

        def entry(page: Page) -> Seal | None:
            record = lifecycle.complete(page.step(path), page.steps.now, left.result)
            if why:
                record["why"] = why
            if left.outputs or record.get("outputs"):
                record["outputs"] = lifecycle.merged(left.outputs, record.get("outputs") or ())
            if left.cache is not None:
                record["cache"] = left.cache
            left.put(page, path)
            self._put(page, path, record)
            page.tx.end_attempt(token, page.at, 0)
            return Seal("step_complete", path) if save else None

        return entry

    def reuse(self, step: Step, path: str, left: Left, why: str, above: Iterable[str]) -> Entry:
        """A step is taken from an earlier run, as it was left there."""

        def entry(page: Page) -> Seal | None:
            before = lifecycle.begun(page.step(path), page.steps.now)
            record = lifecycle.complete(before, page.steps.now, left.result)
            record.update(why=why, cache=left.cache)
            if left.outputs:
                record["outputs"] = left.outputs
            for outer in above:
                self._running(page, outer)
            left.put(page, path)
            self._put(page, path, record)
            return Seal("step_complete", path, why) if step.save else None

        return entry

    def fail(self, path: str, token: str | None, error: dict[str, Any], code: int | None) -> Entry:
        """A step failed for good, as far as this life of the run goes."""

        def entry(page: Page) -> Seal | None:
            self._put(page, path, lifecycle.fail(page.step(path), page.steps.now, error))
            if token is not None:
                page.tx.end_attempt(token, page.at, code)
            return Seal("error", path, error["message"])

        return entry

    def again(self, path: str, token: str | None, facts: dict[str, Any], code: int | None) -> Entry:
        """A try ended without success, and the step is to be done again, now or by a later life of the run."""

        def entry(page: Page) -> Seal | None:
            self._put(page, path, {**lifecycle.retry(page.step(path)), **facts})
            if token is not None:
                page.tx.end_attempt(token, page.at, code)
            return None

        return entry

    def forget(self, path: str, token: str) -> Entry:
        """An attempt was recorded and never began."""

        def entry(page: Page) -> Seal | None:
            attempt = page.tx.attempt(token)
            page.tx.drop_attempt(token)
            record = lifecycle.forget(page.step(path))
            before = attempt.number - 1 if attempt is not None else 0
            record.update(attempt=before) if before else record.pop("attempt", None)
            self._put(page, path, record)
            return None

        return entry

    def skip(self, paths: Iterable[str], why: str, *, save: bool = True) -> Entry:
        def entry(page: Page) -> Seal | None:
            last = ""
            for last in paths:
                self._put(page, last, {**lifecycle.skip(page.step(last), page.steps.now), "why": why})
            return Seal("step_complete", last, why) if save else None

        return entry

    def wait(
        self, step: Step, instructions: str, approval: dict[str, Any] | None, above: Iterable[str]
    ) -> Entry:
        """A step waits for a person: to approve it, or to do it by hand."""

        def entry(page: Page) -> Seal | None:
            record = lifecycle.wait(page.step(step.path), page.steps.now)
            if instructions:
                record["instructions"] = instructions
            if approval is not None and approval.get("deadline"):
                record["waits_until"] = approval["deadline"]
            for outer in above:
                self._running(page, outer)
            self._put(page, step.path, record)
            if approval is None:
                return None
            page.put("approval", step.path, approval)
            return Seal("approval", step.path, approval["ask"])

        return entry

    def items(self, path: str, some: list[tuple[int, str, Any]], total: int | None) -> Entry:
        """Some of the items of a `foreach`; with the last of them, how many there are."""

        def entry(page: Page) -> Seal | None:
            if total is None or not self._state.steps.get(path, {}).get("started_at"):
                self._running(page, path)
            for order, below, item in some:
                known = page.step(below) if page.tx.row(page.run, "step", below) is not None else {}
                # From an expansion that was cut short, it may have another place.
                if known.get("order") != order:
                    self._note(page, below, {"status": "pending", **known, "order": order, "item": item})
            if total is not None:
                self._put(page, path, {**page.step(path), "status": "running", "items": total})
            return None

        return entry

    def no_items(self, paths: Iterable[str]) -> Entry:
        """Items of an expansion that was cut short, and that the present one does not have."""

        def entry(page: Page) -> Seal | None:
            for path in paths:
                page.steps.remove(path)
                self._state.steps.pop(path, None)
            return None

        return entry

    def inner(self, path: str, status: str, trigger: str | None, seen: dict[str, Any] | None = None) -> Entry:
        """What contains steps has ended with the last of them. ``seen``: what the world is like by now."""

        def entry(page: Page) -> Seal | None:
            self._put(page, path, lifecycle.end(page.step(path), status, page.steps.now))
            for key, value in (seen or {}).items():
                page.put("context", key, value)
            return Seal(trigger, path) if trigger else None

        return entry

    def seal(self, trigger: str, step: str | None = None, note: str | None = None) -> Entry:
        def entry(page: Page) -> Seal | None:
            return Seal(trigger, step, note)

        return entry

    def end_attempt(self, token: str, code: int | None) -> Entry:
        def entry(page: Page) -> Seal | None:
            page.tx.end_attempt(token, page.at, code)
            return None

        return entry

    def settle(
        self,
        status: str,
        git: tuple[str | None, list[str] | None],
        seal: Seal | None,
        open_outer: dict[str, str],
    ) -> Entry:
        """The end of this life of the run. ``git``: the commit that is checked out, and what is not committed.
        ``open_outer``: what contains steps and did not end, with its status."""

        def entry(page: Page) -> Seal | None:
            for path, outer in open_outer.items():
                record = page.step(path)
                if record["status"] != outer:
                    self._put(page, path, {**record, "status": outer})
            row = page.row()
            if row.status != status:
                status_changes(page.changes, status, page.at)
            remember_git(git[0], row, page.changes, git[1])
            return seal

        return entry


def chain(first: Entry, second: Entry) -> Entry:
    """Two entries as one commit, sealed as the first one says, else as the second does."""

    def entry(page: Page) -> Seal | None:
        seals = (first(page), second(page))
        return seals[0] or seals[1]

    return entry
