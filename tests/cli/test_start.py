"""`leftoff start`."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, environment, succeed
from tests.cli.runs import driven, started


def show(cwd: Path, run: str = "latest") -> Any:
    return succeed("show", run, "--json", cwd=cwd).json


def test_prints_the_id_and_nothing_else(tmp_path: Path) -> None:
    """The id is the workflow and the time; stderr is silent where there is nothing to say."""
    done = succeed("start", "convert-pdfs", cwd=tmp_path)
    assert re.fullmatch(r"convert-pdfs-\d{8}-\d{6}\n", done.out)
    assert "" == done.err


def test_a_secret_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    done = succeed("start", "w", "--var", "password=hunter2hunter", "--var", "x=1", cwd=tmp_path)
    assert "leftoff: password holds what looks like a secret, which is not stored" in done.err


def test_json_is_the_run(tmp_path: Path) -> None:
    """With --json: the run as every verb shows it, with all that was given."""
    words = ("--title", "Nature trail", "--steps", "a,b/c, d", "--branch", "try", "--run-id", "my.run_1")
    more = ("--issue", "#42", "--task", "T060", "--agent", "coder", "--var", "n=3", "--var", "tag=1.10")
    found = succeed("start", "flow", *words, *more, "--json", cwd=tmp_path).json
    expected: dict[str, Any] = {
        "run_id": "my.run_1",
        "workflow": "flow",
        "title": "Nature trail",
        "branch": "try",
        "issue": "42",
    }
    expected |= {"status": "running", "health": "alive", "percent": 0, "next_step": "a", "session_id": None}
    assert expected == {key: found[key] for key in expected}
    assert 3 == found["steps"]["total"] == found["steps"]["pending"]
    whole = show(tmp_path, "#42")
    assert {"n": 3, "tag": "1.10"} == whole["variables"]
    assert ["a", "b/c", "d"] == [step["step"] for step in whole["step_records"]]
    assert ("T060", "coder") == (whole["records"]["run"]["task"], whole["records"]["run"]["agent"])


def test_total_without_steps(tmp_path: Path) -> None:
    """--total says how many steps there will be: percent counts against it, and those nobody named are pending."""
    started(tmp_path, "flow", "--total", "4")
    succeed("step", "done", "one", cwd=tmp_path)
    run = succeed("ls", "--json", cwd=tmp_path).json["runs"][0]
    total = run["steps"].pop("total")
    assert (4, 25, 3, 1) == (total, run["percent"], run["steps"]["pending"], run["steps"]["completed"])
    assert total == sum(run["steps"].values())


def test_always_a_new_run_that_names_its_twin(tmp_path: Path) -> None:
    """Two in the same second get two ids; the second names the first on stderr."""
    first = started(tmp_path, "flow")
    second = succeed("start", "flow", cwd=tmp_path)
    assert first != second.out.strip()
    assert first in second.err and "--resume" in second.err
    assert "" == succeed("start", "other", cwd=tmp_path).err
    assert "" == succeed("start", "flow", "--branch", "b", cwd=tmp_path).err


def test_resume_goes_on_with_the_unfinished_one(tmp_path: Path) -> None:
    """--resume gives the same id; what was in flight or failed is to be done again, what is done stays done."""
    run = started(tmp_path, "flow", "--steps", "a,b,c,d", "--var", "n=1")
    succeed("step", "done", "a", cwd=tmp_path)
    succeed("step", "start", "b", cwd=tmp_path)
    succeed("step", "fail", "c", cwd=tmp_path)
    succeed("set", "n=2", cwd=tmp_path)
    succeed("pause", cwd=tmp_path)
    done = succeed(
        "start", "flow", "--resume", "--steps", "a,b,c,d,e", "--var", "n=9", "--var", "m=5", cwd=tmp_path
    )
    assert run + "\n" == done.out and run in done.err
    found = show(tmp_path)
    assert "running" == found["status"]
    status = {step["step"]: step["status"] for step in found["step_records"]}
    assert {"a": "completed", "b": "pending", "c": "pending", "d": "pending", "e": "pending"} == status
    assert ["a", "b", "c", "d", "e"] == [step["step"] for step in found["step_records"]]
    assert {"n": 2, "m": 5} == found["variables"]


def test_resume_starts_where_there_is_nothing_unfinished(tmp_path: Path) -> None:
    """A finished run is not gone on with; title and issue, where given, must fit too."""
    first = started(tmp_path, "flow")
    succeed("finish", cwd=tmp_path)
    second = succeed("start", "flow", "--resume", "--title", "A", cwd=tmp_path).out.strip()
    assert first != second
    third = succeed("start", "flow", "--resume", "--title", "B", cwd=tmp_path).out.strip()
    assert 3 == len({first, second, third})
    assert second == succeed("start", "flow", "--resume", "--title", "A", cwd=tmp_path).out.strip()


def test_a_fixed_id(tmp_path: Path) -> None:
    """Unfinished: exit 5, naming --resume, which goes on with it. Finished: a suffix."""
    started(tmp_path, "flow", "--run-id", "one")
    done = call("start", "flow", "--run-id", "one", cwd=tmp_path)
    assert (5, "") == (done.code, done.out) and "--resume" in done.err
    assert "one\n" == succeed("start", "flow", "--run-id", "one", "--resume", cwd=tmp_path).out
    succeed("finish", cwd=tmp_path)
    assert "one-2\n" == succeed("start", "flow", "--run-id", "one", cwd=tmp_path).out
    succeed("finish", cwd=tmp_path)
    assert "one-3\n" == succeed("start", "flow", "--run-id", "one", "--resume", cwd=tmp_path).out


def test_resume_of_another_workflow_is_a_conflict(tmp_path: Path) -> None:
    """An id that belongs to another workflow is not gone on with: exit 5, naming both, and nothing is changed."""
    started(tmp_path, "flow", "--run-id", "one", "--steps", "a")
    before = show(tmp_path, "one")
    done = call(
        "start", "other", "--run-id", "one", "--resume", "--steps", "b", "--session", "s", cwd=tmp_path
    )
    assert (5, "") == (done.code, done.out)
    assert "one is a run of flow, not of other" in done.err and "leftoff resume one" in done.err
    assert before == show(tmp_path, "one")


def test_many_at_once_with_resume_are_one_run(tmp_path: Path) -> None:
    """Of several who ask at once to go on, one starts the run and the others go on with it."""
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: succeed("start", "f", "--resume", cwd=tmp_path).out, range(8)))
    assert 1 == len(set(ids))


def test_a_session_is_bound_and_drives(tmp_path: Path) -> None:
    """--session records the session, takes the lease, and makes the run the one that LEFTOFF_SESSION means."""
    bound = started(tmp_path, "flow", "--session", "s-1", "--agent", "coder")
    other = started(tmp_path, "other", "--session", "s-2")
    assert "s-1" == show(tmp_path, bound)["session_id"]
    succeed("set", "who=me", cwd=tmp_path, LEFTOFF_SESSION="s-1")
    assert "me\n" == succeed("get", "who", "--run", bound, cwd=tmp_path).out
    held = call("finish", "--run", bound, cwd=tmp_path, LEFTOFF_SESSION="s-2")
    assert 5 == held.code and "coder" in held.err
    assert 5 == call("start", "flow", "--resume", "--session", "s-2", cwd=tmp_path).code
    succeed("finish", cwd=tmp_path, LEFTOFF_SESSION="s-1")
    succeed("finish", "--run", other, cwd=tmp_path)


def test_a_session_of_the_environment_is_bound(tmp_path: Path) -> None:
    """What is started under LEFTOFF_SESSION is what that session means from then on; it takes no lease."""
    started(tmp_path, "elsewhere")
    run = succeed("start", "flow", cwd=tmp_path, LEFTOFF_SESSION="s-9").out.strip()
    succeed("set", "a=1", cwd=tmp_path, LEFTOFF_SESSION="s-9")
    assert "1\n" == succeed("get", "a", "--run", run, cwd=tmp_path).out
    succeed("finish", "--run", run, cwd=tmp_path, LEFTOFF_SESSION="someone-else")


def test_a_session_with_two_runs_says_so(tmp_path: Path) -> None:
    """Two unfinished runs of one session are not mixed up either."""
    one = started(tmp_path, "one", "--session", "s")
    two = started(tmp_path, "two", "--session", "s")
    done = call("set", "a=1", cwd=tmp_path, LEFTOFF_SESSION="s")
    assert 2 == done.code and one in done.err and two in done.err


def test_resume_of_a_driven_run_is_a_conflict(tmp_path: Path) -> None:
    """A run that a live process drives is not gone on with."""
    with driven(tmp_path, "flow") as run:
        done = call("start", "flow", "--resume", cwd=tmp_path)
        assert 5 == done.code and run in done.err


def test_resume_after_a_death(tmp_path: Path) -> None:
    """A driver that was killed stands in nobody's way, and its run is alive again once it is gone on with."""
    code = (
        "import leftoff, os; run = leftoff.start('dies', steps=['a']); print(run.id, flush=True); os._exit(9)"
    )
    died = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    run = died.stdout.strip()
    assert "dead" == show(tmp_path, run)["health"]
    assert run == succeed("start", "dies", "--resume", cwd=tmp_path).out.strip()
    assert "alive" == show(tmp_path, run)["health"]


