"""`leftoff step`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import driven, started


def run_of(cwd: Path) -> Any:
    return succeed("show", "latest", "--json", cwd=cwd).json


def step_of(cwd: Path, path: str) -> Any:
    (found,) = [record for record in run_of(cwd)["step_records"] if record["step"] == path]
    return found


def sealed(cwd: Path) -> list[tuple[str, str]]:
    found = succeed("log", "latest", "--json", cwd=cwd).json["checkpoints"]
    return [(checkpoint["trigger"], checkpoint["step"]) for checkpoint in reversed(found)]


def test_the_life_of_a_step(tmp_path: Path) -> None:
    """start only commits, done seals; both print nothing, and say with --json which version they made."""
    run = started(tmp_path, "flow", "--steps", "a,b")
    done = succeed("step", "start", "a", cwd=tmp_path)
    assert ("", "") == (done.out, done.err)
    assert "running" == step_of(tmp_path, "a")["status"] and [] == sealed(tmp_path)
    assert {"run_id": run, "seq": 3} == succeed("step", "done", "a", "--json", cwd=tmp_path).json
    record = step_of(tmp_path, "a")
    assert ("completed", 1) == (record["status"], record["attempt"])
    started_at, completed_at = (datetime.fromisoformat(record[k]) for k in ("started_at", "completed_at"))
    assert started_at <= completed_at
    assert [("step_complete", "a")] == sealed(tmp_path)


@pytest.mark.parametrize(
    ("action", "status", "trigger"),
    [
        ("done", "completed", "step_complete"),
        ("skip", "skipped", "step_complete"),
        ("fail", "failed", "error"),
        ("block", "blocked", "error"),
    ],
)
def test_what_is_sealed(action: str, status: str, trigger: str, tmp_path: Path) -> None:
    """Each end of a step seals a checkpoint of its kind, and reporting a failure succeeds."""
    started(tmp_path, "flow", "--steps", "a,b")
    succeed("step", action, "a", cwd=tmp_path)
    assert status == step_of(tmp_path, "a")["status"]
    assert [(trigger, "a")] == sealed(tmp_path)


def test_done_twice_changes_nothing(tmp_path: Path) -> None:
    """Whatever is said with it, even a file that is gone meanwhile."""
    started(tmp_path, "flow", "--steps", "a")
    first = succeed("step", "done", "a", "--result", "1", "--json", cwd=tmp_path).json
    words = ("--result", "2", "--note", "again", "--output", "gone.txt")
    assert first == succeed("step", "done", "a", *words, "--json", cwd=tmp_path).json
    assert 1 == step_of(tmp_path, "a")["result"] and 1 == len(sealed(tmp_path))


def test_done_without_start(tmp_path: Path) -> None:
    """It starts and ends the step in one moment, as its first attempt."""
    started(tmp_path, "flow", "--steps", "a")
    succeed("step", "done", "a", cwd=tmp_path)
    record = step_of(tmp_path, "a")
    assert 1 == record["attempt"] and record["started_at"] == record["completed_at"]


def test_attempts_are_counted(tmp_path: Path) -> None:
    """Each start is another attempt; what follows is about the same one."""
    started(tmp_path, "flow", "--steps", "a")
    for action, attempt in (("start", 1), ("fail", 1), ("start", 2), ("block", 2), ("done", 2)):
        succeed("step", action, "a", cwd=tmp_path)
        assert attempt == step_of(tmp_path, "a")["attempt"], action


def test_undeclared_steps_are_added_behind_the_others(tmp_path: Path) -> None:
    """A step that nobody declared stands behind its siblings, at every depth."""
    started(tmp_path, "flow", "--steps", "b,a")
    for path in ("z", "b/y", "b/x", "c", "b/x/deep", "lonely/child"):
        succeed("step", "done", path, cwd=tmp_path)
    paths = [record["step"] for record in run_of(tmp_path)["step_records"]]
    assert ["b", "b/y", "b/x", "b/x/deep", "a", "z", "c", "lonely/child"] == paths
    assert 6 == run_of(tmp_path)["steps"]["total"]  # only leaves count


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    """Outputs are recorded and kept as artifacts; result, title, total and note are in the records."""
    started(tmp_path, "flow", "--steps", "a,b")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.txt").write_text("x")
    (tmp_path / ".env").write_text("TOKEN=1")
    words = ["--output", "out/x.txt", "--output", str(tmp_path / ".env"), "--result", '{"n": [1]}']
    words += ["--title", "The first", "--total", "3", "--note", "went well"]
    succeed("step", "done", "a", *words, cwd=tmp_path)
    found = run_of(tmp_path)
    record = found["step_records"][0]
    assert ["out/x.txt", ".env"] == record["outputs"]
    assert ({"n": [1]}, "The first", 3) == (record["result"], record["title"], record["total"])
    kept = {about["path"]: (about["step"], about["captured"]) for about in found["artifacts"]}
    assert {"out/x.txt": ("a", True), ".env": ("a", False)} == kept
    assert [("went well", "a")] == [(n["text"], n["step"]) for n in found["records"]["note"].values()]
    assert "went well" == found["version"]["note"]


def test_outputs_of_a_start_are_only_declared(tmp_path: Path) -> None:
    """A step that starts says what it will write; nothing need be there yet."""
    started(tmp_path, "flow", "--steps", "a")
    succeed("step", "start", "a", "--output", "later.txt", cwd=tmp_path)
    assert ["later.txt"] == step_of(tmp_path, "a")["outputs"] and [] == run_of(tmp_path)["artifacts"]


def test_a_missing_output_writes_nothing(tmp_path: Path) -> None:
    """It exits 3, and neither the step nor the outputs that are there are recorded."""
    started(tmp_path, "flow", "--steps", "a")
    (tmp_path / "there.txt").write_text("x")
    done = call("step", "done", "a", "--output", "there.txt", "--output", "gone.txt", cwd=tmp_path)
    assert 3 == done.code and "gone.txt" in done.err
    found = run_of(tmp_path)
    assert ("pending", 1, []) == (
        found["step_records"][0]["status"],
        found["head"]["seq"],
        found["artifacts"],
    )


def test_an_error_is_open_until_the_step_is_done(tmp_path: Path) -> None:
    """fail and block keep what happened in the step and as an open error, which done and skip clear."""
    started(tmp_path, "flow", "--steps", "a,b")
    words = ("--error", "HTTP 500", "--type", "ServerError", "--resume-with", "ask ops first")
    succeed("step", "fail", "a", *words, cwd=tmp_path)
    error = {"type": "ServerError", "message": "HTTP 500", "resume_with": "ask ops first"}
    assert error == step_of(tmp_path, "a")["error"]
    open_error = succeed("get", "error/a", cwd=tmp_path).json
    assert error == {key: open_error[key] for key in error} and "failed" == open_error["status"]
    succeed("step", "start", "a", cwd=tmp_path)
    assert step_of(tmp_path, "a")["error"] is None
    assert 0 == call("get", "error/a", cwd=tmp_path).code  # it is not solved yet
    succeed("step", "done", "a", cwd=tmp_path)
    assert 3 == call("get", "error/a", cwd=tmp_path).code


def test_a_blocked_step_blocks_the_run(tmp_path: Path) -> None:
    """Until no step is blocked any more; a failed one leaves the run running."""
    started(tmp_path, "flow", "--steps", "a,b,c,d")
    succeed("step", "fail", "a", cwd=tmp_path)
    assert "running" == run_of(tmp_path)["status"]
    for path in ("b", "c"):
        succeed("step", "block", path, cwd=tmp_path)
    assert "blocked" == run_of(tmp_path)["status"]
    succeed("step", "done", "d", cwd=tmp_path)
    succeed("step", "start", "b", cwd=tmp_path)
    assert "blocked" == run_of(tmp_path)["status"]
    succeed("step", "done", "c", cwd=tmp_path)
    assert "running" == run_of(tmp_path)["status"]


def test_relative_to_the_step_that_calls(tmp_path: Path) -> None:
    """With LEFTOFF_STEP a path is below that step, unless it starts with a slash."""
    started(tmp_path, "flow", "--steps", "build")
    succeed("step", "done", "sub-1", cwd=tmp_path, LEFTOFF_STEP="build")
    succeed("step", "done", "/sub-1", cwd=tmp_path, LEFTOFF_STEP="build")
    succeed("step", "done", "/top", cwd=tmp_path)
    succeed("step", "done", "plain", cwd=tmp_path, LEFTOFF_STEP="")
    paths = {record["step"] for record in run_of(tmp_path)["step_records"]}
    assert {"build", "build/sub-1", "sub-1", "top", "plain"} == paths


def test_an_attempt_that_was_replaced_is_refused(tmp_path: Path) -> None:
    """A step's process reports under its token: an old one and an unknown one are conflicts, an empty one is none."""
    run = started(tmp_path, "flow", "--steps", "a")
    from leftoff.store.sqlite import SqliteStore

    store = SqliteStore(str(tmp_path / ".leftoff"))
    number = store.read(lambda view: view.find_run(run)).run  # type: ignore[union-attr]
    for token in ("old", "new"):
        store.write(lambda tx, token=token: tx.add_attempt(token, number, "a", 0))  # type: ignore[misc]
    store.close()
    for verb in (("step", "done", "a"), ("set", "x=1"), ("beat",), ("save",)):
        for token, says in (("old", "attempt 1"), ("unknown", "LEFTOFF_ATTEMPT")):
            done = call(*verb, cwd=tmp_path, LEFTOFF_ATTEMPT=token)
            assert 5 == done.code and says in done.err
    succeed("set", "x=1", cwd=tmp_path, LEFTOFF_ATTEMPT="")
    succeed("step", "done", "a", cwd=tmp_path, LEFTOFF_ATTEMPT="new")


