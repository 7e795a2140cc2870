"""The driver of one run: a single thread that feeds the scheduler with events and starts what is due.

A turn waits for something (a process ended, a shim is ready, a retry is due, a signal came, a person decided), works
out what it means, commits all of it in one transaction, then begins what has become possible. Nothing is reported and
no process is let go before the commit that it depends on. ``drive_steps`` holds what a turn does with one step,
``commit_entries`` what it commits.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

from leftoff.clock import Clock, iso, millis
from leftoff.engine import lease
from leftoff.engine.approvals import how
from leftoff.engine.commit import Guard, Head, Seal, Terms, commit_in, mark_rewound, need_known, save_blobs
from leftoff.engine.continue_run import rollback_to
from leftoff.engine.find import need_run, need_unmoved
from leftoff.engine.git import dirty_paths, git_head
from leftoff.engine.opening import Opening, opening_changes, start_in
from leftoff.engine.redactor import Redactor
from leftoff.engine.settings import CALLER, Redaction
from leftoff.engine.step_lifecycle import why_failed
from leftoff.engine.tracking import Found
from leftoff.errors import LeftoffError, Rewound, StoreUnavailable
from leftoff.host import Process, this_process, uptime
from leftoff.model.changes import Version
from leftoff.model.ids import shown_step, step_word, with_item
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import LIMIT_MS, MOST_OUTPUT, RunRow
from leftoff.workflow import drive_steps
from leftoff.workflow import process_groups as groups
from leftoff.workflow.actions import CHECKING, RUNNING, STARTING, LiveAttempt
from leftoff.workflow.attempt_folder import GRACE_S, LOG, AttemptFolder, LogFollower
from leftoff.workflow.commit_entries import (
    ApprovalsExpire,
    Checkpoint,
    Entry,
    OuterEnds,
    Page,
    RunSettles,
    context_of,
    records_of,
)
from leftoff.workflow.definition import StepDefinition, Workflow
from leftoff.workflow.reuse import Reuse
from leftoff.workflow.run_state import RunState
from leftoff.workflow.scheduler import Scheduler
from leftoff.workflow.shell_values import OWN_NAME
from leftoff.workflow.shim_client import Ended, Launcher, LostJob, Ready

Observer = Callable[[dict[str, Any]], None]
T = TypeVar("T")

LOOK = 0.5  # seconds between looks for a person's decision
STREAM = 0.1  # seconds between looks at logs that are shown
QUIET = 0.5  # seconds without a look at the processes: not every death is reported
LOST_TRIES = 3
ALONE_S = LIMIT_MS / 1000 * 0.75  # seconds without a heartbeat after which other machines may soon take over
MOST_LOOKED_AT = 200  # steps of people that are looked at; a later one is looked at again when it is due
_TRIGGERS = {signal.SIGINT: "user_interrupt", signal.SIGTERM: "session_end", signal.SIGHUP: "session_end"}


class Setting(NamedTuple):
    """Where and for whom a run is driven.

    ``redaction``: for the processes of steps. ``seen``: the `context` records of the run's issue as of now. ``tree``:
    the tracked files, for a checkpoint. ``reuse``: take steps from earlier runs.
    """

    store: SqlStore
    project: str
    redaction: Redaction
    redactor: Redactor
    clock: Clock
    observer: Observer
    store_url: str
    secrets: dict[str, str]
    seen: Callable[[], dict[str, Any]]
    tree: Callable[[RunRow], Found]
    most: int | None = None
    heartbeat: float = 30.0
    grace: float = GRACE_S
    who: str = "leftoff run"
    reuse: bool = False


def start_driver(
    setting: Setting, workflow: Workflow, opening: Opening, *, alone: Callable[[View], None] | None = None
) -> Driver:
    """Start a run of a workflow. The opening has the facts and the variables; the steps are added here.

    ``alone`` is called in the transaction that starts the run, and raises if it must not start.
    """
    at = setting.clock.now()
    opening.steps = [*records_of(workflow).items()]
    opening.context = {**opening.context, **context_of(workflow, setting.project)}
    changes, blobs = save_blobs(setting.store, opening_changes(opening, at, setting.redactor))

    def work(tx: Tx) -> tuple[Head, int]:
        if alone is not None:
            alone(tx)
        head, epoch, _ = start_in(tx, opening, changes, blobs, at, (this_process(), setting.who))
        assert epoch is not None
        return head, epoch

    head, epoch = setting.store.write(work)
    driver = Driver(setting, workflow, head, epoch, dict(opening.variables))
    driver.begin()
    return driver


class Driver:
    """Drives one run until nothing more can be done without a person."""

    def __init__(
        self, setting: Setting, workflow: Workflow, head: Head, epoch: int, overlay: dict[str, Any]
    ) -> None:
        self.setting = setting
        self.workflow = workflow
        self.store = setting.store
        self.clock = setting.clock
        self.redactor = setting.redactor
        self.run = head.run
        self.run_id = head.run_id
        self.epoch = epoch
        self.state = RunState(workflow, setting.project, setting.store, head.run, head.run_id)
        self.state.overlay = overlay
        self.scheduler = Scheduler(workflow, self.state.graph, setting.most)
        self.templates = self.state.templates
        self.reuse = Reuse(self.state, everything=setting.reuse)
        # Copied once: a look-up for each step costs more than its commit. Values of an outer step are left out.
        self.environ = {
            name: value for name, value in CALLER.environment().items() if not OWN_NAME.fullmatch(name)
        }
        self.attempts: dict[str, LiveAttempt] = {}  # by token; also by the token of the check that runs
        self.tries: dict[str, int] = {}  # failures of each unit under this driver
        self.decided: dict[str, bool] = {}  # results of the `when` of phases
        self.foreign = False  # others committed since this was last reset
        self.shared = False  # others have committed at some time
        self.signal: int | None = None  # that asked us to stop
        self._head = head
        self._guard = Guard(epoch)
        self._turn: list[Entry] = []
        self._batches_begun: set[int] = set()
        self._phase = ""  # the one that was entered last
        self._phases_entered: set[str] = set()
        self._signals: list[int] = []
        self._lost: dict[str, int] = {}
        self._told_agents: dict[str, set[Any]] = {}  # by step: what was reported of its agents
        self._next_beat = time.monotonic() + setting.heartbeat
        self._next_look = 0.0
        self._kill_at: float | None = None  # when processes that do not end are killed
        self._closed = False
        self._every: float | None = getattr(setting.observer, "every", None)  # how often it wants to draw
        self._streams = bool(getattr(setting.observer, "wants_output", False))
        self._fence = Fence(self._end_children)
        self.launcher = Launcher(setting.redaction)
        self._pipe = os.pipe()  # wakes the driver from a signal handler
        for fd in self._pipe:
            os.set_blocking(fd, False)

    def begin(self) -> None:
        """Prepare a new run, of which nothing is done yet."""
        self.state.load()
        self.scheduler.restore({})
        self.tell_start(resumed=False)

    def interrupt(self, number: int) -> None:
        """Take note of a signal. May be called from a signal handler, also after the end."""
        self._signals.append(number)
        if self._closed:
            return
        try:
            os.write(self._pipe[1], b"!")
        except BlockingIOError:
            pass

    def reattach(self, live: LiveAttempt) -> None:
        """Follow the process of an attempt that an earlier driver started."""
        assert live.process is not None
        self.attempts[live.token] = live
        timeout = live.step.timeout
        until = None if timeout is None else live.began + timeout + self.setting.grace
        self.launcher.watch(live.token, live.process, live.folder, until)
        if self._streams:
            live.follower = LogFollower(live.folder.file(LOG))

    def drive(self) -> int:
        """Drive the run to its end. Return the exit code of the command."""
        if self.store.shared:
            self._fence.start()
        try:
            while True:
                self._take_turn()
                if self._over:
                    return self._settle()
        except drive_steps.NOT_ITS_FAULT:
            self._end_children()
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Release everything but the lease."""
        self._closed = True
        self._fence.close()
        for fd in self._pipe:
            os.close(fd)
        self.launcher.close()

    def undecided(self) -> list[tuple[str, str]]:
        """Return the steps and items that failed under `on_failure: ask`, and why each did."""
        asking = {path for path, step in self.scheduler.steps.items() if step.on_failure == "ask"}
        found = []
        for path, record in self.state.steps.items():
            own = path in asking and "items" not in record
            item = "item" in record and any(path.startswith(f"{leaf}/") for leaf in asking)
            if record["status"] == "failed" and not record.get("allowed") and (own or item):
                found.append((path, why_failed(record)))
        return found

    # -- committing

    def add(self, entry: Entry) -> None:
        """Commit this with the turn."""
        self._turn.append(entry)

    def commit(self) -> None:
        """Commit the entries of the turn. Then report them, and do what depends on them."""
        turn, self._turn = self._turn, []
        if not turn:
            return
        versions = self.write(turn, durable=any(entry.durable for entry in turn))
        if self.foreign:  # a step's own process may have set some
            self.state.forget_variables()
        for entry, version in zip(turn, versions, strict=True):
            entry.after(self)
            if entry.tell is not None:
                self.tell(entry.tell[0], **entry.tell[1])
            if version is not None and version.trigger is not None:
                about = {"checkpoint_id": version.id, "trigger": version.trigger, "step": version.step}
                record = self.state.steps.get(version.step, {}) if version.step is not None else {}
                self.tell("checkpoint", **with_item(about, version.step, record))
        for folder in [entry.tidy for entry in turn if entry.tidy is not None]:
            _tidy(self.store, folder)

    def write(self, entries: list[Entry], *, durable: bool) -> list[Version | None]:
        """Commit each entry in order, in one transaction. Return the versions, None where nothing changed."""
        at, began = self.clock.now(), self._head.at

        def work(tx: Tx) -> list[Version | None]:
            if self._head.at != began:  # it was rolled back, and is tried again
                self._head = Head(self.run, self.run_id, *began)
            return [self._commit(tx, entry, at) for entry in entries]

        try:
            return self._known(lambda: self.store.write(work, durable=durable))
        except BaseException:
            self._head = Head(self.run, self.run_id, *began)
            raise

    def _commit(self, tx: Tx, entry: Entry, at: int) -> Version | None:
        """Write an entry. The next one of the transaction builds on what this one has learned of the rows."""
        page = Page(self.state, self.redactor, tx, at)
        seal = entry.write(page)
        if entry.also is not None:
            other = entry.also.write(page)
            seal = seal or other
        if seal is not None and seal.note:
            seal.note = self.redactor.mask(seal.note)
        changes, large = save_blobs(self.store, page.changes)
        head, terms = self._head, Terms(at, self._guard, seal=seal, blobs=page.blobs + large)
        done = commit_in(tx, head, changes, terms)
        if done is None:
            return None
        version, since, apply = done
        if since != head.seq:
            self.foreign = self.shared = True
        head.adopt(since, version.seq, apply.digest, apply)
        return version

    def _known(self, work: Callable[[], T]) -> T:
        """Do something with the store. If the store lacks what it acknowledged to us, mark the run."""
        try:
            return work()
        except Rewound as error:
            mark_rewound(self.store, error)
            raise

    def take(self, process: Process, judged: RunRow) -> None:
        """Take the run's lease under a new epoch. ``Moved`` if the run is not as it was judged."""

        def work(tx: Tx) -> tuple[Head, int]:
            need_unmoved(tx, judged)
            driver = (process, self.setting.who)
            epoch = lease.take(tx, self.run, self.run_id, driver, self.clock.now(), take_over=True)
            return Head.of(need_run(tx, self.run, self.run_id)), epoch

        self._head, self.epoch = self.store.write(work)
        self._guard = Guard(self.epoch)

    def roll_back(self) -> None:
        """Roll the run back to the version of the state, if that is not the head."""
        seq, self.state.seq = self.state.seq, None
        if seq is not None:
            rollback_to(self.store, self._head, seq, self.clock.now(), guard=self._guard)

    def _look_at_head(self) -> Any:
        """Return the head. Raise ``Rewound`` if it lacks what was acknowledged to us."""

        def look(view: View) -> Any:
            head = view.head(self.run)
            if head is not None:
                need_known(view, self._head, head[0], head[1])
            return head

        return self._known(lambda: self.store.read(look))

    # -- reporting

    def tell(self, event: str, **facts: Any) -> None:
        self.setting.observer({"event": event, "at": iso(self.clock.now()), **facts})

    def tell_start(self, *, resumed: bool) -> None:
        steps = {"total": len(self.state.graph.leaves)}
        self.tell("start", run_id=self.run_id, workflow=self.workflow.name, resumed=resumed, steps=steps)

    def tell_waiting(self) -> None:
        """Report what a resumed run still waits for."""
        state = self.state
        waiting = [path for path in state.graph.leaves if state.status(path) == "waiting"]
        asked = state.read("approval") if waiting else {}
        for path in waiting:
            instructions = state.steps[path].get("instructions") or ""
            facts = self.waiting_facts(self.scheduler.steps[path], asked.get(path), instructions)
            self.tell("waiting", **facts)

    def waiting_facts(
        self, step: StepDefinition, approval: dict[str, Any] | None, instructions: str
    ) -> dict[str, Any]:
        """Return what to report of a step that waits for a person, and how the person answers."""
        facts = {**self.step_facts(step, step.path), "kind": "approval" if approval else "manual"}
        if approval:
            facts.update({key: approval[key] for key in ("ask", "options", "deadline") if key in approval})
            return {**facts, "how": how(self.run_id, step.path, options=approval.get("options"))}
        command = f"leftoff step done {step_word(step.path)} --run {self.run_id}"
        return {**facts, "ask": instructions or step.title or step.path, "how": command}

    def step_facts(self, step: StepDefinition, unit: str) -> dict[str, Any]:
        record = self.state.steps.get(unit, {})
        facts = with_item({"step": unit, "title": record.get("title") or step.title or None}, unit, record)
        return {key: value for key, value in facts.items() if value is not None}

    def _show_output(self, live: LiveAttempt, *, last: bool = False) -> None:
        if live.follower is None:
            return
        while text := live.follower.read(last=last):
            self.tell("output", step=live.unit, text=text)
            if not last:
                break
        if last:
            live.follower.close()
            live.follower = None

    # -- what follows from the end of a step

    def follow(self, leaf: str, inner: list[tuple[str, str]]) -> None:
        """Record the phases and `foreach` that ended with a unit, and seal its batch if that is complete."""
        for path, status in inner:
            step = self.scheduler.steps[path]
            if step.kind == "phase":
                self.add(OuterEnds(path, status, "phase_transition", self.setting.seen()))
            else:
                seal = "step_complete" if status == "completed" and step.save else None
                told = ("step_done", {"step": path, "status": status})
                self.add(OuterEnds(path, status, seal, {}, tell=told))
        if self.scheduler.status[leaf] in ("completed", "skipped", "failed"):
            self.complete_batches([self.state.graph.level[leaf]], ())

    def leave_to_others(self, unit: str, leaf: str, status: str) -> None:
        """Leave a unit to somebody else, who works on it and will report how it ended."""
        message = f"{shown_step(unit)} is {status}: another process or person works on it."
        self.tell("warning", message=message, step=unit)
        if unit == leaf:
            self.scheduler.wait(leaf)
        else:
            self.scheduler.put_back(unit, leaf)

    def start_batch(self, leaf: str) -> None:
        """Seal the beginning of a batch, if this step is the first of several."""
        number = self.state.graph.level[leaf]
        if number not in self._batches_begun:
            self._batches_begun.add(number)
            self._seal_batch("batch_start", number)

    def complete_batches(self, numbers: Iterable[int], sealed: Collection[str | None]) -> None:
        """Seal the end of those batches of several steps that are complete. ``sealed``: notes of existing seals."""
        for number in sorted(numbers):
            if self.scheduler.batch_is_complete(number) and self._batch_note(number) not in sealed:
                self._seal_batch("batch_complete", number)

    def _batch_note(self, number: int) -> str:
        return f"batch {number + 1} of {len(self.scheduler.batches)}"

    def _seal_batch(self, trigger: str, number: int) -> None:
        batches = self.scheduler.batches
        if len(batches[number]) > 1:
            facts = {"batch": number + 1, "of": len(batches), "steps": batches[number]}
            self.add(Checkpoint(trigger, self._batch_note(number), tell=(trigger, facts)))

    def restore_batches(self) -> None:
        """Remember the batches that began under an earlier driver."""
        for path in self.state.graph.leaves:
            if self.state.steps.get(path, {}).get("started_at"):
                self._batches_begun.add(self.state.graph.level[path])

    def enter_phase(self, leaf: str) -> tuple[str, str] | None:
        """Return the phase before and the phase that begins with this step; None if none begins."""
        phase = leaf.partition("/")[0] if "/" in leaf else ""
        if not phase or phase in self._phases_entered or self.state.steps[phase].get("started_at"):
            return None
        self._phases_entered.add(phase)
        before, self._phase = self._phase, phase
        return before, phase

    # -- one turn

    @property
    def _over(self) -> bool:
        return self.scheduler.over and not self.attempts

    def _take_turn(self) -> None:
        if self._fence.fell:
            raise StoreUnavailable(
                f"{self.store.name} has not heard of this driver for too long: its steps were stopped.",
                hint=f"`leftoff resume {self.run_id}` continues.",
            )
        drive_steps.begin_due(self)
        for ready in self.launcher.known():
            self._launched(ready)
        self.commit()
        if self.scheduler.halted is not None:
            self._stop_all(f"{shown_step(self.scheduler.halted)} failed")
        if self._over:
            return
        self._wait()
        signals, self._signals = self._signals, []
        for number in signals:
            self._heed(number)
        for event in self.launcher.events(0):
            self._launched(event)
        self._look_at_clock()
        if not self._over:  # else it is committed together with the end of the run
            self.commit()
        if self._every is not None:
            self.setting.observer.tick()  # type: ignore[attr-defined]

    def _wait(self) -> None:
        """Wait until something happens or a time is due."""
        now = time.monotonic()
        waits = bool(self.scheduler.of("waiting") or self._agent_steps())
        times = [self._next_beat, now + QUIET, self.scheduler.next_time(), self._kill_at]
        times.append(self._next_look if waits else None)
        times.append(now + STREAM if self._streams else None)
        times.append(now + self._every if self._every is not None else None)
        poll = select.poll()
        for fd in (self._pipe[0], self.launcher.fileno()):
            poll.register(fd, select.POLLIN)
        found = poll.poll(1000 * max(0.0, min(due for due in times if due is not None) - now))
        for fd, _ in found:
            if fd == self._pipe[0]:
                os.read(fd, 4096)

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + self.setting.heartbeat
            self._beat()
        if self.foreign or (now >= self._next_look and (self.scheduler.of("waiting") or self._agent_steps())):
            self._next_look = now + LOOK
            self._look_at_people()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._kill_all()
        if self._streams:
            for live in self.attempts.values():
                self._show_output(live)

    def _beat(self) -> None:
        """Renew the lease. On this machine a missed heartbeat does no harm, since this process can be seen to live.

        Other machines depend on heartbeats. Before one of them may take over, this driver stops what it started.
        """
        sent = self._fence.now()
        try:
            self._renew()
            self._fence.heard(sent)
        except StoreUnavailable:
            if self.store.shared and self._fence.is_alone():
                raise

    def _renew(self) -> None:
        lease.renew_lease(self.store, self.run, self.run_id, self.epoch, self.clock.now())
        if self.store.shared:
            self._look_at_head()

    # -- processes

    def _launched(self, event: Ready | Ended | LostJob) -> None:
        live = self.attempts.get(event.token)
        if live is None:
            if isinstance(event, Ready):
                self.launcher.drop(event.token)
        elif isinstance(event, Ready):
            self._ready(live, event)
        else:
            self._show_output(live, last=True)
            if isinstance(event, Ended):
                drive_steps.ended(self, live, event.exit)
            else:
                self._was_lost(live, event)

    def _ready(self, live: LiveAttempt, event: Ready) -> None:
        if live.phase == CHECKING:  # a check changes nothing, so it is not recorded
            live.checker = event.process
            self.launcher.go(event.token)
            if live.stopped is not None:
                self._terminate(live)
        elif live.stopped is not None:
            self.launcher.drop(event.token)
            self._never_mind(live)
        else:
            drive_steps.ready(self, event.token, event.process)
            if self._streams:
                live.follower = LogFollower(live.folder.file(LOG))

    def _never_mind(self, live: LiveAttempt) -> None:
        """Put back an attempt of which nothing is recorded."""
        self.attempts.pop(live.token, None)
        self.scheduler.put_back(live.unit, live.leaf)
        live.folder.remove()

    def _was_lost(self, live: LiveAttempt, lost: LostJob) -> None:
        """The shim died, and nothing of the attempt runs. Start it again if nothing had begun."""
        tries = self._lost[live.unit] = self._lost.get(live.unit, 0) + 1
        more = tries < LOST_TRIES and live.stopped is None
        if live.phase == CHECKING:
            self.attempts.pop(lost.token, None)
            if live.stopped is not None:
                drive_steps.stopped(self, live)
            elif more:
                drive_steps.check_next(self, live)
            else:
                message = f"Its checks could not be run: {lost.why}."
                drive_steps.failed(self, live, {"type": "check", "message": message}, 0, retry=False)
        elif live.phase == RUNNING:
            exit = live.folder.exit()
            if exit is not None:
                drive_steps.ended(self, live, exit)
            else:
                drive_steps.lost(self, live, may_forget=more)
        elif more:
            self._never_mind(live)
            self.scheduler.later(live.unit, live.leaf, time.monotonic())
        else:
            message = f"Its process could not be started: {lost.why}."
            drive_steps.failed(self, live, {"type": "not_started", "message": message}, None)

    # -- people

    def _look_at_people(self) -> None:
        """Take in what others committed on steps that this driver does not execute right now."""
        self.expire_approvals()
        try:
            if not self._moved():
                return
        except StoreUnavailable:  # the next commit notices
            return
        state, scheduler = self.state, self.scheduler
        state.forget_variables()
        theirs = ("waiting", "blocked", "pending")  # steps about which others may report
        paths = [path for status in theirs for path in scheduler.of(status)][:MOST_LOOKED_AT]

        agents = self._agent_steps()
        paths += agents

        def look(view: View) -> dict[str, dict[str, Any]]:
            reader = state.reader(view)
            found = {path: reader.value("step", path) for path in paths}
            return {path: dict(value.plain) for path, value in found.items() if value is not None}

        for path, record in (self.store.read(look) if paths else {}).items():
            status = str(record.get("status"))
            if path in agents:
                self._tell_agent(agents[path], path, record.get("session"))
            elif status != scheduler.status[path] and state.steps.get(path) != record:
                state.steps[path] = record
                self._was_decided(path, status, record)

    def _agent_steps(self) -> dict[str, StepDefinition]:
        return {live.unit: live.step for live in self.attempts.values() if live.step.kind == "agent"}

    def _tell_agent(self, step: StepDefinition, path: str, about: Any) -> None:
        """Report that the agent of a running step waits for its service, or that another one took over."""
        if not isinstance(about, dict):
            return
        facts, changes = self.step_facts(step, path), about.get("before")
        told = self._told_agents.setdefault(path, set())
        for number, one in enumerate(changes if isinstance(changes, list) else ()):
            if number not in told:
                told.add(number)
                self.tell(
                    "agent_changed",
                    **facts,
                    agent=about.get("agent"),
                    why=one["why"],
                    **{"from": one["agent"]},
                )
        until = about.get("waits_until")
        if until and until not in told:
            told.add(until)
            self.tell(
                "agent_waits", **facts, agent=about.get("agent"), why=about.get("waits_for"), until=until
            )

    def _was_decided(self, path: str, status: str, record: dict[str, Any]) -> None:
        facts = self.step_facts(self.scheduler.steps[path], path)
        if status in ("completed", "skipped"):
            result = record.get("result")
            chosen = isinstance(result, dict) and "choice" in result
            why = f"decided: {result['choice']}" if chosen else "it was reported"  # type: ignore[index]
            self.tell("step_done" if status == "completed" else "step_skipped", **facts, why=why)
        elif status == "failed":
            self.tell("step_failed", **facts, error=record.get("error"), tail="", will_retry_in=None)
        else:
            if status != "pending":  # somebody works on it, and will report how it ended
                self.scheduler.status[path] = status if status in ("waiting", "blocked") else "waiting"
            return
        self.follow(path, self.scheduler.ended(path, path, status))

    def _moved(self) -> bool:
        """Return whether others committed since the last look."""
        head = self._look_at_head()
        moved = head is not None and head[0] != self._head.seq
        if moved:
            self._head.adopt(-1, head[0], int.from_bytes(head[1], "big"), None)
            self.shared = True
        told, self.foreign = moved or self.foreign, False
        return told

    def expire_approvals(self) -> None:
        """Reject approvals whose deadline has passed."""
        now, state = self.clock.now(), self.state
        waiting = [path for path in state.graph.leaves if state.status(path) == "waiting"]
        deadlines = (millis(state.steps[path].get("waits_until")) for path in waiting)
        if any(until is not None and now > until for until in deadlines):
            self.add(ApprovalsExpire(state))
            self.commit()
            self.foreign = True  # the step's record has changed

    # -- stopping

    def _heed(self, number: int) -> None:
        """End everything in order on the first signal, at once on the second."""
        if self.signal is not None:
            self._kill_all()
            return
        self.signal = number
        self.scheduler.halted = self.scheduler.halted or ""
        name = signal.Signals(number).name
        self.tell("interrupt", signal=name, grace=self.setting.grace)
        self._stop_all(f"interrupted by {name}")

    def _stop_all(self, why: str) -> None:
        """Ask every process to end. Those that do not are killed after the grace period."""
        for token, live in [*self.attempts.items()]:
            if live.stopped is not None:
                continue
            live.stopped = why
            if live.phase == STARTING:
                self.launcher.drop(token)
                self._never_mind(live)
            else:
                self._terminate(live)

    def _terminate(self, live: LiveAttempt) -> None:
        if live.running is not None:
            groups.terminate(live.running)
            self._kill_at = time.monotonic() + self.setting.grace

    def _kill_all(self) -> None:
        for live in [*self.attempts.values()]:
            if live.running is not None:
                groups.kill(live.running)

    def _end_children(self) -> None:
        """End all processes without a commit, since the store cannot be reached.

        The fence calls this in its thread, since the driver may hang in the store.
        """
        running = [live.running for live in [*self.attempts.values()]]
        try:
            groups.end_processes([process for process in running if process is not None], self.setting.grace)
        except (LeftoffError, OSError):
            pass

    # -- the end

    def _settle(self) -> int:
        """Commit the run's status, with a checkpoint if it was interrupted. Return the exit code."""
        seal = None
        git = git_head(self.setting.project), dirty_paths(self.setting.project)
        if self.signal is not None:
            number = signal.Signals(self.signal)
            seal = Seal(_TRIGGERS.get(number, "session_end"), note=f"interrupted by {number.name}")
        end = RunSettles(self, git, seal)
        if seal is None and self._turn:  # two seals are two checkpoints
            self._turn[-1].also = end
            self._turn[-1].durable = True
        else:
            self.add(end)
        self.commit()
        self.store.write(lambda tx: lease.free(tx, self.run, self.epoch))
        return self.outcome()[1]

    def open_outer(self) -> dict[str, str]:
        """Return the phases and `foreach` that did not end, with the status that they are left with."""
        state = self.state
        return {
            path: "failed"
            if any(state.outcome(b) == "failed" for b in state.at_or_below(path))
            else "pending"
            for path, step in self.scheduler.steps.items()
            if (step.kind == "phase" or step.foreach) and state.status(path) == "running"
        }

    def outcome(self) -> tuple[str, int]:
        """Return the run's status and the exit code."""
        state, leaves = self.state, self.state.graph.leaves
        steps = {state.outcome(path) for leaf in leaves for path in state.at_or_below(leaf)}
        if self.signal is not None:
            return "paused", 130
        if "failed" in steps and not {"waiting", "blocked"} & steps:
            return "failed", 1
        if "blocked" in steps:
            return "blocked", 7
        if steps <= {"completed", "skipped"}:
            return "completed", 0
        if self.scheduler.only is not None and not {"waiting", "running"} & steps:
            return "paused", 0  # the steps that were asked for are done
        return "paused", 7


