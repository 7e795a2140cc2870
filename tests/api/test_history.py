"""Time travel: checkpoint, history, at, diff, rollback and fork."""

from __future__ import annotations

import re
from typing import Any

import pytest

import leftoff
from leftoff.engine.run_reader import Reader
from leftoff.errors import Ambiguous, Invalid, NoCheckpoint, NotFound, Pruned, StepDone
from leftoff.model.words import TRIGGERS
from tests.api.test_steps import statuses

BIG = [{"i": i, "text": "x" * 100} for i in range(100)]
HUGE = "y" * 1_050_000  # stored as a file


@pytest.fixture
def travelled(run: leftoff.Run) -> leftoff.Run:
    """A run with three checkpoints: n is 0, 1, 2 in them, 3 now."""
    for number in range(3):
        run.variables["n"] = number
        run.checkpoint(note=f"n is {number}")
    run.variables["n"] = 3
    run.commit()
    return run


# -- checkpoints


def test_a_checkpoint(store: leftoff.Store, run: leftoff.Run) -> None:
    """A commit that is sealed: an id of 12 hex digits, a trigger, a note; durable with all that was buffered."""
    run.variables["n"] = 1
    version = run.checkpoint(trigger="review", note="before the risky part")
    assert re.fullmatch("[0-9a-f]{12}", version.id or "")
    assert ("review", "before the risky part", None) == (version.trigger, version.note, version.step)
    (found,) = store.get(run.id).history()
    assert version.to_json() == found.to_json()
    assert 1 == store.get(run.id).variables["n"]


def test_a_checkpoint_where_nothing_changed(run: leftoff.Run) -> None:
    """Sealing always makes a new version, with an id of its own."""
    assert run.checkpoint().id != run.checkpoint().id
    assert 2 == len(run.history())


def test_a_checkpoint_inside_a_step_says_so(run: leftoff.Run) -> None:
    """The innermost step that is open, unless another one is named."""
    with run.step("a"), run.step("a/b"):
        assert "a/b" == run.checkpoint().step
        assert "other" == run.checkpoint(step="other").step


def test_triggers(run: leftoff.Run) -> None:
    """Every word there is."""
    assert [*TRIGGERS] == [run.checkpoint(trigger=trigger).trigger for trigger in TRIGGERS]


def test_no_trigger(run: leftoff.Run) -> None:
    """Any other word is refused, and the known ones are listed."""
    with pytest.raises(Invalid, match="no trigger 'lunch'") as caught:
        run.checkpoint(trigger="lunch")
    assert "step_complete" in caught.value.hint
    assert [] == run.history()


def test_history(travelled: leftoff.Run) -> None:
    """Checkpoints, newest first; on request every version, and no more than asked for."""
    assert ["n is 2", "n is 1", "n is 0"] == [version.note for version in travelled.history()]
    assert ["n is 2"] == [version.note for version in travelled.history(limit=1)]
    assert [5, 4, 3, 2, 1] == [version.seq for version in travelled.history(sealed=False)]


# -- at


def test_at(travelled: leftoff.Run) -> None:
    """By id, by its first characters, so many back, by seq, by the version itself."""
    checkpoint = travelled.history()[1]
    assert checkpoint.id is not None
    for ref in (checkpoint.id, checkpoint.id[:6], "~1", checkpoint.seq, str(checkpoint.seq), checkpoint):
        at = travelled.at(ref)
        assert (1, checkpoint.seq, travelled.id) == (at.variables["n"], at.seq, at.run_id)
    assert 2 == travelled.at("~0").variables["n"]


def test_at_is_not_moved_by_what_comes_later(travelled: leftoff.Run) -> None:
    """A look at a version stays a look at that version."""
    at = travelled.at("~0")
    travelled.variables["n"] = 99
    travelled.append("list", 1)
    travelled.checkpoint()
    assert {"n": 2} == dict(at.variables)
    assert "running" == at.status


def test_looking_back_commits_nothing(store: leftoff.Store, travelled: leftoff.Run) -> None:
    """What is buffered goes on waiting."""
    travelled.variables["waiting"] = 1
    assert 1 == travelled.at("~1").variables["n"]
    assert "waiting" not in store.get(travelled.id).variables