def test_git_is_remembered(tmp_path: Path) -> None:
    """The git branch and commit are recorded, from a subfolder too, without git being started."""
    for words in (("init", "-q", "-b", "trunk"), ("commit", "-q", "--allow-empty", "-m", "x")):
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", *words)
        subprocess.run(git, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "sub").mkdir()
    started(tmp_path / "sub", "flow")
    found = show(tmp_path)
    head = subprocess.run(
        ("git", "rev-parse", "HEAD"), cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ("trunk", head.stdout.strip()) == (found["git_branch"], found["records"]["run"]["git_head"])
    subprocess.run(("git", "pack-refs", "--all"), cwd=tmp_path, check=True)
    succeed("finish", cwd=tmp_path)
    started(tmp_path, "again")
    assert head.stdout.strip() == show(tmp_path)["records"]["run"]["git_head"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "needs WORKFLOW"),
        (("",), "empty"),
        (("a", "b"), "does not take 'b'"),
        (("f", "--steps", "a,,b"), "empty name"),
        (("f", "--steps", "a,b,a"), "declared twice"),
        (("f", "--steps", "a,/b"), "not a step path"),
        (("f", "--steps", "a", "--total", "3"), "cannot be combined"),
        (("f", "--total", "-1"), "whole number"),
        (("f", "--total", "many"), "whole number"),
        (("f", "--run-id", "a b"), "cannot be a run id"),
        (("f", "--run-id", "../x"), "cannot be a run id"),
        (("f", "--run-id", ""), "empty"),
        (("f", "--run-id", "x" * 300), "too long"),
        (("f", "--var", "x"), "not K=V"),
        (("f", "--var", "x:={"), "not JSON"),
        (("f", "--session", ""), "empty"),
        (("f", "--branch", ""), "--branch is empty"),
        (("f", "--branch="), "--branch is empty"),
        ((b"caf\xe9",), "not UTF-8"),
        (("f", "--title"), "needs a value"),
    ],
)
def test_wrong_usage(words: tuple[str | bytes, ...], says: str, tmp_path: Path) -> None:
    """It exits 2, says what is wrong and what to do, and makes no store."""
    done = call("start", *words, cwd=tmp_path)
    assert (2, "") == (done.code, done.out)
    assert says in done.err and 2 <= done.err.count("\n") and "Traceback" not in done.err
    assert [] == list(tmp_path.iterdir())
