"""What hooks tell a store that cannot be reached is kept beside it, signed and bounded, and taken in once."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from leftoff.agents.hooks import handle, run
from leftoff.engine.workspace import kept_events
from leftoff.engine.workspace.hook_order import MOST, OnItsWay, name_of
from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable, Unsupported
from leftoff.files import write_private
from leftoff.store.sqlite.store import SqliteStore
from tests.agents.hooking import Session
from tests.cli.command import succeed
from tests.races.between import Seam

FAILED = {"tool_name": "Bash", "tool_input": {"command": "make"}, "error": "no rule"}


@pytest.fixture
def session(project: Path) -> Iterator[Session]:
    made = Session(project)
    made.fire("UserPromptSubmit", prompt="build it")
    yield made


def kept(project: Path) -> list[Path]:
    return sorted((project / ".leftoff/waiting").glob("*"))


def shown(project: Path) -> dict[str, Any]:
    return dict(succeed("show", "latest", "--json", cwd=project).json)


def away(
    patch: pytest.MonkeyPatch, *, late: bool = False, why: type[LeftoffError] = StoreUnavailable
) -> None:
    """Nothing can be written. ``late``: it is, and only the answer is lost."""
    write = SqliteStore.write

    def lost(store: SqliteStore, fn: Callable[..., Any], **more: Any) -> Any:
        if late:
            write(store, fn, **more)
        if store.patience >= run.LAST:
            pytest.fail("An alarm ends who waits for so long.")
        raise why("away")

    patch.setattr(SqliteStore, "write", lost)


def test_an_answer_that_is_lost(session: Session, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed though nobody heard of it is not committed again."""
    with monkeypatch.context() as patch:
        away(patch, late=True)
        session.fire("PostToolUseFailure", **FAILED)
        session.fire("Stop", last_assistant_message="so far")
    assert 2 == len(kept(project))
    session.fire("UserPromptSubmit", prompt="and now")
    found = shown(project)
    assert 1 == json.dumps(found).count("no rule")
    assert ["build it", "and now"] == [turn["prompt"] for turn in found["records"]["turn"].values()]
    assert [] == kept(project) and not (project / ".leftoff/waiting").exists()


@pytest.mark.parametrize("why", [Corrupt, Unsupported])
def test_a_store_that_is_damaged_meanwhile(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch, why: type[LeftoffError]
) -> None:
    """What waits for a store waits for its repair, too."""
    for error in (StoreUnavailable, why):
        with monkeypatch.context() as patch:
            away(patch, why=error)
            session.fire("PostToolUseFailure", **FAILED)
        assert 1 == len(kept(project))
    session.fire("Stop", last_assistant_message="so far")
    assert 1 == json.dumps(shown(project)).count("no rule")
    assert [] == kept(project)


