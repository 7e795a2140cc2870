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
from leftoff.workflow.processes import files
from leftoff.workflow.run import items, jobs, leftovers
from leftoff.workflow.run.actions import action_of, script
from leftoff.workflow.run.fan_out import declare
from leftoff.workflow.run.leftovers import ITEMS
from leftoff.workflow.run.unit import CHECKING, RUNNING, Left, Work, about, error_of, existing, outputs_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.engine.steps.artifacts import Captured
    from leftoff.engine.workspace.tracking import Found
    from leftoff.workflow.processes.job import Exit
    from leftoff.workflow.run.reuse import Earlier
    from leftoff.workflow.run.turn import Stage

LINES = 20  # of a failed step's output are kept in its record
# A step that ended well is no failure because that cannot be recorded: whoever resumes adopts it.
NOT_ITS_FAULT = (StoreUnavailable, StaleEpoch, Rewound)


def ended(stage: Stage, work: Work, exit: Exit) -> None:
    """A process ended: the command of a step, or one of its checks."""
    if work.phase == CHECKING:
        _checked(stage, work, exit)
        return
    work.exit = exit
    if exit.code != 0 or exit.timed_out or exit.error:
        if work.stopped is not None and not exit.timed_out:
            stopped(stage, work)
        else:
            error = error_of(
                exit, work.step.timeout, stage.redactor.mask(files.tail(work.folder, lines=LINES))
            )
            if not exit.cut_off and not work.expands:
                error |= action_of(work.step).failure(work.folder)
            failed(stage, work, error, exit.code, retry=work.step.idempotent or not exit.cut_off)
        return
    _or_failed(stage, work, _ended_well)


def _or_failed(stage: Stage, work: Work, go_on: Callable[[Stage, Work], None]) -> None:
    """Go on with a step whose command ended well; what is wrong with what it left is its failure."""
    try:
        go_on(stage, work)
    except NOT_ITS_FAULT:
        raise
    except LeftoffError as error:
        failed(stage, work, about(error), 0)


def _ended_well(stage: Stage, work: Work) -> None:
    if work.expands:
        _found_items(stage, work)
    elif not _told_otherwise(stage, work):
        next_check(stage, work)


def _told_otherwise(stage: Stage, work: Work) -> bool:
    """Whether the step itself reported that it failed, is blocked or skipped, though its exit code is 0."""
    record = stage.ledger.store.read(lambda view: stage.ledger.reader(view).value("step", work.unit))
    status = record.plain.get("status") if record is not None else None
    if status == "failed":
        error = record.plain.get("error") if record is not None else None
        failed(
            stage, work, error if isinstance(error, dict) else {"type": "failed", "message": "It said so."}, 0
        )
    elif status == "skipped":
        _set_aside(stage, work, "step_skipped", why="it said so itself")
        stage.follow(work.leaf, stage.scheduler.ended(work.unit, work.leaf, "skipped"))
    elif status == "blocked":
        _set_aside(stage, work, "warning", message=f"{shown_step(work.unit)} is blocked: it said so itself.")
        stage.scheduler.block(work.unit, work.leaf)
    return status in ("failed", "blocked", "skipped")


def _set_aside(stage: Stage, work: Work, event: str, **facts: Any) -> None:
    """Its record is as the step itself wants it; only the attempt is over."""
    stage.works.pop(work.token, None)
    stage.state.look_again(work.unit)

    def then() -> None:
        stage.tell(event, step=work.unit, **facts)
        stage.untidy.append(work.folder)

    stage.add(stage.entries.end_attempt(work.token, 0), then)


def stopped(stage: Stage, work: Work) -> None:
    """It was told to end, and did: it is to be done again; where only its checks were left, those are."""
    stage.works.pop(work.token, None)
    code = work.exit.code if work.exit is not None else None
    facts = {"interrupted_at": iso(stage.ledger.clock.now())}
    stage.scheduler.put_back(work.unit, work.leaf)

    # One that ended well stays open, as does one of which nobody knows how far it came: whoever resumes judges it.
    token = work.token if code and work.step.idempotent else None

    def then() -> None:
        stage.tell("step_stopped", step=work.unit, why=work.stopped)
        if token:
            stage.untidy.append(work.folder)

    stage.add(stage.entries.again(work.unit, token, facts, code), then)


def expect(stage: Stage, work: Work) -> None:
    """What a step must leave: its outputs, rendered, and the checks that must hold."""
    step = work.step
    values = stage.state.values(step, work.item)
    work.outputs, work.cwd = outputs_of(stage.templates, values, step)
    work.checks = [(text, None) for text in step.checks]
    work.checks += [(text, name) for name, text in step.criteria.items()]


# -- success


