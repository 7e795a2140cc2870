"""Inside a write transaction nothing waits: no file of the project is read there, and nothing is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leftoff.cli import main
from leftoff.store.sqlite import SqliteStore
from tests.protocols.files import put

WATCHED = ("open", "os.listdir", "os.scandir", "subprocess.Popen", "os.posix_spawn", "os.fork")
BMAD_RUN = "_bmad-output/.runs/main/r/state.json"


class Probe:
    """What is opened or started while a transaction is open, the store's own files and modules aside."""

    def __init__(self) -> None:
        self.inside = False
        self.project = ""
        self.seen: list[str] = []

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.inside and event in WATCHED:
            name = os.path.abspath(os.fsdecode(args[0])) if isinstance(args[0], (str, bytes)) else ""
            of_project = name.startswith(self.project) and "/.leftoff/" not in name
            if of_project or event in WATCHED[3:]:
                self.seen.append(f"{event} {name}")

    def around(self, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watched(tx: Any) -> Any:
            self.inside = True
            try:
                return work(tx)
            finally:
                self.inside = False

        return watched


PROBE = Probe()
sys.addaudithook(PROBE.hook)  # there is no way to take one away; it is idle unless a test is at it


@pytest.fixture
def watched(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in a git repository, every transaction of which is watched; at the end nothing was seen."""
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=project, check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "x"], cwd=project, check=True)
    monkeypatch.chdir(project)
    write = SqliteStore.write
    monkeypatch.setattr(SqliteStore, "write", lambda self, fn, **more: write(self, PROBE.around(fn), **more))
    PROBE.project, PROBE.seen = os.path.join(os.path.realpath(project), ""), []
    yield project
    assert [] == PROBE.seen


def run(*words: str) -> None:
    assert 0 == main(list(words))


def test_the_probe_sees_what_is_read(watched: Path) -> None:
    """A file that is read inside a transaction is seen, so that the tests below mean something."""
    (watched / "a.txt").write_text("a")
    PROBE.around(lambda tx: (watched / "a.txt").read_text())(None)
    assert [f"open {watched / 'a.txt'}"] == PROBE.seen
    PROBE.seen = []


def test_reports_read_nothing_inside(watched: Path) -> None:
    """Steps with outputs, checkpoints, notes, the end: files and git are looked at before."""
    (watched / "out.txt").write_text("x")
    run("start", "w", "--run-id", "r", "--steps", "a,b")
    run("step", "start", "a")
    run("step", "done", "a", "--output", "out.txt")
    run("set", "x=1")
    run("save", "--note", "n")
    run("pause")
    run("finish")


def test_a_driver_reads_nothing_inside(watched: Path) -> None:
    """Nor does who executes a workflow, at the end of a step and of the run."""
    flow = {"name": "w", "steps": [{"id": "a", "run": "echo x > out.txt", "outputs": ["out.txt"]}]}
    (watched / "flow.yaml").write_text(json.dumps(flow))
    run("run", "flow.yaml")


def test_an_edited_document_is_taken_in_with_hashes_that_were_read_before(
    watched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files that a changed document names are hashed before the transaction that takes it in."""
    (watched / "leftoff.toml").write_text('[protocol]\nname = "bmad"\n')
    (watched / "x.md").write_text("hello")
    run("start", "w", "--run-id", "r", "--steps", "a,b")
    state = json.loads((watched / BMAD_RUN).read_text())
    made = [{"step": 1, "name": "x", "path": "x.md"}, {"step": 1, "name": "y", "path": "none.md"}]
    put(watched / BMAD_RUN, {**state, "artefacts_produced": made})
    capsys.readouterr()
    run("get", "artifact/x")
    about = json.loads(capsys.readouterr().out)
    assert (5, True) == (about["size"], about["hash"].startswith("sha256:2cf24dba"))


def test_the_configuration_of_crunch_is_read_before(watched: Path) -> None:
    """What it says of sealing is known when the transaction begins, also where the file was just changed."""
    run("init", "--protocol", "crunch")
    run("start", "crunch", "--issue", "42")
    run("step", "done", "enrich")
    config = watched / ".claude/checkpoint-config.yaml"
    config.write_text(config.read_text().replace("batch_complete: true", "batch_complete: false"))
    run("step", "done", "ready")


def test_outputs_that_say_how_a_step_ended_are_read_before(watched: Path) -> None:
    """What dotagent finds out from the files of an interrupted phase, it finds out before it is put on record."""
    run("init", "--protocol", "dotagent")
    run("start", "dotagent", "--run-id", "r")
    run("step", "start", "REQUIREMENTS")
    (watched / "memory/reports").mkdir(parents=True)
    (watched / "memory/reports/demand.json").write_text("{}")
    run("resume", "r", "--yes")
