"""Decisions that only a person may take: what is asked, who decided what, and what becomes of the step.

An approval is a step that waits. What it asks is the `approval` record under the step's path; the decision goes into
both records in one commit, sealed with the trigger `approval`, so that whoever drives the run, now or after a resume,
finds a step that is simply completed or failed. A deadline is a point in time: nothing happens when it passes; whoever
looks next finds that it has, and the step is rejected.

A decision needs no lease. It works beside a live driver, while the run is paused, and from any machine that sees the
store.
"""

from __future__ import annotations

from typing import NamedTuple

from leftoff.clock import iso, millis
from leftoff.engine.read.state import Reader
from leftoff.engine.steps.lifecycle import wait
from leftoff.engine.steps.reports import StepReport, refuse_approval, step_changes
from leftoff.engine.write.commit import NO_GUARD, Seal, Terms
from leftoff.engine.write.report import report
from leftoff.errors import Conflict, NotFound, Usage
from leftoff.model.codec import sha256, text
from leftoff.model.ids import shown_step, step_word
from leftoff.model.words import FINISHED, STEP_ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from leftoff.engine.steps.lifecycle import Steps
    from leftoff.engine.write.audit import Audit
    from leftoff.engine.write.commit import Guard
    from leftoff.engine.write.report import Find
    from leftoff.model.changes import ChangeSet, Scrubber
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

REJECT = "reject"
OPTIONS = ("approve", REJECT)
_SHOWN = 20


class Decided(NamedTuple):
    """What was decided of a step; ``changed`` is False where it had been decided just so before. ``row``: the run as
    it was found, ``left``: as the decision left it."""

    row: RunRow
    step: str
    choice: str
    changed: bool
    left: RunRow

    @property
    def rejected(self) -> bool:
        return self.choice == REJECT


def question(
    step: str, ask: str, options: Sequence[str], at: int, deadline: int | None = None
) -> dict[str, Any]:
    """The record of an approval that begins to wait; the step's own record is `waiting` meanwhile."""
    record = {
        "step": step,
        "ask": ask,
        "options": list(options or OPTIONS),
        "status": "waiting",
        "asked_at": iso(at),
    }
    return record if deadline is None else {**record, "deadline": iso(deadline)}


def ask_changes(steps: Steps, run_id: str, step: str, ask: str, options: Sequence[str]) -> Seal:
    """Put a question into a change set, inside the transaction that commits it; how to seal it."""
    refuse_approval(steps, run_id, step)
    old = steps.get_or_new(step)
    if old.get("status") in STEP_ENDED or old.get("kind") is not None:
        about = f"is {old['status']} already" if old["status"] in STEP_ENDED else "is the runner's"
        raise Conflict(f"Step {shown_step(step)} {about}.", hint="Ask under the name of a new step.")
    steps.move(step, {**wait(old, steps.now), "kind": "approval"})
    steps.changes.put("approval", step, question(step, ask, options, steps.at))
    return Seal("approval", step, ask)


def is_rejected(record: Mapping[str, Any]) -> bool:
    """Whether a person, or a deadline, said no: that is not asked again unless somebody wants it."""
    error = record.get("error")
    rejected = isinstance(error, dict) and error.get("type") == "rejected"
    return rejected and record.get("status") == "failed" and record.get("kind") == "approval"


def ask_again(run_id: str, step: str) -> str:
    """The command that puts a question once more, as one would type it."""
    return f"leftoff resume {run_id} --from-step {step_word(step)}"


def how(run_id: str, step: str, verb: str = "approve") -> str:
    """The command that decides, as one would type it."""
    return f"leftoff {verb} {run_id} {step_word(step)}"


class Decision(NamedTuple):
    """What a person says of a step. ``choice`` None approves, where it is clear what that means. ``options``: of a
    phase of a protocol, which may be no step that asked, what can be chosen. ``seen``: what stands for the question
    that they were shown. ``audit``: recorded in the same commit, if the decision is new."""

    choice: str | None
    by: str
    at: int
    note: str | None = None
    options: Sequence[str] = ()
    seen: str | None = None
    audit: Audit | None = None


def decide(
    store: Store,
    find: Find,
    step: str,
    decision: Decision,
    *,
    scrubber: Scrubber | None = None,
    guard: Guard = NO_GUARD,
) -> Decided:
    """Record a decision.

    The same decision once more changes nothing; another one is a ``Conflict``, as is a step that does not wait for
    one. Past the deadline the step is rejected, and that is a ``Conflict`` too.
    """
    taken: list[str] = []
    late: list[Conflict] = []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        late.clear()
        found = Asked(store, tx, row, step)
        if decision.seen is not None:
            found.need(decision.seen)
        if decision.options and not found.waits:
            taken[:] = [_of_phase(step, decision)]
            seal = _put_phase(changes, step, found.approval, decision._replace(choice=taken[0]))
        else:
            taken[:] = [found.wanted(decision.choice)]
            if found.decided(taken[0]):
                return None
            if found.due(decision.at):
                late.append(found.too_late())
                return _expire(store, tx, row, changes, found, decision.at)
            seal = _put(store, tx, row, changes, found, decision._replace(choice=taken[0]))
        if seal is not None and decision.audit is not None:
            decision.audit.put(changes, decision.at, step=step, choice=taken[0])
        return seal

    done = report(store, find, make, Terms(decision.at, guard), scrubber=scrubber)
    if late:
        raise late[0]
    return Decided(done.row, step, taken[0], done.version is not None, done.left)