def _found_items(stage: Stage, work: Work) -> None:
    """The command of a `foreach` has said what its items are."""
    if _is_damaged(stage, work):
        return
    path = os.path.join(work.folder, ITEMS)
    found = items.lines_of(path, "what the command printed", f"{work.unit}: foreach")
    stage.works.pop(work.token, None)
    declare(stage, work.step, found)  # until they are on record, they are in a file of this attempt
    stage.add(stage.entries.end_attempt(work.token, 0), lambda: stage.untidy.append(work.folder))


def next_check(stage: Stage, work: Work) -> None:
    """Run the next of the step's checks; after the last one it is complete."""
    if not work.checks:
        complete(stage, work)
        return
    step = work.step
    text, _ = work.checks[0]
    values = stage.state.values(step, work.item)
    argv = script(step, text, stage.templates, values, work.folder, f"{step.path}: checks")
    token, folder = check_names(work)
    leftovers.remove(folder)  # an earlier driver may have died while it checked
    files.prepare(folder)
    work.phase = CHECKING
    stage.works[token] = work
    stage.launcher.start(jobs.check(stage, work, token, folder, argv, values))


def check_names(work: Work) -> tuple[str, str]:
    """The token and the folder of the check that is next."""
    left = len(work.checks)
    return f"{work.token}.{left}", os.path.join(work.folder, f"check-{left}")


def _checked(stage: Stage, work: Work, exit: Exit) -> None:
    text, criterion = work.checks[0]
    token, folder = check_names(work)
    stage.works.pop(token, None)
    held = exit.code == 0 and not exit.timed_out
    if not held and work.stopped is not None:
        stopped(stage, work)
        return
    if criterion is not None:
        work.results[criterion] = held
    elif not held:
        tail = stage.redactor.mask(files.tail(folder, lines=LINES))
        message = f"The check does not hold: {text}"
        failed(stage, work, {"type": "check", "message": message, "tail": tail}, 0)
        return
    work.checks.pop(0)
    work.phase, work.checker = RUNNING, None
    _or_failed(stage, work, next_check)


def complete(stage: Stage, work: Work) -> None:
    """Everything a step left is taken in, and it is done."""
    if _is_damaged(stage, work):
        return
    step, left = work.step, _left(stage, work)
    stage.state.overlay.update(left.variables)

    def then() -> None:
        seconds = round(stage.monotonic() - work.began, 3) if work.began else None
        facts = {"seconds": seconds, "outputs": left.outputs, "why": work.why}
        told = {key: value for key, value in facts.items() if value not in (None, [])}
        stage.state.set_variables(left.variables)
        stage.tell("step_done", **stage.step_facts(step, work.unit), **told)
        stage.untidy.append(work.folder)

    stage.works.pop(work.token, None)
    stage.add(stage.entries.complete(work.unit, work.token, left, work.why, save=step.save), then)
    stage.follow(work.leaf, stage.scheduler.ended(work.unit, work.leaf, "completed"))


def _left(stage: Stage, work: Work) -> Left:
    step = work.step
    variables = files.read_vars(work.folder)
    outputs, captured = _outputs(stage, work)
    left = Left(outputs, captured, action_of(step).result(work.folder), variables)
    left.check(work.unit)
    if step.persist is not None:
        left.variables = {key: value for key, value in variables.items() if key in step.persist}
    left.criteria = {
        f"{work.unit}: {name}" if work.is_item else name: met for name, met in work.results.items()
    }
    if work.cache is not None:
        left.cache = {"parts": work.cache, **({"variables": left.variables} if left.variables else {})}
        stage.reuse.know(got.about for got in captured)
    left.commit = git_head(stage.project)
    left.tree = _tree(stage, work) if step.save else None
    return left


def _tree(stage: Stage, work: Work) -> Found | None:
    """The files that the run knows, for the step's checkpoint. That they cannot be had is no failure of the step."""
    if stage.tree is None:
        return None
    ledger = stage.ledger
    row = ledger.store.read(lambda view: view.run_row(ledger.run))
    try:
        return stage.tree(row) if row is not None else None
    except LeftoffError as error:
        message = f"Files are not in this checkpoint as they are now: {error.message}"
        stage.tell("warning", message=message, step=work.unit)
        return None


def _outputs(stage: Stage, work: Work) -> tuple[list[str], list[Captured]]:
    """The declared outputs, each there and each kept; a folder is only named."""
    if not work.outputs:
        return [], []
    found = existing(stage.project, work.cwd, work.outputs)
    captured = [_captured(stage, work, path) for path in found if os.path.isfile(path)]
    return [relative(stage.project, path) for path in found], captured


def _captured(stage: Stage, work: Work, path: str) -> Captured:
    """A file that a step wrote, and a copy of it; without one where it holds a secret of this workflow."""
    ledger = stage.ledger
    if not os.access(path, os.R_OK):
        raise Invalid(
            f"The output {relative(stage.project, path)} cannot be read.", hint="Check its permissions."
        )
    tell = partial(_warn, stage, work.unit)
    workspace = Workspace(ledger.store, stage.project, stage.redactor, None, ledger.clock.now(), tell)
    got = capture(workspace, path, step=work.unit)
    if got.about.get(WITHHELD):
        tell(f"{relative(stage.project, path)} has a secret in it: it is hashed, but no copy is kept.")
    return got


