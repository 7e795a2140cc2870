"""The driver: one thread that feeds the scheduler with what happens and does what it says is due.

A turn is: wait for something (a process ended, a shim is ready, a retry is due, a signal came, a person decided), work
out what it means, commit all of it in one transaction, then begin what has become possible. Nothing is told and no
process is let go before what it depends on is committed.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from typing import TYPE_CHECKING

from leftoff.engine.config.git_head import git_head
from leftoff.engine.workspace.git import dirty_paths
from leftoff.engine.write.commit import Seal
from leftoff.errors import LeftoffError, StoreUnavailable
from leftoff.host import GONE
from leftoff.model.ids import shown_step, step_word
from leftoff.store.watch import NO_FILE
from leftoff.workflow.processes import groups
from leftoff.workflow.processes.attempt_folder import LOG, LogFollower
from leftoff.workflow.processes.client import Ended, Lost, Ready
from leftoff.workflow.run import begin, finish
from leftoff.workflow.run.fence import Fence
from leftoff.workflow.run.people import Ear, look_at_people
from leftoff.workflow.run.unit import CHECKING, RUNNING, STARTING

if TYPE_CHECKING:
    from leftoff.workflow.run.ledger import Page
    from leftoff.workflow.run.turn import ActiveRun
    from leftoff.workflow.run.unit import LiveAttempt

LOOK = 0.5  # seconds between looks for a person's decision
STREAM = 0.1  # seconds between looks at logs that somebody watches
LOST_TRIES = 3
SHOWN_AT_END = 1 << 16  # bytes of what a step printed faster than it could be shown
UNTIDY = 8  # folders of ended attempts that may wait to be removed
QUIET = 1.0  # seconds without a look at the processes: not every death is told

_TRIGGERS = {signal.SIGINT: "user_interrupt", signal.SIGTERM: "session_end", signal.SIGHUP: "session_end"}


class Driver:
    """Drives one run until nothing more can be done in this life of it."""

    def __init__(self, active: ActiveRun, *, heartbeat: float = 30.0) -> None:
        self.active = active
        self.heartbeat = heartbeat
        self.signal: int | None = None  # that asked us to stop
        self._signals: list[int] = []
        self._lost: dict[str, int] = {}
        self._next_beat = active.monotonic() + heartbeat
        self._fence = Fence(self._fall_silent)
        self._next_look = 0.0
        self._kill_at: float | None = None  # when those that do not end are killed
        self._selector = selectors.DefaultSelector()
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        self._selector.register(self._pipe[0], selectors.EVENT_READ, None)
        self._fds = {"launcher": NO_FILE, "people": NO_FILE}  # what is listened to besides
        self._ear = Ear(active)
        self._watched: dict[str, groups.Watch] = {}
        self._closed = False
        self._every: float | None = getattr(active.observer, "every", None)  # how often it wants to draw

    # -- from outside

    def interrupt(self, number: int) -> None:
        """A signal came. May be called from a signal handler, also when everything is over."""
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
        self.active.attempts[live.token] = live
        watch = self._watched[live.token] = groups.Watch(live.process, live.folder)
        fd = watch.fileno()
        if fd is not None:
            self._selector.register(fd, selectors.EVENT_READ, None)
        if self._streams:
            live.follower = LogFollower(live.folder.file(LOG))

    def drive(self) -> int:
        """Until the end; the exit code of the command."""
        if self.active.ledger.store.shared:
            self._fence.start()
        try:
            while True:
                self._turn()
                if self._over:
                    return self._settle()
        except finish.NOT_ITS_FAULT:
            self._end_children("the run cannot be recorded any more")
            raise
        finally:
            self.close()

    @property
    def _over(self) -> bool:
        return self.active.scheduler.over and not self.active.attempts

    # -- one turn

    def _turn(self) -> None:
        active = self.active
        if self._fence.fell:
            raise StoreUnavailable(
                f"{active.ledger.store.name} has not heard of this driver for too long: its steps were stopped.",
                hint=f"`leftoff resume {active.ledger.run_id}` goes on.",
            )
        begin.begin_due(active)
        for ready in active.launcher.known():
            self._launched(ready)
        active.close()
        active.tidy_up(UNTIDY)
        if active.scheduler.halted is not None:
            self._stop_all(f"{shown_step(active.scheduler.halted)} failed")
        if self._over:
            return
        if not self._wait():
            active.tidy_up()
        for number in self._take_signals():
            self._heed(number)
        for event in active.launcher.events(0):
            self._launched(event)
        self._look_at_watched()
        self._look_at_clock()
        if not self._over:  # else the last commit says so, too
            active.close()
        if self._every is not None:
            active.observer.tick()  # type: ignore[attr-defined]

    def _wait(self) -> bool:
        """Until something happens; whether it did before it was time to look around."""
        now = self.active.monotonic()
        times = [self._next_beat, now + QUIET]
        due = self.active.scheduler.next_time()
        if due is not None:
            times.append(due)
        if self._kill_at is not None:
            times.append(self._kill_at)
        waiting = self.active.scheduler.of("waiting")
        if waiting:
            times.append(self._next_look)
        if self._streams:
            times.append(now + STREAM)
        if self._every is not None:
            times.append(now + self._every)
        if self._watched:
            times.append(now + LOOK)
        self._listen_to("launcher", self.active.launcher.fileno())
        self._listen_to("people", self._ear.fileno() if waiting else NO_FILE)
        found = self._selector.select(max(0.0, min(times) - now))
        for key, _ in found:
            if key.fd == self._pipe[0]:
                _drain(self._pipe[0])
            elif key.fd == self._fds["people"]:
                self._next_look = 0.0
            elif key.fd != self._fds["launcher"]:
                # A shim that is watched has ended; what it left is looked for in time.
                self._selector.unregister(key.fd)
        return bool(found)

    def _listen_to(self, whom: str, fd: int) -> None:
        """It may be another one than before, and its number one that somebody had before."""
        before = self._fds[whom]
        if fd == before:
            return
        for old in {before, fd} - {NO_FILE}:
            try:
                self._selector.unregister(old)
            except (KeyError, ValueError):
                pass
        if fd != NO_FILE:
            self._selector.register(fd, selectors.EVENT_READ, None)
        self._fds[whom] = fd

    # -- processes

    def _launched(self, event: Ready | Ended | Lost) -> None:
        live = self.active.attempts.get(event.token)
        if live is None:
            if isinstance(event, Ready):
                self.active.launcher.drop(event.token)
        elif isinstance(event, Ready):
            self._ready(live, event)
        elif isinstance(event, Ended):
            self._show_output(live, last=True)
            finish.ended(self.active, live, event.exit)
        else:
            self._was_lost(live, event)

    def _ready(self, live: LiveAttempt, event: Ready) -> None:
        if live.phase == CHECKING:  # only what changes the world is put on record
            live.checker = event.process
            groups.note_checker(finish.check_names(live)[1], event.process)
            self.active.launcher.go(event.token)
            if live.stopped is not None:
                self._terminate(live)
        elif live.stopped is not None:
            self.active.launcher.drop(event.token)
            self._never_mind(live)
        else:
            begin.ready(self.active, event.token, event.process)
            if self._streams:
                live.follower = LogFollower(live.folder.file(LOG))

    def _never_mind(self, live: LiveAttempt) -> None:
        """It was to start, and nothing of it is on record."""
        self.active.attempts.pop(live.token, None)
        self.active.scheduler.put_back(live.unit, live.leaf)
        live.folder.remove()

    def _was_lost(self, live: LiveAttempt, lost: Lost) -> None:
        """Its shim ended without a word, and nothing of it runs: where nothing had begun, once more."""
        exit = live.folder.exit() if live.phase == RUNNING else None
        tries = self._lost[live.unit] = self._lost.get(live.unit, 0) + 1
        more = tries < LOST_TRIES and live.stopped is None
        message = f"Its process could not be started: {lost.why}."
        if live.phase == CHECKING:
            self._check_was_lost(live, lost, more=more)
        elif exit is not None:
            finish.ended(self.active, live, exit)
        elif live.stopped is not None and live.phase == RUNNING:
            finish.stopped(self.active, live)
        elif live.phase == RUNNING and (live.folder.began() or not more):
            finish.killed(self.active, live)
        elif live.phase == RUNNING:
            finish.never_began(self.active, live)
        elif more:
            self._never_mind(live)
            self.active.scheduler.later(live.unit, live.leaf, self.active.monotonic())
        else:
            finish.failed(self.active, live, {"type": "not_started", "message": message}, None)

    def _check_was_lost(self, live: LiveAttempt, lost: Lost, *, more: bool) -> None:
        """A check only looks: it can be run again. That it cannot be run says nothing of the step."""
        self.active.attempts.pop(lost.token, None)
        if live.stopped is not None:
            finish.stopped(self.active, live)
        elif more:
            finish.check_again(self.active, live)
        else:
            message = f"Its checks could not be run: {lost.why}."
            finish.failed(self.active, live, {"type": "check", "message": message}, 0, retry=False)

    def _look_at_watched(self) -> None:
        for token, watch in [*self._watched.items()]:
            live = self.active.attempts.get(token)
            if not watch.ended():
                if live is not None and self._is_late(live):
                    groups.kill(watch.process)
                continue
            del self._watched[token]
            self._forget_watch(watch)
            if live is None:
                continue
            self._show_output(live, last=True)
            exit = watch.exit()
            if exit is not None:
                finish.ended(self.active, live, exit)
            elif live.stopped is not None:
                finish.stopped(self.active, live)
            elif not live.folder.began():
                finish.never_began(self.active, live)
            else:
                finish.killed(self.active, live)

    def _forget_watch(self, watch: groups.Watch) -> None:
        fd = watch.fileno()
        if fd is not None and fd in self._selector.get_map():
            self._selector.unregister(fd)
        watch.close()

    def _is_late(self, live: LiveAttempt) -> bool:
        """Whether an attempt has lost its shim, which would have ended it in time."""
        limit, process = live.step.timeout, live.process
        if limit is None or process is None or process.state() != GONE:
            return False
        return self.active.monotonic() > live.began + limit + self.active.grace

    # -- what must not be waited for

    def _look_at_clock(self) -> None:
        active, now = self.active, self.active.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + self.heartbeat
            self._beat()
        if active.ledger.foreign or (now >= self._next_look and active.scheduler.of("waiting")):
            self._next_look = now + LOOK
            look_at_people(active, heard=active.ledger.foreign or self._ear.hears())
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._kill_all()
        if self._streams:
            for live in active.attempts.values():
                self._show_output(live)

    def _beat(self) -> None:
        """One that cannot be written is no loss where this process can be seen to live: what matters is committed.

        Other machines go by beats. Before one of them may follow us, we stop what we started.
        """
        sent = self._fence.now()
        try:
            self.active.ledger.beat()
            self._fence.heard(sent)
        except StoreUnavailable:
            if self.active.ledger.store.shared and self._fence.is_alone():
                raise

    def _fall_silent(self) -> None:
        """In a thread: end what we started, whatever we are waiting for meanwhile."""
        for end in (groups.terminate, groups.kill):
            for live in [*self.active.attempts.values()]:
                if live.running is not None:
                    end(live.running)
            time.sleep(self.active.grace if end is groups.terminate else 0)

    @property
    def _streams(self) -> bool:
        return bool(getattr(self.active.observer, "wants_output", False))

    def _show_output(self, live: LiveAttempt, *, last: bool = False) -> None:
        if live.follower is None:
            return
        if last:
            unseen = live.follower.skip(SHOWN_AT_END)
            if unseen:
                words = f"{self.active.ledger.run_id} {step_word(live.unit)}"
                told = f"… {unseen} bytes are not shown here: leftoff logs {words}\n"
                self.active.tell("output", step=live.unit, text=told)
        text = live.follower.read(last=last)
        if text:
            self.active.tell("output", step=live.unit, text=text)

    # -- stopping

    def _take_signals(self) -> list[int]:
        taken, self._signals = self._signals, []
        return taken

    def _heed(self, number: int) -> None:
        """The first signal ends everything in order, the second at once."""
        if self.signal is not None:
            self._kill_all()
            return
        self.signal = number
        self.active.scheduler.halted = self.active.scheduler.halted or ""
        name = signal.Signals(number).name
        self.active.tell("interrupt", signal=name, grace=self.active.grace)
        self._stop_all(f"interrupted by {name}")

    def _stop_all(self, why: str) -> None:
        """Tell every process to end; those that do not are killed after the grace."""
        for token, live in [*self.active.attempts.items()]:
            if live.stopped is not None:
                continue
            live.stopped = why
            if live.phase == STARTING:
                self.active.launcher.drop(token)
                self._never_mind(live)
            else:
                self._terminate(live)

    def _terminate(self, live: LiveAttempt) -> None:
        if live.running is not None:
            groups.terminate(live.running)
            self._kill_at = self.active.monotonic() + self.active.grace

    def _kill_all(self) -> None:
        for live in [*self.active.attempts.values()]:
            if live.running is not None:
                groups.kill(live.running)

    def _end_children(self, why: str) -> None:
        """Without a word to the store, which does not hear us."""
        try:
            self._stop_all(why)
            deadline = self.active.monotonic() + self.active.grace
            while self.active.attempts and self.active.monotonic() < deadline:
                for token, live in [*self.active.attempts.items()]:
                    if live.running is None or not groups.alive(live.running):
                        self.active.attempts.pop(token)
                time.sleep(0.05)
            self._kill_all()
        except (LeftoffError, OSError):
            pass

    # -- the end

    def _settle(self) -> int:
        """What this life of the run came to: its status, a checkpoint where it was interrupted, the exit code."""
        active = self.active
        seal = None
        git = git_head(active.project), dirty_paths(active.project)
        if self.signal is not None:
            trigger = _TRIGGERS.get(signal.Signals(self.signal), "session_end")
            seal = Seal(trigger, note=f"interrupted by {signal.Signals(self.signal).name}")

        def entry(page: Page) -> Seal | None:  # in the transaction the ends of the last steps are known
            return active.entries.settle(self._outcome()[0], git, seal, self._open_outer())(page)

        active.add(entry) if seal else active.amend(entry)  # two seals are two checkpoints
        active.close()
        active.ledger.release()
        active.tidied()
        return self._outcome()[1]

    def _open_outer(self) -> dict[str, str]:
        """What contains steps and did not end, with the status that it is left with."""
        return {
            path: "failed" if self._any_failed(path) else "pending"
            for path, step in self.active.scheduler.steps.items()
            if (step.kind == "phase" or step.foreach) and self.active.state.status(path) == "running"
        }

    def _any_failed(self, path: str) -> bool:
        return any(
            self.active.state.status(below) == "failed" for below in self.active.state.at_or_below(path)
        )

    def _outcome(self) -> tuple[str, int]:
        state, scheduler = self.active.state, self.active.scheduler
        steps = [state.status(path) for leaf in scheduler.graph.leaves for path in state.at_or_below(leaf)]
        if self.signal is not None:
            return "paused", 130
        if "failed" in steps and not {"waiting", "blocked"} & set(steps):
            return "failed", 1
        if "blocked" in steps:
            return "blocked", 7
        if set(steps) <= {"completed", "skipped"}:
            return "completed", 0
        if scheduler.only is not None and not {"waiting", "running"} & set(steps):
            return "paused", 0  # what was asked for is done; the rest was not asked for
        return "paused", 7

    def close(self) -> None:
        self._closed = True
        for watch in self._watched.values():
            watch.close()
        self._ear.close()
        self._fence.close()
        self._selector.close()
        for fd in self._pipe:
            os.close(fd)
        self.active.launcher.close()


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for fd in ends:
        os.set_blocking(fd, False)
    return ends


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass
