"""What a driver does with one step: begin it when it is due, and take in how its process ended.

Beginning: conditions, items, questions to people, and processes. The end: checks, completion, another attempt, failure.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine.approvals import question
from leftoff.engine.git import git_head
from leftoff.engine.tracking import Captured, Workspace, capture, relative
from leftoff.errors import Invalid, LeftoffError, Rewound, StaleEpoch, StoreUnavailable
from leftoff.host import Process
from leftoff.model.changes import NOTHING
from leftoff.model.codec import marks
from leftoff.model.ids import ancestors, as_word, shown_step
from leftoff.workflow.actions import (
    CHECKING,
    NO_FOLDER,
    RUNNING,
    LiveAttempt,
    StepLeft,
    action_of,
    error_about,
    error_of,
    existing,
    job_of,
    outputs_of,
    own_environment,
    script,
    start_check,
)
from leftoff.workflow.attempt_folder import ITEMS, AttemptFolder, Exit
from leftoff.workflow.commit_entries import (
    AttemptBegins,
    AttemptEnds,
    AttemptForgotten,
    ItemsDeclared,
    StepCompletes,
    StepFails,
    StepRunsAgain,
    StepsSkipped,
    StepWaits,
)
from leftoff.workflow.definition import StepDefinition
from leftoff.workflow.reuse import Earlier, wanted
from leftoff.workflow.run_state import lines_of

if TYPE_CHECKING:
    from leftoff.workflow.driver import Driver

LINES = 20  # of a failed step's output are kept in its record
DECLARED_AT_ONCE = 500  # items in one commit
# If the end of a step cannot be recorded, the step has not failed: resume adopts it.
NOT_ITS_FAULT = (StoreUnavailable, StaleEpoch, Rewound)
_ENDED_BY_REPORT = {"completed": "step_done", "skipped": "step_skipped"}  # status: the event


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
    if status not in _ENDED_BY_REPORT:
        return False
    facts = driver.step_facts(driver.scheduler.steps[leaf], unit)
    driver.tell(_ENDED_BY_REPORT[status], **facts, why="it was reported")
    driver.follow(leaf, driver.scheduler.ended(unit, leaf, status))
    return True


# -- conditions


def _admitted(driver: Driver, step: StepDefinition, unit: str, item: Any) -> bool:
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
    driver.add(StepsSkipped([unit], step.why_skipped(), step.save))
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
    driver.add(StepsSkipped(open_ones, f"{path}: {phase.why_skipped()}"))
    for leaf in open_ones:
        driver.follow(leaf, driver.scheduler.ended(leaf, leaf, "skipped"))
    return False


# -- people


def _wait(driver: Driver, step: StepDefinition) -> None:
    """Ask for an approval, or for a step that a person does by hand. The rest of the run continues."""
    values, approval, path = driver.state.values(step), step.approval, step.path

    def shown(text: str, key: str) -> str:
        return driver.redactor.mask(driver.templates.render(text, values, f"{path}: {key}"))

    instructions, asked = shown(step.instructions, "instructions"), None
    if approval is not None:
        now = driver.clock.now()
        until = now + int(step.timeout * 1000) if step.timeout else None
        asked = question(path, shown(approval.ask, "ask"), approval.options, now, until)
    driver.scheduler.wait(path)
    driver.start_batch(path)
    facts = driver.waiting_facts(step, asked, instructions)
    driver.add(StepWaits(step, instructions, asked, tell=("waiting", facts)))


# -- items


def _expand(driver: Driver, step: StepDefinition) -> None:
    """Find the items of a `foreach`. Items that are recorded already are taken from the record."""
    state = driver.state
    if isinstance(state.steps[step.path].get("items"), int):
        known = [(path, state.outcome(path)) for path in state.items(step.path)]
        driver.follow(step.path, driver.scheduler.expand(step.path, known))
        return
    found = state.find_items(step)
    if found is None:
        _launch(driver, step, step.path, NOTHING, expands=True)
    else:
        declare_items(driver, step, found)


def item_value(driver: Driver, step: StepDefinition, unit: str) -> Any:
    """Return the value of an item. If a secret in it was redacted in the record, find the item again."""
    state = driver.state
    item = state.item(unit)
    if not marks(item):
        return item
    named = dict(state.name_items(step, state.find_items(step) or (), driver.redactor))
    if unit not in named:
        raise Invalid(
            f"{shown_step(unit)}: the item has a secret in it, which was not stored, and it cannot be found again.",
            hint=f"`leftoff run {as_word(driver.workflow.path)} --fresh` starts over; "
            "hand secrets to steps under `secrets:`.",
        )
    paths = state.items(step.path)
    state.set_items(step.path, [(path, named.get(path, state.item(path))) for path in paths])
    return named[unit]


# -- processes


def _launch(driver: Driver, step: StepDefinition, unit: str, item: Any, *, expands: bool = False) -> None:
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
                reused(driver, live, decision.earlier, decision.why or "")
                return
            live.because = decision.why
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


# -- the end of a process


def ended(driver: Driver, live: LiveAttempt, exit: Exit) -> None:
    """Handle the end of a step's command, or of one of its checks."""
    if live.phase == CHECKING:
        _checked(driver, live, exit)
        return
    live.exit = exit
    if exit.code == 0 and not exit.timed_out and not exit.error:
        with _its_fault(driver, live):
            _ended_well(driver, live)
    elif live.stopped is not None and not exit.timed_out:
        stopped(driver, live)
    else:
        tail = driver.redactor.mask(live.folder.tail(LINES))
        error = error_of(exit, live.step.timeout, tail)
        if not exit.cut_off and not live.expands:
            error |= action_of(live.step).failure(live.folder.path)
        failed(driver, live, error, exit.code, retry=live.step.idempotent or not exit.cut_off)


