"""How the driver begins what is due: conditions, items, questions to people, and the processes of steps."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.errors import Invalid, LeftoffError
from leftoff.host import Process
from leftoff.model.changes import NOTHING
from leftoff.model.codec import marks
from leftoff.model.ids import ancestors, shown_step
from leftoff.workflow.actions import (
    NO_FOLDER,
    LiveAttempt,
    action_of,
    error_about,
    job_of,
    own_environment,
    script,
)
from leftoff.workflow.attempt_folder import ITEMS, AttemptFolder
from leftoff.workflow.attempt_outcome import NOT_ITS_FAULT, declare_items, expect, failed, reused
from leftoff.workflow.commit_entries import AttemptBegins, StepsSkipped, StepWaits
from leftoff.workflow.definition import Step
from leftoff.workflow.reuse import wanted

if TYPE_CHECKING:
    from leftoff.workflow.driver import Driver


def begin_due(driver: Driver) -> None:
    """Begin every unit that may start now."""
    scheduler = driver.scheduler
    while due := scheduler.due(time.monotonic()):
        for unit in due:
            leaf = scheduler.taken.get(unit)
            if leaf is None:
                continue  # it was skipped together with its phase
            if scheduler.halted is None:
                _begin(driver, unit, leaf)
            else:
                scheduler.put_back(unit, leaf)


def _begin(driver: Driver, unit: str, leaf: str) -> None:
    step = driver.scheduler.steps[leaf]
    if _already_ended(driver, unit, leaf):
        return
    item = NOTHING
    try:
        item = item_value(driver, step, unit) if unit != leaf else NOTHING
        if not _admitted(driver, step, unit, item):
            return
        if step.kind in ("approval", "manual"):
            _wait(driver, step)
        elif step.foreach is not None and unit == leaf:
            _expand(driver, step)
        else:
            _launch(driver, step, unit, item)
    except NOT_ITS_FAULT:
        raise
    except LeftoffError as error:
        live = LiveAttempt(unit, step, item, "", NO_FOLDER)
        failed(driver, live, error_about(error), None, retry=False)


def _already_ended(driver: Driver, unit: str, leaf: str) -> bool:
    """Return whether somebody reported the unit done or skipped before its turn, or works on it."""
    if driver.shared:
        driver.state.look_again(unit)
    status = driver.state.status(unit)
    expands = unit == leaf and driver.scheduler.steps[leaf].foreach is not None
    if status in ("running", "waiting", "blocked") and not expands:
        driver.leave_to_others(unit, leaf, status)
        return True
    if status not in ("completed", "skipped"):
        return False
    word = "step_done" if status == "completed" else "step_skipped"
    driver.tell(word, **driver.step_facts(driver.scheduler.steps[leaf], unit), why="somebody reported it")
    driver.follow(leaf, driver.scheduler.ended(unit, leaf, status))
    return True


# -- conditions


def _admitted(driver: Driver, step: Step, unit: str, item: Any) -> bool:
    """Return whether the `when` of the unit and of its phases let it run. Else skip it."""
    for path in ancestors(step.path):
        if not _phase_runs(driver, path):
            return False
    if not step.when:
        return True
    # A condition that names the item is tested for each item, any other once for the whole.
    if step.foreach is not None and (step.item_name in driver.templates.names(step.when)) != (
        item is not NOTHING
    ):
        return True
    if driver.templates.test(step.when, driver.state.values(step, item), f"{step.path}: when"):
        return True
    driver.add(StepsSkipped([unit], f"when: {step.when}", step.save))
    driver.follow(step.path, driver.scheduler.ended(unit, step.path, "skipped"))
    return False


def _phase_runs(driver: Driver, path: str) -> bool:
    """Return whether the `when` of a phase lets it run. It is tested once. Else skip everything in the phase."""
    phase, status = driver.scheduler.steps[path], driver.scheduler.status
    if phase.when and path not in driver.decided:
        begun = driver.state.status(path) not in ("pending", "skipped")
        values = driver.state.values(phase)
        driver.decided[path] = begun or driver.templates.test(phase.when, values, f"{path}: when")
    if not phase.when or driver.decided[path]:
        return True
    leaves = [step.path for step in phase.walk() if step.kind != "phase"]
    open_ones = [leaf for leaf in leaves if status[leaf] in ("pending", "running")]
    driver.add(StepsSkipped(open_ones, f"when of {path}: {phase.when}"))
    for leaf in open_ones:
        driver.follow(leaf, driver.scheduler.ended(leaf, leaf, "skipped"))
    return False


# -- people


def _wait(driver: Driver, step: Step) -> None:
    """Ask for an approval, or for a step that a person does by hand. The rest of the run continues."""
    values, approval, path = driver.state.values(step), step.approval, step.path
    instructions, question = "", None
    if step.instructions:
        instructions = driver.templates.render(step.instructions, values, f"{path}: instructions")
        instructions = driver.redactor.mask(instructions)
    if approval is not None:
        now = driver.clock.now()
        question = {
            "step": path,
            "ask": driver.redactor.mask(driver.templates.render(approval.ask, values, f"{path}: ask")),
            "options": list(approval.options),
            "status": "waiting",
            "asked_at": iso(now),
        }
        if step.timeout:
            question["deadline"] = iso(now + int(step.timeout * 1000))
    driver.scheduler.wait(path)
    driver.start_batch(path)
    facts = driver.waiting_facts(step, question, instructions)
    driver.add(StepWaits(step, instructions, question, tell=("waiting", facts)))


# -- items


def _expand(driver: Driver, step: Step) -> None:
    """Find the items of a `foreach`. Items that are recorded already are taken from the record."""
    state = driver.state
    if isinstance(state.steps[step.path].get("items"), int):
        known = [(path, state.status(path)) for path in state.items(step.path)]
        driver.follow(step.path, driver.scheduler.expand(step.path, known))
        return
    found = state.find_items(step)
    if found is None:
        _launch(driver, step, step.path, NOTHING, expands=True)
    else:
        declare_items(driver, step, found)


def item_value(driver: Driver, step: Step, unit: str) -> Any:
    """Return the value of an item. If a secret in it was redacted in the record, find the item again."""
    state = driver.state
    item = state.item(unit)
    if not marks(item):
        return item
    named = dict(state.name_items(step, state.find_items(step) or (), driver.redactor))
    if unit not in named:
        raise Invalid(
            f"{shown_step(unit)}: the item has a secret in it, which was not stored, and it cannot be found again.",
            hint="`leftoff run FILE --fresh` starts over; hand secrets to steps under `secrets:`.",
        )
    paths = state.items(step.path)
    state.set_items(step.path, [(path, named.get(path, state.item(path))) for path in paths])
    return named[unit]


# -- processes


def _launch(driver: Driver, step: Step, unit: str, item: Any, *, expands: bool = False) -> None:
    """Start a shim for an attempt. It gets the word to go when the attempt is recorded."""
    token = secrets.token_hex(8)
    folder = AttemptFolder.of(driver.store.folder, driver.run_id, token)
    folder.make()
    live = LiveAttempt(unit, step, item, token, folder, expands=expands)
    values = driver.state.values(step, item)
    if expands:
        assert step.foreach is not None
        where = f"{step.path}: foreach"
        command = script(step, step.foreach.value, driver.templates, values, folder.path, where)
        into_file = 'out=$1; shift; exec "$@" > "$out"'
        command.argv = ["/bin/sh", "-c", into_file, "sh", folder.file(ITEMS), *command.argv]
    else:
        command = action_of(step).command(step, driver.templates, values, folder.path)
        expect(driver, live)
        live.cache = driver.reuse.parts(step, live, command, own_environment(driver.templates, step, values))
        if wanted(step, driver.reuse.everything):
            decision = driver.reuse.judge(unit, live.cache)
            if decision.earlier is not None:
                reused(driver, live, decision.earlier, decision.why)
                return
    job = job_of(driver, live, command, values)
    driver.attempts[token] = live
    driver.launcher.start(job)


def ready(driver: Driver, token: str, process: Process) -> None:
    """Record an attempt whose shim waits. After the commit the shim gets the word to go."""
    live = driver.attempts[token]
    live.process = process
    driver.start_batch(live.leaf)
    phase = driver.enter_phase(live.leaf)
    log = os.path.relpath(live.folder.path, driver.store.folder)
    driver.add(AttemptBegins(live, log, phase, durable=not live.step.idempotent))
