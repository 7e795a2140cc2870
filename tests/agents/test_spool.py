"""Hook events wait in the spool until they are recorded: none is lost or recorded twice, and they keep their order."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leftoff import host
from leftoff.agents import hook_process
from leftoff.agents import session_recording as recording
from leftoff.agents import spool_drain as drain
from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable, Unsupported
from leftoff.host import Process, scope, started
from leftoff.store.sqlite import SqliteStore
from tests.agents.hooking import Living, Session, Spawned, event_of, runs
from tests.cli.command import environment, succeed

FAILED = {"tool_name": "Bash", "tool_input": {"command": "make"}, "error": "no rule"}
LISTED = {"tool_name": "TodoWrite", "tool_input": {"todos": [{"content": "one", "status": "pending"}]}}


@pytest.fixture
def session(project: Path) -> Session:
    made = Session(project)
    made.fire("UserPromptSubmit", prompt="build it")
    return made


def waiting(project: Path) -> list[Path]:
    return sorted((project / ".leftoff/spool").glob("[0-9]*"))


def shown(project: Path) -> dict[str, Any]:
    return dict(succeed("show", "latest", "--json", cwd=project).json)


def prompts(project: Path) -> list[str]:
    return [turn["prompt"] for turn in shown(project)["records"]["turn"].values()]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def away(
    patch: pytest.MonkeyPatch, *, late: bool = False, why: type[LeftoffError] = StoreUnavailable
) -> Iterator[None]:
    """Nothing can be written. ``late``: it is written, and only the answer is lost."""
    write = SqliteStore.write

    def lost(store: SqliteStore, fn: Callable[..., Any], **more: Any) -> Any:
        if late:
            write(store, fn, **more)
        raise why("away")

    with patch.context() as inner:
        inner.setattr(SqliteStore, "write", lost)
        yield


# -- nothing is lost, nothing is recorded twice

# A hook that kills itself at the n-th call of a function of leftoff; without a number, it prints how many there are.
KILLED = """
import os, sys
left = int(sys.argv[1])
def profile(frame, event, arg):
    global left
    if event in ("call", "c_call"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)
from leftoff.cli import main
import leftoff.agents.hook_process as hook_process
import leftoff.cli.agent_verbs
hook_process.HOOK_S = hook_process.LAST_S = 60
sys.setprofile(profile)
main(["hook", "claude"])
sys.setprofile(None)
print(-left)
"""


def killed_at(moment: int, project: Path, event: dict[str, Any]) -> int:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(moment)],
        input=json.dumps(event),
        capture_output=True,
        text=True,
        cwd=project,
        env=environment(),
    )
    assert done.returncode in (0, -9), done.stderr
    return int(done.stdout or 0)


def test_what_a_killed_hook_left_half_written(session: Session, project: Path) -> None:
    """It goes once it is old: a young one may still be written."""
    old, young = (project / ".leftoff/spool" / name for name in (".1.old", ".1.young"))
    for path in (old, young):
        path.touch()
    os.utime(old, (1, 1))
    session.fire("Stop")
    assert (False, True) == (old.exists(), young.exists())


@pytest.mark.parametrize("number", [30, pytest.param(200, marks=pytest.mark.crash_full)])
@pytest.mark.parametrize("event", ["PostToolUseFailure", "UserPromptSubmit"])
def test_killed_at_any_moment(event: str, number: int, session: Session, project: Path) -> None:
    """Once the event is in the spool, it is recorded once, whenever its hook is killed."""

    def fire(name: str, moment: int = 0) -> int:
        given = {"prompt": name} if event == "UserPromptSubmit" else {**FAILED, "error": name}
        return killed_at(moment, project, event_of("s1", project, event, **given))

    total = fire("the first")
    counts = []
    for each in range(number):
        fire(f"error {each} of all", 1 + each * total // (number - 1))  # the last one is not killed
        was_written = bool(waiting(project))
        count = json.dumps(shown(project)["records"]["turn"]).count(f"error {each} of all")
        assert count == 1 or not was_written
        counts.append(count)
    assert counts == sorted(counts) and {0, 1} == set(counts)
    assert [] == waiting(project)


def test_an_answer_that_is_lost(session: Session, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed, though the hook did not learn it, is not committed again."""
    with away(monkeypatch, late=True):
        session.fire("PostToolUseFailure", **FAILED)
        session.fire("Stop", last_assistant_message="so far")
    assert 2 == len(waiting(project))
    session.fire("UserPromptSubmit", prompt="and now")
    assert 1 == json.dumps(shown(project)).count("no rule")
    assert (["build it", "and now"], []) == (prompts(project), waiting(project))


