"""What was in flight when the run's last driver died, attempt by attempt.

A process that still runs is followed. An exit code that was written is believed. An attempt that never began counts
for nothing. Where nobody knows how a command ended, only declared outputs together with checks that hold prove that it
is done; a file that merely exists may be half written. A step that must not simply run again is for a person to judge.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leftoff.host import UNKNOWN, scope
from leftoff.workflow.processes import files, groups

if TYPE_CHECKING:
    from leftoff.store.rows import Attempt
    from leftoff.workflow.definition import Step, Workflow
    from leftoff.workflow.state import State

RUN, SKIP, ADOPT, REATTACH, ASK, FORGET, CHECK = "run", "skip", "adopt", "reattach", "ask", "forget", "check"


class Orphan:
    """An attempt without a driver: what to do about it (``action``), and why."""

    __slots__ = ("action", "attempt", "code", "folder", "step", "unit", "why")

    def __init__(self, attempt: Attempt, step: Step, folder: str) -> None:
        self.attempt = attempt
        self.unit: str = attempt.step
        self.step = step
        self.folder = folder
        self.action = RUN
        self.why = ""
        self.code: str | None = None  # of the finding, where a person must decide

    def judged(self, action: str, why: str, code: str | None = None) -> Orphan:
        self.action, self.why, self.code = action, why, code
        return self


def orphans(state: State, attempts: list[Attempt], store_folder: str) -> tuple[list[Orphan], list[Attempt]]:
    """The attempts of steps that run, as far as the records know; and those that the records know nothing of."""
    found, strays = [], []
    for attempt in attempts:
        if attempt.ended_at is not None:
            continue
        record = state.steps.get(attempt.step, {})
        step = _step_of(state.workflow, attempt.step, record)
        current = attempt.number == attempt.current and record.get("status") == "running"
        if step is None or not current:
            strays.append(attempt)
        else:
            folder = os.path.join(store_folder, attempt.log or "")
            found.append(judge(Orphan(attempt, step, folder)))
    return found, strays


def _step_of(workflow: Workflow, path: str, record: dict[str, object]) -> Step | None:
    step = workflow.find(path)
    if step is None and "item" in record:
        step = workflow.find(path.rpartition("/")[0])
    return step


def judge(orphan: Orphan) -> Orphan:
    """What can be known of an attempt from here."""
    process, folder, step = orphan.attempt.process, orphan.folder, orphan.step
    if process is not None and process.state() == UNKNOWN:
        return orphan.judged(
            ASK, f"it was started on {process.host}, which cannot be seen from here", "step.elsewhere"
        )
    if process is not None and groups.alive(process):
        return orphan.judged(REATTACH, f"its process {process.pid} is still running")
    exit = files.read_exit(folder)
    if exit is not None and exit.code == 0:
        return orphan.judged(ADOPT, "it ended with exit code 0 while nobody was watching")
    if exit is not None:
        return orphan.judged(RUN, f"it ended with exit code {exit.code} while nobody was watching")
    if not files.began(folder) and process is not None and process.scope == scope():
        return orphan.judged(FORGET, "it was about to start, and never did")
    if step.outputs and step.checks:
        return orphan.judged(CHECK, "nobody knows how it ended; its outputs and checks tell")
    if not step.idempotent:
        return orphan.judged(
            ASK,
            "it was in flight, nobody knows how it ended, and it must not simply run again",
            "step.not_idempotent",
        )
    return orphan.judged(RUN, "it was in flight, and nobody knows how it ended")
