"""A session that lives, or has ended a moment ago, is told of to nobody: what its hooks tell is waited for."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leftoff import host
from leftoff.agents.hooks import run
from leftoff.engine.workspace import hook_order
from leftoff.engine.workspace.hook_order import OnItsWay, lost, name_of, settled, told_before
from leftoff.host import Process, scope, started
from leftoff.operations.sessions import session as sessions
from tests.agents.hooking import Living, Session, event_of, runs, turns
from tests.cli.command import spawn

PATIENCE = 240.0


def at_work(cwd: Path, session: str, **more: bool) -> OnItsWay:
    return OnItsWay(str(cwd / ".leftoff"), session, **more)


def is_settled(cwd: Path, session: str) -> bool:
    return settled(str(cwd / ".leftoff"), session, 0)


def end_meanwhile(session: str, cwd: Path) -> None:
    """The end of a turn comes to the store."""
    event = event_of(session, cwd, "Stop", last_assistant_message="Done.")
    spawn("hook", "claude", cwd=cwd, input=json.dumps(event))
    # On a busy machine the hook itself waits no longer.
    assert settled(str(cwd / ".leftoff"), session, PATIENCE)


@pytest.mark.parametrize(("over", "offered"), [(True, False), (False, False), (None, True)])
def test_what_is_still_on_its_way_is_waited_for(
    over: bool | None, offered: bool, repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is gone, the hook of its last event is at work: the turn may end well yet, and nobody is told of it."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()

    def wait(store: str, session: str, patience: float) -> bool:
        if over:
            end_meanwhile("dead", repository)
        return over is not False

    monkeypatch.setattr(sessions, "settled", wait)
    told = Session(repository, "other").context("SessionStart", source="startup")
    assert offered == (told is not None)


def test_each_run_is_waited_for_before_it_is_offered(
    repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sessions have ended a moment ago. While the later one is waited for, the other comes first: so is that."""
    later = Living(repository, "later")
    for one in (living, later):
        one.fire("UserPromptSubmit", prompt="Write the guide")
        one.kill()
    waited = []

    def wait(store: str, session: str, patience: float) -> bool:
        waited.append(session)
        end_meanwhile(session, repository)
        return True

    monkeypatch.setattr(sessions, "settled", wait)
    assert Session(repository, "other").context("SessionStart", source="startup") is None
    assert ["later", "dead"] == waited


