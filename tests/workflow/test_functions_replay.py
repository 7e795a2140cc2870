"""A resumed workflow must make the calls that were recorded; what is allowed for, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leftoff
from tests.cli.command import succeed
from tests.workflow.functions import Calls, calls, statuses, store

__all__ = ["calls", "store"]


class Script:
    """A workflow whose calls can be changed between two executions."""

    def __init__(self, store: leftoff.Store, calls: Calls) -> None:
        self.store = store
        self.body: Any = None
        self.step = leftoff.step(lambda what: calls(what), name="fetch")
        self.other = leftoff.step(lambda what: calls(what), name="other")

    def run(self, body: Any, version: str | None = None, **options: Any) -> Any:
        """Execute it as it is now."""
        made: Any = leftoff.workflow(lambda: body(), name="flow", version=version)
        return made.run(store=self.store, run_id="r", **options)

    def cut_off(self, body: Any) -> None:
        """Execute it, and be interrupted after the last call."""

        def until_then() -> None:
            body()
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.run(until_then)


@pytest.fixture
def script(store: leftoff.Store, calls: Calls) -> Script:
    """A workflow that changes."""
    return Script(store, calls)


# -- sequences that part


def test_another_function_at_a_number(script: Script, calls: Calls) -> None:
    """The error names the run, the number, what was recorded and what came; nothing is called."""
    script.cut_off(lambda: (script.step("a"), script.step("b")))
    calls.clear()
    with pytest.raises(
        leftoff.Diverged, match=r"Run r has 2-fetch as call 2; now other is called there"
    ) as caught:
        script.run(lambda: (script.step("a"), script.other("b")))
    assert (6, "diverged", []) == (caught.value.exit_code, caught.value.code, calls)
    assert "version=" in caught.value.hint
    assert isinstance(caught.value, leftoff.CannotResume)


def test_other_arguments(script: Script, calls: Calls) -> None:
    """Short ones are shown as they were and are, a long one by its digest."""
    script.cut_off(lambda: script.step("a"))
    with pytest.raises(
        leftoff.Diverged,
        match="Step 1-fetch of run r was done with what='a', and is called with what='b' now",
    ):
        script.run(lambda: script.step("b"))
    with pytest.raises(leftoff.Diverged, match=r"with what='a', .* with what='sha256:\w+…' now"):
        script.run(lambda: script.step("b" * 300))


def test_fewer_calls(script: Script, calls: Calls) -> None:
    """A workflow that ends before it made the recorded calls is another one; it is not completed."""
    script.cut_off(lambda: (script.step("a"), script.step("b")))
    with pytest.raises(
        leftoff.Diverged, match="has 2-fetch as its next call; now the workflow ends without it"
    ):
        script.run(lambda: script.step("a"))
    assert "failed" == script.store.get("r").status


def test_a_map_of_other_items(script: Script, calls: Calls) -> None:
    """More or fewer items, another item in a place, a map where there was a call."""
    script.cut_off(lambda: script.step.map(["a", "b"]))
    with pytest.raises(leftoff.Diverged, match="with items=2, and is called with items=3 now"):
        script.run(lambda: script.step.map(["a", "b", "c"]))
    with pytest.raises(leftoff.Diverged, match=r"Step 1-fetch/2 .* with what='b', .* with what='x' now"):
        script.run(lambda: script.step.map(["a", "x"]))
    with pytest.raises(leftoff.Diverged, match=r"with items=2 without what, .* with what=.* without items"):
        script.run(lambda: script.step("a"))


def test_nobody_catches_a_divergence(script: Script, calls: Calls) -> None:
    """An `except` around it makes nothing good: the next call says it again, and so does the end."""
    script.cut_off(lambda: script.step("a"))
    calls.clear()
    seen: list[str] = []

    def stubborn() -> None:
        for what in ("b", "c"):
            try:
                script.step(what)
            except leftoff.LeftoffError as error:
                seen.append(error.code)

    with pytest.raises(leftoff.Diverged):
        script.run(stubborn)
    assert (["diverged", "diverged"], []) == (seen, calls)


def test_put_right_it_goes_on(script: Script, calls: Calls) -> None:
    """A divergence changes nothing that was recorded."""
    script.cut_off(lambda: script.step("a"))
    with pytest.raises(leftoff.Diverged):
        script.run(lambda: script.step("b"))
    calls.clear()
    script.run(lambda: (script.step("a"), script.step("z")))
    assert ["z"] == calls


# -- on purpose


def test_a_new_version_of_a_step_runs_it_again(script: Script, calls: Calls) -> None:
    """What follows from it may differ too; whatever still fits is used."""
    script.cut_off(lambda: (script.other("x"), script.other(script.step("a")), script.other("y")))
    calls.clear()
    better = leftoff.step(lambda what: calls(what + "!"), name="fetch", version=2)
    script.run(lambda: (script.other("x"), script.other(better("a")), script.other("y")))
    assert ["a!", "a!"] == calls
    assert ("2", 1) == tuple(script.store.get("r").steps["2-fetch"][word] for word in ("version", "revision"))


def test_a_change_on_purpose_survives_a_death(script: Script, calls: Calls) -> None:
    """Killed after the changed step: what comes after it is still allowed to differ, what was done since is not."""
    script.cut_off(lambda: (script.step("a"), script.other("a"), script.other("y")))
    better = leftoff.step(lambda what: calls(what + "!"), name="fetch", version=2)
    with pytest.raises(KeyboardInterrupt):
        script.run(lambda: (better("a"), (_ for _ in ()).throw(KeyboardInterrupt)))
    calls.clear()
    script.cut_off(lambda: script.other(better("a")))
    assert ["a!"] == calls
    with pytest.raises(leftoff.Diverged):
        script.run(lambda: (better("a"), script.other("neither")))
    script.run(lambda: (script.other(better("a")), script.other("z")))
    assert ["a!", "z"] == calls


def test_a_new_version_of_the_workflow(script: Script, calls: Calls) -> None:
    """Calls may be added, changed and left out; those that still fit are used."""
    script.cut_off(lambda: (script.step("a"), script.step("b"), script.step("c"), script.step("d")))
    calls.clear()
    script.run(lambda: (script.step("a"), script.other("b"), script.step("c")), version="2")
    assert ["b"] == calls
    assert ["1-fetch", "2-other", "3-fetch"] == sorted(statuses(script.store, "r"))


def test_a_map_of_fewer_items_on_purpose(script: Script, calls: Calls) -> None:
    """Items that there are no more go; those that still fit are used."""
    script.cut_off(lambda: script.step.map(["a", "b", "c"]))
    calls.clear()
    assert ["a", "x"] == script.run(lambda: script.step.map(["a", "x"]), version="2")
    assert (["x"], ["1-fetch", "1-fetch/1", "1-fetch/2"]) == (calls, sorted(statuses(script.store, "r")))


def test_a_version_of_the_workflow_counts_once(script: Script, calls: Calls) -> None:
    """Under the new version, what it has recorded must fit again."""

    def interrupted() -> None:
        script.step("b")
        raise KeyboardInterrupt

    script.cut_off(lambda: (script.step("a"), script.step("z")))
    with pytest.raises(KeyboardInterrupt):
        script.run(interrupted, version="2")
    with pytest.raises(leftoff.Diverged, match="with what='b', and is called with what='c' now"):
        script.run(lambda: script.step("c"), version="2")
    script.run(lambda: (script.step("b"), script.step("y")), version="2")
    assert ["a", "z", "b", "y"] == calls


# -- failures


def test_a_failure_that_was_caught_is_raised_again(script: Script, calls: Calls) -> None:
    """The workflow took a course because of it, and must take it again: the step is not run, however it would end."""
    seen: list[Any] = []

    def body() -> None:
        try:
            script.step("a")
        except ValueError as error:
            seen.append((str(error), isinstance(error, leftoff.StepFailed)))
            script.other("instead")

    calls.fail["a"] = 1
    script.cut_off(body)
    calls.clear()
    script.run(body)
    assert ([("no a", False), ("no a", True)], []) == (seen, calls)
    assert {"1-fetch": "failed", "2-other": "completed"} == statuses(script.store, "r")


def test_a_recorded_failure_says_what_it_was(script: Script, calls: Calls) -> None:
    """Its step, its class by name, its message; an instance of that class where the program has it."""
    caught: list[Any] = []

    def body() -> None:
        try:
            script.step("a")
        except Exception as error:
            caught.append(error)
            script.other("b")

    calls.fail["a"] = 1
    script.cut_off(body)
    script.run(body)
    first, second = caught
    assert (
        type(first) is ValueError
        and isinstance(second, ValueError)
        and isinstance(second, leftoff.StepFailed)
    )
    assert ("1-fetch", "ValueError", "no a", ("no a",)) == (
        second.step,
        second.kind,
        str(second),
        second.args,
    )


def test_exceptions_of_any_shape_are_raised_again(script: Script) -> None:
    """Also those whose constructor wants more, or that cannot be made at all."""

    class Odd(Exception):
        def __init__(self, code: int, *, why: str) -> None:
            super().__init__(f"{code}: {why}")

    shapes = [
        Odd(3, why="x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        OSError(2, "gone"),
        KeyError("k"),
    ]
    shapes.append(ExceptionGroup("several", [ValueError("1")]))
    seen: list[tuple[str, str]] = []

    def bad(index: int) -> None:
        raise shapes[index]

    failing = leftoff.step(bad)

    def body() -> None:
        for index in range(len(shapes)):
            try:
                failing(index)
            except Exception as error:
                seen.append((type(error).__name__, str(error)))
        script.other("end")

    script.cut_off(body)
    script.run(body)
    count = len(shapes)
    assert [told for _, told in seen[:count]] == [told for _, told in seen[count:]]
    assert ["StepFailed", "UnicodeDecodeError", "FileNotFoundError", "KeyError"] == [
        n for n, _ in seen[count:-1]
    ]


def test_a_failure_with_nothing_after_it_is_tried_again(script: Script, calls: Calls) -> None:
    """Also one that was caught: nothing depends on it yet."""

    def body() -> Any:
        try:
            return script.step("a")
        except ValueError:
            raise RuntimeError("all is lost") from None

    calls.fail["a"] = 1
    with pytest.raises(RuntimeError):
        script.run(body)
    assert "a" == script.run(body)


@pytest.mark.parametrize("how", ["raise", "from"])
def test_a_failure_that_ended_the_run_is_tried_again(script: Script, calls: Calls, how: str) -> None:
    """Though something was called after it, to clean up: that gives way, and is called anew where it fails again."""

    def body() -> None:
        try:
            script.step("a")
        except ValueError as error:
            script.other("clean up")
            if how == "raise":
                raise
            raise RuntimeError("wrapped") from error
        script.step("b")

    calls.fail["a"] = 2
    for _ in range(2):
        with pytest.raises((ValueError, RuntimeError)):
            script.run(body)
        assert ["a", "clean up"] == calls.taken()
    script.run(body)
    assert ["a", "b"] == calls
    assert {"1-fetch": "completed", "2-fetch": "completed"} == statuses(script.store, "r")


def test_a_fallback_that_fails_is_tried_again_itself(script: Script, calls: Calls) -> None:
    """The first failure was dealt with; only the second ended the run."""

    def body() -> Any:
        try:
            return script.step("a")
        except ValueError:
            return script.other("b")

    calls.fail.update(a=1, b=1)
    with pytest.raises(ValueError, match="no b"):
        script.run(body)
    calls.clear()
    assert "b" == script.run(body)
    assert ["b"] == calls


def test_a_caught_failure_of_a_part(script: Script, calls: Calls) -> None:
    """A workflow inside, or a map, that failed and was caught is not entered again."""
    part: Any = leftoff.workflow(lambda: (script.step("a"), script.step("b")), name="part")

    def body() -> None:
        for attempt in (part, lambda: script.step.map(["c", "d"], max_parallel=1)):
            try:
                attempt()
            except ValueError:
                script.other("next")

    calls.fail.update(b=1, c=1)
    script.cut_off(body)
    assert ["a", "b", "next", "c", "next"] == calls.taken()
    before = statuses(script.store, "r")
    script.run(body)
    assert ([], before) == (calls, statuses(script.store, "r"))
    assert (
        "failed" == before["1-part"] == before["1-part/2-fetch"] == before["3-fetch"] == before["3-fetch/1"]
    )


def test_a_failure_that_ended_a_part_is_tried_again(script: Script, calls: Calls, tmp_path: Any) -> None:
    """Though the part had called something after it; unless whoever called the part went on without it."""

    def inside() -> Any:
        try:
            return script.step("a")
        except ValueError:
            script.other("clean up")
            raise

    part: Any = leftoff.workflow(inside, name="part")

    def body() -> Any:
        try:
            return part()
        except ValueError:
            raise KeyboardInterrupt from None

    calls.fail["a"] = 1
    with pytest.raises(KeyboardInterrupt):
        script.run(body)
    assert ["a", "clean up"] == calls.taken()
    assert "a" == script.run(body)
    assert (["a"], {"1-part": "completed", "1-part/1-fetch": "completed"}) == (
        calls,
        statuses(script.store, "r"),
    )


@pytest.mark.parametrize("kind", [leftoff.StoreUnavailable, leftoff.Rewound])
def test_a_retry_that_fails_at_the_store_is_told(
    script: Script, monkeypatch: pytest.MonkeyPatch, kind: type[leftoff.LeftoffError]
) -> None:
    """What cannot be recorded ends the workflow, whatever it catches; and nothing is lost that was recorded."""
    write = script.store._store.write

    def out_of_reach(work: Any, *, durable: bool = True) -> Any:
        if durable:
            raise kind("The store does not have it.")
        return write(work, durable=False)

    def body() -> None:
        script.step("a")
        with monkeypatch.context() as broken:
            broken.setattr(script.store._store, "write", out_of_reach)
            try:
                script.step("b")
            except kind:
                pass
        script.step("c")

    with pytest.raises(kind):
        script.run(body)
    assert {"1-fetch": "completed", "2-fetch": "completed"} == statuses(script.store, "r")


# -- what the records say


def test_a_failure_is_an_error_record_until_it_is_done(script: Script, calls: Calls) -> None:
    """As for every other face: which step, which try, why; gone when the step is done."""
    calls.fail["a"] = 1
    with pytest.raises(ValueError, match="no a"):
        script.run(lambda: script.step("a"))
    error = dict(script.store.get("r").records["error"]["1-fetch"])
    assert {"step": "1-fetch", "status": "failed", "attempt": 1, "message": "no a", "type": "ValueError"} == {
        key: value for key, value in error.items() if key not in ("at", "traceback")
    }
    script.run(lambda: script.step("a"))
    assert {} == dict(script.store.get("r").records["error"])


def test_once_more_lasts_until_the_step_ends(script: Script, tmp_path: Path) -> None:
    """A call that is cut off again is still to be made once more; one that returned is not."""
    script.cut_off(lambda: (script.step("a"), script.step("b")))
    succeed("resume", "r", "--from-step", "1-fetch", "--yes", cwd=tmp_path)

    def cut_off() -> None:
        raise KeyboardInterrupt

    stopped = leftoff.step(lambda what: cut_off(), name="fetch")
    with pytest.raises(KeyboardInterrupt):
        script.run(lambda: (script.step("a"), stopped("b")))
    found = script.store.get("r").steps
    assert (False, True) == tuple("once_more" in found[path] for path in ("1-fetch", "2-fetch"))
    script.run(lambda: (script.step("a"), script.step("b")))
    assert [] == [path for path, record in script.store.get("r").steps.items() if "once_more" in record]
