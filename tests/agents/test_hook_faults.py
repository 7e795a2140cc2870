"""A store that is broken, locked, read-only or gone never stops the agent, nor holds it up."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.store import sqlite_connection as connection
from tests.agents.hooking import Session, Spawned, event_of
from tests.cli.command import LEFTOFF, call, environment, succeed
from tests.damage.store import flip

EVENTS: list[dict[str, Any]] = [
    {"event": "SessionStart", "source": "startup"},
    {"event": "UserPromptSubmit", "prompt": "resume"},
    {"event": "PreToolUse", "tool_name": "Edit", "tool_input": {"file_path": "a.txt"}},
    {"event": "PostToolUse", "tool_name": "Edit", "tool_input": {"file_path": "a.txt"}},
    {"event": "PostToolUse", "tool_name": "TodoWrite", "tool_input": {"todos": [{"content": "x"}]}},
    {"event": "PreCompact", "trigger": "auto"},
    {"event": "Stop"},
    {"event": "SessionEnd", "reason": "exit"},
]


BEGIN = ("SessionStart", "UserPromptSubmit")  # whose answers the agent reads


def fire_all(session: Session) -> list[str]:
    """Each event once; what they print. That they end well is checked where they are called."""
    return [session.fire(**about).out for about in EVENTS]


@pytest.fixture
def session(project: Path) -> Session:
    made = Session(project)
    (project / "a.txt").write_text("a")
    made.todos(one="in_progress")
    return made


def zero_a_page(store: Path) -> None:
    whole_file(store)
    with open(store / "store.db", "rb+") as file:
        file.seek(4096)
        file.write(bytes(4096 * 9))


def damage_the_log(store: Path) -> None:
    """A byte in the middle: SQLite would forget everything from there on."""
    flip(store / "store.db-wal", 6000)


def cut_to_nothing(store: Path) -> None:
    whole_file(store)
    os.truncate(store / "store.db", 0)


def from_the_future(store: Path) -> None:
    db = connection.open_file(str(store / "store.db"))
    db.execute("PRAGMA user_version = 99")
    db.execute("UPDATE meta SET value = '99' WHERE name LIKE 'min_%'")
    db.close()


def fill_with_other_bytes(store: Path) -> None:
    whole_file(store)
    (store / "store.db").write_bytes(b"\xff" * (store / "store.db").stat().st_size)


def whole_file(store: Path) -> None:
    """Everything in the database, and nothing in its log."""
    db = connection.open_file(str(store / "store.db"))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    assert 0 == (store / "store.db-wal").stat().st_size


@pytest.mark.damages_store
@pytest.mark.parametrize(
    ("agent", "asks"),
    [("claude", "UserPromptSubmit"), ("codex", "UserPromptSubmit"), ("gemini", "BeforeAgent")],
)
@pytest.mark.parametrize(
    ("damage", "code", "told"),
    [
        (fill_with_other_bytes, "corrupt", "its store is damaged. `leftoff fsck` shows"),
        (zero_a_page, "corrupt", "its store is damaged. `leftoff fsck` shows"),
        (damage_the_log, "corrupt", "its store is damaged. `leftoff fsck` shows"),
        (cut_to_nothing, "corrupt", "its store is damaged. `leftoff fsck` shows"),
        (from_the_future, "unsupported", "not one that this leftoff can use. `leftoff fsck` says"),
    ],
)
def test_a_store_that_cannot_be_used(
    damage: Callable[[Path], None],
    code: str,
    told: str,
    agent: str,
    asks: str,
    session: Session,
    project: Path,
) -> None:
    """A session and a turn that begin are told so in one line, in every agent; all else passes without a word."""
    damage(project / ".leftoff")
    new = Session(project, "new", agent)
    for event in ("SessionStart", asks):
        line = new.context(event, source="startup", prompt="Go") or ""
        assert told in line and "\n" not in line
    assert [""] * 6 == fire_all(new)[2:]
    assert code in (project / ".leftoff" / "hook.log").read_text()


def test_a_store_that_is_not_trusted(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written into its folder before the user trusts it, no log either; the session is told."""
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "other"))
    shutil.rmtree(project / ".git/leftoff", ignore_errors=True)
    monkeypatch.chdir(project)
    before = sorted((project / ".leftoff").rglob("*"))
    told = [Session(project, "new").context(event, source="startup", prompt="Go") for event in BEGIN]
    assert all("not trusted" in (line or "") for line in told), told
    assert [""] * 6 == fire_all(Session(project, "new"))[2:]
    assert before == sorted((project / ".leftoff").rglob("*"))


