"""Going on with a run of a workflow: what changed, what was in flight, what a person must say, what is put back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine.lifecycle.imported_runs import agree, may_run
from leftoff.engine.lifecycle.opening import open_run
from leftoff.engine.resume.finding import ASK as ASK_LEVEL
from leftoff.engine.resume.finding import REFUSE, WARN, levelled
from leftoff.engine.resume.plan import make_plan
from leftoff.engine.resume.request import Selection
from leftoff.engine.steps.approvals import is_rejected
from leftoff.engine.write.commit import Guard
from leftoff.engine.write.lease import free
from leftoff.errors import CannotResume, NeedsPerson
from leftoff.host import this_process
from leftoff.model.changes import NOTHING
from leftoff.workflow.processes.attempt_folder import AttemptFolder, Exit
from leftoff.workflow.processes.groups import live_checkers
from leftoff.workflow.recovery import proof
from leftoff.workflow.recovery.attempts import ADOPT, ASK, CHECK, FORGET, REATTACH, TAKEN, folder_of, lives
from leftoff.workflow.recovery.checks import WorkflowChecks
from leftoff.workflow.recovery.reopen import DONE, Reopening
from leftoff.workflow.recovery.stop import end_processes
from leftoff.workflow.run import outcome
from leftoff.workflow.run.actions import RUNNING, LiveAttempt
from leftoff.workflow.run.driver import Driver, Setting
from leftoff.workflow.run.entries import (
    AttemptEnds,
    AttemptForgotten,
    Checkpoint,
    OuterEnds,
    StepRunsAgain,
    context_of,
    records_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from leftoff.engine.resume.finding import Finding
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.store.base import Tx
    from leftoff.store.rows import Attempt, RunRow
    from leftoff.workflow.definition.parse import Definitions
    from leftoff.workflow.recovery.attempts import Orphan

    Agreed = Callable[[Guard], None]

NO_EPOCH = 0  # of whoever has no lease yet


def resume(
    setting: Setting, request: ResumeRequest, definitions: Definitions, agreed: Agreed | None = None
) -> Driver:
    """Go on with a run: see what was in flight, ask what must be asked, take its lease; then go back, where an older
    version is meant, and put back what is to be done. Whoever refuses, or is refused, has changed nothing, and has
    taken the run from nobody. ``agreed`` is called when nothing stands in the way any more, and before anything else
    is changed.
    """
    target, now = request.target, setting.clock.now()
    assert definitions.new is not None
    head, _ = open_run(setting.store, target.row.run_id, now)
    driver = Driver(setting, definitions.new, head, NO_EPOCH, dict(request.variables))
    try:
        if target.version is not None and target.version.seq != head.seq:
            driver.state.seq = target.version.seq
        resumption = Resumption(driver, definitions, request)
        resumption.consider()
        driver.take(this_process())
        resumption.go(agreed)
    except BaseException:
        driver.close()
        _let_go(driver)
        raise
    return driver


def _let_go(driver: Driver) -> None:
    """Nothing is driven after all. A run that is on record as running keeps the lease: it tells that nobody does."""

    def work(tx: Tx) -> None:
        now = tx.run_row(driver.run)
        if now is not None and now.status != "running":
            free(tx, driver.run, driver.epoch)

    if driver.epoch != NO_EPOCH:
        driver.store.write(work)


class Unanswered(NeedsPerson):
    """A question that nobody could foresee, and that nobody answers: what was found."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message, hint=finding.hint)
        self.finding = finding


class _Now:
    """The run as whoever goes on with it sees it, at the version that it shall go on from."""

    def __init__(self, driver: Driver, row: RunRow) -> None:
        setting = driver.setting
        self.store = setting.store
        self.row = row
        self.now = setting.clock.now()
        self.project = setting.project
        self.run_id: str = driver.run_id
        self.seq = driver.state.seq
        self.is_head = self.seq is None
        self.attempts = driver.store.read(lambda view: view.attempts(driver.run))
        self.steps = driver.state.steps
        self.redacted = driver.state.redacted()


