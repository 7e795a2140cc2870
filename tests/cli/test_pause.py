"""`leftoff pause`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import call, succeed
from tests.cli.runs import driven, started


def test_the_run_is_paused_and_sealed(tmp_path: Path) -> None:
    """It stays unfinished and idle, with a checkpoint `session_end`; plain output is on stderr only."""
    run = started(tmp_path)
    done = succeed("pause", "--note", "lunch", cwd=tmp_path)
    assert "" == done.out and run in done.err and "resume" in done.err
    found = succeed("ls", "--json", cwd=tmp_path).json["runs"][0]
    assert ("paused", "idle", None) == (found["status"], found["health"], found["completed_at"])
    (checkpoint,) = succeed("log", "--json", cwd=tmp_path).json["checkpoints"]
    assert ("session_end", "lunch") == (checkpoint["trigger"], checkpoint["note"])
    assert found["head"]["checkpoint_id"] == checkpoint["checkpoint_id"]


def test_json_is_the_run(tmp_path: Path) -> None:
    """Paused twice is paused once."""
    run = started(tmp_path)
    first = succeed("pause", "--json", cwd=tmp_path).json
    assert (run, "paused", 2) == (first["run_id"], first["status"], first["head"]["seq"])
    again = succeed("pause", "--json", cwd=tmp_path)
    assert 2 == again.json["head"]["seq"] and "already" in again.err


def test_a_finished_run_stays_finished(tmp_path: Path) -> None:
    """There is nothing to pause, and that is said."""
    run = started(tmp_path)
    succeed("finish", cwd=tmp_path)
    done = succeed("pause", "--run", run, "--json", cwd=tmp_path)
    assert "completed" == done.json["status"] and "completed already" in done.err


def test_a_driven_run_is_a_conflict(tmp_path: Path) -> None:
    """A run that a live process drives is not paused from outside; once that ends, it can be."""
    with driven(tmp_path) as run:
        done = call("pause", "--run", run, cwd=tmp_path)
        assert 5 == done.code and "driven by" in done.err and 2 <= done.err.count("\n")
    succeed("pause", "--run", run, cwd=tmp_path)