def test_beside_a_live_driver(tmp_path: Path) -> None:
    """Reports on a step need no lease."""
    with driven(tmp_path):
        succeed("step", "done", "a", cwd=tmp_path)
        assert "completed" == step_of(tmp_path, "a")["status"]


def test_secrets_in_what_is_said_are_masked(tmp_path: Path) -> None:
    """Errors and notes are kept without the secrets in them."""
    started(tmp_path, "flow")
    words = ("--error", "login failed: password=hunter2hunter2", "--note", "token: abcdefgh12345678")
    succeed("step", "fail", "a", *words, cwd=tmp_path)
    assert not any(
        b"hunter2hunter2" in f.read_bytes() for f in (tmp_path / ".leftoff").iterdir() if f.is_file()
    )
    assert "login failed" in step_of(tmp_path, "a")["error"]["message"]


def test_what_is_wrong(tmp_path: Path) -> None:
    """What is wrong is said, with what to do, and nothing is written."""
    started(tmp_path, "flow", "--steps", "a")
    words: tuple[str | bytes, ...]
    for words, code, says in (
        ((), 2, "needs start|done|fail|block|skip STEP"),
        (("done",), 2, "needs"),
        (("finish", "a"), 2, "cannot be 'finish'"),
        (("done", ""), 2, "empty"),
        (("done", "a//b"), 2, "not a step path"),
        (("done", "a/"), 2, "not a step path"),
        (("done", "/"), 2, "empty"),
        (("done", "a", "b"), 2, "does not take 'b'"),
        (("done", "a", "--result", "{bad"), 2, "not JSON"),
        (("done", "a", "--result", "@none.json"), 3, "does not exist"),
        (("done", "a", "--total", "x"), 2, "whole number"),
        (("done", "a", "--output", "nothing.txt"), 3, "no file nothing.txt"),
        (("done", "a", "--output", "."), 3, "is a folder"),
        (("done", "a", "--outputs", "x"), 2, "Did you mean --output"),
        (("done", b"\xff\xfe"), 2, "not UTF-8"),
        (("fail", "a", "--error", b"\xff"), 2, "not UTF-8"),
        (("done", "x" * 5000), 2, "too long"),
    ):
        done = call("step", *words, cwd=tmp_path)
        assert (code, "") == (done.code, done.out)
        assert says in done.err and 2 <= done.err.count("\n") and "Traceback" not in done.err
        assert 1 == run_of(tmp_path)["head"]["seq"]