def _of_phase(step: str, decision: Decision) -> str:
    """What was chosen of what a phase offers; of several a person says which."""
    offered = list(decision.options)
    choice = decision.choice or (offered[0] if len(offered) == 1 else None)
    if choice == REJECT or (choice is not None and choice in offered):
        return choice
    if choice is None:
        raise Usage(
            f"Phase {shown_step(step)} offers several choices: {', '.join(offered)}.",
            hint="Nothing was changed: a decision is never guessed. Say which one: --choice X.",
        )
    raise Usage(
        f"Phase {shown_step(step)} cannot be decided as {choice!r}.",
        hint=f"Nothing was changed. The options are: {', '.join([*offered, REJECT])}.",
    )


def _put_phase(changes: ChangeSet, step: str, before: dict[str, Any], decision: Decision) -> Seal | None:
    """That a phase of a protocol was approved, or not, decides no step: it is a record beside it."""
    choice = decision.choice
    about: dict[str, Any] = {"phase": step, "status": "rejected" if choice == REJECT else "approved"}
    if choice not in OPTIONS:
        about["choice"] = choice
    if before and all(before.get(key) == about.get(key) for key in ("status", "choice")):
        return None
    about.update(at=iso(decision.at), by=decision.by)
    changes.put("approval", step, {**about, "note": decision.note} if decision.note else about)
    return Seal("approval", step, f"{choice}: {decision.note}" if decision.note else choice)


class Asked:
    """An approval as it stands: the step's record, and what was asked."""

    def __init__(self, store: Store, view: View, row: RunRow, step: str) -> None:
        reader = Reader(store, view, row.run, row.run_id)
        found = reader.value("step", step)
        if found is None:
            raise _no_step(reader, view, row, step)
        asked = reader.value("approval", step)
        self.run_id = row.run_id
        self.finished = row.status if row.status in FINISHED else None
        self.step = step
        self.name = shown_step(step)
        self.record: dict[str, Any] = found.plain
        self.approval: dict[str, Any] = dict(asked.plain) if asked and isinstance(asked.plain, dict) else {}

    @property
    def is_one(self) -> bool:
        return bool(self.approval) or self.record.get("kind") == "approval"

    @property
    def waits(self) -> bool:
        return self.is_one and self.record.get("status") == "waiting"

    @property
    def options(self) -> list[str]:
        known = self.approval.get("options")
        return [str(option) for option in known] if isinstance(known, list) and known else list(OPTIONS)

    @property
    def ask(self) -> str:
        return str(self.approval.get("ask") or "")

    @property
    def stamp(self) -> str:
        """What stands for the question as it is put: another text, or the same put once more, is another one."""
        asked = [self.approval.get(name) for name in ("ask", "asked_at", "options")]
        return sha256(text(asked).encode()).hexdigest()[:32]

    def need(self, seen: str) -> None:
        """Raise where this is not the question that somebody was shown; one that was decided since says so itself."""
        if self.waits and self.stamp != seen:
            raise Conflict(
                f"Step {self.name} asks something else than what was shown.",
                hint="Nothing was decided. Look at what it asks now.",
            )

    def choices(self) -> list[str]:
        """What approving could mean: `approve` where that is offered, else every option that does not reject."""
        return ["approve"] if "approve" in self.offered else self.offered

    @property
    def offered(self) -> list[str]:
        """Every option that does not reject."""
        return [option for option in self.options if option != REJECT]

    def wanted(self, choice: str | None) -> str:
        """The choice that is meant; one that is not among the options is wrong usage."""
        if not self.is_one:
            raise self._other_kind()
        if choice is None:
            offered = self.choices()
            if len(offered) > 1:
                raise Usage(
                    f"Step {self.name} offers several choices: {', '.join(offered)}.",
                    hint="Nothing was changed: a decision is never guessed. Say which one: --choice X.",
                )
            choice = offered[0] if offered else None
        if choice == REJECT or (choice is not None and choice in self.options):
            return choice
        named = (
            f"Step {self.name} cannot be decided as {choice!r}." if choice else "There is nothing to approve."
        )
        raise Usage(named, hint=f"Nothing was changed. The options are: {', '.join(self.options)}.")

    def decided(self, wanted: str) -> bool:
        """Whether exactly this was decided before; anything else that keeps it from being decided is raised."""
        if self.waits and not self.finished:
            return False
        status = self.approval.get("status")
        if status in ("approved", "rejected") and self._matches(status):
            if self.approval.get("choice") == wanted:
                return True
            raise Conflict(
                f"Step {self.name} was already decided: {self._told()}.",
                hint=f"Nothing was changed. {self._again()}",
            )
        if status == "expired" and self._matches(status):
            raise self.too_late()
        raise self._not_waiting()

    def due(self, at: int) -> bool:
        """Whether its deadline has passed."""
        deadline = millis(self.approval.get("deadline"))
        return deadline is not None and at > deadline

    def too_late(self) -> Conflict:
        return Conflict(
            f"Step {self.name} could be decided until {self.approval.get('deadline')}; it expired, and is rejected.",
            hint=self._again(),
        )

    def _again(self) -> str:
        return f"`{ask_again(self.run_id, self.step)}` asks again."

    def _matches(self, status: object) -> bool:
        """Whether the step's record still says what was decided: it may have been put back since."""
        return self.record.get("status") == ("completed" if status == "approved" else "failed")

    def _told(self) -> str:
        who, when = self.approval.get("by"), self.approval.get("at")
        return (
            f"{self.approval.get('choice')}" + (f" by {who}" if who else "") + (f" at {when}" if when else "")
        )

    def _other_kind(self) -> Conflict:
        told = f"Step {self.name} is {self.record.get('status')}, and needs no approval."
        if self.record.get("status") == "waiting":
            told = f"Step {self.name} is waiting for somebody to do it, and needs no approval."
            return Conflict(
                told, hint=f"`leftoff step done {step_word(self.step)} --run {self.run_id}` reports it done."
            )
        return Conflict(
            told, hint=f"Nothing was changed. `leftoff show {self.run_id} --steps` lists the steps."
        )

    def _not_waiting(self) -> Conflict:
        if self.finished:
            return Conflict(f"Run {self.run_id} is {self.finished}; nothing in it is waiting for a decision.")
        status = self.record.get("status")
        hint = (
            f"`leftoff resume {self.run_id}` continues; it asks when it gets there."
            if status == "pending"
            else ""
        )
        return Conflict(f"Step {self.name} is not waiting for a decision: it is {status}.", hint=hint)


