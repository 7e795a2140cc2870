"""Steps: do, step and their ends. A finished step is never run again unless told to."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import Frozen, Invalid, StepDone
from tests.api.others import elsewhere


def statuses(run: Any) -> dict[str, str]:
    return {path: step["status"] for path, step in run.steps.items()}


def sealed(run: Any) -> list[tuple[str | None, str | None]]:
    """Trigger and step of each checkpoint, oldest first."""
    return [(version.trigger, version.step) for version in reversed(run.history())]


def test_do_runs_once(run: leftoff.Run) -> None:
    """The second time, the recorded result is returned and nothing is called."""
    calls: list[int] = []

    def work(factor: int, *, plus: int) -> dict[str, int]:
        calls.append(factor)
        return {"n": factor * 2 + plus}

    assert {"n": 7} == run.do("a", work, 3, plus=1)
    assert {"n": 7} == run.do("a", work, 3, plus=1)
    assert [3] == calls
    assert [("step_complete", "a")] == sealed(run)


def test_every_result_counts(store: leftoff.Store, run: leftoff.Run) -> None:
    """None, False and 0 are results like any other, and come back after a resume as they were."""
    results: list[Any] = [None, False, 0, "", [], {}, 1.5, [{"a": None}]]
    for number, result in enumerate(results):
        assert result == run.do(f"s{number}", lambda result=result: result)
    run.pause()
    again = store.resume(run.id)
    for number, result in enumerate(results):
        found: Any = again.do(f"s{number}", lambda: pytest.fail("it was done already"))
        assert (result, type(result)) == (found, type(found))
        assert "result" in again.steps[f"s{number}"]


def test_do_again(run: leftoff.Run) -> None:
    """`again=True` runs it once more; its result is the new one, and the attempts are counted."""
    results = iter([1, 2])
    assert 1 == run.do("a", lambda: next(results))
    assert 2 == run.do("a", lambda: next(results), again=True)
    assert (2, 2) == (run.result("a"), run.steps["a"]["attempt"])


@pytest.mark.parametrize("bad", [object(), lambda: 1, {"a": [1, {"b": "\ud800"}]}])
def test_a_result_that_is_no_json_fails_the_step(run: leftoff.Run, bad: Any) -> None:
    """The error names the place in the result, and the step is failed, not half done."""
    with pytest.raises(Invalid, match=r"step/a\.result") as caught:
        run.do("a", lambda: {"deep": [bad]})
    assert caught.value.path.startswith("step/a.result.deep[0]")
    record = run.steps["a"]
    assert ("failed", "Invalid") == (record["status"], record["error"]["type"])
    assert not run.done("a") and "result" not in record
    assert [("error", "a")] == sealed(run)


def test_step_as_a_context(run: leftoff.Run) -> None:
    """Running inside, completed after, with when and how often; a result and a title may be given."""
    with run.step("a", title="The A") as step:
        assert "running" == run.steps["a"]["status"]
        step.result = {"pages": 3}
    record = run.steps["a"]
    assert ("completed", "The A", 1, {"pages": 3}) == (
        record["status"],
        record["title"],
        record["attempt"],
        record["result"],
    )
    assert datetime.fromisoformat(record["started_at"]) <= datetime.fromisoformat(record["completed_at"])
    assert run.done("a") and {"pages": 3} == run.result("a")


def test_entering_a_finished_step(run: leftoff.Run) -> None:
    """StepDone, unless again=True; the hint says how to ask first."""
    with run.step("a"):
        pass
    with pytest.raises(StepDone, match="Step a of run work-1") as caught, run.step("a"):
        pytest.fail("it must not be entered")
    assert "run.done" in caught.value.hint and "again=True" in caught.value.hint
    with run.step("a", again=True):
        assert not run.done("a")
    assert 2 == run.steps["a"]["attempt"]


def test_a_skipped_step_is_finished(run: leftoff.Run) -> None:
    """Somebody decided that it need not run."""
    run.put("step", "a", {"status": "skipped"})
    assert run.done("a")
    assert run.do("a", lambda: pytest.fail("skipped")) is None


def test_running_again_forgets_the_last_result(run: leftoff.Run) -> None:
    """A step that runs again and fails has no result from before."""
    run.do("a", lambda: 1)
    with pytest.raises(RuntimeError):
        run.do("a", fail, again=True)
    assert "result" not in run.steps["a"] and run.result("a") is None


def fail() -> None:
    raise RuntimeError("no paper in tray 2")


def test_an_exception_fails_the_step(store: leftoff.Store, run: leftoff.Run) -> None:
    """It goes on its way; the step is failed with it, and a checkpoint `error` is sealed with the message."""
    with pytest.raises(RuntimeError, match="tray 2"):
        run.do("a", fail)
    for seen in (run, store.get(run.id)):
        record = seen.steps["a"]
        assert "failed" == record["status"]
        error = record["error"]
        assert ("RuntimeError", "no paper in tray 2") == (error["type"], error["message"])
        assert "no paper in tray 2" in error["traceback"] and "leftoff/api" not in error["traceback"]
    (checkpoint,) = run.history()
    assert ("error", "a", "no paper in tray 2") == (checkpoint.trigger, checkpoint.step, checkpoint.note)


def test_a_failed_step_can_be_tried_again(run: leftoff.Run) -> None:
    """Entered once more it runs; done, it has no error left."""
    with pytest.raises(RuntimeError):
        run.do("a", fail)
    assert 5 == run.do("a", lambda: 5)
    record = run.steps["a"]
    assert ("completed", 2) == (record["status"], record["attempt"]) and "error" not in record


def test_nested_steps(run: leftoff.Run) -> None:
    """Steps below others; an exception fails each step that it passes through, innermost first."""
    with pytest.raises(RuntimeError), run.step("a") as a, a.step("b"):
        fail()
    assert {"a": "failed", "a/b": "failed"} == statuses(run)
    assert [("error", "a/b"), ("error", "a")] == sealed(run)


def test_only_leaves_are_counted(run: leftoff.Run) -> None:
    """A step with steps below it is no work of its own."""
    run.put("step", "a", {"status": "pending"})
    run.commit()
    assert 1 == run.info.steps["total"]
    with run.step("a"), run.step("a/b"):
        pass
    run.put("step", "a/c", {"status": "pending"})
    run.commit()
    assert {"total": 2, "completed": 1, "pending": 1} == {k: v for k, v in run.info.steps.items() if v}
    assert 50 == run.info.percent


def test_buffered_changes_are_committed_with_the_step(store: leftoff.Store, run: leftoff.Run) -> None:
    """What was set inside becomes durable at its end, in the version that completes it."""
    with run.step("a"):
        run.variables["n"] = 1
        run.note("halfway")
        assert "n" not in store.get(run.id).variables
    checkpoint = run.history()[0]
    at = run.at(checkpoint)
    assert (1, "completed", 1) == (at.variables["n"], at.steps["a"]["status"], len(at.records["note"]))


def test_entering_a_step_commits_only_that(store: leftoff.Store, run: leftoff.Run) -> None:
    """Others see that it runs; what was buffered before goes on waiting, for the step's end."""
    run.variables["n"] = 1
    run.append("list", 1)
    run.put("knowledge", "k", 1)
    with run.step("a"):
        for _ in run.each("a/b", ["x", "y"]):
            seen = store.get(run.id)
            assert ("running", "running") == (seen.steps["a"]["status"], seen.steps["a/b/x"]["status"])
            assert ({}, {}) == (dict(seen.variables), dict(seen.records["knowledge"]))
            assert {"n": 1, "list": [1]} == dict(run.variables)
            break
    seen = store.get(run.id)
    assert ({"list": [1], "n": 1}, {"k": 1}) == (dict(seen.variables), dict(seen.records["knowledge"]))


