"""`leftoff hook`: from stdin to stdout, and never an error that the agent would see."""

from __future__ import annotations

import time

from leftoff.agents.hooks import log
from leftoff.agents.hooks.bounded import LIMIT, bounded
from leftoff.agents.hooks.events import read_event, started_in
from leftoff.errors import LeftoffError
from leftoff.host import SHELLS, ancestor
from leftoff.operations import Caller, Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.agents.hooks.events import Event


_FIRST = (
    "SessionStart",
    "PreToolUse",
)  # these wait for nobody: their answer, or their content, is due at once
_ALONE = ("UserPromptSubmit", "Stop", "SessionEnd")


class Call:
    """One call of the hook: which agent, and where it was told to look."""

    __slots__ = ("agent", "anywhere", "project", "store")

    def __init__(self, agent: str, *, anywhere: bool, project: str | None, store: str | None) -> None:
        self.agent = agent
        self.anywhere = anywhere
        self.project = project
        self.store = store


def run_hook(call: Call, data: bytes) -> bytes:
    """What to print."""
    folder = ""
    try:
        event = read_event(data)
        from leftoff.operations.sessions import find_place

        project, folder = find_place(event.cwd, started_in(), call.project, call.store)
        caller = Caller(agent=ancestor(SHELLS))
        answer = bounded(lambda: _work(call, event, project, folder, caller))
        if answer is None:
            log.note(folder, call.agent, event.name, event.session, "took too long, and goes on by itself")
        return answer or b""
    except Exception as error:
        log.note(folder or ".leftoff", call.agent, _told(error))
        return b""


def _work(call: Call, event: Event, place: str, folder: str, caller: Caller) -> bytes:
    """In a process of its own: everything that may take long, or go wrong."""
    until = time.time_ns() + int(LIMIT * 1e9)
    try:
        from leftoff.agents.hooks.handle import EVENTS
        from leftoff.operations import sessions

        react = EVENTS.get(event.name)
        if react is None:
            return b""
        project = Project(place, call.store, lambda text: log.note(folder, call.agent, text))
        try:
            session = sessions.Session(
                project, caller, event.session, call.agent, anywhere=call.anywhere, until=until
            )
            if event.name in _FIRST:
                return react(session, event)
            begins = event.name == "UserPromptSubmit"
            with sessions.in_order(session, alone=event.name in _ALONE, begins=begins):
                return react(session, event)
        finally:
            project.close()
    except Exception as error:
        log.note(folder, call.agent, event.name, event.session, _told(error))
        return b""


def _told(error: Exception) -> str:
    if isinstance(error, LeftoffError):
        return f"{error.code}: {error.message}"
    return f"{type(error).__name__}: {error}"