def test_one_that_is_taken_away_meanwhile(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By somebody who cleans up: what comes after it is told all the same."""
    with monkeypatch.context() as patch:
        away(patch)
        session.fire("PostToolUseFailure", **FAILED)
    with monkeypatch.context() as patch:
        Seam(patch).after("leftoff.operations.sessions.kept_events._become", lambda: shutil.rmtree(waiting))
        waiting = project / ".leftoff/waiting"
        session.fire("UserPromptSubmit", prompt="and now")
    assert ["build it", "and now"] == [turn["prompt"] for turn in shown(project)["records"]["turn"].values()]


def test_however_long_others_are_to_be_waited_for(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the settings: an event is kept before it is ended for taking too long."""
    session.env = {"LEFTOFF_LOCK_TIMEOUT": "600"}
    with monkeypatch.context() as patch:
        away(patch)
        session.fire("Stop", last_assistant_message="so far")
    assert 1 == len(kept(project))


def test_one_that_is_being_kept_is_left_alone(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes the others in meanwhile neither sets it aside nor takes it from who writes it."""
    replace = os.replace

    def meanwhile(old: str, new: str) -> None:
        patch.setattr(os, "replace", replace)
        told: list[str] = []
        with kept_events.Kept(str(project / ".leftoff"), 0, told.append) as others:
            assert ([], []) == (list(others.of("s", str(project))), told)
        replace(old, new)

    with monkeypatch.context() as patch:
        away(patch)
        patch.setattr(os, "replace", meanwhile)
        session.fire("PostToolUseFailure", **FAILED)
    assert 1 == len(kept(project))


def test_a_folder_that_came_along_tells_nothing(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this user did not keep, or somebody changed, or called otherwise, is set aside unread, and told."""
    with monkeypatch.context() as patch:
        away(patch)
        for _ in range(3):
            session.fire("PostToolUseFailure", **FAILED)
    first, second, third = kept(project)
    first.write_text(first.read_text().replace("no rule", "no ruse"))
    second.rename(second.with_name(second.name + "1"))
    third.write_text(json.dumps({"data": FAILED}))
    session.fire("Stop", last_assistant_message="so far")
    assert "no ru" not in json.dumps(shown(project))
    assert [] == kept(project)
    aside = sorted((project / ".leftoff/quarantine/events").iterdir())
    assert 3 == len(aside)
    assert str(aside[0]) in (project / ".leftoff/hook.log").read_text()


def test_nothing_is_set_aside_through_a_link(tmp_path: Path) -> None:
    """A folder that came along does not say where its files go, nor what they replace there."""
    name = f"{name_of('s')}.1.1"
    (tmp_path / name).write_text("mine")
    for folder in ("waiting", "quarantine"):
        (tmp_path / "store" / folder).mkdir(parents=True)
    (tmp_path / "store/waiting" / name).write_text("theirs")
    (tmp_path / "store/quarantine/events").symlink_to(tmp_path)
    said = list[str]()
    with kept_events.Kept(str(tmp_path / "store"), 1.0, said.append) as found:
        assert [] == list(found.of("s", "p"))
    assert "mine" == (tmp_path / name).read_text()
    assert "cannot be set aside" in said[0]


def test_a_folder_that_is_taken_away_meanwhile(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By who took in all that was kept: it is made once more."""
    write = write_private

    def gone(*_: object) -> None:
        monkeypatch.setattr(kept_events, "write_private", write)
        raise FileNotFoundError

    monkeypatch.setattr(kept_events, "write_private", gone)
    assert kept_events.keep(str(project / ".leftoff"), "a.1.2", {})
    assert ["a.1.2"] == [path.name for path in kept(project)]


def test_no_secret_is_kept(session: Session, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as a value, by what it looks like or by its name, nor as a key, nor where a long text is cut."""
    token = "ghp_" + "aB3dE6gH9j" * 4
    given = {"command": "make", "password": "hunter2", token: 1, "text": "x " * 9_990 + token}
    with monkeypatch.context() as patch:
        away(patch)
        session.fire("PostToolUseFailure", tool_name="Bash", tool_input=given, error=f"not {token}")
    (path,) = kept(project)
    assert not [secret for secret in ("hunter2", token[:12]) if secret in path.read_text()]


def test_a_clock_that_was_put_right_drops_nothing(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept by a clock that stood years behind waits like any other."""
    with monkeypatch.context() as patch:
        away(patch)
        session.fire("PostToolUseFailure", **FAILED)
        os.utime(kept(project)[0], (86_400, 86_400))
        session.fire("Stop", last_assistant_message="so far")
    assert 2 == len(kept(project))
    session.fire("UserPromptSubmit", prompt="and now")
    assert 1 == json.dumps(shown(project)).count("no rule")


def test_a_clock_that_is_put_back_changes_no_order(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept is told in the order in which it happened, and before what happens now."""
    with monkeypatch.context() as patch:
        away(patch)
        session.fire("Stop", last_assistant_message="so far")
        patch.setattr(time, "time_ns", lambda: 10**18)
        session.fire("UserPromptSubmit", prompt="go on")
        session.fire("Stop", last_assistant_message="done")
    monkeypatch.setattr(time, "time_ns", lambda: 10**17)
    session.fire("UserPromptSubmit", prompt="and now")
    turns = shown(project)["records"]["turn"].values()
    expected = [("build it", "so far"), ("go on", "done"), ("and now", None)]
    assert expected == [(turn["prompt"], turn.get("said")) for turn in turns]
    assert [] == kept(project)


def test_of_an_agent_that_nobody_sees(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come for what was kept; what lies for long is told by others, if nothing of it is at work."""
    monkeypatch.setattr(run, "agent_above", lambda *_: None)
    monkeypatch.setattr(run, "orphan", lambda *_: None)
    with monkeypatch.context() as patch:
        away(patch)
        session.fire("PostToolUseFailure", **FAILED)
    told = succeed("status", cwd=project), succeed("status", "--json", cwd=project)
    assert "waiting  1 events of agents" in told[0].out and 1 == told[1].json["events_waiting"]
    other, (path,), long_ago = Session(project, name="other"), kept(project), time.time() - 601
    other.fire("SessionStart", source="startup")
    assert [path] == kept(project)
    os.utime(path, (long_ago, long_ago))
    with OnItsWay(str(project / ".leftoff"), session.name) as way:
        other.fire("SessionStart", source="resume")
        assert [path] == kept(project)
        way.done()
    other.fire("SessionStart", source="clear")
    assert [] == kept(project) and 1 == json.dumps(shown(project)).count("no rule")


def test_what_cannot_be_kept_is_said(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many, or too large: a line in the log, as before."""
    monkeypatch.setattr(kept_events, "MOST", 1)
    with monkeypatch.context() as patch:
        away(patch)
        session.fire(
            "PostToolUse", tool_name="TodoWrite", tool_input={"todos": [{"content": "x" * 9000}] * 40}
        )
        session.fire("PostToolUseFailure", **FAILED)
        session.fire("PostToolUseFailure", **FAILED)
    lines = (project / ".leftoff/hook.log").read_text().splitlines()
    assert [False, True, False] == ["It is kept" in line for line in lines[-3:]]
    assert 1 == len(kept(project))


@pytest.fixture
def crowded(session: Session, project: Path) -> Iterator[ExitStack]:
    """As many events of the session at work as may wait."""
    with ExitStack() as waiting:
        for _ in range(MOST):
            way = waiting.enter_context(OnItsWay(str(project / ".leftoff"), session.name))
            waiting.callback(way.done)
        yield waiting


def test_no_more_processes_wait_than_may(session: Session, project: Path, crowded: ExitStack) -> None:
    """One more event is kept at once, in its order, and told by whoever is the last of them."""
    for number in range(3):
        session.fire("PostToolUseFailure", **FAILED | {"error": f"no rule {number}"})
    session.fire("Stop", last_assistant_message="so far")
    assert 4 == len(kept(project))
    assert "no rule" not in json.dumps(shown(project))
    crowded.close()
    session.fire("PostToolUse", tool_name="Read", tool_input={}, tool_response={})
    assert [] == kept(project)
    assert [1, 1, 1] == [json.dumps(shown(project)).count(f"no rule {number}") for number in range(3)]


def test_what_is_kept_is_not_told_before_what_waits(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that began earlier leaves it to the last of those who wait."""
    store = str(project / ".leftoff")
    with OnItsWay(store, session.name) as way:
        with monkeypatch.context() as patch:
            away(patch)
            session.fire("PostToolUseFailure", **FAILED)
        with kept_events.Kept(store, 0, print) as found:
            assert [] == list(found.of(session.name, str(project), way.name))
            assert 1 == len(list(found.of(session.name, str(project))))
        session.fire("PostToolUse", tool_name="Read", tool_input={}, tool_response={})
        way.done()
    assert [] == kept(project)


def test_the_last_who_waits_tells_the_rest(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept while it waited comes right behind it: nothing is left for an event that may never come."""
    real = handle.EVENTS["PostToolUse"]

    def react(at_work: Any, event: Any) -> bytes:
        with monkeypatch.context() as patch:
            away(patch)
            session.fire("PostToolUseFailure", **FAILED)
        assert 1 == len(kept(project))
        return real(at_work, event)

    monkeypatch.setitem(handle.EVENTS, "PostToolUse", react)
    session.fire("PostToolUse", tool_name="Read", tool_input={}, tool_response={})
    assert [] == kept(project) and "no rule" in json.dumps(shown(project))
