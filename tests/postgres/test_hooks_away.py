"""Hooks while a server is away: what they tell is kept on this machine, and recorded once the server is back."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine.project import local_folder
from leftoff.engine.spool import FOLDER
from tests.agents.hooking import Session
from tests.cli.command import succeed
from tests.postgres.server import Server


class Away:
    """A project whose server can be stopped and started again."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder, self.url = server, folder, server.url("away")
        self.env = {"LEFTOFF_STORE": self.url}

    def session(self, name: str = "s1") -> Session:
        made = Session(self.folder, name)
        made.env = self.env
        return made

    def stop(self) -> None:
        """Nobody waits for it long, as long as it is stopped."""
        self.server.stop()
        self.env["LEFTOFF_LOCK_TIMEOUT"] = "0.2"

    def start(self) -> None:
        self.env.pop("LEFTOFF_LOCK_TIMEOUT", None)
        self.server.start()

    def runs(self) -> list[dict[str, Any]]:
        return list(succeed("ls", "--json", cwd=self.folder, LEFTOFF_STORE=self.url).json["runs"])

    def shown(self) -> dict[str, Any]:
        (run,) = self.runs()
        return dict(succeed("show", run["run_id"], "--json", cwd=self.folder, LEFTOFF_STORE=self.url).json)

    def kept(self) -> list[Path]:
        return sorted(Path(local_folder(self.url), FOLDER).glob("[0-9]*"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One of our own: others must not lose theirs."""
    folder = Path(tempfile.mkdtemp(prefix="leftoff-pg-"))  # other users must come by
    folder.chmod(0o755)
    made = Server(folder / "server")
    made.make()
    made.start()
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture
def away(server: Server, project: Path) -> Iterator[Away]:
    made = Away(server, project)
    if not server.is_up():
        server.start()
    yield made
    if not server.is_up():
        server.start()
    server.tell('DROP SCHEMA IF EXISTS "leftoff_away" CASCADE')
    shutil.rmtree(Path(local_folder(made.url), FOLDER), ignore_errors=True)


def turns(shown: dict[str, Any]) -> list[dict[str, Any]]:
    return list(shown["records"]["turn"].values())


def test_what_is_told_meanwhile_is_taken_in(away: Away) -> None:
    """A list, a failed command and the end of the turn, told while the server was stopped; then it is there, once."""
    session = away.session()
    session.fire("UserPromptSubmit", prompt="build it")
    away.stop()
    session.todos(one="completed", two="in_progress")
    failed = {
        "tool_name": "Bash",
        "tool_input": {"command": "make"},
        "error": "no rule; password=hunter2hunter2",
    }
    session.fire("PostToolUseFailure", **failed)
    session.fire("Stop", last_assistant_message="half of it is done")
    assert 3 == len(away.kept())
    assert "hunter2" not in "".join(path.read_text() for path in away.kept())
    away.start()
    told = session.context("UserPromptSubmit", prompt="and the rest")
    assert told is None and [] == away.kept()
    found = away.shown()
    assert {"one": "completed", "two": "running"} == {
        about["step"]: about["status"] for about in found["step_records"]
    }
    first, second = turns(found)
    assert ("build it", "completed", "half of it is done") == (
        first["prompt"],
        first["status"],
        first["said"],
    )
    assert ("and the rest", "running") == (second["prompt"], second["status"])
    assert 1 == json.dumps(found).count("no rule")


def test_a_run_that_begins_meanwhile(away: Away) -> None:
    """The agent is told that its words are kept; they become a run with what follows."""
    session = away.session()
    away.session("other").fire("UserPromptSubmit", prompt="there is a store")
    away.session("other").fire("SessionEnd", reason="exit")
    before = len(away.runs())
    away.stop()
    told = session.context("UserPromptSubmit", prompt="begin")
    assert told is not None and "kept on this machine" in told
    session.todos(one="in_progress")
    away.start()
    session.fire("Stop", last_assistant_message="so far")
    runs = [run for run in away.runs() if run["title"] == "begin"]
    assert (1, before + 1) == (len(runs), len(away.runs()))


def test_each_is_taken_in_once(away: Away) -> None:
    """Killed between the commit and the removal of what was kept, it is tried again, and found to be there."""
    session = away.session()
    session.fire("UserPromptSubmit", prompt="build it")
    away.stop()
    failed = {"tool_name": "Bash", "tool_input": {"command": "make"}, "error": "no rule"}
    session.fire("PostToolUseFailure", **failed)
    session.fire("UserPromptSubmit", prompt="once more")
    away.start()
    again = {path: path.read_bytes() for path in away.kept()}
    session.todos(one="in_progress")
    for path, content in again.items():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(content)
    session.todos(one="completed")
    assert [] == away.kept()
    found = away.shown()
    assert ["build it", "once more"] == [turn["prompt"] for turn in turns(found)]
    assert 1 == json.dumps(found).count("no rule")


def test_another_folder_of_the_same_store_records_them(away: Away) -> None:
    """Whoever comes first: each event is recorded with the files of its own folder."""
    away.session().fire("UserPromptSubmit", prompt="build it")
    away.stop()
    away.session().fire("Stop", last_assistant_message="done")
    away.start()
    elsewhere = away.session("elsewhere")
    elsewhere.cwd = away.folder / "another"
    elsewhere.cwd.mkdir()
    (elsewhere.cwd / "leftoff.toml").touch()
    assert 1 == len(away.kept())
    elsewhere.fire("UserPromptSubmit", prompt="in another folder of the same store")
    assert [] == away.kept()
    (run,) = [run for run in away.runs() if run["title"] == "build it"]
    found = succeed("show", run["run_id"], "--json", cwd=away.folder, LEFTOFF_STORE=away.url).json
    assert ["done"] == [turn["said"] for turn in turns(found)]