@pytest.mark.parametrize("why", [StoreUnavailable, Corrupt, Unsupported])
def test_a_store_that_takes_nothing(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch, why: type[LeftoffError]
) -> None:
    """Events wait until it is back or repaired. A prompt is told so; the log says it, too."""
    with away(monkeypatch, why=why):
        session.fire("PostToolUseFailure", **FAILED)
        told = session.context("UserPromptSubmit", prompt="and now")
    assert told is not None and "kept on this machine" in told
    assert 2 == len(waiting(project))
    assert "is kept until then" in (project / ".leftoff/hook.log").read_text()
    assert 0 == succeed("status", "--json", cwd=project).json["events_waiting"]
    assert ["build it", "and now"] == prompts(project) and "no rule" in json.dumps(shown(project))


def test_one_damaged_run_holds_up_no_other(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that cannot be recorded blocks its own session only."""
    real = recording.EVENTS["PostToolUseFailure"]

    def react(at_work: Any, event: Any) -> None:
        if at_work.who.session == "s1":
            raise Corrupt("damaged")
        real(at_work, event)

    other = Session(project, "other")
    other.fire("UserPromptSubmit", prompt="something else")
    with monkeypatch.context() as patch:
        patch.setitem(recording.EVENTS, "PostToolUseFailure", react)
        session.fire("PostToolUseFailure", **FAILED)
        session.fire("Stop", last_assistant_message="so far")
        other.fire("PostToolUseFailure", **FAILED | {"error": "of the other"})
    assert 2 == len(waiting(project))
    found = {one["title"]: one["run_id"] for one in runs(project)}
    assert [] == waiting(project)
    for title, error in (("build it", "no rule"), ("something else", "of the other")):
        assert error in json.dumps(succeed("show", found[title], "--json", cwd=project).json)


def test_an_event_that_is_wrong_is_logged_and_dropped(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def react(*_: Any) -> None:
        raise ValueError("what is that")

    monkeypatch.setitem(recording.EVENTS, "PostToolUseFailure", react)
    session.fire("PostToolUseFailure", **FAILED)
    assert [] == waiting(project)
    assert "what is that" in (project / ".leftoff/hook.log").read_text()


def test_a_file_that_a_power_cut_damaged(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is set aside, and those after it are recorded."""
    with away(monkeypatch):
        session.fire("PreToolUse", tool_name="Write", tool_input={"file_path": str(project / "new.txt")})
        session.fire("PostToolUseFailure", **FAILED)
    waiting(project)[0].write_bytes(b"")
    assert "no rule" in json.dumps(shown(project))
    assert [] == waiting(project) and 1 == len(list((project / ".leftoff/spool").glob("damaged-*")))
    assert "damaged" in (project / ".leftoff/hook.log").read_text()


# -- order, and who drains


def test_a_clock_that_is_set_back_changes_no_order(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with away(monkeypatch):
        session.fire("Stop", last_assistant_message="so far")
        monkeypatch.setattr(time, "time_ns", lambda: 10**17)
        session.fire("UserPromptSubmit", prompt="go on")
        session.fire("Stop", last_assistant_message="done")
    session.fire("UserPromptSubmit", prompt="and now")
    turns = shown(project)["records"]["turn"].values()
    expected = [("build it", "so far"), ("go on", "done"), ("and now", None)]
    assert expected == [(turn["prompt"], turn.get("said")) for turn in turns]


def test_a_hook_leaves_its_event_to_the_holder(session: Session, project: Path) -> None:
    """While another process drains, a hook writes its file and exits."""
    with locked(project / ".leftoff/spool/lock"):
        session.fire("PostToolUseFailure", **FAILED)
        assert 1 == len(waiting(project))
    assert "no rule" in json.dumps(shown(project)) and [] == waiting(project)


def test_the_holder_looks_again_after_it_unlocked(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that comes after the last look, and finds the lock taken, is not left behind."""
    real, others = drain._Draining.drain, [Spawned(project)]

    def late(draining: drain._Draining) -> None:
        real(draining)
        if others:
            others.pop().fire("PostToolUseFailure", **FAILED)
            assert 1 == len(waiting(project))

    monkeypatch.setattr(drain._Draining, "drain", late)
    session.fire("PostToolUse", tool_name="Read", tool_input={}, tool_response={})
    assert [] == waiting(project) and "no rule" in json.dumps(shown(project))


def test_a_full_spool_blocks_no_hook(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook drains for its half second and exits; the next command records the rest, in order."""
    with away(monkeypatch):
        for number in range(30):
            session.fire("UserPromptSubmit", prompt=f"number {number}")
    real = recording.EVENTS["UserPromptSubmit"]

    def slow(at_work: Any, event: Any) -> None:
        time.sleep(0.05)
        real(at_work, event)

    with monkeypatch.context() as patch:
        patch.setitem(recording.EVENTS, "UserPromptSubmit", slow)
        patch.setattr("tests.agents.hooking.SECONDS", 0.2)
        session.fire("Stop", last_assistant_message="done")
    assert 20 < len(waiting(project)) < 31
    turns = shown(project)["records"]["turn"].values()
    assert ["build it", *(f"number {number}" for number in range(30))] == [turn["prompt"] for turn in turns]
    assert ["done"] == [turn["said"] for turn in turns if "said" in turn] and [] == waiting(project)


def test_a_store_that_hangs_holds_up_no_agent(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook gives up; its event is in the spool."""

    def hang(*_: Any, **__: Any) -> None:
        time.sleep(60)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "write", hang)
        patch.setattr("tests.agents.hooking.SECONDS", 0.3)
        session.fire("PostToolUseFailure", **FAILED)
    assert "took too long" in (project / ".leftoff/hook.log").read_text()
    assert "no rule" in json.dumps(shown(project))


def test_no_secret_is_in_the_spool(session: Session, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as a value, by its shape or by its name, nor as a key, nor at the end of a long text that is cut."""
    token = "ghp_" + "aB3dE6gH9j" * 4
    given = {"command": "make", "password": "hunter2", token: 1, "text": "x " * 9_990 + token}
    with away(monkeypatch):
        session.fire("PostToolUseFailure", tool_name="Bash", tool_input=given, error=f"not {token}")
    (path,) = waiting(project)
    assert not [secret for secret in ("hunter2", token[:12]) if secret in path.read_text()]
    assert 0o600 == path.stat().st_mode & 0o777 and 0o700 == path.parent.stat().st_mode & 0o777


def test_in_a_store_that_the_settings_name(repository: Path) -> None:
    """The spool is there, and nothing else is made."""
    (repository / "leftoff.toml").write_text('store = "state"\n')
    Session(repository).fire("UserPromptSubmit", prompt="Write the guide")
    assert (repository / "state/spool").is_dir() and (
        repository / "state/hooks/claude.UserPromptSubmit"
    ).exists()
    assert not (repository / ".leftoff").exists()
    assert 1 == len(runs(repository))


def test_nothing_is_left_where_nothing_was_recorded(project: Path) -> None:
    """A file outside of the project, or a command, makes no store."""
    session = Session(project)
    session.fire("PostToolUse", tool_name="Write", tool_input={"file_path": "/nowhere/x"}, tool_response={})
    session.fire("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_response={})
    session.fire("SessionStart", source="startup")
    assert [] == list(project.iterdir())


# -- hooks of the project and of the user


def test_an_event_of_two_hook_files_counts_once(repository: Path) -> None:
    """An event that comes twice from the same hook file is two events."""
    project, user = Session(repository), Session(repository, "s1", "claude", "--user")
    for one in (project, user):
        one.fire("UserPromptSubmit", prompt="Write the guide")
    for one in (user, project, project):
        one.fire("PostToolUseFailure", **FAILED)
    (turn,) = shown(repository)["records"]["turn"].values()
    assert ("Write the guide", 2) == (turn["prompt"], len(turn["failed"]))


def test_only_one_of_two_hook_files_is_answered(repository: Path, living: Living) -> None:
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    both = Session(repository, "next"), Session(repository, "next", "claude", "--user")
    for event, more in (("SessionStart", {"source": "startup"}), ("UserPromptSubmit", {"prompt": "resume"})):
        told = [one.context(event, **more) or "" for one in both]
        assert ["Write the guide" in text for text in told] == [True, False]
    assert ["Write the guide", "resume"] == prompts(repository)


def test_a_repeat_whose_holder_was_killed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was recognised, and its file is still there: it is recognised again."""
    project, user = Session(repository), Session(repository, "s1", "claude", "--user")
    project.fire("UserPromptSubmit", prompt="Write the guide")
    project.fire("PostToolUseFailure", **FAILED)
    with monkeypatch.context() as patch:
        patch.setattr("leftoff.engine.spool.Spool.remove", lambda *_: sys.exit("killed"))
        with pytest.raises(AssertionError):
            user.fire("PostToolUseFailure", **FAILED)
    assert 1 == len(waiting(repository))
    (turn,) = shown(repository)["records"]["turn"].values()
    assert 1 == len(turn["failed"]) and [] == waiting(repository)


# -- sessions whose agent is gone


def test_a_waiting_end_is_recorded_before_a_run_is_offered(repository: Path, living: Living) -> None:
    """The agent is gone, and the end of its turn waits: the next session records it first, and is offered nothing."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    with locked(repository / ".leftoff/spool/lock"):
        living.fire("Stop", last_assistant_message="Done.")
    living.kill()
    assert 1 == len(waiting(repository))
    assert Session(repository, "other").context("SessionStart", source="startup") is None
    assert [] == runs(repository)  # the turn only talked


def test_a_prompt_whose_hook_was_killed_before_it_answered(repository: Path, living: Living) -> None:
    """The turn is recorded; the run that was to be resumed stays as it was."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leftoff.agents.hook_process._answer", lambda *_: sys.exit("killed"))
        patch.setattr("leftoff.agents.spool_drain.this_process", lambda: Process(scope(), 0, ""))
        with pytest.raises(AssertionError):
            Session(repository, "next").fire("UserPromptSubmit", prompt="resume")
    assert {"dead", "next"} == {one["session_id"] for one in runs(repository)}
    assert [] == waiting(repository)


@pytest.mark.parametrize("late", ["PostToolUse", "SessionEnd"])
@pytest.mark.parametrize("known", [True, False])
def test_a_session_that_continues_is_its_new_process(
    late: str, known: bool, repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event of the process before comes late, and the session is alive all the same."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    before = Process(scope(), living.process.pid, started(living.process.pid)) if known else None
    living.kill()
    again = Living(repository, "dead")
    again.fire("SessionStart", source="resume")
    with monkeypatch.context() as patch:
        patch.setattr(hook_process, "agent_above", lambda *names: before)
        Session(repository, "dead").fire(late, **LISTED)
    assert Session(repository, "other").context("SessionStart", source="startup") is None
    assert [("running", "alive")] == [(one["status"], one["health"]) for one in runs(repository)]
    again.kill()
    assert Session(repository, "other").context("SessionStart", source="startup") is not None


def test_a_hook_that_finds_no_agent_revives_none(
    repository: Path, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent was killed while a hook of it began: the event is recorded, and the next session is told at once."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    with monkeypatch.context() as patch:
        patch.setattr(hook_process, "agent_above", lambda *names: None)
        Session(repository, "dead").fire("PostToolUse", **LISTED)
    told = Session(repository, "other").context("SessionStart", source="startup")
    assert told is not None and "Write the guide" in told
    assert [("running", "dead", 1)] == [
        (one["status"], one["health"], one["steps"]["total"]) for one in runs(repository)
    ]


def test_an_agent_that_is_the_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: a hook that finds no agent may have been called by it, and it lives."""
    monkeypatch.setattr(host, "is_called", lambda pid, names: (1, ("claude",)) == (pid, names))
    assert host.orphan("claude") is None
    gone = host.orphan("codex")
    assert gone is not None
    assert host.GONE == gone.state()
