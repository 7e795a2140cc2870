"""Beginning what is due: conditions, items, questions to people, and the processes of steps."""

from __future__ import annotations

import os
import secrets as random_secrets
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.errors import LeftoffError
from leftoff.model.changes import NOTHING
from leftoff.model.ids import shown_step, step_word
from leftoff.workflow.processes.attempt_folder import ITEMS, AttemptFolder
from leftoff.workflow.run import items, jobs
from leftoff.workflow.run.actions import action_of, script
from leftoff.workflow.run.fan_out import declare, expanded, item_of
from leftoff.workflow.run.finish import NOT_ITS_FAULT, expect, failed, reused
from leftoff.workflow.run.reuse import wanted
from leftoff.workflow.run.unit import RUNNING, LiveAttempt, about

if TYPE_CHECKING:
    from leftoff.host import Process
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.turn import ActiveRun


def begin_due(active: ActiveRun) -> None:
    """Begin every unit that may start now."""
    while True:
        due = active.scheduler.due(active.monotonic())
        for unit in due:
            leaf = active.scheduler.taken.get(unit)
            if leaf is None:
                continue  # it was skipped with the phase that it is in
            if active.scheduler.halted is None:
                _begin(active, unit, leaf)
            else:
                active.scheduler.put_back(unit, leaf)
        if not due:
            return


def _begin(active: ActiveRun, unit: str, leaf: str) -> None:
    step = active.scheduler.steps[leaf]
    if _already_ended(active, unit, leaf):
        return
    item = NOTHING
    try:
        item = item_of(active, step, unit) if unit != leaf else NOTHING
        if not _admitted(active, step, unit, item):
            return
        if step.kind in ("approval", "manual"):
            _wait(active, step)
        elif step.foreach is not None and unit == leaf:
            _expand(active, step)
        else:
            _launch(active, step, unit, item)
    except NOT_ITS_FAULT:
        raise
    except LeftoffError as error:
        live = LiveAttempt(unit, step, item, "", AttemptFolder(""))
        failed(active, live, about(error), None, retry=False)


def _already_ended(active: ActiveRun, unit: str, leaf: str) -> bool:
    """Whether somebody reported it done or skipped before it was its turn, or has it in hand."""
    if active.ledger.shared:
        active.state.look_again(unit)
    status = active.state.status(unit)
    expands = unit == leaf and active.scheduler.steps[leaf].foreach is not None
    if status in ("running", "waiting", "blocked") and not expands:
        _leave(active, unit, leaf, status)
        return True
    if status not in ("completed", "skipped"):
        return False
    word = "step_done" if status == "completed" else "step_skipped"
    active.tell(word, **active.step_facts(active.scheduler.steps[leaf], unit), why="somebody reported it")
    active.follow(leaf, active.scheduler.ended(unit, leaf, status))
    return True


def _leave(active: ActiveRun, unit: str, leaf: str, status: str) -> None:
    """Somebody else is at it: it is theirs until they say how it ended."""
    active.tell(
        "warning", message=f"{shown_step(unit)} is {status}: it is left to whoever does it.", step=unit
    )
    if unit == leaf:
        active.scheduler.wait(leaf)
    else:
        active.scheduler.put_back(unit, leaf)


# -- conditions


def _admitted(active: ActiveRun, step: Step, unit: str, item: Any) -> bool:
    """Whether its own `when` and those of the phases it is in let it run; else it is skipped."""
    for path in active.above(step.path):
        if not _phase_runs(active, path):
            _skip_phase(active, path)
            return False
    if not step.when or (step.foreach is not None and _asks_for_item(active, step) != (item is not NOTHING)):
        return True
    if active.templates.test(step.when, active.state.values(step, item), f"{step.path}: when"):
        return True
    _skip(active, [unit], f"when: {step.when}", save=step.save)
    active.follow(step.path, active.scheduler.ended(unit, step.path, "skipped"))
    return False


def _asks_for_item(active: ActiveRun, step: Step) -> bool:
    """Whether the condition of a `foreach` is one for each item, rather than for the whole."""
    return step.item_name in active.templates.names(step.when)


def _phase_runs(active: ActiveRun, path: str) -> bool:
    phase = active.scheduler.steps[path]
    if not phase.when:
        return True
    if path not in active.decided:
        begun = active.state.status(path) not in ("pending", "skipped")
        active.decided[path] = begun or active.templates.test(
            phase.when, active.state.values(phase), f"{path}: when"
        )
    return active.decided[path]


def _skip_phase(active: ActiveRun, path: str) -> None:
    phase = active.scheduler.steps[path]
    leaves = [s.path for s in phase.walk() if s.kind != "phase"]
    open_ones = [p for p in leaves if active.scheduler.status[p] in ("pending", "running")]
    _skip(active, open_ones, f"when of {path}: {phase.when}")
    for leaf in open_ones:
        active.follow(leaf, active.scheduler.ended(leaf, leaf, "skipped"))


def _skip(active: ActiveRun, units: list[str], why: str, *, save: bool = True) -> None:
    def then() -> None:
        for unit in units:
            active.tell("step_skipped", step=unit, why=why)

    active.add(active.entries.skip(units, why, save=save), then)


