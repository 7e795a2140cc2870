"""Take up a run of a workflow file: its lease, what was in flight, then one commit that puts back what is to be done.

Nothing is asked here. What needs a person is in the verdict, and was answered. `TakeUp.take` checks that the run, its
steps in flight included, is still as it was judged; else it raises ``Moved`` and has taken the run from nobody.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from leftoff.clock import iso
from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.approvals import is_rejected
from leftoff.engine.commit import Guard, Head, Seal
from leftoff.engine.find import Moved
from leftoff.engine.findings import ASK as ASK_LEVEL
from leftoff.engine.findings import levels_of
from leftoff.engine.imported_runs import agree, may_run
from leftoff.engine.judge import Verdict, make_plan
from leftoff.engine.lease import free
from leftoff.engine.opening import run_again
from leftoff.engine.resume_answers import DONE, Answers, ResumeRequest, Selection
from leftoff.host import this_process
from leftoff.model.changes import NOTHING
from leftoff.store.base import Tx
from leftoff.workflow import drive_steps
from leftoff.workflow import process_groups as groups
from leftoff.workflow.actions import RUNNING, LiveAttempt
from leftoff.workflow.attempt_folder import AttemptFolder, Exit
from leftoff.workflow.commit_entries import (
    AttemptEnds,
    AttemptForgotten,
    Checkpoint,
    Entry,
    OuterEnds,
    Page,
    StepRunsAgain,
    context_of,
    records_of,
)
from leftoff.workflow.definition import differs, is_gone
from leftoff.workflow.driver import Driver, Setting
from leftoff.workflow.workflow_checks import (
    ADOPT,
    ASK,
    FORGET,
    REATTACH,
    TAKEN,
    DefinedSteps,
    Orphan,
    WorkflowChecks,
)

Record = dict[str, Any]

NO_EPOCH = 0  # of a process that has no lease yet
_TAKEN_AS = {ADOPT: "adopted", REATTACH: "reattached"}
_PEOPLES = ("approval", "manual")
_DECLARED = ("order", "batch", "title", "kind", "type", "description", "instructions", "estimate")
_PLACE = ("order", "batch")


class TakeUp:
    """Taking up one run, in two calls: ``take``, then ``put_back``. If one of them, or anything between them, fails:
    ``let_go``."""

    def __init__(
        self,
        setting: Setting,
        verdict: Verdict,
        checks: WorkflowChecks,
        answers: Answers,
        request: ResumeRequest,
    ) -> None:
        assert checks.new is not None
        self.verdict = verdict
        self.checks = checks
        self.answers = answers
        self.request = request
        self.setting = setting
        self.row = verdict.world.row
        self.old = checks.old or checks.new
        self.orphans: list[Orphan] = []
        self.driver = Driver(setting, checks.new, Head.of(self.row), NO_EPOCH, dict(request.variables))
        self.state = self.driver.state
        self.state.seq = verdict.world.seq
        self.state.load()
        only = None if request.only is None else frozenset(request.only)
        self.selection = Selection(frozenset(request.repeated(self.state.steps)), only, request.restart)

    @property
    def guard(self) -> Guard:
        return Guard(self.driver.epoch)

    def let_go(self) -> None:
        """Close the driver, and free the lease. A run that is recorded as running keeps it: that shows that it died."""
        self.driver.close()

        def work(tx: Tx) -> None:
            now = tx.run_row(self.driver.run)
            if now is not None and now.status != "running":
                free(tx, self.driver.run, self.driver.epoch)

        if self.driver.epoch != NO_EPOCH:
            self.setting.store.write(work)

    def take(self) -> None:
        """Take the lease, if the run is as it was judged. Then look at what is in flight once more: a process may have
        ended since, so that a person has to decide."""
        self.driver.take(this_process(), self.row)
        world, settled = self.verdict.world, {finding.asked for finding in self.verdict.findings}
        attempts = self.setting.store.read(lambda view: view.attempts(self.row.run))
        found, strays = self.checks.look(world, self.selection, attempts)
        levels = world.settings.parsed("verify", levels_of)
        for finding in self.checks.in_doubt(world, self.selection):
            finding.set_level(levels)
            accepted = finding.asked in settled or finding.code in self.verdict.request.accept
            if finding.level == ASK_LEVEL and not accepted:
                raise Moved(finding.message)
        self.orphans = [orphan for orphan in found if not orphan.ends]
        self._strays = [*strays, *(orphan.attempt for orphan in found if orphan.ends)]

    def put_back(self) -> Driver:
        """Put back what is to be done, in one commit. Then follow and adopt what was in flight."""
        store, definition = self.setting.store, self.driver.workflow.digest
        agreed = self.checks.definitions.is_named or any(finding.digest for finding in self.verdict.findings)
        if agreed and not may_run(store, self.row, definition):
            agree(store, self.row, definition)  # the user named the file of an imported run, or was asked
        # Processes that nothing waits for any more end before their steps may run again.
        alive = [a.process for a in self._strays if a.process is not None and groups.lives(a, store.folder)]
        groups.end_processes(alive, self.setting.grace)
        for attempt in self._strays:
            left = groups.attempt_folder_of(attempt, store.folder)
            self.driver.add(AttemptEnds(attempt.token, _exit_code(left), tidy=left))
        self.driver.commit()
        self.driver.roll_back()
        self.state.load()
        self.driver.expire_approvals()
        self.state.load()
        layout = DefinedSteps(self.driver.workflow, self.state.steps)
        known = self.checks.known(self.verdict.world, self.selection)
        plan = make_plan(layout, (), known, self.selection)  # from the records as they are before
        self._reopen()
        self.driver.tell_start(resumed=True)
        for finding in self.verdict.findings:
            if finding.code == "definition.changed" and finding.asked not in self.answers.asked:
                self.driver.tell("warning", message=finding.message)
        self.driver.tell("plan", plan=plan)
        self.driver.tell_waiting()
        self._restore()
        return self.driver

    def _reopen(self) -> None:
        """Commit what is put back, and what becomes of each attempt that is not taken over."""
        request, run = self.request, self.driver.run
        if request.from_step is not None or request.repeat:
            row = self.setting.store.read(lambda view: view.run_row(run))
            if row is not None and row.checkpoint is None:  # else a user could not go back to the present
                self.driver.add(Checkpoint("manual", "before a rollback"))
        self.driver.add(Reopening(self))
        for orphan in self.orphans:
            token, folder = orphan.attempt.token, orphan.folder
            if orphan.action == FORGET:
                self.driver.add(AttemptForgotten(orphan.unit, token, folder))
            elif orphan.action == ASK and self._leaves_out(orphan.unit):  # it was not asked about
                facts = {"interrupted_at": iso(self.setting.clock.now())}
                self.driver.add(StepRunsAgain(orphan.unit, "", facts, None))
            elif orphan.action not in TAKEN:
                self.driver.add(StepRunsAgain(orphan.unit, token, {}, _exit_code(folder), tidy=folder))
        self.driver.commit()
        self.state.load()

    def _leaves_out(self, path: str) -> bool:
        """Return whether a step is none of those that are to be done, in none of them, and contains none."""
        only = self.request.only
        return only is not None and not any(
            path == one or path.startswith(one + "/") or one.startswith(path + "/") for one in only
        )

    def _restore(self) -> None:
        """Restore the scheduler as it would be if no driver had died: first what ended, then what is taken over."""
        driver, scheduler, state = self.driver, self.driver.scheduler, self.state
        leaves = state.graph.leaves
        if self.request.only is not None:
            scheduler.only = frozenset(leaf for leaf in leaves if not self._leaves_out(leaf))
        ended = scheduler.restore({path: state.outcome(path) for path in leaves})
        driver.restore_batches()
        self._seal_what_people_ended(ended)
        for leaf in leaves:
            step = scheduler.steps[leaf]
            open_fan = step.foreach is not None and scheduler.status[leaf] == "pending"
            open_fan = open_fan and (scheduler.only is None or leaf in scheduler.only)
            if open_fan and isinstance(state.steps[leaf].get("items"), int):
                scheduler.claim(leaf, leaf)
                known = [(path, state.outcome(path)) for path in state.items(leaf)]
                driver.follow(leaf, scheduler.expand(leaf, known))
        for orphan in self.orphans:
            if orphan.action in TAKEN:
                self._take(orphan)
        for leaf in leaves:
            if is_rejected(state.steps[leaf]):
                driver.follow(leaf, scheduler.ended(leaf, leaf, "failed"))
        driver.commit()

    def _seal_what_people_ended(self, phases: list[tuple[str, str]]) -> None:
        """Seal phases and batches whose last step was decided or reported while no driver ran."""
        driver, state = self.driver, self.state
        for path, status in phases:
            if state.status(path) not in (*DONE, "failed"):
                driver.add(OuterEnds(path, status, "phase_transition", {}))
        theirs = {
            state.graph.level[leaf]
            for leaf in state.graph.leaves
            if not state.steps[leaf].get("attempt") or state.steps[leaf].get("kind") in _PEOPLES
        }
        if any(driver.scheduler.batch_is_complete(number) for number in theirs):
            known = driver.store.read(lambda view: view.versions(driver.run, sealed=True))
            driver.complete_batches(theirs, {v.note for v in known if v.trigger == "batch_complete"})

    def _live(self, orphan: Orphan) -> LiveAttempt:
        step = orphan.step
        item = self.state.item(orphan.unit) if orphan.unit != step.path else NOTHING
        return LiveAttempt(orphan.unit, step, item, orphan.attempt.token, orphan.folder)

    def _take(self, orphan: Orphan) -> None:
        """Follow, or adopt, what an earlier driver started."""
        driver, attempt, step, live = self.driver, orphan.attempt, orphan.step, self._live(orphan)
        live.phase, live.process = RUNNING, attempt.process
        alive = orphan.action == REATTACH
        live.why = "reattached after its driver had died" if alive else f"adopted: {orphan.why}"
        live.began = time.monotonic() - max(0, self.setting.clock.now() - attempt.started_at) / 1000
        live.expands = step.foreach is not None and orphan.unit == step.path
        driver.scheduler.claim(orphan.unit, step.path)
        driver.attempts[live.token] = live
        if not live.expands:
            drive_steps.expect(driver, live)
        driver.tell(_TAKEN_AS[orphan.action], step=orphan.unit, why=orphan.why)
        if alive:
            live.reattached = True
            driver.reattach(live)
            return
        live.doubtful = True  # what an earlier attempt lacks is no failure of this life of the run
        drive_steps.ended(driver, live, orphan.exit or Exit(0))


def _exit_code(folder: AttemptFolder) -> int | None:
    """Return the exit code of an attempt, None if it is not known how it ended, or if what it left is damaged."""
    exit = folder.exit()
    return None if exit is None or (exit.ok and folder.damaged(exit)) else exit.code


class Reopening(Entry):
    """The commit with which a run is driven again: what failed or was cut off is to be done, the definition is today's.

    The records are read inside the transaction, so that a step that is reported done meanwhile stays done. Nothing that
    is finished is touched, unless it is to run again.
    """

    def __init__(self, taken: TakeUp) -> None:
        super().__init__()
        self._old, self._new = taken.old, taken.driver.workflow
        self._declared = records_of(self._new)
        self._held = {orphan.unit for orphan in taken.orphans}  # their attempts are looked after one by one
        self._request = request = taken.request
        self._firsts = (*request.repeat, *((request.from_step,) if request.from_step is not None else ()))
        changed = taken.checks.definitions.changed
        self._about = context_of(self._new, taken.setting.project) if changed else {}

    def write(self, page: Page) -> Seal | None:
        steps, now = page.steps.all(), page.steps.now
        repeated = self._request.repeated(steps)
        above_done = {
            path.rpartition("/")[0] for path, r in steps.items() if r["status"] in DONE and "/" in path
        }
        run_again(page.changes, page.row().status, page.at, self._request.why)
        after: dict[str, Record | None] = {}
        for path, record in steps.items():
            leaf = path.rpartition("/")[0]
            if record["status"] not in DONE and is_gone(path, record, self._old, self._new):
                after[path] = lifecycle.complete(record, now) if path in above_done else None
            elif "item" in record and leaf in repeated and not self._contains_first(leaf):
                after[path] = None  # its `foreach` looks for its items again
            else:
                after[path] = self._after(path, record, repeated)
        for path in sorted((path for path, now_is in after.items() if now_is is None), reverse=True):
            page.steps.remove(path)
        for path, now_is in after.items():
            if now_is is not None and now_is != steps[path]:
                page.steps.move(path, now_is)
        for path, record in self._declared.items():
            if path not in steps:
                page.steps.put(path, record)
        for collection, given in (("context", self._about), ("variable", self._request.variables)):
            for key, value in given.items():
                page.changes.put(collection, key, value)
        return self._request.seal()

    def _after(self, path: str, record: Record, repeated: Collection[str]) -> Record:
        """Return a step's record from now on."""
        status, step = record["status"], self._new.find(path)
        changed = step is not None and differs(self._old.find(path), step)
        declared = self._declared.get(path)
        if declared is not None and self._old.text != self._new.text:
            # Of a finished step, and of one that waits, only its place is taken from the new definition.
            settled = status in DONE or (status in ("waiting", "blocked") and not changed)
            words = _PLACE if settled else _DECLARED
            kept = {key: value for key, value in record.items() if key not in words}
            record = {**kept, **{key: declared[key] for key in words if key in declared}}
        if path in repeated:
            again = lifecycle.redo(record, self._request.why_again(path))
            if not self._contains_first(path):
                again.pop("items", None)  # they are looked for again: what comes before may leave others
            return again
        outer = step is not None and (step.kind == "phase" or isinstance(record.get("items"), int))
        if (
            (status == "failed" and not (is_rejected(record) or record.get("allowed")))
            or (status == "running" and not outer and path not in self._held)
            or (status in ("waiting", "blocked") and changed)
        ):
            return lifecycle.put_back(record)
        return record

    def _contains_first(self, path: str) -> bool:
        return any(first.startswith(f"{path}/") for first in self._firsts)
