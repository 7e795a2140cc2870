"""What only a person decides: approvals, and that what blocks a run is resolved.

An approval is a step that waits. What it asks is the `approval` record under the step's path. The decision is written
to both records in one commit, sealed with the trigger `approval`. So the driver of the run finds, now or after a
resume, a step that is completed or failed. A deadline is a point in time: nothing happens when it passes, and the next
process that looks rejects the step.

A decision needs no lease. It works next to a live driver, while the run is paused, and from any machine that sees the
store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from leftoff.clock import iso, millis
from leftoff.engine.commit import NO_GUARD, Audit, Guard, Reported, Seal, Terms, report
from leftoff.engine.find import Find, Moved, is_seen
from leftoff.engine.opening import status_changes
from leftoff.engine.run_reader import Reader
from leftoff.engine.step_lifecycle import StepReport, Steps, refuse_approval, retry, step_changes, wait
from leftoff.errors import Conflict, NotFound, Usage
from leftoff.host import user
from leftoff.model.changes import ChangeSet, Scrubber
from leftoff.model.codec import sha256, text
from leftoff.model.ids import as_word, shown_step, step_word
from leftoff.model.words import FINISHED, STEP_ENDED
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import RunRow

REJECT = "reject"
OPTIONS = ("approve", REJECT)
_SHOWN = 20
_DECIDED = ("choice", "by", "at", "note", "status")  # what a decision adds to an approval's record


def how(run_id: str, step: str, verb: str = "approve", options: Any = ()) -> str:
    """Return the command that decides, as the user types it. ``options``: of the question, if the user must choose."""
    offered = approving([*map(str, options)]) if isinstance(options, list) else []
    choice = f" --choice {'|'.join(map(as_word, offered))}" if len(offered) > 1 else ""
    return f"leftoff {verb} {run_id} {step_word(step)}{choice}"


def approving(options: Sequence[str]) -> list[str]:
    """Return what approving could mean: `approve` if that is an option, else every option that does not reject."""
    return ["approve"] if "approve" in options else [option for option in options if option != REJECT]


def ask_again(run_id: str, step: str) -> str:
    """Return the command that asks a question once more, as the user types it."""
    return f"leftoff resume {run_id} --from-step {step_word(step)}"


def question(
    step: str, ask: str, options: Sequence[str], at: int, deadline: int | None = None
) -> dict[str, Any]:
    """Return the record of an approval that begins to wait; the step's own record is `waiting` meanwhile."""
    asked = {"step": step, "ask": ask, "options": list(options or OPTIONS)}
    record = {**asked, "status": "waiting", "asked_at": iso(at)}
    return record if deadline is None else {**record, "deadline": iso(deadline)}


def ask_changes(steps: Steps, run_id: str, step: str, ask: str, options: Sequence[str]) -> Seal:
    """Put a question into a change set, inside the transaction that commits it. Return how to seal it."""
    refuse_approval(steps, run_id, step)
    old = steps.get_or_new(step)
    if old.get("status") in STEP_ENDED or old.get("kind") is not None:
        about = f"is {old['status']} already" if old["status"] in STEP_ENDED else "is the runner's"
        raise Conflict(f"Step {shown_step(step)} {about}.", hint="Ask under the name of a new step.")
    steps.move(step, {**wait(old, steps.now), "kind": "approval"})
    steps.changes.put("approval", step, question(step, ask, options, steps.at))
    return Seal("approval", step, ask)


def is_rejected(record: Mapping[str, Any]) -> bool:
    """Return whether a person, or a deadline, said no: that is asked again only if the user wants it."""
    error = record.get("error")
    rejected = isinstance(error, dict) and error.get("type") == "rejected"
    return rejected and record.get("status") == "failed" and record.get("kind") == "approval"


# -- an approval as it stands


