"""A step's record, and what is kept beside it, is the same whoever reports: a program, a function, the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import NeedsPerson
from tests.api.others import elsewhere
from tests.cli.command import succeed

ONCE_MORE = "once_more"


def boom() -> None:
    raise ValueError("no paper")


def failed(run: leftoff.Run, path: str = "print") -> None:
    """A step of a run that fails, and the failure is caught."""
    with pytest.raises(ValueError, match="no paper"):
        run.do(path, boom)


def other_facts(record: Any) -> dict[str, Any]:
    """Without the times, and what a program and a person cannot say alike."""
    return {key: value for key, value in record.items() if key not in ("at", "type", "traceback")}


def test_a_failure_is_an_error_record(tmp_path: Path, run: leftoff.Run) -> None:
    """As the command writes it: which step, which try, why."""
    failed(run)
    run.pause()
    succeed("step", "fail", "bind", "--error", "no paper", "--run", run.id, cwd=tmp_path)
    errors = leftoff.open(tmp_path / ".leftoff").get(run.id).records["error"]
    program, command = other_facts(errors["print"]), other_facts(errors["bind"])
    assert {**command, "step": "print"} == program
    assert {"step": "print", "status": "failed", "attempt": 1, "message": "no paper"} == program


@pytest.mark.parametrize("again", ["do", "step", "elsewhere"])
def test_a_step_that_is_done_has_no_error(
    store: leftoff.Store, run: leftoff.Run, again: str, tmp_path: Path
) -> None:
    """Whoever completes it: this run of the program, or the command."""
    failed(run)
    assert ["print"] == list(run.records["error"])
    if again == "do":
        run.do("print", int)
    elif again == "step":
        run.pause()
        run = store.resume(run.id)
        with run.step("print"):
            pass
    else:
        run.pause()
        succeed("step", "skip", "print", "--run", run.id, cwd=tmp_path)
    assert {} == dict(store.get(run.id).records["error"])


def test_an_error_that_somebody_else_left_is_gone(
    store: leftoff.Store, run: leftoff.Run, tmp_path: Path
) -> None:
    """A step that the command blocked: once the program has done it, nothing blocks the run."""
    succeed("step", "block", "print", "--error", "no paper", "--run", run.id, cwd=tmp_path)
    assert "blocked" == store.get(run.id).status
    run.refresh()
    with run.step("print"):
        run.commit()
        assert "running" == store.get(run.id).status
    assert {} == dict(store.get(run.id).records["error"])
    assert {"error", "interrupted_at"}.isdisjoint(run.steps["print"])


@pytest.mark.parametrize("how", ["done", "removed"])
def test_an_error_that_was_not_seen_yet_goes_with_its_step(
    store: leftoff.Store, run: leftoff.Run, how: str
) -> None:
    """Another program's failure, which this one has not read when it says how the step ended."""
    other = store.resume(run.id)
    assert {} == dict(other.records["error"])
    failed(run)
    if how == "done":
        other.put("step", "print", {"status": "completed"})
    else:
        other._buffer.remove_step("print")
    other.commit()
    assert "error" not in store.get(run.id).records


def test_what_kind_of_value_a_result_was_goes_with_it(run: leftoff.Run) -> None:
    """A tuple, and in the next try a number: nothing says any more that it is to be read back as something else."""
    assert (1, 2) == run.do("print", lambda: (1, 2))
    assert 5 == run.do("print", lambda: 5, again=True)
    assert "typed" not in run.steps["print"]


def test_once_more_ends_with_the_step(store: leftoff.Store, run: leftoff.Run, tmp_path: Path) -> None:
    """Also where a program completes it: `do`, `step`, and the items of `each`."""
    run.do("a", int)
    with run.step("b"):
        pass
    for _ in run.each("c", ["x", "y"]):
        pass
    run.pause()
    succeed("resume", run.id, "--from-step", "a", "--yes", cwd=tmp_path)
    assert all(record[ONCE_MORE] for record in store.get(run.id).steps.values())
    again = store.resume(run.id)
    again.do("a", int)
    with again.step("b"):
        pass
    for _ in again.each("c", ["x", "y"]):
        pass
    assert {"completed"} == {record["status"] for record in again.steps.values()}
    assert [] == [path for path, record in again.steps.items() if ONCE_MORE in record]


def test_a_batch_that_failed_has_ended(run: leftoff.Run) -> None:
    """As a `foreach` of the runner: with the time of its end, and no error of its own."""
    try:
        for _ in run.each("pages", ["x", "y"]):
            boom()
    except ValueError:
        record = run.steps["pages"]
    assert ("failed", True, False) == (record["status"], "completed_at" in record, "error" in record)
    assert ["pages/x"] == list(run.records["error"])


def test_outputs_that_others_told_of_stay(run: leftoff.Run, store_path: Path) -> None:
    """What a program says its step wrote is added to what the command said."""
    with run.step("print") as step:
        record = dict(run.steps["print"])
        elsewhere(store_path, run.id, {("step", "print"): {**record, "outputs": ["a.txt"]}})
        run.refresh()
        step.outputs.append("b.txt")
    assert ["a.txt", "b.txt"] == run.steps["print"]["outputs"]


def test_a_program_takes_no_decision(store: leftoff.Store, run: leftoff.Run, store_path: Path) -> None:
    """A step that a person decides is neither done nor put by a program."""
    waiting = {"status": "waiting", "kind": "approval", "order": 0}
    elsewhere(store_path, run.id, {("step", "gate"): waiting, ("approval", "gate"): {"status": "waiting"}})
    run.refresh()
    with pytest.raises(NeedsPerson, match="only a person"):
        run.do("gate", int)
    with pytest.raises(NeedsPerson, match="only a person"):
        run.put("step", "gate", {"status": "completed"})
    run.commit()
    assert waiting == dict(store.get(run.id).steps["gate"])


def test_a_run_without_errors_still_sees_the_first_one(
    store: leftoff.Store, run: leftoff.Run, store_path: Path
) -> None:
    """Its own, and one that another process left meanwhile: both go when their steps are done."""
    for path in ("a", "b", "c"):
        run.do(path, int)
    failed(run)
    run.do("print", int)
    elsewhere(store_path, run.id, {("error", "d"): {"step": "d"}})
    run.do("d", int)
    assert {} == dict(store.get(run.id).records["error"])