# -- people


def _wait(active: ActiveRun, step: Step) -> None:
    """An approval, or a step that somebody does by hand: the run goes on elsewhere meanwhile."""
    values = active.state.values(step)
    told: dict[str, Any] = {"kind": step.kind}
    instructions, approval = "", None
    if step.instructions:
        instructions = active.templates.render(step.instructions, values, f"{step.path}: instructions")
        instructions = active.redactor.mask(instructions)
    if step.approval is not None:
        approval = _question(active, step, values)
        told.update({key: approval[key] for key in ("ask", "options", "deadline") if key in approval})
        told["how"] = f"leftoff approve {active.ledger.run_id} {step_word(step.path)}"
    else:
        told["ask"] = instructions or step.title or step.path
        told["how"] = f"leftoff step done {step_word(step.path)} --run {active.ledger.run_id}"
    active.scheduler.wait(step.path)
    active.start_batch(step.path)
    active.add(
        active.entries.wait(step, instructions, approval, active.above(step.path)),
        lambda: active.tell("waiting", **active.step_facts(step, step.path), **told),
    )


def _question(active: ActiveRun, step: Step, values: dict[str, Any]) -> dict[str, Any]:
    approval = step.approval
    assert approval is not None
    now = active.ledger.clock.now()
    about: dict[str, Any] = {
        "step": step.path,
        "ask": active.redactor.mask(active.templates.render(approval.ask, values, f"{step.path}: ask")),
        "options": list(approval.options),
        "status": "waiting",
        "asked_at": iso(now),
    }
    if step.timeout:
        about["deadline"] = iso(now + int(step.timeout * 1000))
    return about


# -- items


def _expand(active: ActiveRun, step: Step) -> None:
    """Find the items of a `foreach`; where they were recorded before, those."""
    record = active.state.steps[step.path]
    if isinstance(record.get("items"), int):
        expanded(active, step, [(path, active.state.status(path)) for path in active.state.items(step.path)])
        return
    found = items.find(step, active.templates, active.state.values(step), active.project)
    if found is None:
        _launch(active, step, step.path, NOTHING, expands=True)
    else:
        declare(active, step, found)


# -- processes


def _launch(active: ActiveRun, step: Step, unit: str, item: Any, *, expands: bool = False) -> None:
    """Ask for a shim. It is told to go when the attempt is on record."""
    token = random_secrets.token_hex(8)
    folder = AttemptFolder.of(active.folder, active.ledger.run_id, token)
    folder.make()
    live = LiveAttempt(unit, step, item, token, folder)
    values = active.state.values(step, item)
    if expands:
        assert step.foreach is not None
        live.expands = True
        command = script(
            step, step.foreach.value, active.templates, values, folder.path, f"{step.path}: foreach"
        )
        command.argv = _into_file(command.argv, folder.file(ITEMS))
    else:
        command = action_of(step).command(step, active.templates, values, folder.path)
        expect(active, live)
        own = jobs.own_environment(active.templates, step, values)
        live.cache = active.reuse.parts(step, live, command, own)
        if _is_reused(active, live):
            return
    job = jobs.command(active, live, command, values)
    active.attempts[token] = live
    active.launcher.start(job)


def _is_reused(active: ActiveRun, live: LiveAttempt) -> bool:
    """Whether an earlier run has the step, and it may be taken from there."""
    assert live.cache is not None
    if not wanted(live.step, active.reuse.everything):
        return False
    decision = active.reuse.judge(live.unit, live.cache)
    if decision.earlier is None:
        return False
    active.untidy.append(live.folder)
    reused(active, live, decision.earlier, decision.why)
    return True


def _into_file(argv: list[str], path: str) -> list[str]:
    """The same command, its standard output in a file."""
    return ["/bin/sh", "-c", 'out=$1; shift; exec "$@" > "$out"', "sh", path, *argv]


def ready(active: ActiveRun, token: str, process: Process) -> None:
    """A shim waits: put the attempt on record, then let it go."""
    live = active.attempts[token]
    live.process = process
    step = live.step
    active.start_batch(live.leaf)
    moved = active.entered(live.leaf)
    log = os.path.relpath(live.folder.path, active.folder)
    ended: list[str] = []
    entry = active.entries.begin(live.unit, token, process, log, active.above(live.unit), ended=ended)

    def go() -> None:
        if ended:
            active.attempts.pop(token, None)
            active.launcher.drop(token)
            if ended[0] in ("completed", "skipped"):
                active.follow(live.leaf, active.scheduler.ended(live.unit, live.leaf, ended[0]))
            else:
                _leave(active, live.unit, live.leaf, ended[0])
            return
        live.phase, live.began = RUNNING, active.monotonic()
        active.launcher.go(token)
        if moved is not None:
            active.tell("phase", **{"from": moved[0], "to": moved[1]})
        record = active.state.steps[live.unit]
        active.tell(
            "step_start",
            **active.step_facts(step, live.unit),
            attempt=record["attempt"],
            estimate=step.estimate,
        )

    active.add(entry, go, durable=not step.idempotent)
