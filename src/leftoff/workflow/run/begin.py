"""Beginning what is due: conditions, items, questions to people, and the processes of steps."""

from __future__ import annotations

import os
import secrets as random_secrets
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.errors import LeftoffError
from leftoff.model.changes import NOTHING
from leftoff.model.ids import shown_step, step_word
from leftoff.workflow.processes import files
from leftoff.workflow.run import items, jobs
from leftoff.workflow.run.actions import action_of, script
from leftoff.workflow.run.fan_out import declare, expanded, item_of
from leftoff.workflow.run.finish import NOT_ITS_FAULT, expect, failed, reused
from leftoff.workflow.run.leftovers import ITEMS
from leftoff.workflow.run.reuse import wanted
from leftoff.workflow.run.unit import RUNNING, Work, about

if TYPE_CHECKING:
    from leftoff.host import Process
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.actions import Command
    from leftoff.workflow.run.turn import Stage


def begin_due(stage: Stage) -> None:
    """Begin every unit that may start now."""
    while True:
        due = stage.scheduler.due(stage.monotonic())
        for unit in due:
            leaf = stage.scheduler.taken.get(unit)
            if leaf is None:
                continue  # it was skipped with the phase that it is in
            if stage.scheduler.halted is None:
                _begin(stage, unit, leaf)
            else:
                stage.scheduler.put_back(unit, leaf)
        if not due:
            return


def _begin(stage: Stage, unit: str, leaf: str) -> None:
    step = stage.scheduler.steps[leaf]
    if _already_ended(stage, unit, leaf):
        return
    item = NOTHING
    try:
        item = item_of(stage, step, unit) if unit != leaf else NOTHING
        if not _admitted(stage, step, unit, item):
            return
        if step.kind in ("approval", "manual"):
            _wait(stage, step)
        elif step.foreach is not None and unit == leaf:
            _expand(stage, step)
        else:
            _launch(stage, step, unit, item)
    except NOT_ITS_FAULT:
        raise
    except LeftoffError as error:
        work = Work(unit, step, item, "", "")
        failed(stage, work, about(error), None, retry=False)


def _already_ended(stage: Stage, unit: str, leaf: str) -> bool:
    """Whether somebody reported it done or skipped before it was its turn, or has it in hand."""
    if stage.ledger.shared:
        stage.state.look_again(unit)
    status = stage.state.status(unit)
    expands = unit == leaf and stage.scheduler.steps[leaf].foreach is not None
    if status in ("running", "waiting", "blocked") and not expands:
        _leave(stage, unit, leaf, status)
        return True
    if status not in ("completed", "skipped"):
        return False
    word = "step_done" if status == "completed" else "step_skipped"
    stage.tell(word, **stage.step_facts(stage.scheduler.steps[leaf], unit), why="somebody reported it")
    stage.follow(leaf, stage.scheduler.ended(unit, leaf, status))
    return True


def _leave(stage: Stage, unit: str, leaf: str, status: str) -> None:
    """Somebody else is at it: it is theirs until they say how it ended."""
    stage.tell(
        "warning", message=f"{shown_step(unit)} is {status}: it is left to whoever does it.", step=unit
    )
    if unit == leaf:
        stage.scheduler.wait(leaf)
    else:
        stage.scheduler.put_back(unit, leaf)


# -- conditions


def _admitted(stage: Stage, step: Step, unit: str, item: Any) -> bool:
    """Whether its own `when` and those of the phases it is in let it run; else it is skipped."""
    for path in stage.above(step.path):
        if not _phase_runs(stage, path):
            _skip_phase(stage, path)
            return False
    if not step.when or (step.foreach is not None and _asks_for_item(stage, step) != (item is not NOTHING)):
        return True
    if stage.templates.test(step.when, stage.state.values(step, item), f"{step.path}: when"):
        return True
    _skip(stage, [unit], f"when: {step.when}", save=step.save)
    stage.follow(step.path, stage.scheduler.ended(unit, step.path, "skipped"))
    return False


def _asks_for_item(stage: Stage, step: Step) -> bool:
    """Whether the condition of a `foreach` is one for each item, rather than for the whole."""
    return step.item_name in stage.templates.names(step.when)


def _phase_runs(stage: Stage, path: str) -> bool:
    phase = stage.scheduler.steps[path]
    if not phase.when:
        return True
    if path not in stage.decided:
        begun = stage.state.status(path) not in ("pending", "skipped")
        stage.decided[path] = begun or stage.templates.test(
            phase.when, stage.state.values(phase), f"{path}: when"
        )
    return stage.decided[path]


def _skip_phase(stage: Stage, path: str) -> None:
    phase = stage.scheduler.steps[path]
    leaves = [s.path for s in phase.walk() if s.kind != "phase"]
    open_ones = [p for p in leaves if stage.scheduler.status[p] in ("pending", "running")]
    _skip(stage, open_ones, f"when of {path}: {phase.when}")
    for leaf in open_ones:
        stage.follow(leaf, stage.scheduler.ended(leaf, leaf, "skipped"))


def _skip(stage: Stage, units: list[str], why: str, *, save: bool = True) -> None:
    def then() -> None:
        for unit in units:
            stage.tell("step_skipped", step=unit, why=why)

    stage.add(stage.entries.skip(units, why, save=save), then)


