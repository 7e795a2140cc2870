"""What the driver commits: one entry for each thing that happens in a run.

The driver commits the entries of a turn in one transaction, one commit per entry. ``Entry.write`` runs inside it and
starts from the records as they are there: a step's own process may have added outputs, or reported that it is blocked.
What depends on the commit happens after it: the event is reported, ``Entry.after`` is called.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.approvals import expire_due
from leftoff.engine.commit import Seal
from leftoff.engine.git import remember_git
from leftoff.engine.opening import status_changes
from leftoff.engine.redactor import Redactor
from leftoff.engine.run_reader import Reader
from leftoff.model.changes import ChangeSet
from leftoff.model.ids import ancestors
from leftoff.store.base import Tx
from leftoff.store.rows import BlobRow, RunRow
from leftoff.workflow.actions import RUNNING, LiveAttempt, StepLeft
from leftoff.workflow.attempt_folder import AttemptFolder
from leftoff.workflow.definition import Graph, StepDefinition, Workflow
from leftoff.workflow.run_state import RunState

if TYPE_CHECKING:
    from leftoff.workflow.driver import Driver


class Page:
    """One commit in the making: the records as they are, and the changes. What it puts is remembered in the state."""

    def __init__(self, state: RunState, redactor: Redactor, tx: Tx, at: int) -> None:
        self.tx = tx
        self.at = at
        self.run = state.run
        self.changes = ChangeSet(redactor)
        self.blobs: list[BlobRow] = []
        self.steps = lifecycle.Steps(Reader(state.store, tx, state.run, state.run_id), self.changes, at)
        self._state = state

    def step(self, path: str) -> dict[str, Any]:
        """Return a step's record as it is now."""
        found = self.steps.get(path)
        return found if found is not None else {"status": "pending"}

    def move(self, path: str, record: dict[str, Any]) -> None:
        """Put a step's record with a new status."""
        self.steps.move(path, record)
        self._state.steps[path] = record

    def enter(self, path: str) -> None:
        """Mark a phase or a `foreach` as running."""
        record = self.step(path)
        if record["status"] != "running":
            self.move(path, lifecycle.enter(record, self.steps.now))

    def end_attempt(self, token: str, code: int | None) -> None:
        """End an attempt. Without a token there is none, or it stays open."""
        if token:
            self.tx.end_attempt(token, self.at, code)

    def row(self) -> RunRow:
        row = self.tx.run_row(self.run)
        assert row is not None
        return row

    def remember(self, path: str, record: dict[str, Any] | None) -> None:
        """Tell the state what a step's record is; None: it has none any more."""
        if record is None:
            self._state.steps.pop(path, None)
        else:
            self._state.steps[path] = record


@dataclass(kw_only=True)
class Entry:
    """One commit.

    ``tell``: the event to report after it. ``tidy``: the folder of an attempt that is not needed any more.
    ``durable``: it must survive a power cut by itself. ``also``: another entry for the same commit.
    """

    tell: tuple[str, dict[str, Any]] | None = None
    tidy: AttemptFolder | None = None
    durable: bool = True
    also: Entry | None = None

    def write(self, page: Page) -> Seal | None:
        """Make the changes. Return the seal if the commit is a checkpoint."""
        return None

    def after(self, driver: Driver) -> None:
        """Do what depends on the commit."""


@dataclass
class AttemptBegins(Entry):
    """A shim waits for the word to go. What contains the step runs from now on, too.

    Nothing starts if somebody has reported the step done or skipped, or works on it: ``taken`` is its status then.
    """

    live: LiveAttempt
    log: str  # the attempt's folder, relative to the store's
    phase: tuple[str, str] | None  # the phase before, and the one that begins
    taken: str = ""

    def write(self, page: Page) -> Seal | None:
        live, before = self.live, page.step(self.live.unit)
        assert live.process is not None
        self.taken = before["status"] if before["status"] in ("completed", "skipped", "running") else ""
        if self.taken:
            page.remember(live.unit, before)
            return None
        number = page.tx.add_attempt(
            live.token, page.run, live.unit, page.at, process=live.process, log=self.log
        )
        record = lifecycle.start(before, page.steps.now, number, live.because)
        if before.get("error"):
            record["last_error"] = before["error"]  # the next attempt may want to know
        for outer in ancestors(live.unit):
            page.enter(outer)
        page.move(live.unit, record)
        return None

    def after(self, driver: Driver) -> None:
        live = self.live
        if self.taken:
            driver.attempts.pop(live.token, None)
            driver.launcher.drop(live.token)
            if self.taken in ("completed", "skipped"):
                driver.follow(live.leaf, driver.scheduler.ended(live.unit, live.leaf, self.taken))
            else:
                driver.leave_to_others(live.unit, live.leaf, self.taken)
            return
        live.phase, live.began = RUNNING, time.monotonic()
        driver.launcher.go(live.token)
        if self.phase is not None:
            driver.tell("phase", **{"from": self.phase[0], "to": self.phase[1]})
        driver.tell(
            "step_start",
            **driver.step_facts(live.step, live.unit),
            attempt=driver.state.steps[live.unit]["attempt"],
            estimate=live.step.estimate,
        )


