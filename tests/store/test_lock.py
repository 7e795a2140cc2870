"""Waiting for the turn to write has an end, and an error that names who has it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from leftoff import files
from leftoff.errors import StoreUnavailable
from leftoff.files import lock_within
from leftoff.store import sqlite_connection as writer
from leftoff.store.sqlite import SqliteStore
from tests.agents.hooking import event_of
from tests.cli.command import call, spawn, succeed
from tests.store.processes import Child, child

PATIENCE = 30.0
HOLDS = """
store.write(lambda tx: (say("mine"), hear()))
say("done")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    succeed("start", "w", "--run-id", "r", "--steps", "a", cwd=folder)
    return folder


@pytest.fixture
def stopped(project: Path) -> Iterator[Child]:
    """A process that has its turn, and was stopped."""
    with child(HOLDS, project / ".leftoff") as holder:
        assert "mine" == holder.hear()
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            yield holder
        finally:
            os.kill(holder.pid, signal.SIGCONT)
            holder.tell()
            assert "done" == holder.hear()


def test_who_has_it_is_named(project: Path, stopped: Child) -> None:
    """Which process, and what to do; with exit code 8, and nothing changed."""
    done = call("set", "a=1", cwd=project, LEFTOFF_LOCK_TIMEOUT="0.1")
    assert 8 == done.code
    assert re.search(rf"is locked by process {stopped.pid} \(`\w+`\)\.", done.err), done.err
    assert f"kill -CONT {stopped.pid}" in done.err
    assert 8 == call("resume", "r", cwd=project, LEFTOFF_LOCK_TIMEOUT="0.1").code
    assert {} == succeed("show", "r", "--json", cwd=project).json["variables"]


def test_a_pid_of_another_container(project: Path, stopped: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """Says nothing of a process here: nobody is advised to wake that up."""
    lock = project / ".leftoff" / "lock"
    with lock.open("rb") as file:
        assert f"kill -CONT {stopped.pid}" in files.held_by_another(str(lock), file.fileno()).hint
        monkeypatch.setattr(files, "_locked_by", lambda fd: None)
        told = files.held_by_another(str(lock), file.fileno())
    assert "is locked by another process." in told.message
    assert "kill -CONT" not in told.hint


def test_the_setting(project: Path, stopped: Child) -> None:
    """How long to wait is said in leftoff.toml; the variable goes before it, and must be a number."""
    (project / "leftoff.toml").write_text('lock_timeout = "0.1s"\n')
    assert 8 == call("set", "a=1", cwd=project).code
    assert 2 == call("set", "a=1", cwd=project, LEFTOFF_LOCK_TIMEOUT="soon").code
    assert 2 == call("set", "a=1", cwd=project, LEFTOFF_LOCK_TIMEOUT="nan").code


def test_who_waited_in_vain_keeps_nothing(tmp_path: Path) -> None:
    """The place in the queue that was left is given back as soon as its turn comes."""
    path = tmp_path / "lock"
    path.touch()
    holder, waits, third = (os.open(path, os.O_RDWR) for _ in range(3))
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert not lock_within(waits, fcntl.LOCK_EX, 0.01)
    os.close(waits)
    os.close(holder)
    assert lock_within(third, fcntl.LOCK_EX, PATIENCE)
    os.close(third)


def test_who_waits_gets_it(tmp_path: Path) -> None:
    """One that is given up in time is had by who waits."""
    path = tmp_path / "lock"
    path.touch()
    holder, waits = (os.open(path, os.O_RDWR) for _ in range(2))
    fcntl.flock(holder, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(lock_within, waits, fcntl.LOCK_EX, PATIENCE)
        os.close(holder)
        assert got.result()
    third = os.open(path, os.O_RDWR)
    assert not lock_within(third, fcntl.LOCK_EX, 0)
    for fd in (waits, third):
        os.close(fd)


def test_threads_wait_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all threads of a process have waited for in vain, none of them waits for once more."""
    store = SqliteStore(str(tmp_path / ".leftoff"))
    store.write(lambda tx: None)
    waits: list[int] = []

    def in_vain(fd: int, *_: float) -> bool:
        waits.append(fd)
        end = time.monotonic() + PATIENCE
        while len(waits) == 1 and len(store.queue._queue) < 7 and time.monotonic() < end:
            time.sleep(0.001)
        return False

    with monkeypatch.context() as patch, ThreadPoolExecutor(8) as pool:
        patch.setattr(writer, "lock_within", in_vain)
        done = [pool.submit(store.write, lambda tx: None) for _ in range(8)]
        assert {StoreUnavailable} == {type(one.exception()) for one in done}
    assert 2 == len(waits)
    store.close()


# -- hooks


EVENTS: list[dict[str, Any]] = [
    {"name": "PostToolUse", "tool_name": "TodoWrite", "tool_input": {"todos": [{"content": "x"}]}},
    {"name": "UserPromptSubmit", "prompt": "go on"},
    {"name": "Stop"},
]


def fire(project: Path, number: int, mark: str, waits: str) -> None:
    data = json.dumps(event_of(f"s{number % 5}", project, **EVENTS[number % len(EVENTS)]))
    told = {"MARK": mark, "LEFTOFF_LOCK_TIMEOUT": waits}
    done = spawn("hook", "claude", cwd=project, input=data, timeout=PATIENCE, **told)
    assert (0, "") == (done.code, done.err)
    assert not done.out or "kept on this machine" in done.out


def left(mark: str) -> list[str]:
    """The processes that carry this mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"MARK={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:
            continue
    return found


def check_hooks(project: Path, total: int, waits: str) -> None:
    """``waits``: for the lock, in seconds."""
    mark = os.urandom(8).hex()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: fire(project, number, mark, waits), range(total)))
    end = time.monotonic() + 60
    while left(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert [] == left(mark)
    assert "is locked by process" in (project / ".leftoff" / "hook.log").read_text()


@pytest.mark.usefixtures("stopped")
def test_hooks_do_not_pile_up(project: Path) -> None:
    """Where another process is stuck in its turn, hooks return, and their processes end soon, too."""
    check_hooks(project, 4, "2")


@pytest.mark.crash_full
@pytest.mark.usefixtures("stopped")
def test_forty_hooks_do_not_pile_up(project: Path) -> None:
    """Forty events: none is left."""
    check_hooks(project, 40, "30")