def test_what_a_failed_step_set_is_kept(store: leftoff.Store, run: leftoff.Run) -> None:
    """It may help whoever looks for the reason."""
    with pytest.raises(RuntimeError), run.step("a"):
        run.variables["n"] = 1
        fail()
    assert 1 == store.get(run.id).variables["n"]


def test_steps_come_in_their_declared_order(store: leftoff.Store) -> None:
    """Not by name; undeclared ones come after the ones beside them, below their parent."""
    run = store.start("w", steps=["zebra", "apple", "mango"])
    with run.step("new"):
        pass
    with run.step("apple/z"), run.step("apple/a"):
        pass
    expected = ["zebra", "apple", "apple/z", "apple/a", "mango", "new"]
    assert expected == list(run.steps)
    assert "zebra" == run.info.next_step


def test_new_steps_come_behind_those_of_others(run: leftoff.Run, store_path: Path) -> None:
    """Whoever added them."""
    run.do("a", lambda: 1)
    elsewhere(store_path, run.id, {("step", "theirs"): {"status": "pending", "order": 7}})
    run.commit()
    run.do("b", lambda: 1)
    assert ["a", "theirs", "b"] == list(run.steps)


def test_what_others_say_of_steps_is_seen(run: leftoff.Run, store_path: Path) -> None:
    """After the next commit, like everything that others commit; our own stays."""
    with run.step("a"):
        elsewhere(store_path, run.id, {("step", "b"): {"status": "completed"}})
        assert not run.done("b")
    assert run.done("b") and run.done("a")


def test_bad_paths(run: leftoff.Run) -> None:
    """A path with an empty part names no step."""
    for path in ("", "/a", "a/", "a//b"):
        for use in (run.step, lambda p: run.do(p, fail), lambda p: run.each(p, [1])):
            with pytest.raises(Invalid):
                use(path)
    assert {} == statuses(run)


def test_steps_are_read_only(run: leftoff.Run) -> None:
    """A step's record changes through the run, not in place."""
    run.do("a", lambda: 1)
    with pytest.raises(Frozen):
        run.steps["a"]["status"] = "failed"


@pytest.mark.parametrize("how", ["resume", "fork"])
def test_a_large_step_that_is_put_back(store: leftoff.Store, run: leftoff.Run, how: str) -> None:
    """A step over 1 MiB that was in flight is stored like any value of that size, whoever makes it pending."""
    large = {"status": "running", "order": 0, "text": "y" * 1_500_000}
    run.put("step", "large", large)
    run.commit()
    if how == "fork":
        again = run.fork(branch="other")
    else:
        run.pause()
        again = store.resume(run.id)
    assert {**large, "status": "pending"} == again.steps["large"]
    record = store._store.read(lambda view: view.record(again._number, "step", "large"))
    assert record is not None and (b"B", 33) == (record.stored[:1], len(record.stored))
