"""`leftoff resume`, without a terminal; `test_resume_prompt` has the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import call, environment, succeed
from tests.cli.runs import HOSTILE, driven, files_below, harmless, release, started
from tests.cli.test_history import KEYS
from tests.cli.test_ls import RUN_KEYS


def head(folder: Path, ref: str = "latest") -> dict[str, object]:
    found: dict[str, object] = succeed("show", ref, "--json", cwd=folder).json
    return found


def statuses(folder: Path, ref: str = "latest") -> dict[str, str]:
    return {s["step"]: s["status"] for s in succeed("show", ref, "--json", cwd=folder).json["step_records"]}


def test_it_goes_on_and_prints_the_brief(tmp_path: Path) -> None:
    """The run is running, what was in flight is to be done, and the brief is on stdout."""
    run = release(tmp_path)
    succeed("pause", cwd=tmp_path)
    result = succeed("resume", cwd=tmp_path)
    assert run in result.out
    assert "collect" in result.out and "publish" in result.out
    assert "running" == head(tmp_path)["status"]
    assert {
        "collect": "completed",
        "build": "completed",
        "test": "pending",
        "publish": "pending",
    } == statuses(tmp_path)


@pytest.mark.parametrize("verb", ["resume", "reprendre", "continue"])
def test_three_words_one_verb(tmp_path: Path, verb: str) -> None:
    """resume, reprendre and continue do the same."""
    run = release(tmp_path)
    assert run in succeed(verb, cwd=tmp_path).out


def test_json_is_the_run_and_the_last_event(tmp_path: Path) -> None:
    """With --json the last line is both: the end of the events, with the run in it, and the run itself."""
    run = release(tmp_path)
    lines = succeed("resume", "--json", cwd=tmp_path).out.splitlines()
    assert 1 == len(lines)
    found = succeed("resume", "--json", cwd=tmp_path).json
    assert ("end", run, run) == (found["event"], found["run"]["run_id"], found["run_id"])
    assert set(found) >= RUN_KEYS
    assert set(found["run"]) >= RUN_KEYS
    assert "running" == found["status"]


def test_the_latest_of_several_is_taken_and_said(tmp_path: Path) -> None:
    """With several unfinished runs on the branch, the one with the latest news is taken; the others are named."""
    first, second = started(tmp_path, "one"), started(tmp_path, "two")
    succeed("set", "a=1", "--run", first, cwd=tmp_path)
    result = succeed("resume", "--json", cwd=tmp_path)
    assert first == result.json["run_id"]
    assert first in result.err and second in result.err
    assert first == succeed("resume", "@", "--json", cwd=tmp_path).json["run_id"]


@pytest.mark.parametrize("name", ["run", "issue", "title", "workflow", "option"])
def test_any_ref(tmp_path: Path, name: str) -> None:
    """A run is named by its id, its issue, its title or its workflow; or with --run."""
    run = started(tmp_path, "release", "--title", "Release 1.4", "--issue", "42")
    started(tmp_path, "other")
    words = {
        "run": [run], "issue": ["#42"], "title": ["Release 1.4"], "workflow": ["release"], "option": ["--run", run],
    }[name]  # fmt: skip
    result = succeed("resume", *words, "--json", cwd=tmp_path)
    assert (run, "") == (result.json["run_id"], result.err)


def test_another_branch_is_named(tmp_path: Path) -> None:
    """Nothing unfinished here, but there: exit 3, naming it; --branch goes there."""
    run = started(tmp_path, "work", "--branch", "side")
    result = call("resume", cwd=tmp_path)
    assert 3 == result.code
    assert run in result.err and "--branch side" in result.err
    assert run == succeed("resume", "--branch", "side", "--json", cwd=tmp_path).json["run_id"]


def test_a_driven_run_is_a_conflict(tmp_path: Path) -> None:
    """A run that another live process drives is left alone: exit 5. After its death the program is to be
    started again, which alone can go on; nothing is marked as if somebody were at work."""
    with driven(tmp_path) as run:
        for words in ([run], [run, "--yes"], [f"{run}@1", "--yes"], []):
            result = call("resume", *words, cwd=tmp_path)
            assert 5 == result.code, str(result)
            assert "driven by" in result.err
    code = "import leftoff, os; leftoff.start('dies', steps=['a']).step('a').__enter__(); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), check=False)
    done = succeed("resume", "dies", "--json", cwd=tmp_path)
    assert "start your program again" in done.err
    assert ("running", "dead") == (done.json["status"], done.json["health"])
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), check=False)
    assert "alive" == succeed("start", "dies", "--resume", "--json", cwd=tmp_path).json["health"]


def test_a_completed_run_has_nothing_left(tmp_path: Path) -> None:
    """Exit 0, saying so, and nothing changes; criteria that are not met are named with the steps to do again."""
    run = release(tmp_path)
    succeed("put", "criterion", "docs", "false", cwd=tmp_path)
    succeed("put", "criterion", "tests", '{"met": true}', cwd=tmp_path)
    succeed("finish", cwd=tmp_path)
    before = head(tmp_path)["head"]
    result = succeed("resume", run, cwd=tmp_path)
    assert "nothing is left" in result.out
    assert "Not met: docs." in result.out
    assert "Steps: collect, build, test, publish." in result.out
    assert "completed" == succeed("resume", run, "--json", cwd=tmp_path).json["run"]["status"]
    assert before == head(tmp_path)["head"]


def test_an_abandoned_run_is_not_resumed_by_chance(tmp_path: Path) -> None:
    """What was given up is refused; naming a version of it is meant."""
    run = release(tmp_path)
    succeed("finish", "--status", "abandoned", cwd=tmp_path)
    result = call("resume", run, cwd=tmp_path)
    assert 6 == result.code
    assert "leftoff fork" in result.err
    assert "running" == succeed("resume", f"{run}~1", "--yes", "--json", cwd=tmp_path).json["status"]


def test_list(tmp_path: Path) -> None:
    """--list shows the checkpoints, as `log` does, and changes nothing."""
    run = release(tmp_path)
    before = head(tmp_path)["head"]
    found = succeed("resume", "--list", "--json", cwd=tmp_path).json
    assert succeed("log", run, "--json", cwd=tmp_path).json == found
    assert all(set(entry) >= KEYS for entry in found["checkpoints"])
    assert succeed("log", cwd=tmp_path).out == succeed("resume", "--list", cwd=tmp_path).out
    assert before == head(tmp_path)["head"]


# -- further back


@pytest.mark.parametrize("how", ["ref", "back", "checkpoint", "prefix", "both", "twice"])
def test_an_older_version_rewinds_in_place(tmp_path: Path, how: str) -> None:
    """It goes back in a rollback checkpoint, the present is kept, and finished steps are to be done again."""
    run = release(tmp_path)
    first = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"][-1]
    words = {
        "ref": [f"{run}@{first['seq']}"],
        "back": ["@~1"],
        "checkpoint": ["--checkpoint", first["checkpoint_id"]],
        "prefix": ["--checkpoint", first["checkpoint_id"][:5]],
        "both": [run, "--checkpoint", str(first["seq"])],
        "twice": ["@~1", "--checkpoint", first["checkpoint_id"]],
    }[how]
    refused = call("resume", *words, cwd=tmp_path)
    assert 7 == refused.code, str(refused)
    assert "build" in refused.err and "--yes" in refused.err
    assert 2 == len(succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"])
    found = succeed("resume", *words, "--yes", "--json", cwd=tmp_path).json
    assert (run, "running", 25, "build") == (
        found["run_id"],
        found["status"],
        found["percent"],
        found["next_step"],
    )
    log = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"]
    assert ["rollback", "manual", "step_complete", "step_complete"] == [entry["trigger"] for entry in log]


def test_no_question_where_nothing_runs_again(tmp_path: Path) -> None:
    """Going back over variables alone needs no answer."""
    run = release(tmp_path)
    succeed("save", cwd=tmp_path)
    succeed("set", "count=9", cwd=tmp_path)
    succeed("resume", f"{run}~0", cwd=tmp_path)
    variables = head(tmp_path)["variables"]
    assert isinstance(variables, dict) and 3 == variables["count"]


def test_from_a_step(tmp_path: Path) -> None:
    """The step and every later one in declared order are to be done again; those before stay done."""
    run = started(tmp_path, "deep", "--steps", "z,a,a/one,a/two,b")
    for step in ("z", "a/one", "a/two", "b"):
        succeed("step", "done", step, "--result", "1", cwd=tmp_path)
    succeed("finish", cwd=tmp_path)
    refused = call("resume", run, "--from-step", "a/two", cwd=tmp_path)
    assert 7 == refused.code
    assert "2 finished steps would run again: a/two, b." in refused.err
    succeed("resume", run, "--from-step", "a/two", "--yes", cwd=tmp_path)
    assert {
        "z": "completed",
        "a": "pending",
        "a/one": "completed",
        "a/two": "pending",
        "b": "pending",
    } == statuses(tmp_path)
    records = {s["step"]: s for s in succeed("show", run, "--json", cwd=tmp_path).json["step_records"]}
    assert (1, None, None) == (
        records["a/one"]["result"],
        records["b"]["result"],
        records["b"]["completed_at"],
    )
    newest = succeed("log", run, "--json", cwd=tmp_path).json["checkpoints"][0]
    assert ("rollback", "a/two") == (newest["trigger"], newest["step"])
    succeed("resume", run, "--from-step", "a", "--yes", cwd=tmp_path)
    assert {
        "z": "completed",
        "a": "pending",
        "a/one": "pending",
        "a/two": "pending",
        "b": "pending",
    } == statuses(tmp_path)


def test_from_a_step_of_an_older_version(tmp_path: Path) -> None:
    """A version and a step together: back to the one, then on from the other."""
    run = release(tmp_path)
    succeed("resume", f"{run}~0", "--from-step", "collect", "--yes", cwd=tmp_path)
    assert {"pending"} == set(statuses(tmp_path).values())


def test_variables_are_set_on_the_way(tmp_path: Path) -> None:
    """--var sets variables in the same commit, typed as `set` does; a secret is not stored, and that is said."""
    release(tmp_path)
    result = succeed(
        "resume", "--var", "count=9", "--var", "tag=2.10", "--var", "token=ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        cwd=tmp_path,
    )  # fmt: skip
    variables = head(tmp_path)["variables"]
    assert isinstance(variables, dict)
    assert (9, "2.10", {"redacted": True}) == tuple(variables[key] for key in ("count", "tag", "token"))
    assert "secret" in result.err
    assert "ghp_" not in result.err + result.out


def test_the_session_is_bound(tmp_path: Path) -> None:
    """The run becomes that of LEFTOFF_SESSION, which finds it from then on."""
    run = release(tmp_path)
    started(tmp_path, "other")
    succeed("resume", run, cwd=tmp_path, LEFTOFF_SESSION="s-1")
    assert run == succeed("show", "--json", cwd=tmp_path, LEFTOFF_SESSION="s-1").json["run_id"]


def test_a_session_drives_alone(tmp_path: Path) -> None:
    """Another agent's session that is at work is a conflict; its own may go on, and so may a person without one."""
    run = started(tmp_path, "work", "--session", "a", "--steps", "x")
    assert 5 == call("resume", run, cwd=tmp_path, LEFTOFF_SESSION="b").code
    assert 5 == call("rollback", f"{run}@1", cwd=tmp_path, LEFTOFF_SESSION="b").code
    succeed("resume", run, cwd=tmp_path, LEFTOFF_SESSION="a")
    succeed("resume", run, cwd=tmp_path)


