"""`leftoff hook`: from stdin to stdout. It exits 0, and the agent never sees an error of leftoff.

The event goes to the spool first. Then the hook drains what waits there, for half a second at most. SessionStart and a
prompt that only says "resume" also wait for other processes that drain, and answer with what the store knows then.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import NamedTuple

from leftoff.agents import agent_session as sessions
from leftoff.agents import spool_drain as spooling
from leftoff.agents.hook_events import HookEvent, log_error, note_event, read_event
from leftoff.agents.spool_drain import Delivery, HookCaller
from leftoff.engine.project import Project
from leftoff.engine.settings import CALLER
from leftoff.errors import LeftoffError, NeedsPerson
from leftoff.host import Process, agent_above, orphan, scope, started, words_of

_REPORTED = ("SessionStart", "UserPromptSubmit")  # the agent reads the answer to these
HOOK_S = 0.5  # seconds that a hook drains, and waits for the store
ASKED_S = 4.0  # the same if the user said "resume": without its answer the word is of no use
IN_TIME = 0.3  # the part of it that the agent waits for a prompt to be recorded
APART_S = 60.0  # seconds that a prompt is recorded by a process of its own
LAST_S, LAST_ASKED_S = 3, 9  # seconds after which a hook gives up; the agents themselves wait for ten
_DAEMON = ("app-server", "--managed-daemon")  # words of Codex's daemon


class HookCall(NamedTuple):
    """One call of the hook: which agent, whether by the user's hook file, and the project and store it was given."""

    agent: str
    anywhere: bool = False
    project: str | None = None
    store: str | None = None


class _TooLong(BaseException):
    """The hook has taken too long: the store hangs, or the event is a lot of work. The event is in the spool."""


def process_hook(call: HookCall, data: bytes) -> bytes:
    """Record an event and return what to print."""
    folder, event = "", None
    try:
        event = read_event(data)
        _give_up_after(LAST_ASKED_S if event.asks_to_continue else LAST_S)
        started_in = os.environ.get("CLAUDE_PROJECT_DIR")
        place, folder = sessions.find_place(event.cwd, started_in, call.project, call.store)
        project = Project(place, call.store, lambda text: log_error(folder, call.agent, text))
        project.takes_in_edits = False  # the event goes to the spool before the store is read
        try:
            delivery = Delivery(event, data, call.agent, call.anywhere, _callers(call, event))
            answer = _record(project, folder, delivery)
            if call.agent == "qwen" and event.name == "Stop" and _is_headless(delivery.callers):
                about = {**event.data, "hook_event_name": "SessionEnd", "reason": "the only turn ended"}
                ended = delivery._replace(event=HookEvent(about), source=data + b"-end")
                _record(project, folder, ended)
        finally:
            project.close()
        note_event(folder, call.agent, event)
        return answer
    except (Exception, _TooLong) as error:
        words = [event.name, event.session] if event is not None else []
        if not isinstance(error, NeedsPerson):  # a store that is not trusted gets not even a log
            log_error(folder or ".leftoff", call.agent, *words, _in_words(error))
        return _fault(event, error) if event is not None else b""
    finally:
        _give_up_after(0)


def _is_headless(callers: list[HookCaller]) -> bool:
    """Return whether Qwen Code does one prompt and exits. It reports no end of such a session."""
    calls = [words_of(caller.process.pid) for caller in callers if caller.process]
    words = [word for call in calls if any("qwen" in word for word in call) for word in call]
    return any(word in ("-p", "--prompt") or word.startswith("--prompt=") for word in words)


def _give_up_after(seconds: float) -> None:
    import _signal  # type: ignore[import-not-found]  # `signal` takes a third of a bare start to import

    def give_up(number: int, frame: object) -> None:
        raise _TooLong("The hook took too long. What is in the spool is recorded later.")

    _signal.signal(_signal.SIGALRM, give_up)
    _signal.setitimer(_signal.ITIMER_REAL, seconds)


def _record(project: Project, folder: str, delivery: Delivery) -> bytes:
    """Spool the event, drain, and return the answer. ``folder``: the store's."""
    event, store = delivery.event, project.store  # an error if the store is not trusted
    seconds = ASKED_S if event.asks_to_continue else HOOK_S
    store.patience = min(store.patience, seconds)
    begins = event.name == "SessionStart"
    name = "" if begins else spooling.put_event(project, folder, delivery)
    if not (begins or name):
        return b""
    if event.name == "UserPromptSubmit" and not event.asks_to_continue:
        return _in_time(lambda: _drain(project, folder, delivery, name, APART_S))
    return _drain(project, folder, delivery, name, seconds)