def test_everything_can_be_read_back(run: leftoff.Run, tmp_path: Any) -> None:
    """Variables small, large and huge, steps, records and artifacts, as they were."""
    (tmp_path / "a.md").write_text("page")
    run.variables.update(small=1, big=BIG, huge=HUGE)
    run.put("knowledge", "k", {"text": "old"})
    run.artifact(tmp_path / "a.md")
    run.do("a", lambda: "old")
    old = run.checkpoint()
    run.variables.update(small=2, big=BIG[:50], huge=HUGE + "z")
    run.put("knowledge", "k", {"text": "new"})
    run.put("knowledge", "k2", {})
    run.do("a", lambda: "new", again=True)
    run.checkpoint()
    at = run.at(old)
    assert {"small": 1, "big": BIG, "huge": HUGE} == dict(at.variables)
    assert {"k": {"text": "old"}} == dict(at.records["knowledge"])
    assert ("old", ["a.md"]) == (at.steps["a"]["result"], list(at.artifacts))
    assert "item" in at.records and "criterion" not in at.records


def test_versions_that_are_not_there(travelled: leftoff.Run, store: leftoff.Store) -> None:
    """Each refusal says what there is instead."""
    with pytest.raises(NoCheckpoint, match="has no version 99; its newest is 5"):
        travelled.at(99)
    with pytest.raises(NoCheckpoint, match=r"has 3 checkpoint\(s\)"):
        travelled.at("~3")
    with pytest.raises(NoCheckpoint, match="no checkpoint ffffffffffff"):
        travelled.at("ffffffffffff")
    with pytest.raises(NoCheckpoint):
        travelled.at(0)
    other = store.start("other").checkpoint()
    with pytest.raises(NotFound, match="is not a version of run work-1"):
        travelled.at(other)


def test_a_pruned_version_says_that_it_is_gone(store: leftoff.Store, travelled: leftoff.Run) -> None:
    """By its seq; by its id it is simply not there any more."""
    first, second = travelled.history()[2], travelled.history()[1]
    store.prune(travelled.id, [first.id or ""])
    with pytest.raises(Pruned, match=f"Version {first.seq} of run work-1 is gone"):
        travelled.at(first.seq)
    with pytest.raises(NoCheckpoint):
        travelled.at(first.id or "")
    assert 1 == travelled.at(second).variables["n"]


def test_the_number_of_a_pruned_version_is_no_id(store: leftoff.Store, run: leftoff.Run) -> None:
    """There is a checkpoint whose id begins with that digit: it is not meant, neither in Python nor in a REF."""
    while len(run.history()) < 9 or not (meant := [v for v in run.history() if (v.id or "")[0] in "2345678"]):
        run.checkpoint()
    number = int((meant[0].id or "")[0])
    pruned = next(v for v in run.history() if v.seq == number)
    run.checkpoint()
    store.prune(run.id, [pruned.id or ""])
    for asked in (number, str(number), f"@{number}", f"{run.id}@{number}"):
        with pytest.raises(Pruned, match=f"Version {number} of run {run.id} is gone"):
            run.at(asked)
    with pytest.raises(Pruned):
        store.get(f"{run.id}@{number}")


@pytest.mark.parametrize("value", [HUGE, ["a", HUGE], {"a": HUGE}], ids=["text", "list", "dict"])
def test_a_large_value_that_is_pruned_while_it_is_read(
    store: leftoff.Store, run: leftoff.Run, value: Any
) -> None:
    """Whoever reads an older state sees all of it, also what is replaced and pruned meanwhile: that is no damage."""
    run.variables["v"] = value
    run.commit()

    def look(view: Any) -> Any:
        reader = Reader(store._store, view, run._number, run.id)
        assert ["v"] == list(reader.raw("variable"))  # from here on, this is what it sees
        run.variables["v"] = "small"
        run.commit()
        store.prune(run.id)
        found = reader.value("variable", "v")
        assert found is not None
        return found.plain

    assert value == store._store.read(look)
    assert "small" == store.get(run.id).variables["v"]


def test_an_ambiguous_prefix(store: leftoff.Store) -> None:
    """A prefix of several ids lists them."""
    run = store.start("w")
    by_start: dict[str, int] = {}
    for _ in range(4000):
        start = (run.checkpoint().id or "")[:4]
        by_start[start] = by_start.get(start, 0) + 1
        if by_start[start] > 1:
            break
    twice = [start for start, number in by_start.items() if number > 1]
    if not twice:
        pytest.fail("4,000 ids without a common prefix of four: that is next to impossible")
    with pytest.raises(Ambiguous, match="names several checkpoints") as caught:
        run.at(twice[0])
    assert 2 == len(caught.value.candidates)


# -- diff


