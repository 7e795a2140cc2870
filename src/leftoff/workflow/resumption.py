"""Going on with a run of a workflow: what changed, what was in flight, what a person must say, what is put back."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from leftoff.engine.definition import definition_of
from leftoff.engine.runs import open_run
from leftoff.errors import NeedsPerson
from leftoff.host import this_process
from leftoff.model.changes import NOTHING
from leftoff.workflow import finish
from leftoff.workflow.changes import compare
from leftoff.workflow.ledger import Ledger
from leftoff.workflow.parse import load, parse
from leftoff.workflow.processes import groups
from leftoff.workflow.processes.files import read_exit
from leftoff.workflow.processes.job import Exit
from leftoff.workflow.recover import ADOPT, ASK, CHECK, FORGET, REATTACH, orphans
from leftoff.workflow.runner import Runner, context_of, records_of
from leftoff.workflow.stop import end_processes
from leftoff.workflow.work import RUNNING, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.store.rows import Attempt, RunRow
    from leftoff.workflow.definition import Workflow
    from leftoff.workflow.recover import Orphan
    from leftoff.workflow.runner import Setting


def resume(
    setting: Setting,
    row: RunRow,
    variables: dict[str, Any],
    *,
    workflow: Workflow,
    take_over: bool = False,
) -> Runner:
    """Go on with a run: take its lease, see what was in flight, ask what must be asked.

    ``workflow`` is the definition as it is now; the run remembers the one it was started from.
    """
    driver = (this_process(), setting.who)
    now = setting.clock.now()
    head, epoch = open_run(setting.store, row.run_id, now, driver=driver, take_over=take_over)
    assert epoch is not None
    runner: Runner | None = None
    try:
        known = definition_of(setting.store, row)
        old = parse(known["text"], workflow.path) if known is not None else workflow
        runner = Runner(setting, workflow, head, epoch, dict(variables))
        Resumption(runner, old).go(variables)
    except BaseException:
        if runner is not None:
            runner.close()
        Ledger(setting.store, head, epoch, setting.clock, setting.redactor).release()
        raise
    return runner


def current_definition(project: str, known: dict[str, Any], say: Callable[[str], None]) -> Workflow:
    """The definition that a run remembers, as its file is now; the run's own copy where that is gone."""
    shown = str(known.get("path") or "")
    path = os.path.join(project, shown)
    if os.path.isfile(path):
        return load(path)
    say(f"leftoff: {shown} is gone; the run's own copy of it is used.")
    return parse(str(known.get("text") or ""), path)