def _put(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, found: Asked, decision: Decision) -> Seal:
    """The decision, in both records."""
    choice, by, note = decision.choice, decision.by, decision.note
    approval = {
        **_asked_record(found),
        "status": "approved",
        "choice": choice,
        "by": by,
        "at": iso(decision.at),
    }
    if note is not None:
        approval["note"] = note
    told = StepReport("done", found.step, result={"choice": choice}, decided=True)
    if choice == REJECT:
        approval["status"] = "rejected"
        told.action, told.kind = "fail", "rejected"
        told.error = f"rejected by {by}" + (f": {note}" if note else "")
    changes.put("approval", found.step, approval)
    step_changes(store, tx, row, changes, told, decision.at)
    return Seal("approval", found.step, f"{choice}: {note}" if note else choice)


def _asked_record(found: Asked) -> dict[str, Any]:
    """What was asked, without what an earlier decision may have left."""
    gone = ("choice", "by", "at", "note", "status")
    known = {key: value for key, value in found.approval.items() if key not in gone}
    return {"step": found.step, "options": found.options, **known}


def _expire(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, found: Asked, at: int) -> Seal:
    approval = {**_asked_record(found), "status": "expired", "at": iso(at)}
    changes.put("approval", found.step, approval)
    why = f"nobody decided until {found.approval.get('deadline')}"
    told = StepReport("fail", found.step, error=why, kind="rejected", decided=True)
    step_changes(store, tx, row, changes, told, at)
    return Seal("approval", found.step, f"expired: {why}")


def expire_due(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, at: int) -> list[str]:
    """Reject what waited past its deadline; the steps. For whoever looks after a run, inside its transaction."""
    out = []
    for path, found in waiting(store, tx, row).items():
        if found.due(at):
            _expire(store, tx, row, changes, found, at)
            out.append(path)
    return out


def waiting(store: Store, view: View, row: RunRow) -> dict[str, Asked]:
    """The approvals of a run that wait for a decision, by step."""
    out = {}
    for record in view.records(row.run, "approval"):
        known = view.row(row.run, "step", record.key)
        if known is not None and known[1] == "waiting":
            out[record.key] = Asked(store, view, row, record.key)
    return out


def _no_step(reader: Reader, view: View, row: RunRow, step: str) -> NotFound:
    from difflib import get_close_matches

    open_ones = [
        path for path in view.leaves(row.run, "waiting", _SHOWN) if reader.value("approval", path) is not None
    ]
    hint = "Nothing in it is waiting for a decision."
    if open_ones:
        near = [path for path in open_ones if path.rpartition("/")[2] == step]
        near = near or get_close_matches(step, open_ones, 1, 0.5) or open_ones
        hint = f"These are waiting for a decision: {', '.join(map(shown_step, near))}."
    return NotFound(f"Run {row.run_id} has no step {shown_step(step)}.", hint=hint)