def _in_time(work: Callable[[], bytes]) -> bytes:
    """Return the answer of some work, or nothing if it takes longer than an agent should wait. Then it continues in a
    process of its own: the first prompt in a large work tree copies every file that is not committed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            quiet = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(quiet, fd)
            _give_up_after(APART_S)
            os.write(writing, work())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb", buffering=0):
        waiting = select.poll()
        waiting.register(reading)
        answer = os.read(reading, 1 << 16) if waiting.poll(HOOK_S * IN_TIME * 1000) else None
    if answer is not None:
        os.waitpid(pid, 0)
    return answer or b""


def _drain(project: Project, folder: str, delivery: Delivery, name: str, seconds: float) -> bytes:
    """Drain, and return the answer. ``name``: of the event in the spool."""
    event = delivery.event
    try:
        project.take_in_edits()
        if event.name == "SessionStart" or event.asks_to_continue:
            return _answer(project, folder, delivery, name)
        done = spooling.drain(project, folder, seconds, own=name, leaves=seconds == APART_S)
        return _fault(event, done.fault, kept=True)
    except LeftoffError as error:
        log_error(folder, delivery.agent, event.name, event.session, _in_words(error))
        return _fault(event, error, kept=bool(name))
    finally:
        spooling.forget_unused(project, folder)


def _answer(project: Project, folder: str, delivery: Delivery, name: str) -> bytes:
    """Answer SessionStart, or a prompt that only says "resume". ``name``: of the prompt in the spool."""
    event = delivery.event
    seconds = ASKED_S if name else HOOK_S
    session = spooling.settle(project, folder, delivery, name, seconds)
    if session is None:
        return b""
    from leftoff.agents import hook_answers

    if name:
        found = sessions.resume_session(session)
        is_told = found.run is not None or found.offered is not None
        answer = (
            hook_answers.context(event.raw, hook_answers.told_at_resume(session, found)) if is_told else b""
        )
        done = spooling.drain(project, folder, seconds, wait=seconds, own=name)
        return answer or _fault(event, done.fault, kept=True)
    found = sessions.begin(session, again=event.text("source") in ("startup", "resume"))
    if not session.driven:
        _export(folder, session.who.session, found.run.run_id if found.run is not None else "")
    if not found.open and found.offered is None and found.fault is None:
        return b""
    return hook_answers.context(event.raw, hook_answers.told_at_begin(session, found))


def _export(folder: str, session: str, run_id: str) -> None:
    """Export the session to the agent's shell, so that the agent's own commands reach its own run."""
    path = os.environ.get("CLAUDE_ENV_FILE")
    if not path:
        return
    given = {"LEFTOFF_SESSION": session, "LEFTOFF_RUN": run_id}
    quoted = {key: value.replace("'", "'\\''") for key, value in given.items() if "\n" not in value}
    lines = (f"export {key}='{value}'\n" if value else f"unset {key}\n" for key, value in quoted.items())
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write("".join(lines))
    except OSError as error:  # the answer does not depend on it
        log_error(folder, "CLAUDE_ENV_FILE", str(error))


def _fault(event: HookEvent, error: BaseException | None, *, kept: bool = False) -> bytes:
    """Return the answer to a session or a turn that begins while leftoff cannot record it; empty for any other."""
    if event.name not in _REPORTED or not isinstance(error, LeftoffError):
        return b""
    from leftoff.agents import hook_answers

    told = hook_answers.fault(error, kept=kept)
    return hook_answers.context(event.raw, told) if told else b""


def _in_words(error: BaseException) -> str:
    return f"{error.code if isinstance(error, LeftoffError) else type(error).__name__}: {error}"


# -- whose session it is


def _callers(call: HookCall, event: HookEvent) -> list[HookCaller]:
    """Return whose session it may be. Interactive Codex runs the hooks of all its terminals in one daemon, which has
    the environment of the process that first started it."""
    agent = agent_above(call.agent) or orphan(call.agent)
    if call.agent == "codex" and agent is not None:
        words = words_of(agent.pid)
        if all(word in words for word in _DAEMON):
            return _terminals(event.cwd) or [HookCaller(None, None, "main", False)]
    return [HookCaller(agent, CALLER.run, CALLER.branch, CALLER.attempt is not None)]


def _terminals(folder: str) -> list[HookCaller]:
    """Return the processes of Codex that work in a folder, the youngest first; none if they cannot be seen."""
    real, found = os.path.realpath(folder), []
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for pid in pids:
        words = words_of(pid)
        if os.path.basename(words[0]) == "codex" and _DAEMON[0] not in words and real in _folders(pid, words):
            found.append(Process(scope(), pid, started(pid)))
    young = sorted((one for one in found if one.started), key=lambda one: int(one.started), reverse=True)
    return [_terminal(process) for process in young]


def _folders(pid: int, words: list[str]) -> list[str]:
    """Return where a terminal works: in the folder that it was given, or that it was started in."""
    given = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-C", "--cd")]
    try:
        here = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return []
    return [os.path.realpath(os.path.join(here, path)) for path in given] or [here]


def _terminal(process: Process) -> HookCaller:
    """Return a terminal as the caller of a hook. `LEFTOFF_RUN` of a hand-over is in its environment."""
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            lines = os.fsdecode(file.read()).split("\0")
    except OSError:
        lines = []
    given = {name: value for name, _, value in (line.partition("=") for line in lines) if value}
    branch = given.get("LEFTOFF_BRANCH", "main")
    return HookCaller(process, given.get("LEFTOFF_RUN"), branch, "LEFTOFF_ATTEMPT" in given)
