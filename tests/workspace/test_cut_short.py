"""A rollback with files that did not come to its end: what the next call does about it, and what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Called, call, environment, succeed

# What happens after so many files were put in their place: it is killed, or somebody writes to the last file.
HOOKED = """
import os, sys
from leftoff.engine import restoring
from leftoff.errors import StoreUnavailable
real, count = restoring._Writer.put, [int(sys.argv[1])]
def put(self, entry):
    if not count[0]:
        if sys.argv[2] == "kill":
            os._exit(9)
        if sys.argv[2] == "fail":
            raise StoreUnavailable(f"{entry.path} cannot be restored: Operation not permitted.")
    real(self, entry)
    count[0] -= 1
    if not count[0] and sys.argv[2] == "write":
        with open(os.path.join(self.project, "f4"), "w") as file:
            file.write("precious\\n")
restoring._Writer.put = put
from leftoff.cli.dispatch import dispatch
sys.exit(dispatch(sys.argv[3:]))
"""
FILES = ["f1", "f2", "f3", "f4"]


class Cut:
    """A run with two versions of four files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run("start", "x", "--run-id", "r", "--steps", "a,b,c")
        for text, step in (("one", "a"), ("two", "b")):
            for name in FILES:
                (folder / name).write_text(f"{text} {name}\n")
            self.run("track", *FILES)
            self.run("step", "done", step)
        self.first = next(entry["seq"] for entry in self.log() if entry["step"] == "a")

    def run(self, *words: str) -> Called:
        return succeed(*words, cwd=self.folder)

    def log(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = self.run("log", "r", "--json").json["checkpoints"]
        return found

    def hooked(self, number: int, how: str, *words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-c", HOOKED, str(number), how, *words]
        return subprocess.run(line, cwd=self.folder, env=environment(), capture_output=True, text=True)

    def killed(self) -> None:
        assert 9 == self.hooked(2, "kill", "rollback", f"r@{self.first}", "--files").returncode
        assert ["one", "one", "two", "two"] == self.words()

    def words(self) -> list[str]:
        return [(self.folder / name).read_text().split()[0] for name in FILES]

    def half_restored(self) -> dict[str, str]:
        found: dict[str, str] = self.run("status", "--json").json["half_restored"]
        return found

    def steps(self) -> list[str]:
        return [step["status"] for step in self.run("show", "r", "--json").json["step_records"]]


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    return Cut(tmp_path)


@pytest.mark.parametrize("between", [["rollback", "r@FIRST"], ["resume", "r", "--from-step", "b", "--yes"]])
def test_another_rollback_came_between(cut: Cut, between: list[str]) -> None:
    """Whatever else was sealed as a rollback meanwhile: called again, it puts every file in its place."""
    cut.killed()
    call(*(word.replace("FIRST", str(cut.first)) for word in between), cwd=cut.folder)
    cut.run("rollback", f"r@{cut.first}", "--files", "--yes")
    assert ["one"] * 4 == cut.words()
    assert ["completed", "pending", "pending"] == cut.steps()


def test_a_run_that_went_on_is_not_taken_back(cut: Cut) -> None:
    """Restoring one file, long after: the rest stays as it is, the run too, and the rollback is still reported."""
    cut.killed()
    cut.run("step", "done", "c")
    cut.run("restore", f"r@{cut.first}", "f3", "--yes")
    assert ["one", "one", "one", "two"] == cut.words()
    assert ["completed"] * 3 == cut.steps()
    assert {"r": f"leftoff rollback r@{cut.first} --files"} == cut.half_restored()
    cut.run("rollback", f"r@{cut.first}", "--files", "--yes")
    assert ({}, ["one"] * 4) == (cut.half_restored(), cut.words())


def test_the_relative_name_of_a_version_stays(cut: Cut) -> None:
    """`~N` does not count the version that was made before the kill: the same call completes it."""
    assert 9 == cut.hooked(2, "kill", "rollback", "r~1", "--files").returncode
    done = cut.run("rollback", "r~1", "--files")
    assert (["one"] * 4, True) == (cut.words(), "now complete" in done.err)
    assert ["rollback", "rollback_begin", "rollback_begin"] == [entry["trigger"] for entry in cut.log()[:3]]


def test_undone_while_it_is_open(cut: Cut) -> None:
    """A rollback to the version that was made first brings the present back, and nothing is open then."""
    cut.killed()
    saved = cut.log()[0]
    assert "rollback_begin" == saved["trigger"]
    cut.run("rollback", str(saved["checkpoint_id"]), "--files", "--yes")
    assert ({}, ["two"] * 4) == (cut.half_restored(), cut.words())


def test_single_files(cut: Cut) -> None:
    """A restore that was killed is reported with the files that it was given, and completed by the same call."""
    words = ("restore", f"r@{cut.first}", *FILES)
    assert 9 == cut.hooked(2, "kill", *words).returncode
    assert {"r": " ".join(("leftoff", *words))} == cut.half_restored()
    cut.run(*words)
    assert ({}, ["one"] * 4) == (cut.half_restored(), cut.words())
    assert ["completed", "completed", "pending"] == cut.steps()


def test_a_fork_is_not_half_restored(cut: Cut) -> None:
    """It has the records of its source, but its files were not touched."""
    cut.killed()
    cut.run("fork", "r", "--run-id", "other")
    assert ["r"] == [*cut.half_restored()]


def test_a_file_that_is_written_to_meanwhile(cut: Cut) -> None:
    """It is not overwritten: exit 5 says which and how far it came; called again, it is saved first."""
    done = cut.hooked(2, "write", "rollback", f"r@{cut.first}", "--files")
    assert 5 == done.returncode, done.stderr
    assert "f4 was changed while files were restored" in done.stderr
    assert "precious" == cut.words()[3]
    cut.run("rollback", f"r@{cut.first}", "--files", "--yes")
    assert ["one"] * 4 == cut.words()
    saved = [entry["seq"] for entry in cut.log() if entry["trigger"] == "rollback_begin"]
    assert "precious\n" in [call("cat", f"r@{seq}:f4", cwd=cut.folder).out for seq in saved]


def test_an_error_half_way(cut: Cut) -> None:
    """The file is named, not what it is written under; how far it came, and that the same call goes on."""
    done = cut.hooked(2, "fail", "rollback", f"r@{cut.first}", "--files")
    assert 8 == done.returncode, done.stderr
    assert "f3 cannot be restored: Operation not permitted. 2 of 4 files are in place" in done.stderr
    assert "the same `leftoff rollback` completes it" in done.stderr
    cut.run("rollback", f"r@{cut.first}", "--files")
    assert ["one"] * 4 == cut.words()


def test_nothing_of_it_is_left(cut: Cut) -> None:
    """After all of it no half written file is there."""
    cut.killed()
    assert [] != [path.name for path in cut.folder.iterdir() if path.name.startswith(".leftoff-")]
    cut.run("rollback", f"r@{cut.first}", "--files")
    assert [] == [path.name for path in cut.folder.iterdir() if path.name.startswith(".leftoff-")]


def test_what_was_not_kept_cannot_be_restored(tmp_path: Path) -> None:
    """A file whose content is not there: exit 3 says so; the others that were named are restored."""
    (tmp_path / "leftoff.toml").write_text("[files]\nmax_file = 10\n")
    succeed("start", "x", "--run-id", "r", cwd=tmp_path)
    (tmp_path / "big").write_text("x" * 100)
    (tmp_path / "small").write_text("one\n")
    succeed("track", "big", "small", cwd=tmp_path)
    (tmp_path / "big").write_text("y")
    (tmp_path / "small").write_text("two\n")
    done = call("restore", "r", "big", "small", "--yes", cwd=tmp_path)
    assert (3, True) == (done.code, "big (its content was not kept)" in done.err), str(done)
    assert ("y", "one\n") == ((tmp_path / "big").read_text(), (tmp_path / "small").read_text())
