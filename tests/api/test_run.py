"""run, start, resume: which run it is, and who may drive it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import CannotResume, Conflict, Invalid, LeaseHeld, NotFound, Unsupported
from leftoff.store.rows import Holder
from tests.api.others import said, start_program, wait_for


def test_run_starts_where_there_is_none(store: leftoff.Store) -> None:
    """The first time, there is nothing to go on with."""
    run = store.run("convert", title="Nature trail", steps=["a", "b"], variables={"n": 1})
    assert not run.resumed
    assert re.fullmatch(r"convert-\d{8}-\d{6}", run.id)
    assert ("convert", "Nature trail", "main", "running") == (run.workflow, run.title, run.branch, run.status)
    assert {"a": "pending", "b": "pending"} == {path: step["status"] for path, step in run.steps.items()}
    assert {"n": 1} == dict(run.variables)


@pytest.mark.parametrize("end", ["pause", "fail", "leave"])
def test_run_goes_on_with_the_unfinished_one(store: leftoff.Store, end: str) -> None:
    """Paused, failed or simply left: the same call goes on with it."""
    first = store.run("convert", steps=["a", "b"])
    first.do("a", lambda: 1)
    if end == "pause":
        first.pause()
    elif end == "fail":
        first.finish("failed")
    again = store.run("convert", steps=["a", "b"])
    assert again.resumed
    assert (first.id, "running") == (again.id, again.status)
    assert again.done("a") and not again.done("b")


@pytest.mark.parametrize("status", ["completed", "abandoned"])
def test_run_starts_anew_after_a_finished_one(store: leftoff.Store, status: str) -> None:
    """What is finished is not gone on with."""
    first = store.run("convert")
    first.finish(status)
    again = store.run("convert")
    assert not again.resumed
    assert first.id != again.id


def test_run_takes_the_latest(store: leftoff.Store) -> None:
    """Of several unfinished ones, the one with the latest commit."""
    ids = []
    for number in range(3):
        run = store.start("convert", run_id=f"convert-{number}")
        run.pause()
        ids.append(run.id)
    store.resume("convert-1").pause()
    assert "convert-1" == store.run("convert").id


def test_run_goes_by_workflow_branch_title_and_issue(store: leftoff.Store) -> None:
    """Only what is asked for is gone on with; what is left out may be anything."""
    first = store.start("convert", run_id="one", title="A", branch="main", issue=42)
    first.pause()
    for other in (
        {"title": "B"},
        {"branch": "try"},
        {"issue": 43},
        {"title": "A", "issue": "43"},
    ):
        run = store.run("convert", **other)
        assert not run.resumed
        run.finish()
    assert not store.run("other").resumed
    assert "one" == store.run("convert", title="A", issue="#42").id


def test_declared_steps_that_are_new_are_added(store: leftoff.Store) -> None:
    """A program that grew a step goes on with its old run; what is there already stays as it is."""
    first = store.run("convert", steps=["a", "b"])
    first.do("a", lambda: 1)
    first.pause()
    again = store.run("convert", steps=["a", "new", {"id": "b", "title": "other"}])
    assert ["completed", "pending", "pending"] == [again.steps[path]["status"] for path in ("a", "b", "new")]
    assert "title" not in again.steps["b"]


def test_steps_may_be_declared_with_what_is_known(store: leftoff.Store) -> None:
    """A path, or a dict with an id; twice the same is an error."""
    run = store.run("convert", steps=["a", {"id": "a/x", "title": "The X"}])
    assert "The X" == run.steps["a/x"]["title"]
    for steps in (["a", "a"], [1], [{"title": "no id"}], ["/a"]):
        with pytest.raises(Invalid):
            store.run("other", steps=steps)


def test_first_variables_are_for_new_runs(store: leftoff.Store) -> None:
    """A run that goes on keeps what it has."""
    store.run("convert", variables={"n": 1}).pause()
    assert {"n": 1} == dict(store.run("convert", variables={"n": 2, "m": 3}).variables)


def test_start_always_starts(store: leftoff.Store) -> None:
    """Also beside an unfinished one; ids of the same second get a suffix."""
    runs = [store.start("convert") for _ in range(3)]
    assert 3 == len({run.id for run in runs})
    assert not any(run.resumed for run in runs)


def test_a_fixed_id(store: leftoff.Store) -> None:
    """An unfinished run of that id is a conflict, a finished one gives the id a suffix."""
    run = store.start("convert", run_id="mine")
    with pytest.raises(Conflict, match="mine already exists") as caught:
        store.start("convert", run_id="mine")
    assert "esume" in caught.value.hint
    run.finish()
    assert "mine-2" == store.start("convert", run_id="mine").id
    with pytest.raises(Invalid, match="run id"):
        store.start("convert", run_id="not/an/id")


@pytest.mark.parametrize("named", ["id", "workflow", "title", "issue", "checkpoint", "latest", "nothing"])
def test_resume_by_any_name(store: leftoff.Store, named: str) -> None:
    """The latest unfinished run, or whatever a REF names."""
    run = store.start("convert", title="Nature trail", issue=42)
    checkpoint = run.checkpoint()
    run.pause()
    refs = {
        "id": run.id,
        "workflow": "convert",
        "title": "Nature trail",
        "issue": "#42",
        "checkpoint": checkpoint.id,
        "latest": "latest",
        "nothing": None,
    }
    again = store.resume(refs[named])
    assert (run.id, True, "running") == (again.id, again.resumed, again.status)


def test_resume_of_an_older_version_goes_back_to_it(store: leftoff.Store) -> None:
    """The history keeps what was after it."""
    run = store.start("convert", run_id="c")
    run.variables["n"] = 1
    old = run.checkpoint()
    run.variables["n"] = 2
    new = run.checkpoint()
    run.pause()
    again = store.resume(old.id)
    assert 1 == again.variables["n"]
    assert 2 == again.at(new.id or "").variables["n"]


def test_resume_of_a_finished_run(store: leftoff.Store) -> None:
    """Nothing is left to do, and the error says how to look at it; an older checkpoint can be gone on from."""
    run = store.start("convert", run_id="c", steps=["a"])
    old = run.checkpoint()
    run.do("a", lambda: 1)
    run.finish()
    with pytest.raises(CannotResume, match="nothing is left to do") as caught:
        store.resume("c")
    assert "leftoff.get('c')" in caught.value.hint
    again = store.resume(f"c@{old.id}")
    assert ("running", False) == (again.status, again.done("a"))


def test_resume_of_nothing(store: leftoff.Store) -> None:
    """No store, no run, a run on another branch: each is told, and nothing is made."""
    with pytest.raises(NotFound, match="There is no run here"):
        store.resume()
    with pytest.raises(NotFound, match="no run convert"):
        store.resume("convert")
    store.start("convert", run_id="c", branch="try").pause()
    with pytest.raises(NotFound, match="no unfinished run on branch main; there is on try: c"):
        store.resume()
    with pytest.raises(NotFound, match="Nothing is called nonsense"):
        store.resume("nonsense")
    assert "c" == store.resume(branch="try").id


def test_what_was_in_flight_is_to_be_done_again(store: leftoff.Store) -> None:
    """Steps that ran or failed are pending; what is completed, skipped, blocked or waiting stays so."""
    words = ["running", "failed", "completed", "skipped", "blocked", "waiting", "pending"]
    run = store.start("convert", run_id="c")
    for word in words:
        run.put("step", word, {"status": word, "result": {"password": "hunter2"}})
    run.pause()
    with pytest.raises(leftoff.CannotResume, match="The run is blocked"):
        leftoff.open(store.location).resume("c")
    again = leftoff.open(store.location).resume("c", accept=["blocked.errors"])
    now = {path: step["status"] for path, step in again.steps.items()}
    assert {**{word: word for word in words}, "running": "pending", "failed": "pending"} == now
    again._owner.close()


DRIVER = """
import leftoff
run = leftoff.run("convert", steps=["a"])
print("driving", flush=True)
input()
"""


def test_a_run_driven_by_another_process_is_refused(project: Path) -> None:
    """The error says who drives it, where and since when; it helps to try again."""
    child = start_program(DRIVER, project)
    wait_for(child, "driving")
    store = leftoff.open(".leftoff")
    run_id = store.list()[0].id
    for drive in (lambda: store.run("convert"), lambda: store.resume(run_id)):
        with pytest.raises(LeaseHeld) as caught:
            drive()
        assert re.search(
            rf"Run {run_id} is driven by .+ \(process {child.pid} on .+\), since \d{{4}}-\d\d-\d\dT[\d:.]+Z",
            caught.value.message,
        )
        assert caught.value.retry
    with pytest.raises(LeaseHeld):
        store.remove(run_id)
    assert "alive" == store.get(run_id).info.health
    child.communicate("\n", timeout=60)
    again = store.run("convert")
    assert (run_id, True) == (again.id, again.resumed)
    store.close()


def test_a_driver_that_was_killed_is_followed(project: Path) -> None:
    """No waiting and no forcing: a process that is gone drives nothing."""
    child = start_program(DRIVER, project)
    wait_for(child, "driving")
    child.kill()
    child.communicate(timeout=60)
    with leftoff.open(".leftoff") as store:
        assert "dead" == store.list()[0].health
        again = store.run("convert")
        assert again.resumed and "alive" == again.info.health


AT_ONCE = """
import sys, leftoff
input()
try:
    run = leftoff.run("convert")
    print("drives", run.id, flush=True)
    input()