def test_wrong_words(tmp_path: Path) -> None:
    """Wrong usage is exit 2, what is not there exit 3; each says what to do, and nothing is written."""
    release(tmp_path)
    before = head(tmp_path)["head"]
    for line, code in {
        "@~9": 3,
        "--checkpoint abcd": 3,
        "--checkpoint release": 3,
        "@~0 --checkpoint 1 --yes": 2,
        "--from-step nowhere --yes": 3,
        "--from-step a//b": 2,
        "--var novalue": 2,
        "--failed": 3,
        "--only nowhere": 3,
        "--accept x": 2,
        "--accept lease.held": 2,
        "--accept integrity.digest": 2,
    }.items():
        result = call("resume", *line.split(), cwd=tmp_path)
        assert code == result.code, str(result)
        assert 2 <= len(result.err.splitlines())
        assert before == head(tmp_path)["head"]


def test_no_store_is_made(tmp_path: Path) -> None:
    """Nothing to resume, nothing made."""
    for words in ((), ("latest",), ("--list",), ("--checkpoint", "abcd")):
        assert 3 == call("resume", *words, cwd=tmp_path).code
    assert [] == files_below(tmp_path)


def test_the_brief_is_harmless(tmp_path: Path) -> None:
    """Hostile names come through escaped."""
    started(tmp_path, "evil", "--title", HOSTILE, "--var", "a=" + HOSTILE)
    succeed("note", HOSTILE, cwd=tmp_path)
    assert harmless(succeed("resume", cwd=tmp_path).out)


def test_answers_beforehand(tmp_path: Path) -> None:
    """What a terminal would ask is answered by code, or for one finding, by the beginning of a choice."""
    run = started(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("then")
    succeed("track", "a.txt", "b.txt", cwd=tmp_path)
    (tmp_path / "a.txt").write_text("now")
    wrong = call("resume", run, "--answer", "files.changed=perhaps", cwd=tmp_path)
    assert 2 == wrong.code and "keep the current, restore from the checkpoint, stop" in wrong.err
    assert 7 == call("resume", run, "--answer", "files.changed=stop", cwd=tmp_path).code
    assert 7 == call("resume", run, "--answer", "outputs.changed:x=accept", cwd=tmp_path).code
    assert "now" == (tmp_path / "a.txt").read_text()
    succeed("resume", run, "--answer", "files.changed=restore", cwd=tmp_path)
    assert "then" == (tmp_path / "a.txt").read_text()
