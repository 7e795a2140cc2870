"""Whether what a step left behind proves that it is done, where nobody knows how its command ended.

Looked at before anybody is asked and before anything is changed, so that a question is only put where it must be.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.errors import LeftoffError
from leftoff.workflow.processes import groups
from leftoff.workflow.processes.attempt_folder import AttemptFolder
from leftoff.workflow.processes.client import Ended, Ready
from leftoff.workflow.run.actions import existing, outputs_of, start_check
from leftoff.workflow.run.outcome import expect

if TYPE_CHECKING:
    from leftoff.host import Process
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.actions import LiveAttempt
    from leftoff.workflow.run.driver import Driver
    from leftoff.workflow.run.run_state import RunState


def without_outputs(state: RunState, step: Step, item: Any) -> str:
    """What is missing of a step's declared outputs, in words; empty where they are there. Nothing is executed."""
    try:
        outputs, cwd = outputs_of(state, step, item)
        existing(state.project, cwd, outputs)
    except LeftoffError as error:
        return error.message.rstrip(".")
    return ""


def failing(driver: Driver, live: LiveAttempt) -> str:
    """The first check that does not hold, in words; empty where they all do."""
    try:
        expect(driver, live)
        for number, text in enumerate(live.step.checks):
            if not _holds(driver, live, number, text):
                return f"this check does not hold: {text}"
    except LeftoffError as error:
        return error.message.rstrip(".")
    return ""


def _holds(driver: Driver, live: LiveAttempt, number: int, text: str) -> bool:
    """Run one check, and wait for it."""
    # Another one may look at the same moment: nobody has the lease yet.
    token = start_check(driver, live, text, f"proof-{os.getpid()}-{number}")
    try:
        return _ended_well(driver, token, live.check_folder)
    finally:
        live.check_folder.remove()


def _ended_well(driver: Driver, token: str, folder: AttemptFolder) -> bool:
    process: Process | None = None
    try:
        while True:
            for event in driver.launcher.events(1.0):
                if isinstance(event, Ready):
                    process = event.process
                    groups.note_checker(folder, process)
                    driver.launcher.go(token)
                elif isinstance(event, Ended):
                    return event.exit.ok and not event.exit.timed_out
                else:
                    return False
    except BaseException:  # somebody does not want to wait for it
        driver.launcher.drop(token)
        if process is not None:
            groups.kill(process)
        raise