def _warn(stage: Stage, step: str, message: str) -> None:
    stage.tell("warning", message=message.removeprefix("leftoff: "), step=step)


def reused(stage: Stage, work: Work, earlier: Earlier, why: str) -> None:
    """A step is done already: an earlier run has it, with everything that it left."""
    stage.reuse.bring_back(earlier)
    outputs, captured = _outputs(stage, work)
    left = Left(outputs, captured, earlier.record.get("result", NOTHING), earlier.variables)
    left.cache = earlier.record["cache"]
    left.commit = git_head(stage.project)
    left.tree = _tree(stage, work) if work.step.save else None
    stage.reuse.know(got.about for got in captured)
    stage.state.overlay.update(left.variables)

    def then() -> None:
        stage.state.set_variables(left.variables)
        stage.tell("step_done", **stage.step_facts(work.step, work.unit), why=why, reused=earlier.run_id)

    stage.start_batch(work.leaf)
    entry = stage.entries.reuse(work.step, work.unit, left, why, stage.above(work.unit))
    stage.add(entry, then, durable=False)  # should it be lost, it is found again
    stage.close()
    stage.follow(work.leaf, stage.scheduler.ended(work.unit, work.leaf, "completed"))


# -- failure


def failed(stage: Stage, work: Work, error: dict[str, Any], code: int | None, *, retry: bool = True) -> None:
    """A try failed: another one later, or the end of the step."""
    unit, step = work.unit, work.step
    error = {k: stage.redactor.mask(v) if isinstance(v, str) else v for k, v in error.items()}
    stage.works.pop(work.token, None)
    if work.doubtful and step.idempotent:
        message = (
            f"{shown_step(unit)} ended while nobody was watching, and runs again: {error.get('message')}"
        )
        stage.scheduler.later(unit, work.leaf, stage.monotonic())
        stage.add(
            stage.entries.again(unit, work.token, {}, code),
            lambda: stage.tell("warning", message=message, step=unit),
        )
        return
    tries = stage.tries[unit] = stage.tries.get(unit, 0) + 1
    delay = (
        _delay(work, tries)
        if retry and not work.doubtful and tries <= step.retries.max and not stage.scheduler.halted
        else None
    )
    tail = str(error.get("tail") or "")
    told = {"error": {k: v for k, v in error.items() if k != "tail"}, "tail": tail, "will_retry_in": delay}
    attempt = stage.state.steps.get(unit, {}).get("attempt")

    def then() -> None:
        stage.tell("step_failed", **stage.step_facts(step, unit), attempt=attempt, **told)
        stage.untidy.append(work.folder)

    token = work.token or None
    if delay is not None:
        stage.scheduler.later(unit, work.leaf, stage.monotonic() + delay)
        stage.add(stage.entries.again(unit, token, {"error": error}, code), then)
        return
    stage.add(stage.entries.fail(unit, token, error, code), then)
    stage.follow(work.leaf, stage.scheduler.ended(unit, work.leaf, "failed"))


def never_began(stage: Stage, work: Work) -> None:
    """Its attempt was on record, and it was never let go: that does not count."""
    stage.works.pop(work.token, None)
    stage.scheduler.later(work.unit, work.leaf, stage.monotonic())
    stage.add(stage.entries.forget(work.unit, work.token), lambda: leftovers.remove(work.folder))


def check_again(stage: Stage, work: Work) -> None:
    """A check whose process was lost is run once more."""
    leftovers.remove(check_names(work)[1])
    work.phase, work.checker = RUNNING, None
    _or_failed(stage, work, next_check)


def killed(stage: Stage, work: Work) -> None:
    """Nobody knows how far it came: what may not be done twice is not tried again by itself."""
    error = {"type": "killed", "message": "Its process was killed, and left no exit code."}
    failed(stage, work, error, None, retry=work.step.idempotent)


def _is_damaged(stage: Stage, work: Work) -> bool:
    """Whether a file that it left is not what it was: then its exit code says nothing any more, as after a crash."""
    name = work.exit.damaged(work.folder) if work.exit is not None else None
    if name is not None:
        message = f"What it left in `{name}` is damaged: nobody knows how it ended."
        failed(stage, work, {"type": "damaged", "message": message}, None, retry=work.step.idempotent)
    return name is not None


def _delay(work: Work, tries: int) -> float:
    retries = work.step.retries
    delay = retries.backoff * retries.factor ** (tries - 1)
    return round(delay * random.uniform(0.5, 1.0) if retries.jitter else delay, 3)