def test_broken_settings_leave_nothing(project: Path) -> None:
    """A folder whose settings say nothing gets no store beside them; a session that begins is told."""
    (project / "leftoff.toml").write_text("store = [1\n")
    before = sorted(project.rglob("*"))
    told = [Session(project, "new").context(event, source="startup", prompt="Go") for event in BEGIN]
    assert all("leftoff.toml is wrong" in (line or "") for line in told), told
    fire_all(Session(project, "new"))
    assert before == sorted(project.rglob("*"))


def test_a_missing_store(session: Session, project: Path) -> None:
    """Gone from one event to the next: a new one is begun."""
    shutil.rmtree(project / ".leftoff")
    fire_all(session)
    assert 1 == len(succeed("ls", "--all", "--json", cwd=project).json["runs"])


def test_a_store_that_cannot_be_made(project: Path) -> None:
    """A file where the store should be."""
    (project / ".leftoff").write_text("in the way")
    (project / "leftoff.toml").write_text("")
    (project / "a.txt").write_text("a")
    start, prompt, *others = fire_all(Session(project))
    assert "its store is locked, read-only, full or out of reach" in start and "out of reach" in prompt
    assert [""] * len(others) == others
    (project / ".leftoff").unlink()


def test_settings_that_are_wrong(session: Session, project: Path) -> None:
    """A person's typing error is told where a session or a turn begins, by its place and not by its words."""
    (project / "leftoff.toml").write_text("this is not TOML")
    start, prompt, *others = fire_all(session)
    assert "its leftoff.toml is wrong" in start and "its leftoff.toml is wrong" in prompt
    assert "this is not" not in start + prompt and [""] * len(others) == others
    assert "not TOML" in (project / ".leftoff" / "hook.log").read_text()
    (project / "leftoff.toml").unlink()


def test_a_locked_store(session: Session, project: Path) -> None:
    """The agent goes on without waiting for the lock; what was to be saved is saved once it is free."""
    with open(project / ".leftoff" / "lock", "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data = json.dumps(event_of("s2", project, "PostToolUse", tool_name="TodoWrite",
                                   tool_input={"todos": [{"content": "late", "status": "pending"}]}))  # fmt: skip
        done = call("hook", "claude", cwd=project, input=data)
        assert (0, "", "") == (done.code, done.out, done.err)
        assert "is locked" in (project / ".leftoff" / "hook.log").read_text()
    assert ["late"] == [run.next_step for run in _rows(project) if run.session_id == "s2"]


def _rows(project: Path) -> list[Any]:
    from types import SimpleNamespace

    found = succeed("ls", "--all", "--json", cwd=project).json["runs"]
    return [SimpleNamespace(**run) for run in found]


def read_only(project: Path, words: list[str], event: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """A hook on a file system that takes nothing. It mounts one, which not everybody may."""
    made = f"mount --bind {project} {project} && mount -o remount,ro,bind {project} && exec"
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{made} {shlex.join(words)}"],
        input=json.dumps(event),
        capture_output=True,
        text=True,
        cwd=project,
        env=environment(),
        timeout=60,
    )


