"""What becomes of a unit whose process ended: checks, completion, another try, or failure; and what follows from it."""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine.config.git_head import git_head
from leftoff.engine.steps.artifacts import WITHHELD, capture, relative
from leftoff.engine.workspace.workspace import Workspace
from leftoff.errors import Invalid, LeftoffError, Rewound, StaleEpoch, StoreUnavailable
from leftoff.model.changes import NOTHING
from leftoff.model.ids import shown_step
from leftoff.workflow.processes.attempt_folder import ITEMS, AttemptFolder
from leftoff.workflow.run import items, jobs
from leftoff.workflow.run.actions import action_of, script
from leftoff.workflow.run.fan_out import declare
from leftoff.workflow.run.unit import (
    CHECKING,
    RUNNING,
    Left,
    LiveAttempt,
    about,
    error_of,
    existing,
    outputs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.engine.steps.artifacts import Captured
    from leftoff.engine.workspace.tracking import Found
    from leftoff.workflow.processes.attempt_folder import Exit
    from leftoff.workflow.run.reuse import Earlier
    from leftoff.workflow.run.turn import ActiveRun

LINES = 20  # of a failed step's output are kept in its record
# A step that ended well is no failure because that cannot be recorded: whoever resumes adopts it.
NOT_ITS_FAULT = (StoreUnavailable, StaleEpoch, Rewound)


def ended(active: ActiveRun, live: LiveAttempt, exit: Exit) -> None:
    """A process ended: the command of a step, or one of its checks."""
    if live.phase == CHECKING:
        _checked(active, live, exit)
        return
    live.exit = exit
    if exit.code != 0 or exit.timed_out or exit.error:
        if live.stopped is not None and not exit.timed_out:
            stopped(active, live)
        else:
            error = error_of(exit, live.step.timeout, active.redactor.mask(live.folder.tail(LINES)))
            if not exit.cut_off and not live.expands:
                error |= action_of(live.step).failure(live.folder.path)
            failed(active, live, error, exit.code, retry=live.step.idempotent or not exit.cut_off)
        return
    _or_failed(active, live, _ended_well)


def _or_failed(active: ActiveRun, live: LiveAttempt, go_on: Callable[[ActiveRun, LiveAttempt], None]) -> None:
    """Go on with a step whose command ended well; what is wrong with what it left is its failure."""
    try:
        go_on(active, live)
    except NOT_ITS_FAULT:
        raise
    except LeftoffError as error:
        failed(active, live, about(error), 0)


def _ended_well(active: ActiveRun, live: LiveAttempt) -> None:
    if live.expands:
        _found_items(active, live)
    elif not _told_otherwise(active, live):
        next_check(active, live)


def _told_otherwise(active: ActiveRun, live: LiveAttempt) -> bool:
    """Whether the step itself reported that it failed, is blocked or skipped, though its exit code is 0."""
    record = active.ledger.store.read(lambda view: active.ledger.reader(view).value("step", live.unit))
    status = record.plain.get("status") if record is not None else None
    if status == "failed":
        error = record.plain.get("error") if record is not None else None
        failed(
            active,
            live,
            error if isinstance(error, dict) else {"type": "failed", "message": "It said so."},
            0,
        )
    elif status == "skipped":
        _set_aside(active, live, "step_skipped", why="it said so itself")
        active.follow(live.leaf, active.scheduler.ended(live.unit, live.leaf, "skipped"))
    elif status == "blocked":
        _set_aside(active, live, "warning", message=f"{shown_step(live.unit)} is blocked: it said so itself.")
        active.scheduler.block(live.unit, live.leaf)
    return status in ("failed", "blocked", "skipped")


def _set_aside(active: ActiveRun, live: LiveAttempt, event: str, **facts: Any) -> None:
    """Its record is as the step itself wants it; only the attempt is over."""
    active.attempts.pop(live.token, None)
    active.state.look_again(live.unit)

    def then() -> None:
        active.tell(event, step=live.unit, **facts)
        active.untidy.append(live.folder)

    active.add(active.entries.end_attempt(live.token, 0), then)


def stopped(active: ActiveRun, live: LiveAttempt) -> None:
    """It was told to end, and did: it is to be done again; where only its checks were left, those are."""
    active.attempts.pop(live.token, None)
    code = live.exit.code if live.exit is not None else None
    facts = {"interrupted_at": iso(active.ledger.clock.now())}
    active.scheduler.put_back(live.unit, live.leaf)

    # One that ended well stays open, as does one of which nobody knows how far it came: whoever resumes judges it.
    token = live.token if code and live.step.idempotent else None

    def then() -> None:
        active.tell("step_stopped", step=live.unit, why=live.stopped)
        if token:
            active.untidy.append(live.folder)

    active.add(active.entries.again(live.unit, token, facts, code), then)


def expect(active: ActiveRun, live: LiveAttempt) -> None:
    """What a step must leave: its outputs, rendered, and the checks that must hold."""
    step = live.step
    values = active.state.values(step, live.item)
    live.outputs, live.cwd = outputs_of(active.templates, values, step)
    live.checks = [(text, None) for text in step.checks]
    live.checks += [(text, name) for name, text in step.criteria.items()]


# -- success


def _found_items(active: ActiveRun, live: LiveAttempt) -> None:
    """The command of a `foreach` has said what its items are."""
    if _is_damaged(active, live):
        return
    path = live.folder.file(ITEMS)
    found = items.lines_of(path, "what the command printed", f"{live.unit}: foreach")
    active.attempts.pop(live.token, None)
    declare(active, live.step, found)  # until they are on record, they are in a file of this attempt
    active.add(active.entries.end_attempt(live.token, 0), lambda: active.untidy.append(live.folder))


def next_check(active: ActiveRun, live: LiveAttempt) -> None:
    """Run the next of the step's checks; after the last one it is complete."""
    if not live.checks:
        complete(active, live)
        return
    step = live.step
    text, _ = live.checks[0]
    values = active.state.values(step, live.item)
    command = script(step, text, active.templates, values, live.folder.path, f"{step.path}: checks")
    token, folder = check_names(live)
    folder.remove()  # an earlier driver may have died while it checked
    folder.make()
    live.phase = CHECKING
    active.attempts[token] = live
    active.launcher.start(jobs.check(active, live, token, folder, command, values))


def check_names(live: LiveAttempt) -> tuple[str, AttemptFolder]:
    """The token and the folder of the check that is next."""
    left = len(live.checks)
    return f"{live.token}.{left}", live.folder.below(f"check-{left}")


def _checked(active: ActiveRun, live: LiveAttempt, exit: Exit) -> None:
    text, criterion = live.checks[0]
    token, folder = check_names(live)
    active.attempts.pop(token, None)
    held = exit.code == 0 and not exit.timed_out
    if not held and live.stopped is not None:
        stopped(active, live)
        return
    if criterion is not None:
        live.results[criterion] = held
    elif not held:
        tail = active.redactor.mask(folder.tail(LINES))
        message = f"The check does not hold: {text}"
        failed(active, live, {"type": "check", "message": message, "tail": tail}, 0)
        return
    live.checks.pop(0)
    live.phase, live.checker = RUNNING, None
    _or_failed(active, live, next_check)


def complete(active: ActiveRun, live: LiveAttempt) -> None:
    """Everything a step left is taken in, and it is done."""
    if _is_damaged(active, live):
        return
    step, left = live.step, _left(active, live)
    active.state.overlay.update(left.variables)

    def then() -> None:
        seconds = round(active.monotonic() - live.began, 3) if live.began else None
        facts = {"seconds": seconds, "outputs": left.outputs, "why": live.why}
        told = {key: value for key, value in facts.items() if value not in (None, [])}
        active.state.set_variables(left.variables)
        active.tell("step_done", **active.step_facts(step, live.unit), **told)
        active.untidy.append(live.folder)

    active.attempts.pop(live.token, None)
    active.add(active.entries.complete(live.unit, live.token, left, live.why, save=step.save), then)
    active.follow(live.leaf, active.scheduler.ended(live.unit, live.leaf, "completed"))


def _left(active: ActiveRun, live: LiveAttempt) -> Left:
    step = live.step
    variables = live.folder.variables()
    outputs, captured = _outputs(active, live)
    left = Left(outputs, captured, action_of(step).result(live.folder.path), variables)
    left.check(live.unit)
    if step.persist is not None:
        left.variables = {key: value for key, value in variables.items() if key in step.persist}
    left.criteria = {
        f"{live.unit}: {name}" if live.is_item else name: met for name, met in live.results.items()
    }
    if live.cache is not None:
        left.cache = {"parts": live.cache, **({"variables": left.variables} if left.variables else {})}
        active.reuse.know(got.about for got in captured)
    left.commit = git_head(active.project)
    left.tree = _tree(active, live) if step.save else None
    return left


def _tree(active: ActiveRun, live: LiveAttempt) -> Found | None:
    """The files that the run knows, for the step's checkpoint. That they cannot be had is no failure of the step."""
    if active.tree is None:
        return None
    ledger = active.ledger
    row = ledger.store.read(lambda view: view.run_row(ledger.run))
    try:
        return active.tree(row) if row is not None else None
    except LeftoffError as error:
        message = f"Files are not in this checkpoint as they are now: {error.message}"
        active.tell("warning", message=message, step=live.unit)
        return None


def _outputs(active: ActiveRun, live: LiveAttempt) -> tuple[list[str], list[Captured]]:
    """The declared outputs, each there and each kept; a folder is only named."""
    if not live.outputs:
        return [], []
    found = existing(active.project, live.cwd, live.outputs)
    captured = [_captured(active, live, path) for path in found if os.path.isfile(path)]
    return [relative(active.project, path) for path in found], captured


def _captured(active: ActiveRun, live: LiveAttempt, path: str) -> Captured:
    """A file that a step wrote, and a copy of it; without one where it holds a secret of this workflow."""
    ledger = active.ledger
    if not os.access(path, os.R_OK):
        raise Invalid(
            f"The output {relative(active.project, path)} cannot be read.", hint="Check its permissions."
        )
    tell = partial(_warn, active, live.unit)
    workspace = Workspace(ledger.store, active.project, active.redactor, None, ledger.clock.now(), tell)
    got = capture(workspace, path, step=live.unit)
    if got.about.get(WITHHELD):
        tell(f"{relative(active.project, path)} has a secret in it: it is hashed, but no copy is kept.")
    return got


def _warn(active: ActiveRun, step: str, message: str) -> None:
    active.tell("warning", message=message.removeprefix("leftoff: "), step=step)


def reused(active: ActiveRun, live: LiveAttempt, earlier: Earlier, why: str) -> None:
    """A step is done already: an earlier run has it, with everything that it left."""
    active.reuse.bring_back(earlier)
    outputs, captured = _outputs(active, live)
    left = Left(outputs, captured, earlier.record.get("result", NOTHING), earlier.variables)
    left.cache = earlier.record["cache"]
    left.commit = git_head(active.project)
    left.tree = _tree(active, live) if live.step.save else None
    active.reuse.know(got.about for got in captured)
    active.state.overlay.update(left.variables)

    def then() -> None:
        active.state.set_variables(left.variables)
        active.tell("step_done", **active.step_facts(live.step, live.unit), why=why, reused=earlier.run_id)

    active.start_batch(live.leaf)
    entry = active.entries.reuse(live.step, live.unit, left, why, active.above(live.unit))
    active.add(entry, then, durable=False)  # should it be lost, it is found again
    active.close()
    active.follow(live.leaf, active.scheduler.ended(live.unit, live.leaf, "completed"))


# -- failure


def failed(
    active: ActiveRun, live: LiveAttempt, error: dict[str, Any], code: int | None, *, retry: bool = True
) -> None:
    """A try failed: another one later, or the end of the step."""
    unit, step = live.unit, live.step
    error = {k: active.redactor.mask(v) if isinstance(v, str) else v for k, v in error.items()}
    active.attempts.pop(live.token, None)
    if live.doubtful and step.idempotent:
        _runs_again(active, live, error.get("message"), code)
        return
    tries = active.tries[unit] = active.tries.get(unit, 0) + 1
    delay = (
        _delay(live, tries)
        if retry and not live.doubtful and tries <= step.retries.max and not active.scheduler.halted
        else None
    )
    tail = str(error.get("tail") or "")
    told = {"error": {k: v for k, v in error.items() if k != "tail"}, "tail": tail, "will_retry_in": delay}
    attempt = active.state.steps.get(unit, {}).get("attempt")

    def then() -> None:
        active.tell("step_failed", **active.step_facts(step, unit), attempt=attempt, **told)
        active.untidy.append(live.folder)

    token = live.token or None
    if delay is not None:
        active.scheduler.later(unit, live.leaf, active.monotonic() + delay)
        active.add(active.entries.again(unit, token, {"error": error}, code), then)
        return
    active.add(active.entries.fail(unit, token, error, code), then)
    active.follow(live.leaf, active.scheduler.ended(unit, live.leaf, "failed"))


def _runs_again(active: ActiveRun, live: LiveAttempt, why: object, code: int | None) -> None:
    """Nobody knows how it ended, and it may be done twice: what it lacks is no failure."""
    unit = live.unit
    message = f"{shown_step(unit)} ended while nobody was watching, and runs again: {why}"
    active.scheduler.later(unit, live.leaf, active.monotonic())
    active.add(
        active.entries.again(unit, live.token, {}, code),
        lambda: active.tell("warning", message=message, step=unit),
    )


def never_began(active: ActiveRun, live: LiveAttempt) -> None:
    """Its attempt was on record, and it was never let go: that does not count."""
    active.attempts.pop(live.token, None)
    active.scheduler.later(live.unit, live.leaf, active.monotonic())
    active.add(active.entries.forget(live.unit, live.token), live.folder.remove)


def check_again(active: ActiveRun, live: LiveAttempt) -> None:
    """A check whose process was lost is run once more."""
    check_names(live)[1].remove()
    live.phase, live.checker = RUNNING, None
    _or_failed(active, live, next_check)


def killed(active: ActiveRun, live: LiveAttempt) -> None:
    """Nobody knows how far it came: what may not be done twice is not tried again by itself."""
    error = {"type": "killed", "message": "Its process was killed, and left no exit code."}
    failed(active, live, error, None, retry=live.step.idempotent)


def _is_damaged(active: ActiveRun, live: LiveAttempt) -> bool:
    """Whether a file that it left is not what it was: then its exit code says nothing any more, as after a crash."""
    name = live.folder.damaged(live.exit) if live.exit is not None else None
    if name is not None:
        message = f"What it left in `{name}` is damaged: nobody knows how it ended."
        failed(active, live, {"type": "damaged", "message": message}, None, retry=live.step.idempotent)
    return name is not None


def _delay(live: LiveAttempt, tries: int) -> float:
    retries = live.step.retries
    delay = retries.backoff * retries.factor ** (tries - 1)
    return round(delay * random.uniform(0.5, 1.0) if retries.jitter else delay, 3)