def test_diff(run: leftoff.Run, tmp_path: Any) -> None:
    """Variables, steps, artifacts and other records: what was added, removed and changed."""
    run.variables.update(same=1, gone=2, changed="old", big=BIG)
    run.do("a", lambda: 1)
    old = run.checkpoint()
    del run.variables["gone"]
    run.variables.update(new=3, changed="new", big=[*BIG[:-1], "other"])
    run.put("knowledge", "k", "v")
    (tmp_path / "a.md").write_text("page")
    run.artifact(tmp_path / "a.md")
    run.do("b", lambda: 2)
    found = run.diff(old)
    assert {"new": 3} == found.variables.added and {"gone": 2} == found.variables.removed
    assert ["big", "changed"] == sorted(found.variables.changed)
    assert ("old", "new") == (found.variables.changed["changed"].old, found.variables.changed["changed"].new)
    assert ["b"] == list(found.steps.added) and ["a.md"] == list(found.artifacts.added)
    assert {"k": "v"} == found.records["knowledge"].added
    assert {"from": "old", "to": "new"} == found.to_json()["variables"]["changed"]["changed"]
    assert found


def test_diff_of_two_versions(travelled: leftoff.Run) -> None:
    """Any two, in either direction; a version and itself do not differ."""
    forth, back = travelled.diff("~2", "~1"), travelled.diff("~1", "~2")
    assert (0, 1) == (forth.variables.changed["n"].old, forth.variables.changed["n"].new)
    assert (1, 0) == (back.variables.changed["n"].old, back.variables.changed["n"].new)
    assert not travelled.diff("~1", "~1")


@pytest.mark.parametrize(
    ("old", "new"), [(1, 1.0), (1, True), (0, False), ("1", 1), ([], {}), (0.0, -0.0)], ids=repr
)
def test_diff_tells_types_apart(run: leftoff.Run, old: Any, new: Any) -> None:
    """1, 1.0 and true are three values, as they are in JSON."""
    run.variables["v"] = old
    before = run.checkpoint()
    run.variables["v"] = new
    run.checkpoint()
    assert ["v"] == list(run.diff(before).variables.changed)


# -- rollback


def test_rollback(store: leftoff.Store, travelled: leftoff.Run) -> None:
    """The state is what it was, as a new checkpoint that says so; nothing is erased."""
    target = travelled.history()[2]
    before = [version.id for version in travelled.history()]
    version = travelled.rollback("~2")
    assert 0 == travelled.variables["n"] == store.get(travelled.id).variables["n"]
    assert ("rollback", f"back to {target.id} (n is 0)") == (version.trigger, version.note)
    assert version.digest == target.digest
    saved = travelled.history()[1]
    assert ("manual", "before a rollback") == (saved.trigger, saved.note)
    assert before == [v.id for v in travelled.history()[2:]]


def test_rolling_back_the_rollback(travelled: leftoff.Run) -> None:
    """What was there before the rollback, sealed or not, can be had back."""
    travelled.variables["unsaved"] = "work"
    travelled.rollback("~2")
    assert {"n": 0} == dict(travelled.variables)
    travelled.rollback("~1")
    assert {"n": 3, "unsaved": "work"} == dict(travelled.variables)


def test_rollback_of_everything_there_is(store: leftoff.Store, run: leftoff.Run, tmp_path: Any) -> None:
    """Large and huge values, steps with their counters, records, artifacts."""
    (tmp_path / "a.md").write_text("page")
    run.variables.update(big=BIG, huge=HUGE, kind=BIG, secret={"password": "hunter2"})
    run.do("a", lambda: HUGE)
    run.do("b/c", lambda: 1)
    run.artifact(tmp_path / "a.md")
    old = run.checkpoint()
    counts = run.info.steps
    run.variables.update(big=BIG[:10], huge="small", kind={"now": "a dict"}, new=BIG)
    del run.variables["secret"]
    run.do("a", lambda: 2, again=True)
    list(run.each("b", ["c", "d"], again=True))
    run.put("step", "z", {"status": "blocked"})
    run.checkpoint()
    assert counts != run.info.steps
    version = run.rollback(old)
    assert version.digest == old.digest and counts == run.info.steps
    assert {"big": BIG, "huge": HUGE, "kind": BIG} == {k: run.variables[k] for k in ("big", "huge", "kind")}
    assert HUGE == run.result("a") and {"a": "completed", "b/c": "completed"} == statuses(run)
    assert ["a.md"] == list(store.get(run.id).artifacts)
    run.append("big", "more")
    run.do("z", lambda: 1)
    run.commit()
    assert [*BIG, "more"] == store.get(run.id).variables["big"]