def test_a_read_only_store(session: Session, project: Path) -> None:
    """On a file system that takes nothing: neither an error nor a word."""
    done = read_only(project, [str(LEFTOFF), "hook", "claude"], event_of("s1", project, "Stop"))
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.fixture
def left(project: Path) -> str:
    """A run whose turn is open, and whose session is over: its id."""
    first = Session(project, "first")
    first.fire("UserPromptSubmit", prompt="Write the guide")
    first.fire("StopFailure", error="overloaded")
    first.fire("SessionEnd", reason="exit")
    (run,) = succeed("ls", "--json", cwd=project).json["runs"]
    return str(run["run_id"])


def test_a_locked_store_is_read(left: str, project: Path) -> None:
    """A session that begins meanwhile is told what was left; one that goes on is told its own brief."""
    told = []
    with open(project / ".leftoff" / "lock", "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for name in ("second", "first"):
            session = Session(project, name)
            session.env = {"LEFTOFF_LOCK_TIMEOUT": "0"}
            told.append(session.context("SessionStart", source="resume") or "")
    assert "Unfinished: " in told[0] and left in told[0]
    assert f"leftoff run {left}." in told[1] and "Write the guide" in told[1]
    assert "is locked" in (project / ".leftoff" / "hook.log").read_text()
    Session(project, "first").fire("UserPromptSubmit", prompt="go on")
    turns = succeed("show", left, "--json", cwd=project).json["records"]["turn"].values()
    assert [("Write the guide", "failed"), ("go on", "running")] == [
        (t["prompt"], t["status"]) for t in turns
    ]


def test_a_read_only_store_is_read(left: str, project: Path) -> None:
    """A session that begins where nothing can be written is told what was left."""
    patient = "from leftoff.agents import hook_process; hook_process.LAST_S = 60"
    hook = f"{patient}; from leftoff.cli import main; main(['hook', 'claude'])"
    event = event_of("second", project, "SessionStart", source="startup")
    done = read_only(project, [sys.executable, "-c", hook], event)
    assert "Unfinished: " in done.stdout and left in done.stdout, done.stderr


def test_ten_at_once(project: Path) -> None:
    """As agents call them: one run, every file and every list of every session, no mixing."""
    names = [f"f{n}.txt" for n in range(10)]
    for name in names:
        (project / name).write_text(name)
    session = Spawned(project)

    def write(name: str) -> None:
        given = {"file_path": str(project / name)}
        session.fire("PostToolUse", tool_name="Write", tool_input=given)

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(write, names))
    assert names == _files(project)
    assert 1 == len(_rows(project))


def _files(project: Path) -> list[str]:
    runs = _rows(project)
    if not runs:
        return []
    shown = succeed("show", runs[0].run_id, "--json", cwd=project).json
    return sorted(about["path"] for about in shown["files"])


def _turns(project: Path, run_id: str) -> list[str]:
    """What a run was asked."""
    found = succeed("show", run_id, "--json", cwd=project).json["records"].get("turn", {})
    return [turn["prompt"] for turn in found.values()]


@pytest.mark.parametrize("number", [20, pytest.param(200, marks=pytest.mark.crash_full)])
def test_many_sessions_in_one_folder(number: int, project: Path) -> None:
    """Ten at a time: each has its own run with its own prompt and its own steps, and nothing else."""
    names = [f"session-{n:03d}" for n in range(number)]

    def work(name: str) -> None:
        session = Spawned(project, name)
        session.fire("UserPromptSubmit", prompt=f"Do what {name} is for")
        session.todos(**{f"first_of_{name}": "completed", f"second_of_{name}": "in_progress"})

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, names))
    succeed("ls", cwd=project)  # which records what hooks were too busy for
    store = leftoff.open(project / ".leftoff")
    try:
        found = store.list(limit=None)
        assert names == sorted(str(run.row.session) for run in found)
        for run in found:
            assert (f"second-of-{run.row.session}", 2) == (run.current_step, run.steps["total"])
            assert [f"Do what {run.row.session} is for"] == _turns(project, run.run_id)
    finally:
        store.close()