def lost(driver: Driver, live: LiveAttempt, *, may_forget: bool) -> None:
    """Handle the end of an attempt that left no exit code."""
    if live.stopped is not None:
        stopped(driver, live)
    elif may_forget and not live.folder.began():  # its attempt was recorded, and its command was not executed
        driver.attempts.pop(live.token, None)
        driver.scheduler.later(live.unit, live.leaf, time.monotonic())
        driver.add(AttemptForgotten(live.unit, live.token, live.folder))
    else:
        live.doubtful |= live.reattached  # it was cut off together with the driver that started it
        error = {"type": "killed", "message": "Its process was killed, and left no exit code."}
        failed(driver, live, error, None, retry=live.step.idempotent)


def stopped(driver: Driver, live: LiveAttempt) -> None:
    """Put back a step that was asked to end. It is done again; if only its checks were left, those are."""
    if _was_reported(driver, live):
        return
    driver.attempts.pop(live.token, None)
    code = live.exit.code if live.exit is not None else None
    facts = {"interrupted_at": iso(driver.clock.now())}
    driver.scheduler.put_back(live.unit, live.leaf)
    # An attempt that ended well, or that may be half done, stays open: resume judges it.
    token = live.token if code and live.step.idempotent else ""
    told = ("step_stopped", {"step": live.unit, "why": live.stopped})
    tidy = live.folder if token else None
    driver.add(StepRunsAgain(live.unit, token, facts, code, tell=told, tidy=tidy))


def _was_reported(driver: Driver, live: LiveAttempt) -> bool:
    """Return whether the step was reported done or skipped while its process ran: then the report counts."""
    status = driver.state.step_now(live.unit).get("status") if live.token else None
    if status not in _ENDED_BY_REPORT:
        return False
    _set_aside(driver, live, _ENDED_BY_REPORT[status], why="it was reported while its process ran")
    driver.follow(live.leaf, driver.scheduler.ended(live.unit, live.leaf, status))
    return True


def expect(driver: Driver, live: LiveAttempt) -> None:
    """Set what a step must leave: its outputs, rendered, and the checks that must hold."""
    step = live.step
    live.outputs, live.cwd = outputs_of(driver.state, step, live.item)
    live.checks = [(text, None) for text in step.checks]
    live.checks += [(text, name) for name, text in step.criteria.items()]


# -- success


@contextmanager
def _its_fault(driver: Driver, live: LiveAttempt) -> Iterator[None]:
    """Continue with a step whose command ended well. An error in what it left is its failure."""
    try:
        yield
    except NOT_ITS_FAULT:
        raise
    except LeftoffError as error:
        failed(driver, live, error_about(error), 0)


def _ended_well(driver: Driver, live: LiveAttempt) -> None:
    if live.expands:
        _found_items(driver, live)
        return
    record = driver.state.step_now(live.unit)  # the step itself may have reported how it ended
    status = record.get("status")
    if status == "failed":
        error = record.get("error")
        known = error if isinstance(error, dict) else {"type": "failed", "message": "It said so."}
        failed(driver, live, known, 0)
    elif status == "skipped":
        _set_aside(driver, live, "step_skipped", why="it said so itself")
        driver.follow(live.leaf, driver.scheduler.ended(live.unit, live.leaf, "skipped"))
    elif status == "blocked":
        _set_aside(driver, live, "warning", message=f"{shown_step(live.unit)} is blocked: it said so itself.")
        driver.scheduler.block(live.unit, live.leaf)
    else:
        check_next(driver, live)


