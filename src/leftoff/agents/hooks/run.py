"""`leftoff hook`: from stdin to stdout, and never an error that the agent would see."""

from __future__ import annotations

import os
import select
import sys
import time

from leftoff.agents.hooks import log, seen
from leftoff.agents.hooks.events import Event, read_event, started_in
from leftoff.errors import LeftoffError, StoreUnavailable
from leftoff.host import agent_above, orphan
from leftoff.model.fields import Fields
from leftoff.operations import Caller, Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.operations.sessions.session import Session, Way


# These wait for nobody: their answer, or their content, is due at once.
_FIRST = (
    "SessionStart",
    "PreToolUse",
)
_TOLD = ("SessionStart", "UserPromptSubmit")  # their answer is something that the agent knows from then on
_ALONE = ("UserPromptSubmit", "Stop", "StopFailure", "SessionEnd")  # a turn begins or ends


class Call(Fields):
    """One call of the hook: which agent, and where it was told to look."""

    agent: str
    anywhere: bool
    project: str | None
    store: str | None


def run_hook(call: Call, data: bytes) -> bytes:
    """What to print."""
    folder, event = "", None
    try:
        event = read_event(data)
        from leftoff.operations.sessions.session import find_place, on_its_way

        place = find_place(event.cwd, started_in(), call.project, call.store)
        folder, caller = place[1], Caller(agent=agent_above(call.agent) or orphan(call.agent))
        begins, turn = event.name == "UserPromptSubmit", event.name in _ALONE
        with on_its_way(place, event.session, turn=turn, begins=begins, anywhere=call.anywhere) as way:
            limit = _limit(event)
            until = time.time_ns() + int(limit * 1e9)  # however late the work itself begins
            answer = bounded(lambda: _work(call, event, place, caller, way, until), limit)
        seen.keep(folder, call.agent, event)  # the first prompt has made the folder by now
        if answer is None:
            log.note(folder, call.agent, event.name, event.session, "took too long, and continues by itself")
        return answer or b""
    except Exception as error:
        if getattr(error, "code", "") != "needs_person":  # nothing is written to a store that is not trusted
            log.note(folder or ".leftoff", call.agent, _told(error))
        return _fault(event, error) if event is not None else b""


def _work(call: Call, event: Event, where: tuple[str, str], caller: Caller, way: Way, until: int) -> bytes:
    """In a process of its own: everything that may take long, or go wrong. ``where``: the project, the store.
    ``way``: that the event is at work. ``until``: when the agent goes on at the latest, in nanoseconds."""
    place, folder = where
    session = None
    try:
        from leftoff.agents.hooks.handle import EVENTS
        from leftoff.operations.sessions import session as sessions

        if event.name not in EVENTS:
            return b""
        for line in sessions.not_kept(folder, event.session):
            log.note(folder, call.agent, line)
        project = Project(place, call.store, lambda text: log.note(folder, call.agent, text))
        # The others come by the dozen: none may wait for one that is stuck.
        project.hurries = event.name not in _ALONE
        try:
            session = sessions.Session(project, caller, call.agent, way, anywhere=call.anywhere, until=until)
            if call.agent == "codex":
                session.belongs_to(_caller_of(project, event, caller), call.agent)
            return _react(session, event)
        finally:
            project.close()
    except Exception as error:
        kept = session is not None and event.name not in _FIRST and _keep(session, error, event)
        said = (_told(error), *(["It is kept until then."] if kept else []))
        log.note(folder, call.agent, event.name, event.session, *said)
        return _fault(event, error, kept=kept)
    finally:
        way.done()