@dataclass
class StepCompletes(Entry):
    """A step is done. With a ``token`` its own attempt did it, else it is taken from an earlier run."""

    path: str
    token: str
    left: StepLeft
    why: str | None
    save: bool

    def write(self, page: Page) -> Seal | None:
        left, before = self.left, page.step(self.path)
        if not self.token:
            before = lifecycle.ensure_try(before, page.steps.now)
            for outer in ancestors(self.path):
                page.enter(outer)
        record = lifecycle.complete(before, page.steps.now, left.result)
        if self.why:
            record["why"] = self.why
        if left.outputs or record.get("outputs"):
            record["outputs"] = lifecycle.merged(left.outputs, record.get("outputs") or ())
        if left.cache is not None:
            record["cache"] = left.cache
        left.put(page.changes, page.blobs, self.path, page.row(), page.at)
        page.move(self.path, record)
        page.end_attempt(self.token, 0)
        return Seal("step_complete", self.path, None if self.token else self.why) if self.save else None

    def after(self, driver: Driver) -> None:
        driver.state.set_variables(self.left.variables)


@dataclass
class StepFails(Entry):
    """A step failed, and this driver does not try it again."""

    path: str
    token: str
    error: dict[str, Any]
    code: int | None
    allowed: bool

    def write(self, page: Page) -> Seal | None:
        record = lifecycle.fail(page.step(self.path), page.steps.now, self.error)
        page.move(self.path, {**record, "allowed": True} if self.allowed else record)
        page.end_attempt(self.token, self.code)
        return Seal("error", self.path, self.error["message"])


@dataclass
class StepRunsAgain(Entry):
    """An attempt ended without success. The step is done again, by this driver or a later one.

    Without a ``token`` the attempt stays open: resume judges it.
    """

    path: str
    token: str
    facts: dict[str, Any]
    code: int | None

    def write(self, page: Page) -> Seal | None:
        again = lifecycle.retry(page.step(self.path), self.facts.get("error"))
        page.move(self.path, {**again, **self.facts})
        page.end_attempt(self.token, self.code)
        return None


@dataclass
class AttemptForgotten(Entry):
    """An attempt was recorded, and its command was never executed. It does not count."""

    path: str
    token: str
    folder: AttemptFolder

    def write(self, page: Page) -> Seal | None:
        attempt = page.tx.attempt(self.token)
        page.tx.drop_attempt(self.token)
        record = lifecycle.forget(page.step(self.path))
        before = attempt.number - 1 if attempt is not None else 0
        record.update(attempt=before) if before else record.pop("attempt", None)
        page.move(self.path, record)
        return None

    def after(self, driver: Driver) -> None:
        self.folder.remove()


@dataclass
class AttemptEnds(Entry):
    """An attempt is over. The step's record stays as it is."""

    token: str
    code: int | None

    def write(self, page: Page) -> Seal | None:
        page.end_attempt(self.token, self.code)
        return None


@dataclass
class StepsSkipped(Entry):
    paths: list[str]
    why: str
    save: bool = True

    def write(self, page: Page) -> Seal | None:
        for path in self.paths:
            page.move(path, {**lifecycle.skip(page.step(path), page.steps.now), "why": self.why})
        last = self.paths[-1] if self.paths else ""
        return Seal("step_complete", last, self.why) if self.save else None

    def after(self, driver: Driver) -> None:
        for path in self.paths:
            driver.tell("step_skipped", step=path, why=self.why)