class Resumption:
    """Going on with a run, step by step: what changed, what was in flight, what is asked, what is put back."""

    def __init__(self, runner: Runner, old: Workflow) -> None:
        self.runner = runner
        self.stage = runner.stage
        self.state = runner.state
        self.setting = runner.setting
        self.old = old
        self.orphans: list[Orphan] = []
        self.strays: list[Attempt] = []

    def go(self, variables: dict[str, Any]) -> None:
        self.state.load()
        self._look()
        self._ask()
        self._end_strays()
        self._reopen(variables)
        self._tell()
        self._restore()

    def _look(self) -> None:
        ledger = self.runner.ledger
        attempts = ledger.store.read(lambda view: view.attempts(ledger.run))
        self.orphans, self.strays = orphans(self.state, attempts, self.setting.folder)
        if self.setting.restart:
            running = [orphan for orphan in self.orphans if orphan.action == REATTACH]
            self.strays += [orphan.attempt for orphan in running]
            self.orphans = [orphan for orphan in self.orphans if orphan not in running]

    def _ask(self) -> None:
        """What only a person may decide, before anything is changed."""
        statuses = {path: str(record.get("status")) for path, record in self.state.steps.items()}
        differs = compare(self.old, self.runner.workflow, statuses)
        if differs:
            message = f"{self.runner.workflow.path} changed since the run began: {differs.told()}."
            if not differs.finished:
                self.stage.tell("warning", message=message)
            else:
                hint = "Steps that are finished do not run again. --accept definition.changed goes on."
                self._question("definition.changed", message, hint)
        for orphan in self.orphans:
            if orphan.action == ASK:
                self._question_orphan(orphan)
        needed = [name for name in self.state.redacted() if self._is_used(name)]
        if needed:
            names = ", ".join(needed)
            hint = "Give them again: " + " ".join(f"--var {name}=…" for name in needed)
            self._question(
                "variables.redacted", f"These variables are secrets, and were not stored: {names}.", hint
            )

    def _question(self, code: str, what: str, hint: str) -> None:
        if not self.setting.ask(code, what, hint):
            raise NeedsPerson(what, hint=hint)

    def _question_orphan(self, orphan: Orphan) -> None:
        hint = (
            f"Look whether it is done. `leftoff step done {orphan.unit} --run {self.runner.run_id}` says so; "
            f"`leftoff resume {self.runner.run_id} --accept {orphan.code}` runs it again."
        )
        self._question(orphan.code or "", f"Step {orphan.unit}: {orphan.why}.", hint)

    def _is_used(self, name: str) -> bool:
        """Whether a step that is left mentions a variable."""
        return any(
            name in str(step.key_facts())
            for step in self.runner.workflow.leaves()
            if self.state.status(step.path) not in ("completed", "skipped")
        )

    def _end_strays(self) -> None:
        """Processes that nobody will ask about any more are ended before their steps may run again."""
        alive = [a.process for a in self.strays if a.process is not None and groups.alive(a.process)]
        end_processes(alive, self.setting.grace)
        for attempt in self.strays:
            self.stage.add(self.stage.entries.end_attempt(attempt.token, None), durable=False)
        self.stage.close()

    def _reopen(self, variables: dict[str, Any]) -> None:
        """One commit: the run is running, what failed or was cut off is to be done, the definition is today's."""
        held = {orphan.unit for orphan in self.orphans}
        declared_now = records_of(self.runner.workflow)
        reset = [
            path
            for path, record in self.state.steps.items()
            if record.get("status") == "failed" or (record.get("status") == "running" and path not in held)
        ]
        outer = {
            path for path, step in self.stage.scheduler.steps.items() if step.kind == "phase" or step.foreach
        }
        reset = [path for path in reset if path not in outer or self.state.status(path) == "failed"]
        gone = [
            path
            for path, record in self.state.steps.items()
            if record.get("status") == "pending" and self._is_foreign(path, declared_now)
        ]
        new = {path: record for path, record in declared_now.items() if path not in self.state.steps}
        about = (
            context_of(self.runner.workflow, self.setting.project)
            if self.runner.workflow.text != self.old.text
            else {}
        )
        entries = self.stage.entries
        self.stage.add(entries.reopen(reset, new, gone, about))
        if variables:
            self.stage.amend(_set(variables))
        for orphan in self.orphans:
            token = orphan.attempt.token
            if orphan.action == FORGET:
                self.stage.add(entries.forget(orphan.unit, token))
            elif orphan.action not in (ADOPT, CHECK, REATTACH):
                exit = _exit_code(orphan)
                self.stage.add(entries.again(orphan.unit, token, {}, exit))
        self.stage.close()
        self.state.load()

    def _is_foreign(self, path: str, declared_now: dict[str, Any]) -> bool:
        """Whether a pending step is one that the definition used to have."""
        return self.old.find(path) is not None and path not in declared_now

    def _tell(self) -> None:
        self.runner._tell(resumed=True)
        by_unit = {orphan.unit: orphan for orphan in self.orphans}
        words = {FORGET: "run", ASK: "run", CHECK: "adopt"}
        plan = []
        for leaf in self.state.graph.leaves:
            for path in self.state.at_or_below(leaf):
                status, orphan = self.state.status(path), by_unit.get(path)
                if orphan is not None:
                    plan.append(
                        {"step": path, "action": words.get(orphan.action, orphan.action), "why": orphan.why}
                    )
                elif status in ("completed", "skipped"):
                    plan.append({"step": path, "action": "skip", "why": f"it is {status}"})
                elif status in ("waiting", "blocked"):
                    plan.append({"step": path, "action": "ask", "why": f"it is {status}"})
                else:
                    plan.append({"step": path, "action": "run", "why": "it is to be done"})
        self.stage.tell("plan", plan=plan)

    def _restore(self) -> None:
        """The scheduler, as it would be had nobody died; then what is followed and what is adopted."""
        scheduler, state = self.stage.scheduler, self.state
        scheduler.restore({path: state.status(path) for path in state.graph.leaves})
        self.stage.restore_batches()
        for leaf in state.graph.leaves:
            step = scheduler.steps[leaf]
            open_fan = step.foreach is not None and scheduler.status[leaf] == "pending"
            if open_fan and isinstance(state.steps[leaf].get("items"), int):
                scheduler.claim(leaf, leaf)
                known = [(path, state.status(path)) for path in state.items(leaf)]
                self.stage.follow(leaf, scheduler.expand(leaf, known))
        for orphan in self.orphans:
            if orphan.action in (ADOPT, CHECK, REATTACH):
                self._take(orphan)
        self.stage.close()

    def _take(self, orphan: Orphan) -> None:
        attempt, step = orphan.attempt, orphan.step
        item = self.state.steps[orphan.unit].get("item") if orphan.unit != step.path else NOTHING
        work = Work(orphan.unit, step, item, attempt.token, orphan.folder)
        work.phase, work.process, work.why = (
            RUNNING,
            attempt.process,
            f"{_ADOPTED[orphan.action]}: {orphan.why}",
        )
        work.began = time.monotonic() - max(0, self.setting.clock.now() - attempt.started_at) / 1000
        work.expands = step.foreach is not None and orphan.unit == step.path
        self.stage.scheduler.claim(orphan.unit, step.path)
        self.stage.works[work.token] = work
        if not work.expands:
            finish.expect(self.stage, work)
        if orphan.action == REATTACH:
            self.stage.tell("reattached", step=orphan.unit, why=orphan.why)
            self.runner.driver.reattach(work)
            return
        self.stage.tell("adopted", step=orphan.unit, why=orphan.why)
        work.doubtful = orphan.action == CHECK
        finish.ended(self.stage, work, Exit(0))


_ADOPTED = {ADOPT: "adopted", CHECK: "adopted", REATTACH: "reattached"}


def _exit_code(orphan: Orphan) -> int | None:
    exit = read_exit(orphan.folder)
    return exit.code if exit is not None else None


def _set(variables: dict[str, Any]) -> Any:
    def entry(page: Any) -> None:
        for key, value in variables.items():
            page.put("variable", key, value)

    return entry