# -- people


def _wait(stage: Stage, step: Step) -> None:
    """An approval, or a step that somebody does by hand: the run goes on elsewhere meanwhile."""
    values = stage.state.values(step)
    told: dict[str, Any] = {"kind": step.kind}
    instructions, approval = "", None
    if step.instructions:
        instructions = stage.templates.render(step.instructions, values, f"{step.path}: instructions")
        instructions = stage.redactor.mask(instructions)
    if step.approval is not None:
        approval = _question(stage, step, values)
        told.update({key: approval[key] for key in ("ask", "options", "deadline") if key in approval})
        told["how"] = f"leftoff approve {stage.ledger.run_id} {step_word(step.path)}"
    else:
        told["ask"] = instructions or step.title or step.path
        told["how"] = f"leftoff step done {step_word(step.path)} --run {stage.ledger.run_id}"
    stage.scheduler.wait(step.path)
    stage.start_batch(step.path)
    stage.add(
        stage.entries.wait(step, instructions, approval, stage.above(step.path)),
        lambda: stage.tell("waiting", **stage.step_facts(step, step.path), **told),
    )


def _question(stage: Stage, step: Step, values: dict[str, Any]) -> dict[str, Any]:
    approval = step.approval
    assert approval is not None
    now = stage.ledger.clock.now()
    about: dict[str, Any] = {
        "step": step.path,
        "ask": stage.redactor.mask(stage.templates.render(approval.ask, values, f"{step.path}: ask")),
        "options": list(approval.options),
        "status": "waiting",
        "asked_at": iso(now),
    }
    if step.timeout:
        about["deadline"] = iso(now + int(step.timeout * 1000))
    return about


# -- items


def _expand(stage: Stage, step: Step) -> None:
    """Find the items of a `foreach`; where they were recorded before, those."""
    record = stage.state.steps[step.path]
    if isinstance(record.get("items"), int):
        expanded(stage, step, [(path, stage.state.status(path)) for path in stage.state.items(step.path)])
        return
    found = items.find(step, stage.templates, stage.state.values(step), stage.project)
    if found is None:
        _launch(stage, step, step.path, NOTHING, expands=True)
    else:
        declare(stage, step, found)


# -- processes


def _launch(stage: Stage, step: Step, unit: str, item: Any, *, expands: bool = False) -> None:
    """Ask for a shim. It is told to go when the attempt is on record."""
    token = random_secrets.token_hex(8)
    folder = files.folder(stage.folder, stage.ledger.run_id, token)
    files.prepare(folder)
    work = Work(unit, step, item, token, folder)
    values = stage.state.values(step, item)
    if expands:
        assert step.foreach is not None
        work.expands = True
        argv = script(step, step.foreach.value, stage.templates, values, folder, f"{step.path}: foreach")
        argv = _into_file(argv, os.path.join(folder, ITEMS))
        job = jobs.command(stage, work, argv, values, {})
    else:
        command: Command = action_of(step).command(step, stage.templates, values, folder)
        expect(stage, work)
        own = jobs.own_environment(stage, step, values)
        work.cache = stage.reuse.parts(step, work, command, own)
        if _is_reused(stage, work):
            return
        job = jobs.command(stage, work, command.argv, values, command.env)
    stage.works[token] = work
    stage.launcher.start(job)


def _is_reused(stage: Stage, work: Work) -> bool:
    """Whether an earlier run has the step, and it may be taken from there."""
    assert work.cache is not None
    if not wanted(work.step, stage.reuse.everything):
        return False
    decision = stage.reuse.judge(work.unit, work.cache)
    if decision.earlier is None:
        return False
    stage.untidy.append(work.folder)
    reused(stage, work, decision.earlier, decision.why)
    return True


def _into_file(argv: list[str], path: str) -> list[str]:
    """The same command, its standard output in a file."""
    return ["/bin/sh", "-c", 'out=$1; shift; exec "$@" > "$out"', "sh", path, *argv]


def ready(stage: Stage, token: str, process: Process) -> None:
    """A shim waits: put the attempt on record, then let it go."""
    work = stage.works[token]
    work.process = process
    step = work.step
    stage.start_batch(work.leaf)
    moved = stage.entered(work.leaf)
    log = os.path.relpath(work.folder, stage.folder)
    ended: list[str] = []
    entry = stage.entries.begin(work.unit, token, process, log, stage.above(work.unit), ended=ended)

    def go() -> None:
        if ended:
            stage.works.pop(token, None)
            stage.launcher.drop(token)
            if ended[0] in ("completed", "skipped"):
                stage.follow(work.leaf, stage.scheduler.ended(work.unit, work.leaf, ended[0]))
            else:
                _leave(stage, work.unit, work.leaf, ended[0])
            return
        work.phase, work.began = RUNNING, stage.monotonic()
        stage.launcher.go(token)
        if moved is not None:
            stage.tell("phase", **{"from": moved[0], "to": moved[1]})
        record = stage.state.steps[work.unit]
        stage.tell(
            "step_start",
            **stage.step_facts(step, work.unit),
            attempt=record["attempt"],
            estimate=step.estimate,
        )

    stage.add(entry, go, durable=not step.idempotent)