class Resumption:
    """Going on with a run, step by step: what changed, what was in flight, what is asked, what is put back."""

    def __init__(self, driver: Driver, definitions: Definitions, request: ResumeRequest) -> None:
        self.driver = driver
        self.row = request.target.row
        self.state = driver.state
        self.setting = driver.setting
        self.old = definitions.old or driver.workflow
        self.changed = definitions.changed
        self._is_named = definitions.is_named
        self.request = request
        self.checks = WorkflowChecks(definitions, self.setting.folder, request.variables, self.state)
        self.orphans: list[Orphan] = []
        self.strays: list[Attempt] = []
        self.plan: list[dict[str, Any]] = []
        self._proven: dict[str, str] = {}  # attempts whose checks were run: what does not hold
        self._asked: set[tuple[str, str | None]] = set()  # what was told or answered

    def consider(self) -> Selection:
        """Look at everything that can stand in the way, and ask; nothing is changed."""
        self.state.load()
        selection = self._selection()
        seen = _Now(self.driver, self.row)
        self._ask(self.checks.of_definition(seen, selection))
        self._look(seen, selection)
        self._ask(self.checks.of_steps(seen, selection))
        return selection

    def go(self, agreed: Agreed | None = None) -> None:
        """With the lease, which nobody else can have any more: look once more, then change what is to be changed."""
        selection = self.consider()
        if agreed is not None:
            agreed(Guard(self.driver.epoch))
        self._remember_trust()
        self._end_strays()
        self.driver.roll_back()
        self.state.load()
        self.driver.expire_approvals()
        self.state.load()
        self._make_plan(selection)
        self._reopen()
        self._tell()
        self._restore()

    def _remember_trust(self) -> None:
        """Store that the user agreed to the definition of an imported run, or named its file."""
        asked = any(code == "definition.untrusted" for code, _ in self._asked)
        digest = self.driver.workflow.digest
        if (asked or self._is_named) and not may_run(self.setting.store, self.row, digest):
            agree(self.setting.store, self.row, digest)

    # -- what is there, and what a person must say of it, before anything is changed

    def _selection(self) -> Selection:
        request = self.request
        only = None if request.only is None else frozenset(request.only)
        return Selection(frozenset(request.repeated(self.state.steps)), only, request.restart)

    def _look(self, seen: _Now, selection: Selection) -> None:
        """What was in flight; where nobody knows how it ended, what it left tells, or does not."""
        found, strays = self.checks.look(seen, selection)
        for orphan in found:
            if orphan.action == CHECK and not orphan.ends:
                failing = self._failing(orphan)
                if failing:
                    orphan.again(
                        f"nobody knows how it ended, and it is not proven that it is done: {failing}"
                    )
                else:
                    orphan.judged(
                        CHECK, "nobody knows how it ended, but its outputs are there and its checks hold"
                    )
        self.orphans = [orphan for orphan in found if not orphan.ends]
        self.strays = [*strays, *(orphan.attempt for orphan in found if orphan.ends)]

    def _agreed(self, finding: Finding) -> bool:
        try:
            return self.setting.ask(finding.code, finding.message, finding.hint)
        except NeedsPerson:
            raise Unanswered(finding) from None

    def _failing(self, orphan: Orphan) -> str:
        """Which of its checks does not hold; each is run once."""
        token = orphan.attempt.token
        if token not in self._proven:
            self._proven[token] = proof.failing(self.driver, self._live(orphan))
        return self._proven[token]

    def _ask(self, found: Iterable[Finding]) -> None:
        """As the verdict did, which may be a while ago, and knew nothing of what checks say."""
        for finding in found:
            if (finding.code, finding.subject) in self._asked:
                continue
            self._asked.add((finding.code, finding.subject))
            level = levelled(finding, self.setting.levels).level
            if level == REFUSE:
                raise CannotResume(finding.message, hint=finding.hint)
            if level == WARN and finding.code == "definition.changed":
                self.driver.tell("warning", message=finding.message)
            if level == ASK_LEVEL and (self._is_unseen(finding) or not self._agreed(finding)):
                raise Unanswered(finding)

    def _is_unseen(self, finding: Finding) -> bool:
        """Whether it is about another definition than the one that was shown, and said yes to: its file may have been
        replaced while somebody was asked."""
        shown = self.request.shown
        accepted = shown == finding.digest if shown else finding.code in self.request.accept
        return bool(finding.digest) and not accepted

    # -- what is put back

    def _end_strays(self) -> None:
        """Processes that nobody will ask about any more are ended before their steps may run again."""
        folder = self.setting.folder
        alive = [a.process for a in self.strays if a.process is not None and lives(a, folder)]
        opened = [*self.strays, *(orphan.attempt for orphan in self.orphans)]
        alive += [process for a in opened for process in live_checkers(folder_of(a, folder))]
        end_processes(alive, self.setting.grace)
        for attempt in self.strays:
            left = folder_of(attempt, folder)
            self.driver.add(AttemptEnds(attempt.token, _exit_code(left), tidy=left))
        self.driver.commit()

    def _reopen(self) -> None:
        """In one commit; then what becomes of each attempt that is not taken over."""
        new, request = self.driver.workflow, self.request
        reopening = Reopening(
            self.old,
            new,
            records_of(new),
            request,
            held={orphan.unit for orphan in self.orphans},
            about=context_of(new, self.setting.project) if self.changed else {},
        )
        if (request.from_step is not None or request.repeat) and self._head_is_open():
            self.driver.add(Checkpoint("manual", "before a rollback"))
        self.driver.add(reopening)
        for orphan in self.orphans:
            token, folder = orphan.attempt.token, orphan.folder
            if orphan.action == FORGET:
                self.driver.add(AttemptForgotten(orphan.unit, token, folder))
            elif orphan.action == ASK and self._leaves_out(orphan.unit):  # it was not asked about
                facts = {"interrupted_at": iso(self.setting.clock.now())}
                self.driver.add(StepRunsAgain(orphan.unit, "", facts, None))
            elif orphan.action not in TAKEN:
                again = StepRunsAgain(orphan.unit, token, {}, _exit_code(folder), tidy=folder)
                self.driver.add(again)
        self.driver.commit()
        self.state.load()

    def _head_is_open(self) -> bool:
        """Whether the newest version is no checkpoint: then nobody could go back to it."""
        row = self.driver.store.read(lambda view: view.run_row(self.driver.run))
        return row is not None and row.checkpoint is None

    # -- what is told

    def _make_plan(self, selection: Selection) -> None:
        """As it was told before: from the records as they are before anything is put back."""
        seen = _Now(self.driver, self.row)
        self.plan = make_plan(self.checks.layout(seen), (), self.checks.known(seen, selection), selection)

    def _tell(self) -> None:
        self.driver.tell_start(resumed=True)
        self.driver.tell("plan", plan=self.plan)
        self.driver.tell_waiting()

    def _leaves_out(self, path: str) -> bool:
        return self.request.only is not None and not _is_one_of(path, self.request.only)

    # -- the scheduler, as it would be had nobody died

    def _restore(self) -> None:
        """What ended, ended; then what is followed, and what is adopted."""
        scheduler, state = self.driver.scheduler, self.state
        if self.request.only is not None:
            scheduler.only = frozenset(leaf for leaf in state.graph.leaves if not self._leaves_out(leaf))
        ended = scheduler.restore({path: state.status(path) for path in state.graph.leaves})
        self.driver.restore_batches()
        self._seal_what_people_ended(ended)
        for leaf in state.graph.leaves:
            step = scheduler.steps[leaf]
            open_fan = step.foreach is not None and scheduler.status[leaf] == "pending"
            open_fan = open_fan and (scheduler.only is None or leaf in scheduler.only)
            if open_fan and isinstance(state.steps[leaf].get("items"), int):
                scheduler.claim(leaf, leaf)
                known = [(path, state.status(path)) for path in state.items(leaf)]
                self.driver.follow(leaf, scheduler.expand(leaf, known))
        for orphan in self.orphans:
            if orphan.action in TAKEN:
                self._take(orphan)
        for leaf in state.graph.leaves:
            if is_rejected(state.steps[leaf]):
                self.driver.follow(leaf, scheduler.ended(leaf, leaf, "failed"))
        self.driver.commit()

    def _seal_what_people_ended(self, phases: list[tuple[str, str]]) -> None:
        """Phases and batches whose last step was decided or reported while nobody drove."""
        for path, status in phases:
            if self.state.status(path) not in (*DONE, "failed"):
                self.driver.add(OuterEnds(path, status, "phase_transition", {}))
        theirs = {
            self.state.graph.level[leaf]
            for leaf in self.state.graph.leaves
            if not self.state.steps[leaf].get("attempt") or self.state.steps[leaf].get("kind") in _PEOPLES
        }
        if any(self.driver.scheduler.batch_is_complete(number) for number in theirs):
            run = self.driver.run
            known = self.driver.store.read(lambda view: view.versions(run, sealed=True))
            self.driver.complete_batches(theirs, {v.note for v in known if v.trigger == "batch_complete"})

    def _live(self, orphan: Orphan) -> LiveAttempt:
        step = orphan.step
        item = self.state.item(orphan.unit) if orphan.unit != step.path else NOTHING
        return LiveAttempt(orphan.unit, step, item, orphan.attempt.token, orphan.folder)

    def _take(self, orphan: Orphan) -> None:
        attempt, step, live = orphan.attempt, orphan.step, self._live(orphan)
        live.phase, live.process = RUNNING, attempt.process
        live.why = f"{_TAKEN_AS[orphan.action]}: {orphan.why}"
        live.began = time.monotonic() - max(0, self.setting.clock.now() - attempt.started_at) / 1000
        live.expands = step.foreach is not None and orphan.unit == step.path
        self.driver.scheduler.claim(orphan.unit, step.path)
        self.driver.attempts[live.token] = live
        if not live.expands:
            outcome.expect(self.driver, live)
        if orphan.action == REATTACH:
            self.driver.tell("reattached", step=orphan.unit, why=orphan.why)
            self.driver.reattach(live)
            return
        self.driver.tell("adopted", step=orphan.unit, why=orphan.why)
        live.doubtful = True  # what an earlier attempt lacks is no failure of this life of the run
        if orphan.action == CHECK:
            live.checks = [(text, name) for text, name in live.checks if name is not None]  # the others hold
        outcome.ended(self.driver, live, orphan.exit or Exit(0))


_TAKEN_AS = {ADOPT: "adopted", CHECK: "adopted", REATTACH: "reattached"}
_PEOPLES = ("approval", "manual")


def _is_one_of(path: str, only: Collection[str]) -> bool:
    """Whether a step is one of these, in one of them, or contains one."""
    return any(path == one or path.startswith(one + "/") or one.startswith(path + "/") for one in only)


def _exit_code(folder: AttemptFolder) -> int | None:
    """None: nobody knows how it ended, also where what it left is damaged."""
    exit = folder.exit()
    return None if exit is None or (exit.ok and folder.damaged(exit)) else exit.code