class PendingApproval:
    """The record of a step, and what was asked. ``offered``: every option that does not reject.
    ``approving``: what approving could mean."""

    def __init__(self, store: SqlStore, view: View, row: RunRow, step: str) -> None:
        self._store, self._row = store, row
        reader = Reader(store, view, row.run, row.run_id)
        found = reader.value("step", step)
        if found is None:
            leaves = view.leaves(row.run, "waiting", _SHOWN)
            waits = [shown_step(path) for path in leaves if reader.value("approval", path) is not None]
            hint = f"These are waiting for a decision: {', '.join(waits)}." if waits else ""
            hint = hint or "Nothing in it is waiting for a decision."
            raise NotFound(f"Run {row.run_id} has no step {shown_step(step)}.", hint=hint)
        asked = reader.value("approval", step)
        self.run_id = row.run_id
        self.finished = row.status if row.status in FINISHED else None
        self.step = step
        self.name = shown_step(step)
        self.record: dict[str, Any] = found.plain
        self.approval: dict[str, Any] = dict(asked.plain) if asked and isinstance(asked.plain, dict) else {}
        self.is_approval = bool(self.approval) or self.record.get("kind") == "approval"
        self.waits = self.is_approval and self.record.get("status") == "waiting"
        known = self.approval.get("options")
        self.options = list(map(str, known)) if isinstance(known, list) and known else list(OPTIONS)
        self.offered = [option for option in self.options if option != REJECT]
        self.approving = approving(self.options)
        self.ask = str(self.approval.get("ask") or "")

    @property
    def stamp(self) -> str:
        """Return what identifies the question: another text, or the same asked once more, has another stamp."""
        asked = [self.approval.get(name) for name in ("ask", "asked_at", "options")]
        return sha256(text(asked).encode()).hexdigest()[:32]

    def due(self, at: int) -> bool:
        """Return whether its deadline has passed."""
        deadline = millis(self.approval.get("deadline"))
        return deadline is not None and at > deadline

    def wanted(self, choice: str | None) -> str:
        """Return the choice that is meant; raise ``Usage`` if it is not among the options."""
        status = self.record.get("status")
        if not self.is_approval:
            hint = f"Nothing was changed. `leftoff show {self.run_id} --steps` lists the steps."
            if status == "waiting":
                hint = f"`leftoff step done {step_word(self.step)} --run {self.run_id}` reports it done."
            raise Conflict(f"Step {self.name} is {status}, and needs no approval.", hint=hint)
        return _meant(choice, self.approving, self.options, f"Step {self.name}")

    def was_decided(self, wanted: str) -> bool:
        """Return whether exactly this was decided before; raise if anything else keeps it from being decided."""
        if self.waits and not self.finished:
            return False
        about, status = self.approval, self.approval.get("status")
        # The step may have been put back since: then its record does not say what was decided.
        stands = self.record.get("status") == ("completed" if status == "approved" else "failed")
        if stands and status in ("approved", "rejected"):
            if about.get("choice") == wanted:
                return True
            who = f" by {about['by']}" if about.get("by") else ""
            told = f"{about.get('choice')}{who}" + (f" at {about['at']}" if about.get("at") else "")
            hint = f"Nothing was changed. `{ask_again(self.run_id, self.step)}` asks again."
            raise Conflict(f"Step {self.name} was already decided: {told}.", hint=hint)
        if stands and status == "expired":
            raise self.too_late()
        if self.finished:
            raise Conflict(f"Run {self.run_id} is {self.finished}; nothing in it is waiting for a decision.")
        status, hint = self.record.get("status"), ""
        if status == "pending":
            hint = f"`leftoff resume {self.run_id}` continues; it asks when it gets there."
        raise Conflict(f"Step {self.name} is not waiting for a decision: it is {status}.", hint=hint)

    def too_late(self) -> Conflict:
        until = self.approval.get("deadline")
        told = f"Step {self.name} could be decided until {until}; it expired, and is rejected."
        return Conflict(told, hint=f"`{ask_again(self.run_id, self.step)}` asks again.")

    def put_decision(self, tx: Tx, changes: ChangeSet, choice: str, decision: StepDecision) -> Seal:
        """Put the decision into both records."""
        by, note = decision.by, decision.note
        said = StepReport("done", self.step, result={"choice": choice}, decided=True)
        status = "approved"
        if choice == REJECT:
            status, said.action, said.kind = "rejected", "fail", "rejected"
            said.error = f"rejected by {by}" + (f": {note}" if note else "")
        about = {"status": status, "choice": choice, "by": by, "at": iso(decision.at)}
        self._put(tx, changes, said, about if note is None else {**about, "note": note}, decision.at)
        return Seal("approval", self.step, f"{choice}: {note}" if note else choice)

    def expire(self, tx: Tx, changes: ChangeSet, at: int) -> Seal:
        """Reject the step, because its deadline has passed."""
        why = f"nobody decided until {self.approval.get('deadline')}"
        said = StepReport("fail", self.step, error=why, kind="rejected", decided=True)
        self._put(tx, changes, said, {"status": "expired", "at": iso(at)}, at)
        return Seal("approval", self.step, f"expired: {why}")

    def _put(self, tx: Tx, changes: ChangeSet, said: StepReport, about: dict[str, Any], at: int) -> None:
        """Put what became of the question, in place of what an earlier decision may have left, and report the step."""
        known = {key: value for key, value in self.approval.items() if key not in _DECIDED}
        changes.put("approval", self.step, {"step": self.step, "options": self.options, **known, **about})
        step_changes(self._store, tx, self._row, changes, said, at)