class Fence:
    """Stops a driver that the store does not hear, before another machine may take over its run.

    The driver itself may hang in the very store that does not answer. So a thread looks at a clock that cannot be set
    and that counts the time in which the machine sleeps. It calls ``end`` once.
    """

    def __init__(
        self, end: Callable[[], None], alone: float = ALONE_S, now: Callable[[], float] | None = None
    ) -> None:
        self.now = now or (lambda: uptime() / 1000)
        self.fell = False
        self._end = end
        self._alone = alone
        self._heard = self.now()
        self._closed = Event()

    def start(self) -> None:
        Thread(target=self._watch, daemon=True).start()

    def heard(self, sent: float) -> None:
        """Take note that a heartbeat sent at this time has arrived."""
        self._heard = sent

    def is_alone(self) -> bool:
        return self.now() - self._heard > self._alone

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, max(0.01, self._heard + self._alone - self.now()))):
            if self.is_alone():
                self.fell = True
                self._end()
                return


def _tidy(store: SqlStore, folder: AttemptFolder) -> None:
    """Remove what an attempt left, whose end was committed. Of a store that machines share, save a long log."""
    path = folder.file(LOG)
    try:
        if store.shared and os.path.exists(path) and os.path.getsize(path) > MOST_OUTPUT:
            with open(path, "rb") as file:
                whole = store.save_blob(iter(lambda: file.read(1 << 18), b""))
            store.write(lambda tx: tx.keep_log(folder.name, None, whole))
        folder.tidy()
    except (OSError, LeftoffError):
        pass  # the log is still there, and goes with the run
