"""Record hook events: put each into the spool, and drain the spool into the runs of their sessions.

A hook spools its event and drains for at most half a second. A command drains before it reads the store. See
`engine/spool.py` for why no event is lost or recorded twice.
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from leftoff.agents.agent_session import AgentSession, process_of
from leftoff.agents.hook_events import HookEvent, log_error
from leftoff.agents.session_recording import EVENTS, record_event
from leftoff.engine.git import git_head
from leftoff.engine.project import Project, in_git
from leftoff.engine.quoting import both_ends
from leftoff.engine.sessions import Who
from leftoff.engine.spool import Spool
from leftoff.engine.tracking import Peeked, edited_paths, peek
from leftoff.errors import BadSettings, Corrupt, LeftoffError, NeedsPerson, StoreUnavailable, Unsupported
from leftoff.files import failure
from leftoff.host import GONE, Process, this_process
from leftoff.model.codec import sha256

_COMMAND_S, _LOCK_S = 10.0, 2.0  # seconds that a command drains, and waits for another process that drains
_LEAST_S = 0.05  # seconds that the store is waited for at least
_LONGEST = 20_000  # characters of a text
_TURN = ("UserPromptSubmit", "Stop", "StopFailure")  # the commit that is checked out tells what the turn did


class HookCaller(NamedTuple):
    """Who called a hook: the agent's process, and the run and branch in its environment. ``driven``: the agent does a
    step of a run that a runner drives."""

    process: Process | None
    run: str | None
    branch: str
    driven: bool


class Delivery(NamedTuple):
    """One event as its hook delivers it. ``anywhere``: by the user's hook file, in every folder. ``callers``: whose
    session it may be; there are several only for Codex, whose daemon serves all terminals."""

    event: HookEvent
    source: bytes
    agent: str
    anywhere: bool
    callers: list[HookCaller]


# -- into the spool


def put_event(project: Project, folder: str, delivery: Delivery) -> str:
    """Write an event to the spool and return its name; empty if it is not worth a store where there is none.

    ``folder``: the store's. The files that a tool is about to edit are stored with the event.
    """
    event = delivery.event
    may_make = event.is_work and (not delivery.anywhere or in_git(project.folder))
    if event.name not in EVENTS or not (os.path.isdir(folder) or project.store.shared or may_make):
        return ""
    about, peeked = _describe(project, delivery), list[Peeked]()
    if event.name == "PreToolUse":
        peeked = peek(project.workspace(project.at), edited_paths(project.folder, event.paths()))
        if not peeked:
            return ""
        about["files"] = [[one.path, one.about] for one in peeked]
    if event.asks_to_continue:  # its hook answers it first
        own = this_process()
        about["answered_by"] = [own.scope, own.pid, own.started]
    try:
        return Spool(folder).put(about, [one.data for one in peeked])
    except OSError as error:
        raise failure(error, folder) from None


def _describe(project: Project, delivery: Delivery) -> dict[str, Any]:
    """Return an event as the spool stores it, without secrets."""
    event, redactor = delivery.event, project.redactor

    def fit(value: Any) -> Any:
        if isinstance(value, str):
            return both_ends(redactor.mask(value.encode("utf-8", "replace").decode()), _LONGEST)
        if isinstance(value, list):
            return [fit(each) for each in value]
        if isinstance(value, dict):
            return {fit(key): fit(each) for key, each in value.items()}
        return value

    callers = [[_identity(one.process), *one[1:]] for one in delivery.callers]
    return {
        "agent": delivery.agent,
        "session": event.session,
        "hooks": "user" if delivery.anywhere else "project",
        "digest": sha256(delivery.source).hexdigest()[:16],
        "project": project.folder,
        "at": project.at,
        "head": git_head(project.folder) if event.name in _TURN else None,
        "callers": callers,
        "data": redactor.scrub("event", fit(event.stored()))[0],
    }


def _identity(process: Process | None) -> list[Any] | None:
    return [process.scope, process.pid, process.started] if process is not None else None


def _session(
    project: Project, about: dict[str, Any], name: str, peeked: list[Peeked] | None = None
) -> AgentSession:
    """Return the session of an event, as ``_describe`` returned it."""
    callers = [
        HookCaller(Process(*one[0]) if one[0] is not None else None, *one[1:]) for one in about["callers"]
    ]
    caller = callers[0]
    if len(callers) > 1:
        own = process_of(
            project, about["session"], [one.process for one in callers if one.process is not None]
        )
        caller = next(one for one in callers if one.process == own)
    who = Who(about["session"], about["agent"], caller.process, caller.run, event=name)
    session = AgentSession(
        project, who, caller.branch, driven=caller.driven, anywhere=about["hooks"] == "user"
    )
    session.head, session.peeked = about["head"], peeked or []
    return session


# -- out of the spool


def settle(
    project: Project, folder: str, delivery: Delivery, name: str, seconds: float
) -> AgentSession | None:
    """Drain for an event that its hook answers. Return its session; ``None`` if the other hook file delivered the event
    first. ``name``: of the event, if it is in the spool."""
    spool, about = Spool(folder), _describe(project, delivery)
    done = drain(project, folder, seconds, wait=seconds, own=name or spool.new_name(), pairing=about)
    if done.is_repeat:
        spool.remove(name) if name else None
        return None
    session = _session(project, about, name)
    session.deadline = time.monotonic() + seconds
    return session


def forget_unused(project: Project, folder: str) -> None:
    """Delete the spool of a folder in which no event made a store."""
    try:
        if not project.store.shared and not project.store.exists():
            Spool(folder).forget()
    except LeftoffError:  # a store that is damaged
        pass


class Drained(NamedTuple):
    """What became of a hook's own event. ``fault``: why it still waits. ``is_repeat``: the other hook file delivered it
    first."""

    fault: LeftoffError | None = None
    is_repeat: bool = False


def drain_before_reading(project: Project, folder: str) -> None:
    """Drain the spool for a command that is about to read the store. What cannot be recorded now waits."""
    if Spool(folder).names():
        drain(project, folder, _COMMAND_S, wait=_LOCK_S)


def drain(
    project: Project,
    folder: str,
    seconds: float,
    *,
    wait: float = 0,
    own: str = "",
    leaves: bool = False,
    pairing: dict[str, Any] | None = None,
) -> Drained:
    """Record the waiting events in their order, for so many seconds at most.

    ``folder``: the store's. ``wait``: seconds to wait for another process that drains; 0: leave the events to it.
    ``own``: the event of this hook. ``leaves``: its agent may continue before it is recorded. ``pairing``: the event,
    if its hook is to answer it first: then it is not recorded, only compared with that of the other hook file.
    """
    spool, store, end = Spool(folder), project.store, time.monotonic() + seconds
    patience = store.patience
    work = _Draining(project, spool, end, min(patience, wait or seconds), own, leaves)
    if pairing is not None:
        work.skipped.add(own)
    is_repeat = False
    try:
        while True:
            lock = spool.lock(wait)
            if lock is None:  # the event of this hook is left to the holder
                break
            try:
                work.drain()
                if pairing is not None:
                    is_repeat = spool.is_repeat(own, pairing)
            finally:
                os.close(lock)
            if work.stopped or not set(spool.names()) - work.skipped:
                break
    except OSError as error:  # for example a disk that is read-only
        work.fault = failure(error, folder)
    finally:
        store.patience = patience
    return Drained(work.fault, is_repeat)


class _Draining:
    """The state of one drain. ``skipped``: events that wait for something else. ``stopped``: the time is over, or the
    store takes nothing."""

    def __init__(
        self, project: Project, spool: Spool, end: float, patience: float, own: str, leaves: bool
    ) -> None:
        self._project, self._spool, self._end = project, spool, end
        self._patience, self._own, self._leaves = patience, own, leaves
        self._projects: dict[str, Project] = {}
        self._blocked: dict[
            str, LeftoffError | None
        ] = {}  # sessions whose next event cannot be recorded now, and why
        self.skipped = set[str]()
        self.stopped = False
        self.fault: LeftoffError | None = None

    def drain(self) -> None:
        """Record what waits, until nothing is left that can be recorded."""
        self._spool.tidy()
        while not self.stopped and (names := [n for n in self._spool.names() if n not in self.skipped]):
            for name in names:
                if time.monotonic() > self._end:
                    self.stopped = True
                    return
                self._take(name)
                if self.stopped:
                    return

    def _take(self, name: str) -> None:
        """Record one event and delete its file; or note why it waits."""
        spool = self._spool
        try:
            found = spool.read(name)
            if found is None:
                return
            about, contents = found
            session, answered_by = about["session"], about.get("answered_by")
        except (ValueError, KeyError) as error:
            self._log(f"An event is damaged ({error}). It is set aside as {spool.set_aside(name)}.")
            return
        is_answered = answered_by is not None and name != self._own and Process(*answered_by).state() != GONE
        if is_answered or session in self._blocked:
            self._wait(name, session, self._blocked.get(session))
            return
        event = HookEvent(about["data"])
        try:
            if not spool.is_repeat(name, about):
                self._record(name, about, contents, event)
        except (StoreUnavailable, Corrupt, Unsupported, BadSettings, NeedsPerson) as error:
            # The event waits until the store is back, repaired or trusted. Other runs may be whole.
            self.stopped = isinstance(error, StoreUnavailable)
            self._wait(name, session, error)
            return
        except Exception as error:  # it would fail again: what is wrong is in the event, or in the code
            self._log(event.name, session, f"{type(error).__name__}: {error}")
        spool.remove(name)

    def _record(
        self, name: str, about: dict[str, Any], contents: list[bytes | None], event: HookEvent
    ) -> None:
        folder, store = about["project"], self._project.store
        project = self._projects.get(folder)
        if project is None:
            project = self._projects[folder] = self._project.elsewhere(folder, self._log)
        project.at = about["at"]
        store.patience = min(self._patience, max(self._end - time.monotonic(), _LEAST_S))
        files = zip(about.get("files", ()), contents, strict=True)
        peeked = [Peeked(path, record, data) for (path, record), data in files]
        session = _session(project, about, name, peeked)
        if name != self._own or self._leaves:  # else the agent still waits for its hook
            session.until = about["at"] * 1_000_000 + 999_999  # the end of that millisecond
        record_event(session, event)

    def _wait(self, name: str, session: str, why: LeftoffError | None) -> None:
        self.skipped.add(name)
        self._blocked[session] = why
        if why is not None and (name == self._own or self.stopped):
            self.fault = why
            self._log(session, f"{why.code}: {why.message} The event is kept until then.")

    def _log(self, *words: str) -> None:
        log_error(os.path.dirname(self._spool.folder), *words)