def _meant(choice: str | None, offered: Sequence[str], options: Sequence[str], name: str) -> str:
    """Return the choice that is meant; raise ``Usage`` if it is not among the options, or if several are offered and
    none was named."""
    if choice is None and len(offered) > 1:
        raise Usage(
            f"{name} offers several choices: {', '.join(offered)}.",
            hint=f"Nothing was changed. Choose one: --choice {'|'.join(map(as_word, offered))}.",
        )
    choice = next(iter(offered), "") if choice is None else choice
    if choice == REJECT or choice in options:
        return choice
    told = f"{name} cannot be decided as {choice!r}." if choice else "There is nothing to approve."
    raise Usage(told, hint=f"Nothing was changed. The options are: {', '.join(options)}.")


def waiting(store: SqlStore, view: View, row: RunRow) -> dict[str, PendingApproval]:
    """Return the approvals of a run that wait for a decision, by step."""
    out = {}
    for record in view.records(row.run, "approval"):
        known = view.row(row.run, "step", record.key)
        if known is not None and known[1] == "waiting":
            out[record.key] = PendingApproval(store, view, row, record.key)
    return out


# -- deciding


class StepDecision(NamedTuple):
    """What a person says of a step. ``choice`` None approves, if it is clear what that means. ``options``: of a phase
    of a protocol, which may be no step that asked, what can be chosen. ``seen``: the stamp of the question that the
    person was shown. ``audit``: recorded in the same commit, if the decision is new."""

    choice: str | None
    by: str
    at: int
    note: str | None = None
    options: Sequence[str] = ()
    seen: str | None = None
    audit: Audit | None = None


class StepDecided(NamedTuple):
    """What was decided of a step; ``changed`` is False if it had been decided just so before. ``row``: the run as it
    was found, ``left``: as the decision left it."""

    row: RunRow
    step: str
    choice: str
    changed: bool
    left: RunRow

    @property
    def rejected(self) -> bool:
        return self.choice == REJECT


def record_decision(
    store: SqlStore,
    find: Find,
    step: str,
    decision: StepDecision,
    *,
    scrubber: Scrubber | None = None,
    guard: Guard = NO_GUARD,
) -> StepDecided:
    """Record a decision.

    The same decision once more changes nothing; another one is a ``Conflict``, as is a step that does not wait for
    one. Past the deadline the step is rejected, and that is a ``Conflict`` too.
    """
    choice = ""
    late: Conflict | None = None

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        nonlocal choice, late
        late, found = None, PendingApproval(store, tx, row, step)
        # A decision that was made since is reported as such.
        if decision.seen is not None and found.waits and found.stamp != decision.seen:
            raise Conflict(
                f"Step {found.name} asks something else than what was shown.",
                hint="Nothing was decided. Look at what it asks now.",
            )
        if decision.options and not found.waits:
            options = [*decision.options, REJECT]
            choice = _meant(decision.choice, decision.options, options, f"Phase {shown_step(step)}")
            seal = _put_phase(changes, step, found.approval, choice, decision)
        else:
            choice = found.wanted(decision.choice)
            if found.was_decided(choice):
                return None
            if found.due(decision.at):
                late = found.too_late()
                return found.expire(tx, changes, decision.at)
            seal = found.put_decision(tx, changes, choice, decision)
        if seal is not None and decision.audit is not None:
            decision.audit.put(changes, decision.at, step=step, choice=choice)
        return seal

    done = report(store, find, make, Terms(decision.at, guard), scrubber=scrubber)
    if late is not None:
        raise late
    return StepDecided(done.row, step, choice, done.version is not None, done.left)


def _put_phase(
    changes: ChangeSet, step: str, before: dict[str, Any], choice: str, decision: StepDecision
) -> Seal | None:
    """Record that a phase of a protocol was approved, or not. That decides no step: it is a record next to it."""
    about: dict[str, Any] = {"phase": step, "status": "rejected" if choice == REJECT else "approved"}
    if choice not in OPTIONS:
        about["choice"] = choice
    if before and all(before.get(key) == about.get(key) for key in ("status", "choice")):
        return None
    about.update(at=iso(decision.at), by=decision.by)
    changes.put("approval", step, {**about, "note": decision.note} if decision.note else about)
    return Seal("approval", step, f"{choice}: {decision.note}" if decision.note else choice)


def expire_due(store: SqlStore, tx: Tx, row: RunRow, changes: ChangeSet, at: int) -> list[str]:
    """Reject what waited past its deadline, inside a transaction of a process that watches the run. Return the
    steps."""
    out = []
    for path, found in waiting(store, tx, row).items():
        if found.due(at):
            found.expire(tx, changes, at)
            out.append(path)
    return out


# -- what blocks a run


def clear_blocks(
    store: SqlStore,
    find: Find,
    step: str | None,
    at: int,
    *,
    seen: int | None = None,
    scrubber: Scrubber | None = None,
    audit: Audit | None = None,
) -> tuple[Reported, list[str]]:
    """Make the blocked steps (or one of them) pending again and clear their errors; the run is blocked no more. Also
    return these steps.

    ``seen``: the version that the person was asked about; what was reported since then stays.
    """
    cleared: list[str] = []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        reader = Reader(store, tx, row.run, row.run_id)
        writer = Steps(reader, changes, at)
        steps = writer.all()
        blocked = [path for path, record in steps.items() if record.get("status") == "blocked"]
        if step is not None and step not in blocked:
            hint = f"Blocked: {', '.join(map(shown_step, blocked)) or 'none'}."
            if step not in steps:
                raise NotFound(f"Run {row.run_id} has no step {shown_step(step)}.", hint=hint)
            raise Conflict(f"Step {shown_step(step)} is not blocked.", hint=hint)
        known = [path for path in blocked if is_seen(tx, row.run, "step", path, seen)]
        cleared[:] = [path for path in known if step in (None, path)]
        if blocked and not cleared:
            raise Moved(f"What blocks run {row.run_id} was reported since.")
        errors = reader.raw("error")
        for path in cleared:
            writer.move(path, retry(steps[path]))
            if path in errors:
                changes.delete("error", path)
        if row.status == "blocked" and set(blocked) <= set(cleared):
            status_changes(changes, "running", at)
        for key in errors if step is None else ():
            if key not in steps and is_seen(tx, row.run, "error", key, seen):  # it is the run's own
                changes.delete("error", key)
        if not changes.changes:
            return None
        if audit is not None:
            audit.put(changes, at)
        return Seal("manual", cleared[0] if cleared else None, f"unblocked by {user()}")

    return report(store, find, make, Terms(at), scrubber=scrubber), cleared
