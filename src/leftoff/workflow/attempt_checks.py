"""Judge what was in flight when the run's last driver died, attempt by attempt.

An exit code that was written is believed: nothing of the attempt runs any more, wherever it ran. A process that still
runs is followed. An attempt that never began counts for nothing. If it is not known how a command ended, it runs
again: a file that exists may be half written. A step that is not safe to repeat is for a person to judge.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from leftoff.host import UNKNOWN, scope
from leftoff.store.rows import Attempt, misplaced
from leftoff.workflow import process_groups as groups
from leftoff.workflow.attempt_folder import AttemptFolder, Exit
from leftoff.workflow.definition import Step, Workflow

RUN, ADOPT, REATTACH, ASK, FORGET = "run", "adopt", "reattach", "ask", "forget"
TAKEN = (ADOPT, REATTACH)  # what an earlier driver's attempt did, or does, is this one's
NOT_IDEMPOTENT, ELSEWHERE = "step.not_idempotent", "step.elsewhere"
# Errors of steps of which it is not known how far they came.
CUT_OFF = ("killed", "timeout", "signal", "damaged")


class Orphan:
    """An attempt without a driver: what to do about it (``action``), and why.

    ``ends``: it just ends, as its step is to be done again.
    """

    def __init__(self, attempt: Attempt, step: Step, folder: AttemptFolder) -> None:
        self.attempt = attempt
        self.unit: str = attempt.step
        self.step = step
        self.folder = folder
        self.action = RUN
        self.why = ""
        self.code: str | None = None  # of the finding, where a person must decide
        self.exit: Exit | None = None  # how it ended, where that is known
        self.ends = False

    def judged(self, action: str, why: str, code: str | None = None) -> Orphan:
        self.action, self.why, self.code = action, why, code
        return self

    def again(self, why: str) -> Orphan:
        """Do it again; if it is not safe to repeat, a person decides."""
        if self.step.idempotent:
            return self.judged(RUN, why)
        return self.judged(ASK, f"{why}, and it is not safe to repeat", NOT_IDEMPOTENT)

    def end(self) -> None:
        """Its step is done again, whatever this attempt did or does; if that is not safe, a person decides."""
        if self.action in (REATTACH, ASK):
            self.again("it was in flight")
        elif self.action == ADOPT:
            self.again(self.why)
        self.ends = True


def orphans(
    steps: Mapping[str, Mapping[str, Any]],
    old: Workflow,
    new: Workflow,
    attempts: Iterable[Attempt],
    store_folder: str,
    *,
    back: bool = False,
) -> tuple[list[Orphan], list[Attempt]]:
    """Return the attempts of steps that were in flight, judged; and those that the records know nothing of.

    ``back``: the records are those of an older version, so all attempts are to end.
    """
    found, strays = [], []
    for attempt in attempts:
        if attempt.ended_at is not None:
            continue
        record = steps.get(attempt.step, {})
        step = step_of(new, attempt.step, record)
        open_ = attempt.number == attempt.current if back else _in_flight(attempt, record)
        if step is None or not open_ or not (back or _fits(old, step, attempt, record)):
            strays.append(attempt)
        else:
            found.append(judge_attempt(Orphan(attempt, step, folder_of(attempt, store_folder))))
    return found, strays


def folder_of(attempt: Attempt, store_folder: str) -> AttemptFolder:
    if not attempt.log:  # what lies in the store's own folder is no attempt's
        raise misplaced(f"an attempt at {attempt.step}")
    return AttemptFolder(os.path.join(store_folder, attempt.log))


def lives(attempt: Attempt, store_folder: str) -> bool:
    """Return whether something of an attempt runs on this machine. Its shim may serve another one by now."""
    process = attempt.process
    if process is None or process.state() == UNKNOWN or folder_of(attempt, store_folder).exit():
        return False
    return groups.alive(process)


def was_cut_off(record: Mapping[str, Any]) -> bool:
    """Return whether a step failed so that it is not known how far it came, and was not tried since."""
    error = record.get("error")
    return (
        record.get("status") in ("failed", "pending")
        and isinstance(error, dict)
        and error.get("type") in CUT_OFF
    )


def step_of(workflow: Workflow, path: str, record: Mapping[str, Any]) -> Step | None:
    """Return the definition of a step, or of the `foreach` that it is an item of."""
    step = workflow.find(path)
    if step is None and "item" in record:
        step = workflow.find(path.rpartition("/")[0])
    return step


def _in_flight(attempt: Attempt, record: Mapping[str, Any]) -> bool:
    """Return whether the step's record is still about this attempt. One that was put back may have ended well."""
    status = record.get("status")
    return attempt.number == attempt.current and (
        status == "running" or (status == "pending" and "interrupted_at" in record)
    )


def _fits(old: Workflow, step: Step, attempt: Attempt, record: Mapping[str, Any]) -> bool:
    """Return whether the step still has the kind that the attempt was started for, and still waits for its end."""
    before = old.find(step.path)
    if before is None or before.kind != step.kind or (before.foreach is None) != (step.foreach is None):
        return False
    if attempt.step == step.path:
        return not isinstance(record.get("items"), int)  # else what it was to find is on record
    return step.foreach is not None


def judge_attempt(orphan: Orphan) -> Orphan:
    """Work out what can be known of an attempt from here."""
    process, folder = orphan.attempt.process, orphan.folder
    ended = _judge_exit(orphan)
    if ended is not None:
        return ended
    if process is not None and process.state() == UNKNOWN:
        return orphan.judged(
            ASK, f"it was started on {process.host}, which cannot be seen from here", ELSEWHERE
        )
    if process is not None and groups.alive(process):
        return orphan.judged(REATTACH, f"its process {process.pid} is still running")
    ended = _judge_exit(orphan)  # it may have been written since
    if ended is not None:
        return ended
    if not folder.began() and process is not None and process.scope == scope():
        return orphan.judged(FORGET, "it was about to start, and never did")
    return orphan.again("it was in flight, nobody knows how it ended")


def _judge_exit(orphan: Orphan) -> Orphan | None:
    orphan.exit = exit = orphan.folder.exit()
    if exit is None:
        return None
    if exit.code == 0:
        damaged = orphan.folder.damaged(exit)
        if damaged:
            return orphan.again(f"what it left in `{damaged}` is damaged, nobody knows how it ended")
        return orphan.judged(ADOPT, "it ended with exit code 0 while nobody was watching")
    if exit.cut_off:
        return orphan.again("it was cut off, and nobody knows how far it came")
    return orphan.judged(RUN, f"it ended with exit code {exit.code} while nobody was watching")
