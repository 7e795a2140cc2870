"""Any system call may be the last thing that a writer of the mirror does: no edit is lost, and none is made up."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import environment, succeed
from tests.crash import strace
from tests.crash.verdict import Violation, check
from tests.dialects.dying import RUN
from tests.dialects.files import put

ROOT = Path(__file__).parents[2]
CALLS = [
    "openat",
    "write",
    "pwrite64",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "fsync",
    "fdatasync",
    "flock",
]
SAMPLE = [("renameat2", 1), ("rename", 1), ("rename", 2), ("openat", 8), ("flock", 4)]
FILES = {
    "bmad": f"_bmad-output/.runs/main/{RUN}/state.json",
    "dotagent": "memory/state/phase.json",
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A project of each protocol, with a run."""
    made = {}
    for name in FILES:
        project = made[name] = tmp_path_factory.mktemp(name)
        succeed("init", "--dialect", name, cwd=project)
        workflow = "dotagent" if name == "dotagent" else "w"
        steps = () if name == "dotagent" else ("--steps", "a,b")
        succeed("start", workflow, "--run-id", RUN, *steps, cwd=project)
    succeed("step", "start", "IMPLEMENTATION/task-1", cwd=made["dotagent"])
    return made


def document(project: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project / FILES[name]).read_text())
    return found


def copied(folder: Path, begun: dict[str, Path], name: str) -> Path:
    """The same project elsewhere, as one that was never anywhere else: with an edit that lies ready."""
    shutil.copytree(begun[name], folder, symlinks=True)
    shutil.rmtree(folder / ".leftoff/sync")
    succeed("show", RUN, cwd=folder)
    put(folder / "edited", {**document(folder, name), "theirs": 2})
    return folder


def one_death(folder: Path, begun: dict[str, Path], name: str, where: tuple[str, int], *broken: str) -> bool:
    """Kill at one call, then look; whether there was such a call."""
    project = copied(folder, begun, name)
    command = [sys.executable, "-m", "tests.dialects.dying", str(project), *broken]
    child = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    assert "ready\n" == child.stdout.readline()
    call, when = where
    log = folder.with_suffix(".log")
    with strace.attached(child.pid, log, strace.watch([call]), strace.fault(call, "signal=KILL", when)):
        child.stdin.write("\n")
        child.stdin.flush()
        code = child.wait(60)
    child.stdin.close()
    child.stdout.close()
    check(code in (0, -signal.SIGKILL), f"it ended with {code}")
    try:
        judge(project, name)
    except Violation as violation:
        raise Violation(f"killed at call {when} of {call}: {violation}") from violation
    shutil.rmtree(folder)
    log.unlink()
    return code != 0


def judge(project: Path, name: str) -> None:
    """After the next verb both sides are the same, and have everything."""
    made = not (project / "edited").exists()
    shown = succeed("show", RUN, "--json", cwd=project)
    records, now = shown.json["records"], document(project, name)
    versions = succeed("log", RUN, "--json", cwd=project).json["checkpoints"]
    edits = sum(version["trigger"] == "external" for version in versions)
    check(edits == made, f"{edits} edits were seen, {int(made)} made: {shown.err}")
    key = "theirs" if name == "bmad" else "phase/theirs"
    check(records.get("extra", {}).get(key) == (2 if made else None), "the edit is not in the store")
    check(now.get("theirs") == (2 if made else None), f"the edit is not in the file: {now}")
    check("conflict" not in records, f"there is no conflict: {records.get('conflict')}")
    if name == "bmad":
        check(now["session_variables"] == shown.json["variables"], f"the file is not up to date: {now}")
    else:
        check(now["interruption_safe"] is True, "nobody is writing any more")
    folder = (project / FILES[name]).parent
    strays = {path.name for path in folder.iterdir() if not path.name.startswith(".workflow-status.md.")} - {
        "state.json",
        "workflow-status.md",
        "phase.json",
        "execution.json",
    }
    check(not strays, f"left behind: {strays}")
    check(not (project / ".leftoff/sync/coming").exists(), "a write is not finished")


@pytest.mark.parametrize("where", SAMPLE, ids=lambda where: f"{where[0]}-{where[1]}")
def test_death_at_a_call(tmp_path: Path, begun: dict[str, Path], where: tuple[str, int]) -> None:
    """A sample of the full run."""
    assert one_death(tmp_path / "one", begun, "bmad", where)


def test_death_between_two_files(tmp_path: Path, begun: dict[str, Path]) -> None:
    """The file that says that it is being written is no edit, and says so no more afterwards."""
    assert one_death(tmp_path / "one", begun, "dotagent", ("renameat2", 2))


def test_a_writer_that_notes_nothing_down_is_caught(tmp_path: Path, begun: dict[str, Path]) -> None:
    """Without an intent, what was displaced is lost with whoever displaced it."""
    with pytest.raises(Violation):
        one_death(tmp_path / "one", begun, "bmad", ("rename", 2), "broken")


@pytest.mark.crash_full
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("call", CALLS)
def test_death_at_every_call(tmp_path: Path, begun: dict[str, Path], name: str, call: str) -> None:
    """Each in turn, until there are no more."""
    hits, when = 0, 1
    with ThreadPoolExecutor(2) as pool:
        while True:
            tries = range(when, when + 4)
            found = list(pool.map(lambda n: one_death(tmp_path / str(n), begun, name, (call, n)), tries))
            hits, when = hits + sum(found), when + 4
            if not all(found):
                break
    assert hits or call in ("fsync", "pwrite64", "renameat", "linkat", "unlinkat", "unlink")