def test_one_that_is_still_telling_hides_no_other(
    repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two sessions whose agents are gone, the later one has an event at work: the other is told of."""
    later = Living(repository, "later")
    for one in (living, later):
        one.fire("UserPromptSubmit", prompt=f"Asked of {one.name}")
        one.kill()
    monkeypatch.setattr(sessions, "settled", lambda store, session, patience: settled(store, session, 0))
    with at_work(repository, "later"):
        told = Session(repository, "other").context("SessionStart", source="startup")
    assert told is not None and "Asked of dead" in told
    told = Session(repository, "other").context("SessionStart", source="startup")
    assert told is not None and "Asked of later" in told


def test_a_run_that_another_took_meanwhile_is_not_offered(
    repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent was gone; then the session goes on in another process, which ends too: what that tells is not known."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    waited = []

    def wait(store: str, session: str, patience: float) -> bool:
        waited.append(session)
        if len(waited) == 1:
            again = Living(repository, "dead")
            again.fire("UserPromptSubmit", prompt="Go on")
            again.kill()
            return True
        return False

    monkeypatch.setattr(sessions, "settled", wait)
    assert Session(repository, "other").context("SessionStart", source="startup") is None
    assert ["dead", "dead"] == waited


def test_a_hook_at_work_is_seen(repository: Path) -> None:
    """By the lock that it has, and that the process keeps which goes on without it; a session without any has none."""
    assert is_settled(repository, "s1")
    with at_work(repository, "s1", make=True):
        goes_on = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(goes_on[1])
            os.read(goes_on[0], 1)
            os._exit(0)
        os.close(goes_on[0])
    assert not is_settled(repository, "s1") and is_settled(repository, "s2")
    os.close(goes_on[1])
    os.waitpid(child, 0)
    assert is_settled(repository, "s1")
    assert [name_of("s1")] == lost(str(repository / ".leftoff"))
    assert [] == os.listdir(repository / ".leftoff" / "pending")


def test_whoever_looks_is_in_nobodys_way(repository: Path) -> None:
    """An event begins while others look at it, and is seen from its first moment on."""
    with at_work(repository, "s1", make=True) as first:
        (name,) = os.listdir(repository / ".leftoff" / "pending")
        with open(repository / ".leftoff" / "pending" / name) as held, pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert not is_settled(repository, "s1")
        with at_work(repository, "s1"):
            first.done()
            assert not is_settled(repository, "s1")


def test_events_wait_for_those_that_began_earlier(repository: Path) -> None:
    """Before a turn begins or ends, or its session does, all; else those. Nobody waits for what began later."""
    with (
        at_work(repository, "s1", turn=True, make=True) as prompt,
        at_work(repository, "s1") as tool,
        at_work(repository, "s1") as other,
        at_work(repository, "s1", turn=True) as stop,
        at_work(repository, "s2", turn=True) as stranger,
    ):
        assert prompt.wait(0) and stranger.wait(0)
        assert [False, False, False] == [one.wait(0) for one in (tool, other, stop)]
        prompt.done()
        assert [True, True, False] == [one.wait(0) for one in (tool, other, stop)]
        tool.done()
        other.done()
        assert stop.wait(0)


def test_an_answer_that_comes_before_the_prompt_is_kept(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the prompt's hook is, the end of the turn is kept behind it: nothing is left open."""
    left: list[tuple[int, int]] = []

    def later(work: Callable[[], bytes], limit: float) -> bytes | None:
        waits, goes_on = os.pipe()
        child = os.fork()
        if child == 0:
            for _, other in left:  # which its neighbours wait for
                os.close(other)
            os.close(goes_on)
            os.read(waits, 1)
            work()
            os._exit(0)
        os.close(waits)
        left.append((child, goes_on))
        return None

    with monkeypatch.context() as patch:
        patch.setattr(run, "bounded", later)
        call = run.Call("claude", False, None, None)
        listed = {"todos": [{"content": "one", "status": "completed"}]}
        for name in ("UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"):
            event = event_of("s1", repository, name, prompt="Go", tool_name="TodoWrite", tool_input=listed)
            run.run_hook(call, json.dumps(event).encode())
    for _, goes_on in reversed(left):
        os.close(goes_on)
    assert [0] * 4 == [os.waitpid(child, 0)[1] for child, _ in left]
    (one,) = runs(repository)
    assert ("completed", ["completed"]) == (one["status"], [turn["status"] for turn in turns(repository)])


def test_a_hook_is_seen_from_before_its_process_is_made(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that process takes to begin: the agent may be gone by then. The first event of all, too."""
    seen = []

    def made(work: object, limit: float) -> bytes:
        seen.append(is_settled(repository, "s1"))
        return b""

    monkeypatch.setattr(run, "bounded", made)
    for name in ("UserPromptSubmit", "Stop"):
        event = event_of("s1", repository, name, prompt="Write the guide")
        run.run_hook(run.Call("claude", False, None, None), json.dumps(event).encode())
    assert [False, False] == seen


def test_in_a_store_that_the_settings_name(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is at work is seen there, and that hooks fire; nothing else is made."""
    (repository / "leftoff.toml").write_text('store = "state"\n')
    seen = []

    def made(work: Callable[[], bytes], limit: float) -> bytes:
        seen.append(settled(str(repository / "state"), "s1", 0))
        return work()

    with monkeypatch.context() as patch:
        patch.setattr(run, "bounded", made)
        event = event_of("s1", repository, "UserPromptSubmit", prompt="Write the guide")
        run.run_hook(run.Call("claude", False, None, None), json.dumps(event).encode())
    assert [False] == seen
    assert (repository / "state" / "hooks" / "claude.UserPromptSubmit").exists()
    assert not (repository / ".leftoff").exists()
    assert 1 == len(runs(repository))


LISTED = {"tool_name": "TodoWrite", "tool_input": {"todos": [{"content": "one", "status": "pending"}]}}


@pytest.mark.parametrize("late", ["PostToolUse", "SessionEnd"])
@pytest.mark.parametrize("known", [True, False])
def test_a_session_that_goes_on_is_its_new_process(
    late: str, known: bool, repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a hook of the process before tells comes late, and the session lives all the same."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    before = Process(scope(), living.process.pid, started(living.process.pid)) if known else None
    living.kill()
    again = Living(repository, "dead")
    again.fire("SessionStart", source="resume")
    with monkeypatch.context() as patch:
        patch.setattr(run, "agent_above", lambda *names: before)
        Session(repository, "dead").fire(late, **LISTED)
    assert Session(repository, "other").context("SessionStart", source="startup") is None
    assert [("running", "alive")] == [(one["status"], one["health"]) for one in runs(repository)]
    again.kill()
    assert Session(repository, "other").context("SessionStart", source="startup") is not None


def test_a_hook_that_finds_no_agent_makes_no_dead_one_live(
    repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while a hook of its began: what that tells is kept, and the next session is told at once."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    with monkeypatch.context() as patch:
        patch.setattr(run, "agent_above", lambda *names: None)
        Session(repository, "dead").fire("PostToolUse", **LISTED)
    told = Session(repository, "other").context("SessionStart", source="startup")
    assert told is not None and "Write the guide" in told
    assert [("running", "dead", 1)] == [
        (one["status"], one["health"], one["steps"]["total"]) for one in runs(repository)
    ]


def test_an_agent_that_is_the_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: who called a hook that finds no agent may be that one, and it lives."""
    monkeypatch.setattr(host, "is_called", lambda pid, names: (1, ("claude",)) == (pid, names))
    assert host.orphan("claude") is None
    gone = host.orphan("codex")
    assert gone is not None
    assert host.GONE == gone.state()


def test_a_session_with_open_work_waits_for_nobody(
    repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked to go on with its own."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    other = Session(repository, "other")
    other.fire("UserPromptSubmit", prompt="Write the other guide")
    monkeypatch.setattr(sessions, "settled", lambda *_: pytest.fail("it waited"))
    told = other.context("UserPromptSubmit", prompt="resume")
    assert told is not None
    assert "other guide" in told


# -- hooks that are killed


def pending(folder: Path) -> list[str]:
    """What lies in the folder of events."""
    found = folder / ".leftoff" / "pending"
    return sorted(path.name.partition(".")[2] for path in found.iterdir()) if found.is_dir() else []


def test_an_event_whose_hook_was_killed_is_told(repository: Path) -> None:
    """By the next one, in a line of the log; once."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Write the guide")
    with at_work(repository, "s1"), at_work(repository, "gone"):
        pass  # killed: their files stay, and nobody has them locked
    assert is_settled(repository, "s1") and is_settled(repository, "gone")
    session.fire("Stop")
    session.fire("UserPromptSubmit", prompt="And now?")
    log = (repository / ".leftoff" / "hook.log").read_text()
    assert (1, 1) == (log.count("event of s1 was not kept"), log.count("event of another session"))
    session.fire("SessionEnd", reason="exit")
    assert [] == pending(repository)


def test_a_hook_that_was_killed_before_its_event_had_a_name(repository: Path) -> None:
    """What it left is taken away, once it is old enough that nobody can be about to name it."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Write the guide")
    old, young = ((repository / ".leftoff" / "pending" / f"{n:032x}.1.1.event.new") for n in (1, 2))
    for path in (old, young):
        path.touch()
    os.utime(old, (1, 1))
    session.fire("Stop")
    assert (False, True) == (old.exists(), young.exists())


def test_a_session_that_never_ended(repository: Path) -> None:
    """Its files go after some days, and not while it is at work."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Write the guide")
    folder = repository / ".leftoff" / "pending"
    gone, busy = (folder / f"{n:032x}.lock" for n in (1, 2))
    for path in (gone, busy, folder / f"{2:032x}.5.5.event"):
        path.touch()
        os.utime(path, (1, 1))
    assert [] == lost(str(repository / ".leftoff"))
    assert (False, True) == (gone.exists(), busy.exists())


def test_hooks_of_project_and_user_leave_nothing(repository: Path) -> None:
    """Both hear that the session ends, at the same time: whoever is last tidies up."""
    (repository / "leftoff.toml").write_text('lock_timeout = "0.2s"\n')
    project, user = Session(repository), Session(repository, "s1", "claude", "--user")
    for one in (project, user):
        one.fire("UserPromptSubmit", prompt="Write the guide")
    for one in (project, user):
        one.fire("Stop")
    with at_work(repository, "s1", turn=True) as other:
        project.fire("SessionEnd", reason="exit")
        other.done()
    assert [] != pending(repository)
    user.fire("SessionEnd", reason="exit")
    assert [] == pending(repository)


def test_hooks_do_not_wait_for_each_other_for_ever(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is stuck with what was told keeps no other: rather twice than never."""
    monkeypatch.setattr(hook_order, "_MOMENT", 0.01)
    Session(repository).fire("UserPromptSubmit", prompt="Write the guide")
    store = str(repository / ".leftoff")
    (path,) = (repository / ".leftoff" / "pending").glob("*.told")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not told_before(store, "s1", b"x", "user")
        assert not told_before(store, "s1", b"x", "project")