def _react(session: Session, event: Event) -> bytes:
    """What the event tells is kept, after what was kept before; the answer."""
    from leftoff.agents.hooks.handle import EVENTS
    from leftoff.operations.sessions import session as sessions

    react, folder = EVENTS[event.name], session.project.store_folder
    if event.name in _FIRST:
        if event.name == "SessionStart" and sessions.has_kept(folder):
            _take_in(session)  # nobody is offered a run whose end is kept here
        return b"" if sessions.is_told(session, event.source) else react(session, event)
    if session.way.is_one_too_many() and _is_left_to_others(session, event):
        return b""
    with session.order(alone=event.name in _ALONE):
        if sessions.is_told(session, event.source, last=event.name == "SessionEnd"):
            return b""
        if sessions.has_kept(folder):
            _take_in(session)
        answer = react(session, event)
        if sessions.has_kept(folder) and session.way.is_last():
            _take_in(session, rest=True)  # what was too much to wait
        return answer


def _keep(session: Session, error: Exception, event: Event) -> bool:
    """Whether an event that could not be told will be, once the store is back."""
    from leftoff.operations.sessions.kept_events import keep

    return keep(session, error, event.data)


def _is_left_to_others(session: Session, event: Event) -> bool:
    """Whether an event is kept, rather than that one more process waits: the last of those who do takes it in."""
    from leftoff.operations.sessions.session import is_told

    told = is_told(session, event.source)
    return told or _keep(session, StoreUnavailable("Others of this session wait already."), event)


def _take_in(session: Session, *, rest: bool = False) -> None:
    """What was kept before comes first."""
    from leftoff.agents.hooks.handle import EVENTS
    from leftoff.operations.sessions.kept_events import take_in

    def play(session: Session, data: dict[str, Any]) -> None:
        event = Event(data)
        EVENTS[event.name](session, event)

    take_in(session, play, rest=rest)


def _fault(event: Event, error: Exception, *, kept: bool = False) -> bytes:
    """A session or a turn that begins is told that nothing of it is in the store, and what a person can do."""
    if event.name not in _TOLD or not isinstance(error, LeftoffError):
        return b""
    from leftoff.agents.hooks.answers import context, fault

    told = fault(error, kept=kept)
    return context(event.raw, told) if told else b""


def _caller_of(project: Project, event: Event, caller: Caller) -> Caller:
    """Interactive Codex runs the hooks of all its sessions in one daemon: the session is that of a terminal."""
    from leftoff.agents.hooks import daemon

    if caller.agent is None or not daemon.is_one(caller.agent):
        return caller
    from leftoff.operations.sessions.session import process_of

    found = process_of(project, event.session, daemon.terminals(event.cwd))
    daemon.become(found)
    return Caller(agent=found)


def _told(error: Exception) -> str:
    if isinstance(error, LeftoffError):
        return f"{error.code}: {error.message}"
    return f"{type(error).__name__}: {error}"


LIMIT = 0.7  # seconds that an agent waits, on top of what it takes to start
ASKED = 8.0  # where its user said "resume", and nothing but the answer is of use; the agents themselves wait for ten
LAST = 120  # seconds after which the child gives up


def _limit(event: Event) -> float:
    return ASKED if event.asks_to_go_on else LIMIT


def bounded(work: Callable[[], bytes], limit: float) -> bytes | None:
    """What ``work`` answers; ``None`` where that takes too long, or its process fails.

    A store that is locked, slow or hangs must not hold up the agent. So the work runs in a process of its own, which
    gives its answer through a pipe. If that takes too long the hook ends without an answer, and the child goes on: what
    it has to save is saved once the store is free again. It has let go of the agent's streams, and ends by itself.
    """
    end = time.monotonic() + limit
    sys.stdout.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(work, reading, writing)
    os.close(writing)
    found = b""
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        piece = os.read(reading, 1 << 16)
        if not piece:
            return found if os.waitpid(pid, 0)[1] == 0 else None
        found += piece
    return None


def _child(work: Callable[[], bytes], reading: int, writing: int) -> None:
    """Never returns."""
    code = 1
    try:
        from _signal import alarm  # type: ignore[import-not-found]  # `signal` costs ten times as much

        alarm(LAST)
        os.close(reading)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        answer = work()
        while answer:
            answer = answer[os.write(writing, answer) :]
        code = 0
    finally:
        os._exit(code)
