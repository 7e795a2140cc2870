"""`leftoff rollback`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import leftoff
from tests.cli.command import call, environment, succeed
from tests.cli.runs import driven, files_below, release, started
from tests.cli.test_ls import RUN_KEYS


def test_back_to_a_checkpoint(tmp_path: Path) -> None:
    """Everything is as it was then, in a new checkpoint; the present was sealed before, and can be gone back to."""
    run = release(tmp_path)
    succeed("set", "count=9", cwd=tmp_path)
    present = succeed("show", run, "--json", cwd=tmp_path).json
    first = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"][-1]
    result = succeed("rollback", first["checkpoint_id"][:6], cwd=tmp_path)
    assert run in result.out and first["checkpoint_id"] in result.out
    now = succeed("show", run, "--json", cwd=tmp_path).json
    assert (3, 25, "build") == (now["variables"]["count"], now["percent"], now["next_step"])
    log = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"]
    assert ["rollback", "manual"] == [entry["trigger"] for entry in log[:2]]
    assert first["digest"] == log[0]["digest"]
    assert first["checkpoint_id"] in log[0]["note"]
    succeed("rollback", log[1]["checkpoint_id"], cwd=tmp_path)
    again = succeed("show", run, "--json", cwd=tmp_path).json
    assert (present["variables"], present["step_records"]) == (again["variables"], again["step_records"])


def test_json_is_a_run(tmp_path: Path) -> None:
    """With --json the run is printed, whose head is the new checkpoint."""
    release(tmp_path)
    found = succeed("rollback", "@~1", "--json", cwd=tmp_path).json
    assert set(found) >= RUN_KEYS
    newest = succeed("log", "--json", cwd=tmp_path).json["checkpoints"][0]
    assert (newest["seq"], newest["checkpoint_id"]) == (found["head"]["seq"], found["head"]["checkpoint_id"])


def test_to_where_it_is_changes_no_record(tmp_path: Path) -> None:
    """Going back to the newest version is harmless, and said; it makes no version, however the run is named."""
    run = release(tmp_path)
    before = succeed("show", "--json", cwd=tmp_path).json
    for words in ((run,), ("--run", run), (run, "--files")):
        assert "already" in succeed("rollback", *words, cwd=tmp_path).err
    assert before == succeed("show", "--json", cwd=tmp_path).json


def test_a_dead_program_is_paused_where_it_is(tmp_path: Path) -> None:
    """Nobody drives it any more, so that this is no longer a run at work: the same records, and paused."""
    code = "import leftoff, os; leftoff.start('dies', run_id='r'); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), check=False)
    assert "running" == succeed("show", "r", "--json", cwd=tmp_path).json["status"]
    assert "paused" == succeed("rollback", "r", "--json", cwd=tmp_path).json["status"]


def test_a_finished_run_can_go_back(tmp_path: Path) -> None:
    """Also a run that was finished is what it was."""
    run = release(tmp_path)
    succeed("finish", cwd=tmp_path)
    assert "running" == succeed("rollback", f"{run}~1", "--json", cwd=tmp_path).json["status"]


def test_nobody_drives_a_run_of_a_workflow_that_went_back(tmp_path: Path) -> None:
    """It was running then, and is paused now: that it goes on takes somebody who resumes it."""
    (tmp_path / "flow.yaml").write_text(
        "name: flow\nsteps:\n- {id: a, run: 'true'}\n- {id: b, run: 'true'}\n"
    )
    succeed("run", "flow.yaml", "--run-id", "r", cwd=tmp_path)
    first = succeed("log", "r", "--json", cwd=tmp_path).json["checkpoints"][-1]
    assert "running" == succeed("show", f"r@{first['seq']}", "--json", cwd=tmp_path).json["status"]
    back = succeed("rollback", f"r@{first['seq']}", "--json", cwd=tmp_path).json
    assert ("paused", "idle", "b") == (back["status"], back["health"], back["next_step"])
    assert succeed("log", "r", "--json", cwd=tmp_path).json["checkpoints"][0]["seq"] == back["head"]["seq"]
    (told,) = succeed("status", "--json", cwd=tmp_path).json["runs"]
    assert ("paused", "idle") == (told["status"], told["health"])
    succeed("resume", "r", cwd=tmp_path)
    assert "completed" == succeed("show", "r", "--json", cwd=tmp_path).json["status"]


def test_nobody_drives_a_run_of_a_program_that_went_back(tmp_path: Path) -> None:
    """Only the program that began it goes on with it, when it is started again."""
    with leftoff.open(tmp_path / ".leftoff").start("work", run_id="r") as run:
        run.checkpoint()
        run.variables["a"] = 1
    back = succeed("rollback", "r@1", "--json", cwd=tmp_path).json
    assert ("paused", "idle") == (back["status"], back["health"])


def test_not_while_somebody_drives_it(tmp_path: Path) -> None:
    """A run that another live process drives is a conflict, and stays as it is."""
    with driven(tmp_path) as run:
        result = call("rollback", f"{run}@1", cwd=tmp_path)
        assert 5 == result.code, str(result)
        assert "driven by" in result.err
        assert [] == succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("@~1", "x"), 3),
        (("nothing",), 3),
        (("@~9",), 3),
        (("@~9", "--files"), 3),
        (("nothing", "--good"), 3),
    ],
)
def test_wrong_words(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """Wrong usage is exit 2, what is not there exit 3; nothing is written."""
    release(tmp_path)
    before = succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["head"]
    result = call("rollback", *words, cwd=tmp_path)
    assert code == result.code, str(result)
    assert before == succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["head"]


def test_a_dry_run_without_files(tmp_path: Path) -> None:
    """It says which version it would be, and changes nothing; as JSON, too."""
    release(tmp_path)
    before = succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["head"]
    found = succeed("rollback", "@~1", "--dry-run", "--json", cwd=tmp_path).json
    assert {"run_id", "seq"} == set(found) and found["seq"] < before["seq"]
    said = succeed("rollback", "@~1", "--dry-run", cwd=tmp_path).err
    assert f"would go back to version {found['seq']}." in said
    assert before == succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["head"]


def test_no_store_is_made(tmp_path: Path) -> None:
    """A REF is resolved before anything is written."""
    assert 3 == call("rollback", "latest", cwd=tmp_path).code
    assert [] == files_below(tmp_path)


@pytest.mark.parametrize(("words", "went_back"), [((), False), (("--files",), True)])
def test_single_files(words: tuple[str, ...], went_back: bool, tmp_path: Path) -> None:
    """With PATH only these files are restored; the run goes back only with --files."""
    run = started(tmp_path, "work")
    files = [tmp_path / name for name in ("a.txt", "b.txt")]
    for text in ("one", "two"):
        for file in files:
            file.write_text(text)
        succeed("set", f"v={text}", cwd=tmp_path)
        succeed("save", "a.txt", "b.txt", cwd=tmp_path)
    back = succeed("rollback", f"{run}~1", "a.txt", *words, "--json", cwd=tmp_path).json
    assert (run, ["one", "two"]) == (back["run_id"], [file.read_text() for file in files])
    assert ("one" if went_back else "two") == succeed("get", "v", cwd=tmp_path).out.strip()
    files[0].write_text("changed")
    assert 7 == call("rollback", f"{run}~1", "a.txt", cwd=tmp_path).code
    assert 3 == call("rollback", f"{run}~1", "nothing", cwd=tmp_path).code
    assert "changed" == files[0].read_text()
