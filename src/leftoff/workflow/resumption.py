"""Going on with a run of a workflow: what changed, what was in flight, what a person must say, what is put back."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from leftoff.engine.approvals import as_word
from leftoff.engine.commit import Guard
from leftoff.engine.definition import definition_of, names_of
from leftoff.engine.lease import free
from leftoff.engine.pickup import from_step, with_outer
from leftoff.engine.rollback import rollback_in
from leftoff.engine.runs import open_run
from leftoff.engine.upgrade import bring_up
from leftoff.errors import BadDefinition, CannotResume, NeedsPerson
from leftoff.host import this_process
from leftoff.model.changes import NOTHING
from leftoff.workflow import checkers, finish, leftovers, proof
from leftoff.workflow.changes import compare
from leftoff.workflow.mentions import mentioned
from leftoff.workflow.parse import load, parse
from leftoff.workflow.people import expire, tell_waiting
from leftoff.workflow.processes.files import read_exit
from leftoff.workflow.processes.job import Exit
from leftoff.workflow.recover import (
    ADOPT,
    ASK,
    CHECK,
    FORGET,
    NOT_IDEMPOTENT,
    REATTACH,
    RUN,
    TAKEN,
    folder_of,
    lives,
    orphans,
    step_of,
    was_killed,
)
from leftoff.workflow.reopening import DONE, Reopening, is_rejected
from leftoff.workflow.runner import Runner, context_of, records_of
from leftoff.workflow.stop import end_attempts, end_processes
from leftoff.workflow.work import RUNNING, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from leftoff.engine.head import Head
    from leftoff.store.base import Tx
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
    again: str | None = None,
    repeat: frozenset[str] = frozenset(),
    only: frozenset[str] | None = None,
    rewind: int | None = None,
) -> Runner:
    """Go on with a run: take its lease, see what was in flight, ask what must be asked.

    ``workflow`` is the definition as it is now; the run remembers the one it was started from. ``again``: this step
    and every later one are to be done once more; ``repeat``: single ones; ``only``: nothing but these is done.
    ``rewind``: first back to this version, about which everything was asked already.
    """
    driver = (this_process(), setting.who)
    now = setting.clock.now()
    head, epoch = open_run(setting.store, row.run_id, now, driver=driver, take_over=take_over)
    assert epoch is not None
    runner: Runner | None = None
    try:
        if rewind is not None:
            head = _rewound(setting, row, head, rewind, Guard(epoch))
        bring_up(setting.store, head, now, Guard(epoch))
        runner = Runner(setting, workflow, head, epoch, dict(variables))
        Resumption(runner, earlier_definition(setting, row, workflow), again, repeat, only).go(variables)
    except BaseException:
        if runner is not None:
            runner.close()
        _let_go(setting, row, epoch)
        raise
    return runner


def _rewound(setting: Setting, row: RunRow, head: Head, seq: int, guard: Guard) -> Head:
    """Back to an older version, while nobody else can drive it; what runs of a later one is ended."""
    end_attempts(setting.store, row, setting.folder, setting.grace)

    def work(tx: Tx) -> None:
        rollback_in(setting.store, tx, head, seq, setting.clock.now(), guard)

    setting.store.write(work)
    return open_run(setting.store, row.run_id, setting.clock.now())[0]


def _let_go(setting: Setting, row: RunRow, epoch: int) -> None:
    """Nothing is driven after all. A run that is on record as running keeps the lease: it tells that nobody does."""

    def work(tx: Tx) -> None:
        now = tx.run_row(row.run)
        if now is not None and now.status != "running":
            free(tx, row.run, epoch)

    setting.store.write(work)


def earlier_definition(setting: Setting, row: RunRow, now: Workflow) -> Workflow | None:
    """The definition that the run was last driven with; ``None`` where that was another than now, and is not known."""
    known = definition_of(setting.store, row)
    if known is None or known["digest"] == now.digest:
        return now
    try:
        return parse(known["text"] or "", now.path, given=names_of(setting.store, row))
    except BadDefinition:  # not stored, or not understood by this version of leftoff
        return None


def current_definition(
    project: str, known: dict[str, Any], given: Collection[str], say: Callable[[str], None]
) -> Workflow:
    """The definition that a run remembers, as its file is now; the run's own copy where that is gone.

    ``given``: the variables that the run has, and those that it is about to get.
    """
    shown = str(known.get("path") or "")
    path = os.path.join(project, shown)
    if os.path.isfile(path):
        return load(path, given=given)
    if not known.get("text"):
        raise CannotResume(
            f"{shown} is gone, and the run has no copy of it: there was a secret in it.",
            hint="Put the file back, or start afresh with another one.",
        )
    say(f"leftoff: {shown} is gone; the run's own copy of it is used.")
    return parse(str(known["text"]), path, given=given)


class Resumption:
    """Going on with a run, step by step: what changed, what was in flight, what is asked, what is put back."""

    def __init__(
        self,
        runner: Runner,
        old: Workflow | None,
        again: str | None,
        repeat: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
    ) -> None:
        self.runner = runner
        self.stage = runner.stage
        self.state = runner.state
        self.setting = runner.setting
        self.old = old or runner.workflow
        self.changed = old is None or old.text != runner.workflow.text
        self.again = again
        self.repeat = repeat
        self.only = only
        self.orphans: list[Orphan] = []
        self.strays: list[Attempt] = []

    def go(self, variables: dict[str, Any]) -> None:
        self.state.load()
        self._look()
        self._ask()
        self._end_strays()
        expire(self.stage)
        self._reopen(variables)
        self._tell()
        self._restore()

    # -- what is there, and what a person must say of it, before anything is changed

    def _look(self) -> None:
        ledger = self.runner.ledger
        attempts = ledger.store.read(lambda view: view.attempts(ledger.run))
        self.orphans, self.strays = orphans(self.state, self.old, attempts, self.setting.folder)

    def _ask(self) -> None:
        self._ask_about_definition()
        needed = [name for name in self.state.redacted() if self._is_used(name)]
        if needed:
            hint = "Give them again: " + " ".join(f"--var {name}=…" for name in needed)
            what = f"These variables are secrets, and were not stored: {', '.join(needed)}."
            self._question("variables.redacted", what, hint)
        self._end_instead()
        for orphan in self.orphans:
            if orphan.action == CHECK:
                self._prove(orphan)
        for orphan in self.orphans:
            if orphan.action == ASK:
                self._ask_about(orphan)
        for path, record in self.state.steps.items():
            if was_killed(record) and not self._is_idempotent(path, record):
                why = "it was cut off, and it must not simply run again"
                self._ask_about_step(path, why, NOT_IDEMPOTENT)

    def _ask_about_definition(self) -> None:
        done = {path for path, record in self.state.steps.items() if record.get("status") in DONE}
        done |= {path.rpartition("/")[0] for path in done if "item" in self.state.steps[path]}
        done |= {orphan.step.path for orphan in self.orphans if orphan.action in TAKEN}
        found, path = compare(self.old, self.runner.workflow, done), self.runner.workflow.path
        unknown = self.changed and self.old is self.runner.workflow
        if found.finished or unknown:
            hint = "Steps that are finished do not run again. --accept definition.changed goes on."
            told = found.told() or "what it was is not known (a text with a secret in it is not stored)"
            self._question("definition.changed", f"{path} changed since the run began: {told}.", hint)
        elif found:
            self.stage.tell("warning", message=f"{path} changed since the run began: {found.told()}.")

    def _end_instead(self) -> None:
        """What still runs of steps that are to be done anew is ended, if a person says so: nobody follows it."""
        repeated: set[str] = set()
        if self.again is not None:
            repeated = set(from_step(self.state.steps, self.again, self.runner.run_id))
        repeated |= with_outer(self.state.steps, self.repeat)
        for orphan in [*self.orphans]:
            restarted = self.setting.restart and orphan.action == REATTACH
            if not restarted and orphan.unit not in repeated:
                continue
            if orphan.action in (REATTACH, CHECK, ASK):
                self._ask_about(orphan.again("it was in flight"))
            self.orphans.remove(orphan)
            self.strays.append(orphan.attempt)

    def _prove(self, orphan: Orphan) -> None:
        """Nobody knows how it ended: what it left tells, or does not."""
        lacking = proof.lacking(self.stage, self._work(orphan))
        if lacking:
            orphan.again(f"nobody knows how it ended, and it is not proven that it is done: {lacking}")
        else:
            orphan.judged(CHECK, "nobody knows how it ended, but its outputs are there and its checks hold")

    def _ask_about(self, orphan: Orphan) -> None:
        if orphan.action == ASK:
            self._ask_about_step(orphan.unit, orphan.why, orphan.code or NOT_IDEMPOTENT)

    def _ask_about_step(self, path: str, why: str, code: str) -> None:
        run_id = self.runner.run_id
        hint = (
            f"Look whether it is done. `leftoff step done {as_word(path)} --run {run_id}` says so; "
            f"`leftoff resume {run_id} --accept {code}` runs it again."
        )
        self._question(code, f"Step {path}: {why}.", hint)

    def _is_idempotent(self, path: str, record: dict[str, Any]) -> bool:
        step = step_of(self.runner.workflow, path, record)
        return step is None or step.idempotent

    def _question(self, code: str, what: str, hint: str) -> None:
        if not self.setting.ask(code, what, hint):
            raise NeedsPerson(what, hint=hint)

    def _is_used(self, name: str) -> bool:
        """Whether a step that is left mentions a variable."""
        return any(
            name in mentioned(self.stage.templates, step)
            for step in self.runner.workflow.leaves()
            if self.state.status(step.path) not in DONE or self.again is not None or self.repeat
        )

    # -- what is put back

    def _end_strays(self) -> None:
        """Processes that nobody will ask about any more are ended before their steps may run again."""
        folder = self.setting.folder
        alive = [a.process for a in self.strays if a.process is not None and lives(a, folder)]
        opened = [*self.strays, *(orphan.attempt for orphan in self.orphans)]
        alive += [process for a in opened for process in checkers.left(folder_of(a, folder))]
        end_processes(alive, self.setting.grace)
        for attempt in self.strays:
            left = folder_of(attempt, folder)
            entry = self.stage.entries.end_attempt(attempt.token, _exit_code(left))
            self.stage.add(entry, partial(leftovers.tidy, left))
        self.stage.close()

    def _reopen(self, variables: dict[str, Any]) -> None:
        """In one commit; then what becomes of each attempt that is not taken over."""
        new, entries = self.runner.workflow, self.stage.entries
        reopening = Reopening(
            self.old,
            new,
            records_of(new),
            held={orphan.unit for orphan in self.orphans},
            again=self.again,
            about=context_of(new, self.setting.project) if self.changed else {},
            variables=variables,
            repeat=self.repeat,
        )
        if (self.again is not None or self.repeat) and self._head_is_open():
            self.stage.add(entries.seal("manual", None, "before a rollback"))
        self.stage.add(reopening.entry(self.runner.ledger))
        for orphan in self.orphans:
            token, folder = orphan.attempt.token, orphan.folder
            if orphan.action == FORGET:
                self.stage.add(entries.forget(orphan.unit, token), partial(leftovers.remove, folder))
            elif orphan.action not in TAKEN:
                again = entries.again(orphan.unit, token, {}, _exit_code(folder))
                self.stage.add(again, partial(leftovers.tidy, folder))
        self.stage.close()
        self.state.load()

    def _head_is_open(self) -> bool:
        """Whether the newest version is no checkpoint: then nobody could go back to it."""
        ledger = self.runner.ledger
        row = ledger.store.read(lambda view: view.run_row(ledger.run))
        return row is not None and row.checkpoint is None

    # -- what is told

    def _tell(self) -> None:
        self.runner.tell_start(resumed=True)
        by_unit = {orphan.unit: orphan for orphan in self.orphans}
        plan = []
        for leaf in self.state.graph.leaves:
            for path in self.state.at_or_below(leaf):
                action, why = self._intent(path, by_unit.get(path))
                plan.append({"step": path, "action": action, "why": why})
        self.stage.tell("plan", plan=plan)
        tell_waiting(self.stage)

    def _intent(self, path: str, orphan: Orphan | None) -> tuple[str, str]:
        status = self.state.status(path)
        if orphan is not None:
            return _WORDS.get(orphan.action, orphan.action), orphan.why
        if status in DONE:
            return "skip", f"it is {status}"
        if self.only is not None and not _is_one_of(path, self.only):
            return "skip", "it is not among those to be done now"
        if status == "failed":
            return "skip", "it was rejected"
        if status in ("waiting", "blocked"):
            return "ask", f"it is {status}"
        return "run", "it is to be done"

    # -- the scheduler, as it would be had nobody died

    def _restore(self) -> None:
        """What ended, ended; then what is followed, and what is adopted."""
        scheduler, state = self.stage.scheduler, self.state
        if self.only is not None:
            scheduler.only = frozenset(leaf for leaf in state.graph.leaves if _is_one_of(leaf, self.only))
        ended = scheduler.restore({path: state.status(path) for path in state.graph.leaves})
        self.stage.restore_batches()
        self._seal_what_people_ended(ended)
        for leaf in state.graph.leaves:
            step = scheduler.steps[leaf]
            open_fan = step.foreach is not None and scheduler.status[leaf] == "pending"
            open_fan = open_fan and (scheduler.only is None or leaf in scheduler.only)
            if open_fan and isinstance(state.steps[leaf].get("items"), int):
                scheduler.claim(leaf, leaf)
                known = [(path, state.status(path)) for path in state.items(leaf)]
                self.stage.follow(leaf, scheduler.expand(leaf, known))
        for orphan in self.orphans:
            if orphan.action in TAKEN:
                self._take(orphan)
        for leaf in state.graph.leaves:
            if is_rejected(state.steps[leaf]):
                self.stage.follow(leaf, scheduler.ended(leaf, leaf, "failed"))
        self.stage.close()

    def _seal_what_people_ended(self, phases: list[tuple[str, str]]) -> None:
        """Phases and batches whose last step was decided or reported while nobody drove."""
        for path, status in phases:
            if self.state.status(path) not in (*DONE, "failed"):
                self.stage.add(self.stage.entries.inner(path, status, "phase_transition"))
        theirs = {
            self.state.graph.level[leaf]
            for leaf in self.state.graph.leaves
            if not self.state.steps[leaf].get("attempt") or self.state.steps[leaf].get("kind") in _PEOPLES
        }
        if any(self.stage.scheduler.batch_is_complete(number) for number in theirs):
            ledger = self.runner.ledger
            known = ledger.store.read(lambda view: view.versions(ledger.run, sealed=True))
            self.stage.complete_batches(theirs, {v.note for v in known if v.trigger == "batch_complete"})

    def _work(self, orphan: Orphan) -> Work:
        step = orphan.step
        item = self.state.item(orphan.unit) if orphan.unit != step.path else NOTHING
        return Work(orphan.unit, step, item, orphan.attempt.token, orphan.folder)

    def _take(self, orphan: Orphan) -> None:
        attempt, step, work = orphan.attempt, orphan.step, self._work(orphan)
        work.phase, work.process = RUNNING, attempt.process
        work.why = f"{_TAKEN_AS[orphan.action]}: {orphan.why}"
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
        work.doubtful = True  # what an earlier attempt lacks is no failure of this life of the run
        if orphan.action == CHECK:
            work.checks = [(text, name) for text, name in work.checks if name is not None]  # the others hold
        finish.ended(self.stage, work, Exit(0))


_TAKEN_AS = {ADOPT: "adopted", CHECK: "adopted", REATTACH: "reattached"}
_PEOPLES = ("approval", "manual")
_WORDS = {FORGET: RUN, ASK: RUN, CHECK: ADOPT}


def _is_one_of(path: str, only: Collection[str]) -> bool:
    """Whether a step is one of these, in one of them, or contains one."""
    return any(path == one or path.startswith(one + "/") or one.startswith(path + "/") for one in only)


def _exit_code(folder: str) -> int | None:
    exit = read_exit(folder)
    return exit.code if exit is not None else None