def test_a_step_that_was_rolled_back_runs_again(run: leftoff.Run) -> None:
    """It is not done any more."""
    old = run.checkpoint()
    run.do("a", lambda: 1)
    with pytest.raises(StepDone):
        run.step("a")
    run.rollback(old)
    assert 2 == run.do("a", lambda: 2)


# -- fork


def test_fork(store: leftoff.Store, travelled: leftoff.Run) -> None:
    """A run of its own on another branch, from here; it says where it comes from."""
    other = travelled.fork(branch="try-b")
    assert ("try-b", "work", "running") == (other.branch, other.workflow, other.status)
    assert {"n": 3} == dict(other.variables)
    assert f"{travelled.id}@5" == other.info.to_json()["parent"]
    (checkpoint,) = other.history()
    assert f"fork of {travelled.id}@5" == checkpoint.note


def test_forks_are_independent(store: leftoff.Store, travelled: leftoff.Run) -> None:
    """What happens in one is not seen in the other, nor is its history."""
    travelled.variables["big"] = BIG
    other = travelled.fork(branch="try-b", run_id="fork")
    other.variables["n"] = "other"
    other.append("big", 1)
    other.do("a", lambda: 1)
    travelled.variables["n"] = "mine"
    travelled.commit()
    assert ("other", 101) == (store.get("fork").variables["n"], len(store.get("fork").variables["big"]))
    assert ("mine", 100) == (travelled.variables["n"], len(travelled.variables["big"]))
    assert not travelled.done("a")
    other.finish()
    assert "running" == travelled.status


def test_fork_of_an_older_version_with_other_variables(travelled: leftoff.Run) -> None:
    """From any checkpoint, with what is to be different from the start."""
    travelled.variables["big"] = BIG
    travelled.checkpoint()
    other = travelled.fork(branch="try-b", ref="~2", m="given", n=[1])
    assert {"m": "given", "n": [1]} == dict(other.variables)
    large = travelled.fork(branch="try-c", big="small", huge=HUGE)
    assert {"big": "small", "huge": HUGE, "n": 3} == dict(large.variables)


def test_a_fork_takes_along_what_was_buffered(store: leftoff.Store, run: leftoff.Run) -> None:
    """From here is from now."""
    run.variables["n"] = 1
    assert 1 == run.fork(branch="b").variables["n"]
    assert 1 == store.get(run.id).variables["n"]


def test_what_runs_stays_behind(store: leftoff.Store, run: leftoff.Run) -> None:
    """Running steps are pending in the fork; the original goes on; results over 1 MiB and secrets come along."""
    run.do("done", lambda: HUGE)
    run.put("step", "login", {"status": "running", "result": {"password": "hunter2"}})
    with run.step("a"):
        other = run.fork(branch="b")
        assert {"done": "completed", "login": "pending", "a": "pending"} == statuses(other)
        assert "running" == run.steps["a"]["status"]
    assert HUGE == other.result("done")
    with pytest.raises(leftoff.Redacted):
        other.result("login")["password"]
    assert {"completed": 1, "pending": 2} == {k: v for k, v in other.info.steps.items() if v and k != "total"}


def test_fork_of_a_run_that_ended(store: leftoff.Store) -> None:
    """A summary and an end belong to the run that had them."""
    run = store.start("w", run_id="r")
    before = run.checkpoint()
    run.finish(summary="all done")
    again = store.resume(f"r@{before.id}")
    again.finish(summary="all done again")
    assert "completed" == store.get("r").status
    other = again._owner._fork(again, None, "b", None, {})
    assert "summary" not in other.records["run"] and other.info.to_json()["completed_at"] is None


def test_long_lists_are_read_as_far_as_they_are_wanted(store: leftoff.Store, run: leftoff.Run) -> None:
    """Not one entry more; and what was redacted in one is known without putting any list together."""
    run.variables["n"] = [*range(3000)]
    run.variables["k"] = [*range(3000), {"api_key": "x" * 20}]
    run.variables["api_key"] = "y" * 20
    run.commit()
    seen: list[str] = []

    def read(view: Any) -> tuple[dict[str, Any], list[str]]:
        reader, all_of = Reader(store._store, view, run._number, run.id), view.records

        def watched(*words: Any) -> Any:
            for each in all_of(*words):
                seen.append(each.key)
                yield each

        view.records = watched
        found = reader.beginnings(10)
        view.records = all_of
        return found, reader.redacted_variables()

    found, redacted = store._store.read(read)
    assert ([*range(10)], 3000) == ([*found["n"]], found["n"].of)
    assert 20 == sum("/" in key for key in seen)
    assert ["api_key", "k"] == redacted
