"""`leftoff unblock`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import call, succeed
from tests.cli.runs import started
from tests.cli.test_ls import RUN_KEYS


def blocked(folder: Path) -> str:
    run = started(folder, "work", "--steps", "a,b,c")
    for step in ("a", "b"):
        succeed("step", "block", step, "--error", f"no {step}", cwd=folder)
    return run


def status(folder: Path, what: str, run: str) -> str:
    return succeed("get", what, run, cwd=folder).out.strip()


def test_all_of_it(tmp_path: Path) -> None:
    """Every blocked step is to be done, the errors are gone, the run is running, in one checkpoint that says who."""
    run = blocked(tmp_path)
    assert "blocked" == status(tmp_path, "run/status", run)
    result = succeed("unblock", run, cwd=tmp_path)
    assert "a, b" in result.err
    found = succeed("show", run, "--json", cwd=tmp_path).json
    assert ("running", None) == (found["status"], found["records"].get("error"))
    assert ["pending"] * 3 == [record["status"] for record in found["step_records"]]
    newest = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"][0]
    assert newest["note"].startswith("unblocked by ")


def test_one_step(tmp_path: Path) -> None:
    """One of several: the run stays blocked by the other."""
    run = blocked(tmp_path)
    found = succeed("unblock", run, "a", "--json", cwd=tmp_path).json
    assert set(found) >= RUN_KEYS
    assert ("blocked", 1) == (found["status"], found["steps"]["blocked"])
    assert "running" == succeed("unblock", run, "b", "--json", cwd=tmp_path).json["status"]


def test_nothing_to_clear(tmp_path: Path) -> None:
    """Nothing is blocked: exit 0, and no version more. A step that is not blocked is a conflict, none is exit 3."""
    run = started(tmp_path, "work", "--steps", "a")
    before = succeed("show", run, "--json", cwd=tmp_path).json["head"]
    assert "Nothing blocks" in succeed("unblock", run, cwd=tmp_path).err
    assert (5, 3, 3) == tuple(
        call("unblock", *words, cwd=tmp_path).code for words in ((run, "a"), (run, "x"), ("nothing",))
    )
    assert before == succeed("show", run, "--json", cwd=tmp_path).json["head"]