def test_an_empty_note_is_none(project: Path) -> None:
    """A script may pass on a note that nobody wrote."""
    succeed("start", "flow", "--steps", "a", cwd=project)
    succeed("step", "done", "a", "--note", "", cwd=project)
    assert "completed" == succeed("get", "step/a", cwd=project).json["status"]


def counted(folder: Path) -> tuple[int, int, int, int]:
    found = succeed("ls", "--json", cwd=folder).json["runs"][0]
    return (*(found["steps"][word] for word in ("total", "completed", "pending")), found["percent"])


def test_steps_that_were_announced_below_one_count(tmp_path: Path) -> None:
    """`--total` says how many there will be: those that nobody reported yet are pending, until the step has ended."""
    started(tmp_path, "work", "--steps", "a,b")
    succeed("step", "start", "a", "--total", "4", cwd=tmp_path)
    assert (5, 0, 4, 0) == counted(tmp_path)
    for number, left in ((1, 4), (2, 3)):
        succeed("step", "done", f"a/{number}", cwd=tmp_path)
        assert (5, number, left, number * 20) == counted(tmp_path)
    succeed("step", "done", "a/2", cwd=tmp_path)  # once more
    succeed("step", "start", "a/3", cwd=tmp_path)
    assert (5, 2, 2, 40) == counted(tmp_path)
    succeed("step", "done", "b", cwd=tmp_path)
    succeed("step", "done", "a/3", cwd=tmp_path)
    assert (5, 4, 1, 80) == counted(tmp_path)
    assert "no names yet" in succeed("next", cwd=tmp_path).err
    succeed("step", "start", "a", "--total", "6", cwd=tmp_path)
    assert (7, 4, 3, 57) == counted(tmp_path)
    succeed("step", "done", "a", cwd=tmp_path)
    assert (4, 4, 0, 100) == counted(tmp_path)
    succeed("rollback", "@~1", "--yes", cwd=tmp_path)
    assert (5, 4, 1, 80) == counted(tmp_path)


def test_a_step_that_was_announced_may_have_some_of_its_own(tmp_path: Path) -> None:
    """What lies deeper brings the one that was announced with it, once."""
    started(tmp_path, "work", "--steps", "a")
    succeed("step", "start", "a", "--total", "3", cwd=tmp_path)
    for step, expected in (("a/1/x", (3, 1, 2, 33)), ("a/2/x", (3, 2, 1, 66)), ("a/2/y", (4, 3, 1, 75))):
        succeed("step", "done", step, cwd=tmp_path)
        assert expected == counted(tmp_path)
    succeed("step", "done", "a/3/x/deep", cwd=tmp_path)
    assert (4, 4, 0, 100) == counted(tmp_path)