def _set_aside(driver: Driver, live: LiveAttempt, event: str, **facts: Any) -> None:
    """End the attempt. The step's record stays as the step itself has reported."""
    driver.attempts.pop(live.token, None)
    driver.state.look_again(live.unit)
    code = live.exit.code if live.exit is not None else None
    driver.add(AttemptEnds(live.token, code, tell=(event, {"step": live.unit, **facts}), tidy=live.folder))


def _found_items(driver: Driver, live: LiveAttempt) -> None:
    """Take the items of a `foreach` from what its command printed."""
    if _is_damaged(driver, live):
        return
    found = lines_of(live.folder.file(ITEMS), "what the command printed", f"{live.unit}: foreach")
    driver.attempts.pop(live.token, None)
    declare_items(driver, live.step, found)  # until they are committed, they are in a file of this attempt
    driver.add(AttemptEnds(live.token, 0, tidy=live.folder))


def declare_items(driver: Driver, step: StepDefinition, found: list[Any]) -> None:
    """Record the items of a `foreach`, some hundreds in a commit. The last commit has their number."""
    state = driver.state
    named = state.name_items(step, found, driver.redactor)
    stale = sorted(set(state.items(step.path)) - {path for path, _ in named})
    driver.commit()
    numbered = [(order, path, item) for order, (path, item) in enumerate(named)]
    for start in range(0, max(len(numbered), 1), DECLARED_AT_ONCE):
        some = numbered[start : start + DECLARED_AT_ONCE]
        last = start + DECLARED_AT_ONCE >= len(numbered)
        total = len(named) if last else None
        driver.add(ItemsDeclared(step.path, some, total, [] if start else stale, durable=last))
        driver.commit()
    state.set_items(step.path, named)
    driver.tell("foreach", step=step.path, items=len(named))
    known = [(path, state.status(path)) for path, _ in named]
    driver.follow(step.path, driver.scheduler.expand(step.path, known))


def check_next(driver: Driver, live: LiveAttempt) -> None:
    """Run the next check of a step whose command ended well. After the last one the step is complete."""
    live.phase, live.checker = RUNNING, None
    with _its_fault(driver, live):
        if live.checks:
            token = start_check(driver, live, live.checks[0][0], f"check-{len(live.checks)}")
            live.phase = CHECKING
            driver.attempts[token] = live
        else:
            _complete(driver, live)


def _checked(driver: Driver, live: LiveAttempt, exit: Exit) -> None:
    text, criterion = live.checks[0]
    driver.attempts.pop(f"{live.token}.{live.check_folder.name}", None)
    held = exit.code == 0 and not exit.timed_out
    if not held and live.stopped is not None:
        stopped(driver, live)
        return
    if criterion is not None:
        live.results[criterion] = held
    elif not held:
        tail = driver.redactor.mask(live.check_folder.tail(LINES))
        message = f"The check does not hold: {text}"
        failed(driver, live, {"type": "check", "message": message, "tail": tail}, 0)
        return
    live.checks.pop(0)
    check_next(driver, live)


def _complete(driver: Driver, live: LiveAttempt) -> None:
    """Take in everything that a step left. Then it is done."""
    if _is_damaged(driver, live):
        return
    step = live.step
    variables = live.folder.variables()
    outputs, captured = _outputs(driver, live)
    left = StepLeft(outputs, captured, action_of(step).result(live.folder.path), variables)
    left.check(live.unit)
    if step.persist is not None:
        left.variables = {key: value for key, value in variables.items() if key in step.persist}
    left.criteria = {
        name if live.item is NOTHING else f"{live.unit}: {name}": met for name, met in live.results.items()
    }
    if live.cache is not None:
        left.cache = {"parts": live.cache, **({"variables": left.variables} if left.variables else {})}
    seconds = round(time.monotonic() - live.began, 3) if live.began else None
    facts = {"seconds": seconds, "outputs": left.outputs, "why": live.why}
    told = {key: value for key, value in facts.items() if value not in (None, [])}
    _take_in(driver, live, left, live.token, live.why, told)
    driver.follow(live.leaf, driver.scheduler.ended(live.unit, live.leaf, "completed"))


def reused(driver: Driver, live: LiveAttempt, earlier: Earlier, restored: str) -> None:
    """Take a step from an earlier run, with everything that it left there."""
    why = f"reused from {earlier.run_id}{restored}"
    driver.reuse.bring_back(earlier)
    outputs, captured = _outputs(driver, live)
    left = StepLeft(outputs, captured, earlier.record.get("result", NOTHING), earlier.variables)
    left.cache = earlier.record["cache"]
    driver.start_batch(live.leaf)
    _take_in(driver, live, left, "", why, {"why": why, "reused": earlier.run_id})
    driver.commit()
    driver.follow(live.leaf, driver.scheduler.ended(live.unit, live.leaf, "completed"))


def _take_in(
    driver: Driver, live: LiveAttempt, left: StepLeft, token: str, why: str | None, told: dict[str, Any]
) -> None:
    """Record that a step is complete, with what it left, the state of git, and the tracked files.

    ``token``: of the attempt that did it; empty if it is taken from an earlier run, which is found again if it is lost.
    """
    unit, step = live.unit, live.step
    driver.reuse.know(got.about for got in left.captured)
    driver.state.overlay.update(left.variables)
    left.commit = git_head(driver.setting.project)
    if step.save:
        row = driver.store.read(lambda view: view.run_row(driver.run))
        try:
            left.tree = driver.setting.tree(row) if row is not None else None
        except LeftoffError as error:  # if they cannot be read, the step has not failed
            message = f"Files are not in this checkpoint as they are now: {error.message}"
            driver.tell("warning", message=message, step=unit)
    driver.attempts.pop(token, None)
    tell = ("step_done", {**driver.step_facts(step, unit), **told})
    done = StepCompletes(unit, token, left, why, step.save, tell=tell, tidy=live.folder, durable=bool(token))
    driver.add(done)


def _outputs(driver: Driver, live: LiveAttempt) -> tuple[list[str], list[Captured]]:
    """Return the declared outputs, and a copy of each file. A folder is only named.

    A file with a secret of this workflow is hashed, but not copied; nor are the outputs of a step with `keep: hash`.
    """
    if not live.outputs:
        return [], []
    project = driver.setting.project

    def warn(message: str) -> None:
        driver.tell("warning", message=message.removeprefix("leftoff: "), step=live.unit)

    workspace = Workspace(driver.store, project, driver.redactor, None, driver.clock.now(), warn)
    found, captured = existing(project, live.cwd, live.outputs), []
    for path in (path for path in found if os.path.isfile(path)):
        shown = relative(project, path)
        if not os.access(path, os.R_OK):
            raise Invalid(f"The output {shown} cannot be read.", hint="Check its permissions.")
        captured.append(capture(workspace, path, step=live.unit, copy=live.step.keep == "copy"))
    return [relative(project, path) for path in found], captured


# -- failure


def failed(
    driver: Driver, live: LiveAttempt, error: dict[str, Any], code: int | None, *, retry: bool = True
) -> None:
    """Handle a failed attempt: try again later, or fail the step."""
    if _was_reported(driver, live):
        return
    unit, step, scheduler = live.unit, live.step, driver.scheduler
    error = {k: driver.redactor.mask(v) if isinstance(v, str) else v for k, v in error.items()}
    driver.attempts.pop(live.token, None)
    if live.doubtful and step.idempotent:  # it ended without a driver and may be done twice: not a failure
        message = (
            f"{shown_step(unit)} ended while no driver was there, and runs again: {error.get('message')}"
        )
        scheduler.later(unit, live.leaf, time.monotonic())
        told = ("warning", {"message": message, "step": unit})
        driver.add(StepRunsAgain(unit, live.token, {}, code, tell=told))
        return
    tries = driver.tries[unit] = driver.tries.get(unit, 0) + 1
    delay = None
    if retry and not live.doubtful and tries <= step.retries.max and not scheduler.halted:
        delay = step.retries.pause(tries)
    facts = {
        **driver.step_facts(step, unit),
        "attempt": driver.state.steps.get(unit, {}).get("attempt"),
        "error": {k: v for k, v in error.items() if k != "tail"},
        "tail": str(error.get("tail") or ""),
        "will_retry_in": delay,
    }
    tell, tidy = ("step_failed", facts), live.folder if live.token else None
    if delay is not None:
        scheduler.later(unit, live.leaf, time.monotonic() + delay)
        driver.add(StepRunsAgain(unit, live.token, {"error": error}, code, tell=tell, tidy=tidy))
        return
    # If its end is unknown and it must not run twice, a person is asked.
    allowed = step.allow_failure and (step.idempotent or error.get("type") not in ("killed", "damaged"))
    facts |= {"allowed": True} if allowed else {}
    driver.add(StepFails(unit, live.token, error, code, allowed, tell=tell, tidy=tidy))
    driver.follow(live.leaf, scheduler.ended(unit, live.leaf, "completed" if allowed else "failed"))


def _is_damaged(driver: Driver, live: LiveAttempt) -> bool:
    """Return whether a file that the attempt left has changed since. Then its exit code proves nothing."""
    name = live.folder.damaged(live.exit) if live.exit is not None else None
    if name is not None:
        message = f"What it left in `{name}` is damaged: its end is unknown."
        failed(driver, live, {"type": "damaged", "message": message}, None, retry=live.step.idempotent)
    return name is not None