except leftoff.LeaseHeld as error:
    print("refused", error.message, flush=True)
"""


def test_two_processes_at_once_never_make_two_runs(project: Path) -> None:
    """All call run() at the same moment on a store that is not there yet: one drives, the others are refused."""
    children = [start_program(AT_ONCE, project) for _ in range(4)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    told: list[Any] = []
    for child in children:
        assert child.stdout is not None
        told.append(child.stdout.readline().split())
    for child in children:
        child.communicate("\n", timeout=60)
    assert ["drives", "refused", "refused", "refused"] == sorted(words[0] for words in told)
    with leftoff.open(".leftoff") as store:
        assert 1 == len(store.list())


def test_a_driver_that_lost_its_run_is_fenced_off(store: leftoff.Store) -> None:
    """Whoever was followed can write no more, and what it had committed before is kept."""
    run = store.start("convert", run_id="c")
    run.variables["n"] = 1
    run.commit()

    def follow(tx: Any) -> None:
        tx.put_lease(run._number, run._buffer.epoch + 1, Holder("process", None, None, "somebody else", 1))

    store._store.write(follow)
    run.variables["n"] = 2
    with pytest.raises(leftoff.StaleEpoch, match="taken over"):
        run.commit()
    assert 1 == store.get("c").variables["n"]
    with pytest.raises(leftoff.StaleEpoch):
        store.close()


def test_the_module_uses_the_projects_store(project: Path) -> None:
    """leftoff.run, start, resume, get, list, fsck, open: all on .leftoff of the project."""
    lines = said(
        """
import leftoff
with leftoff.run("one") as run: run.variables["n"] = 1
two = leftoff.start("two", run_id="two"); two.pause()
assert leftoff.resume().id == "two"
assert leftoff.get("one").variables["n"] == 1
assert [info.workflow for info in leftoff.list()] == ["two", "one"]
assert leftoff.fsck().ok
assert leftoff.open() is leftoff.open()
print(leftoff.open().location)
""",
        project,
    )
    assert [str(project / ".leftoff")] == lines


def test_an_unknown_kind_of_store(tmp_path: Path) -> None:
    """A URL that this leftoff has no store for is refused by its scheme."""
    with pytest.raises(Unsupported, match="redis://"):
        leftoff.open("redis://localhost/0")
