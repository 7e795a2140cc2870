"""`leftoff fork`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import driven, files_below, release, started
from tests.cli.test_ls import RUN_KEYS


def test_it_prints_the_new_runs_id(tmp_path: Path) -> None:
    """One bare value on stdout, talk on stderr; the new run is paused, undriven, and knows where it comes from."""
    run = release(tmp_path)
    result = succeed("fork", run, cwd=tmp_path)
    fork = result.out.strip()
    assert f"{fork}\n" == result.out
    assert f"leftoff resume {fork}" in result.err
    found = succeed("show", fork, "--json", cwd=tmp_path).json
    source = succeed("show", run, "--json", cwd=tmp_path).json
    assert ("paused", "idle", "fork-1", f"{run}@{source['head']['seq']}") == tuple(
        found[key] for key in ("status", "health", "branch", "parent")
    )
    assert source["variables"] == found["variables"]
    assert ["completed", "completed", "pending", "pending"] == [s["status"] for s in found["step_records"]]
    assert "running" == source["status"]


def test_json_is_a_run(tmp_path: Path) -> None:
    """With --json the new run is printed, as the contract has it."""
    release(tmp_path)
    found = succeed("fork", "@", "--json", "--branch", "side", "--run-id", "second", cwd=tmp_path).json
    assert set(found) >= RUN_KEYS
    assert ("second", "side", "paused") == (found["run_id"], found["branch"], found["status"])


def test_branches_are_chosen(tmp_path: Path) -> None:
    """Without --branch it is the first fork-N that no run is on."""
    release(tmp_path)
    branches = [succeed("fork", "@", "--json", cwd=tmp_path).json["branch"] for _ in range(3)]
    assert ["fork-1", "fork-2", "fork-3"] == branches


def test_an_older_version_with_other_variables(tmp_path: Path) -> None:
    """A fork of a checkpoint starts from there; --var sets variables in it, and only in it."""
    run = release(tmp_path)
    first = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"][-1]
    fork = succeed(
        "fork", first["checkpoint_id"], "--var", "count=9", "--var", "tag=2.10", cwd=tmp_path
    ).out.strip()
    found = succeed("show", fork, "--json", cwd=tmp_path).json
    assert (9, "2.10", 25) == (found["variables"]["count"], found["variables"]["tag"], found["percent"])
    assert f"{run}@{first['seq']}" == found["parent"]
    assert 3 == succeed("show", run, "--json", cwd=tmp_path).json["variables"]["count"]


def test_at_is_not_looked_for_on_the_new_branch(tmp_path: Path) -> None:
    """--branch says where the fork goes, not where @ is."""
    run = release(tmp_path)
    started(tmp_path, "other", "--branch", "side")
    found = succeed("fork", "@", "--branch", "side", "--json", cwd=tmp_path).json
    assert found["parent"].startswith(f"{run}@")


def test_a_driven_run_may_be_forked(tmp_path: Path) -> None:
    """Copying takes nothing away from whoever drives the original."""
    with driven(tmp_path) as run:
        assert 0 == call("fork", run, cwd=tmp_path).code


def test_ids_that_are_taken(tmp_path: Path) -> None:
    """An id of an unfinished run is a conflict; nothing half made stays behind."""
    run = release(tmp_path)
    result = call("fork", "@", "--run-id", run, cwd=tmp_path)
    assert 5 == result.code, str(result)
    assert 1 == len(succeed("ls", "--all", "--json", cwd=tmp_path).json["runs"])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("a", "b"), 2),
        (("nothing",), 3),
        (("@~9",), 3),
        (("@", "--run-id", "a/b"), 2),
        (("@", "--var", "novalue"), 2),
        (("@", "--branch", ""), 2),
    ],
)
def test_wrong_words(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """Wrong usage is exit 2, what is not there exit 3, and neither makes a run."""
    release(tmp_path)
    result = call("fork", *words, cwd=tmp_path)
    assert code == result.code, str(result)
    assert 2 <= len(result.err.splitlines())
    assert 1 == len(succeed("ls", "--all", "--json", cwd=tmp_path).json["runs"])


def test_no_store_is_made(tmp_path: Path) -> None:
    """A REF is resolved before anything is written."""
    assert 3 == call("fork", "latest", cwd=tmp_path).code
    assert [] == files_below(tmp_path)