@dataclass
class StepWaits(Entry):
    """A step waits for a person, to approve it or to do it by hand."""

    step: StepDefinition
    instructions: str
    approval: dict[str, Any] | None

    def write(self, page: Page) -> Seal | None:
        path, approval = self.step.path, self.approval
        record = lifecycle.wait(page.step(path), page.steps.now)
        if self.instructions:
            record["instructions"] = self.instructions
        if approval is not None and approval.get("deadline"):
            record["waits_until"] = approval["deadline"]
        for outer in ancestors(path):
            page.enter(outer)
        page.move(path, record)
        if approval is None:
            return None
        page.changes.put("approval", path, approval)
        return Seal("approval", path, approval["ask"])


@dataclass
class ItemsDeclared(Entry):
    """Some of the items of a `foreach`, as order, path and value; with the last of them, the ``total``.

    ``stale``: items of an expansion that was cut short, and that the present one does not have.
    """

    path: str
    items: list[tuple[int, str, Any]]
    total: int | None
    stale: list[str]

    def write(self, page: Page) -> Seal | None:
        for path in self.stale:
            page.steps.remove(path)
            page.remember(path, None)
        if self.total is None or not page.step(self.path).get("started_at"):
            page.enter(self.path)
        for order, below, item in self.items:
            known = page.step(below) if page.tx.row(page.run, "step", below) is not None else {}
            if known.get("order") != order:  # an expansion that was cut short may have it at another place
                record = {"status": "pending", **known, "order": order, "item": item}
                page.steps.put(below, record)
                page.remember(below, record)
        if self.total is not None:
            page.move(self.path, {**page.step(self.path), "status": "running", "items": self.total})
        return None


@dataclass
class OuterEnds(Entry):
    """A phase or a `foreach` ended with the last step in it. ``seen``: `context` records as of now."""

    path: str
    status: str
    trigger: str | None
    seen: dict[str, Any]

    def write(self, page: Page) -> Seal | None:
        page.move(self.path, lifecycle.end(page.step(self.path), self.status, page.steps.now))
        for key, value in self.seen.items():
            page.changes.put("context", key, value)
        return Seal(self.trigger, self.path) if self.trigger else None


@dataclass
class Checkpoint(Entry):
    trigger: str
    note: str

    def write(self, page: Page) -> Seal | None:
        return Seal(self.trigger, None, self.note)


@dataclass
class ApprovalsExpire(Entry):
    """Approvals whose deadline has passed are rejected."""

    state: RunState

    def write(self, page: Page) -> Seal | None:
        expired = expire_due(self.state.store, page.tx, page.row(), page.changes, page.at)
        return Seal("approval", expired[0], "expired") if expired else None


@dataclass
class RunSettles(Entry):
    """The driver is done with the run. ``git``: the commit that is checked out, and the uncommitted paths.

    The status is worked out in the transaction, in which the ends of the last steps are known.
    """

    driver: Driver
    git: tuple[str | None, list[str] | None]
    seal: Seal | None

    def write(self, page: Page) -> Seal | None:
        status = self.driver.outcome()[0]
        for path, outer in self.driver.open_outer().items():
            record = page.step(path)
            if record["status"] != outer:
                page.move(path, {**record, "status": outer})
        row, allowed = page.row(), self.driver.state.allowed()
        if row.status != status:
            status_changes(page.changes, status, page.at)
        if allowed != row.card.get("allowed", 0):
            page.changes.put("run", "allowed", allowed)
        remember_git(self.git[0], row, page.changes, self.git[1])
        return self.seal


# -- the first commit of a run


def records_of(workflow: Workflow) -> dict[str, dict[str, Any]]:
    """Return the record of every step, before anything happened."""
    graph, out = Graph(workflow), {}
    for order, step in enumerate(workflow.walk()):
        known = {
            "title": step.title,
            "kind": step.kind,
            "type": step.label,
            "description": step.description,
            "instructions": step.instructions,
            "estimate": step.estimate,
            "batch": graph.level[step.path] + 1 if step.kind != "phase" else None,
        }
        out[step.path] = lifecycle.declare(
            order, {key: value for key, value in known.items() if value not in (None, "")}
        )
    return out


def context_of(workflow: Workflow, project: str) -> dict[str, Any]:
    """Return the `context` records of a definition and its graph."""
    path = os.path.relpath(os.path.abspath(workflow.path), project)
    needs = {step.path: list(step.needs) for step in workflow.walk() if step.needs}
    return {
        "definition": {"path": path, "digest": workflow.digest, "text": workflow.text},
        "graph": {"batches": Graph(workflow).batches(), "needs": needs},
    }
