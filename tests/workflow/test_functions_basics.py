"""Steps and workflows: what a call does where, which run it belongs to, what is recorded."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, assert_type

import pytest

import leftoff
from tests.cli.command import succeed
from tests.workflow.functions import Calls, calls, statuses, store

__all__ = ["calls", "store"]


@leftoff.step
def double(number: int) -> int:
    """Twice the number."""
    return number * 2


def make(calls: Calls) -> Any:
    """A workflow of three steps."""

    @leftoff.step
    def fetch(url: str) -> dict[str, Any]:
        return {"url": calls(url), "size": len(url)}

    @leftoff.step
    def summarise(pages: list[dict[str, Any]]) -> int:
        calls("summarise")
        return sum(page["size"] for page in pages)

    @leftoff.workflow
    def crawl(urls: list[str]) -> int:
        return summarise([fetch(url) for url in urls])

    return crawl


def test_outside_a_workflow_a_step_is_its_function(project: Path) -> None:
    """Nothing is recorded, no store is made."""
    assert 6 == double(3)
    assert [2, 4] == double.map([1, 2])
    assert 8 == double.defer(4).result()
    assert "double" == double.__name__ and "Twice the number." == double.__doc__
    assert [] == list(project.iterdir())


def test_steps_are_recorded_in_order(store: leftoff.Store, calls: Calls) -> None:
    """Each call is a step, named by its number and its function; the result is the run's."""
    assert 3 == make(calls).run(["a", "bb"], store=store, run_id="r")
    view = store.get("r")
    assert {"1-fetch": "completed", "2-fetch": "completed", "3-summarise": "completed"} == statuses(
        store, "r"
    )
    assert ("completed", "crawl") == (view.status, view.workflow)
    record = view.steps["2-fetch"]
    assert ({"url": "bb"}, {"size": 2, "url": "bb"}, 1) == (
        record["args"],
        record["result"],
        record["attempt"],
    )
    assert record["digest"].startswith("sha256:")
    triggers = [version.trigger for version in view.history()]
    assert ["step_complete"] * 3 == triggers


def test_a_failed_run_goes_on_where_it_was(store: leftoff.Store, calls: Calls) -> None:
    """The same call again: finished steps are not called, the failed one is, then the rest."""
    crawl = make(calls)
    calls.fail["bb"] = 1
    with pytest.raises(ValueError, match="no bb"):
        crawl.run(["a", "bb", "c"], store=store)
    assert (["a", "bb"], "failed") == (calls.taken(), store.list()[0].status)
    assert 4 == crawl.run(["a", "bb", "c"], store=store)
    assert ["bb", "c", "summarise"] == calls.taken()
    (only,) = store.list()
    assert ("completed", 2) == (only.status, store.get(only.id).steps["2-fetch"]["attempt"])


def test_other_arguments_are_another_run(store: leftoff.Store, calls: Calls) -> None:
    """Without a run id, a run is known by its arguments: an unfinished one with others is left alone."""
    crawl = make(calls)
    calls.fail["a"] = 1
    with pytest.raises(ValueError):
        crawl.run(["a"], store=store)
    assert 2 == crawl.run(["bb"], store=store)
    assert {"failed", "completed"} == {info.status for info in store.list()}
    assert 1 == crawl.run(["a"], store=store)
    assert 2 == len(store.list())


def test_a_finished_run_is_not_gone_on_with(store: leftoff.Store, calls: Calls) -> None:
    """Without a run id, the same call again after the end is a new run."""
    crawl = make(calls)
    crawl.run(["a"], store=store)
    crawl.run(["a"], store=store)
    assert (2, ["a", "summarise"] * 2) == (len(store.list()), calls)


def test_a_run_id_is_one_run_for_ever(store: leftoff.Store, calls: Calls) -> None:
    """Finished, it gives its recorded result; nothing is called."""
    crawl = make(calls)
    assert 1 == crawl.run(["a"], store=store, run_id="mine")
    calls.clear()
    assert 1 == crawl.run(["a"], store=store, run_id="mine")
    assert 1 == crawl.run(store=store, run_id="mine")
    assert ([], 1) == (calls, len(store.list()))


def test_what_an_archived_run_did_is_not_done_again(
    store: leftoff.Store, calls: Calls, project: Path
) -> None:
    """Its result is read, and it stays archived. In the trash its id is taken: that is an error until it is back."""
    crawl = make(calls)
    crawl.run(["a"], store=store, run_id="mine")
    calls.clear()
    succeed("archive", "mine", "--store", store.location, cwd=project)
    assert (1, []) == (crawl.run(["a"], store=store, run_id="mine"), calls)
    assert [] == list(store.list())
    store.remove("mine")
    with pytest.raises(leftoff.Conflict, match="is in the trash"):
        crawl.run(["a"], store=store, run_id="mine")
    succeed("undelete", "mine", "--store", store.location, cwd=project)
    assert (1, []) == (crawl.run(["a"], store=store, run_id="mine"), calls)


def test_other_arguments_under_a_run_id_are_refused(store: leftoff.Store, calls: Calls) -> None:
    """A run id with other arguments than it was started with is a mistake, finished or not."""
    crawl = make(calls)
    crawl.run(["a"], store=store, run_id="mine")
    with pytest.raises(leftoff.Conflict, match="other arguments"):
        crawl.run(["b"], store=store, run_id="mine")

    @leftoff.workflow
    def other(urls: list[str]) -> None: ...

    with pytest.raises(leftoff.Conflict, match="a run of crawl, not of other"):
        other.run(["a"], store=store, run_id="mine")


def test_a_run_id_without_arguments_goes_on_with_its_own(store: leftoff.Store) -> None:
    """Also where the function would do without."""
    seen: list[int] = []

    @leftoff.workflow
    def flow(number: int = 1) -> int:
        seen.append(number)
        if len(seen) == 1:
            raise ValueError
        return number

    with pytest.raises(ValueError):
        flow.run(5, store=store, run_id="r")
    assert 5 == flow.run(store=store, run_id="r")
    assert 1 == flow.run(store=store, run_id="new")
    assert [5, 5, 1] == seen


def test_resume_uses_the_recorded_arguments(store: leftoff.Store, calls: Calls) -> None:
    """The latest unfinished run of the workflow, or the one that is named."""
    crawl = make(calls)
    calls.fail.update(a=1, bb=1)
    for urls in (["a"], ["bb"]):
        with pytest.raises(ValueError):
            crawl.run(urls, store=store, run_id=urls[0])
    assert 2 == crawl.resume(store=store)
    assert 1 == crawl.resume("a", store=store)
    assert 1 == crawl.resume("a", store=store)
    with pytest.raises(leftoff.NotFound, match="no run of crawl on branch main"):
        crawl.resume(store=store)


def test_resume_goes_back_to_a_checkpoint(store: leftoff.Store, calls: Calls) -> None:
    """A version in the REF: what was done after it is done again."""
    crawl = make(calls)
    crawl.run(["a", "bb"], store=store, run_id="r")
    calls.clear()
    assert 3 == crawl.resume("r~1", store=store)
    assert ["summarise"] == calls


def test_a_run_is_checked_before_it_continues(
    project: Path, calls: Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tracked file that is gone stops it, whichever call continues it, until the program accepts that."""
    crawl = make(calls)
    calls.fail["a"] = 1
    store = leftoff.open(".leftoff")
    with pytest.raises(ValueError):
        crawl.run(["a"], store=store, run_id="r")
    (project / "map.txt").write_text("a map")
    succeed("track", "map.txt", "--run", "r", cwd=project)
    (project / "map.txt").unlink()
    for again in (lambda: crawl.run(["a"], store=store, run_id="r"), lambda: crawl.resume("r", store=store)):
        with pytest.raises(leftoff.CannotResume) as caught:
            again()
        findings: Any = caught.value.findings
        codes = [finding.code for finding in findings]
        assert f"crawl.resume('r', accept={codes!r})" in caught.value.hint
        assert "failed" == store.get("r").status
    assert 1 == crawl.run(["a"], store=store, run_id="r", accept=codes)
    assert "leftoff: continuing r, last active" in capsys.readouterr().err
    store.close()


def test_what_cannot_be_resumed_says_so(store: leftoff.Store, calls: Calls) -> None:
    """Abandoned, finished by hand, or never a durable function."""
    crawl = make(calls)
    store.start("crawl", run_id="plain").pause()
    with pytest.raises(leftoff.CannotResume, match="not started by a durable function"):
        crawl.resume("plain", store=store)
    store.start("crawl", run_id="gone").finish("abandoned")
    with pytest.raises(leftoff.CannotResume, match="is abandoned"):
        crawl.run(store=store, run_id="gone")
    store.start("crawl", run_id="byhand").finish()
    with pytest.raises(leftoff.CannotResume, match="completed by somebody"):
        crawl.resume("byhand", store=store)


def test_missing_arguments_start_nothing(project: Path, calls: Calls) -> None:
    """A wrong call is a TypeError before anything is written."""
    crawl = make(calls)
    with pytest.raises(TypeError, match="missing urls"):
        crawl.run()
    with pytest.raises(TypeError, match="missing urls"):
        crawl.run(run_id="r")
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        crawl.run(nothing=1)
    with pytest.raises(TypeError, match="takes 1 positional"):
        crawl.run(1, 2)
    assert [] == list(project.iterdir())


def test_calling_a_workflow_runs_it(project: Path, calls: Calls) -> None:
    """In the project's own store."""
    assert 1 == make(calls)(["a"])
    assert ["completed"] == [info.status for info in leftoff.list()]


def test_branch_title_and_issue(store: leftoff.Store, calls: Calls) -> None:
    """They are the run's, and tell runs apart; where the function has such a parameter, it is the function's."""
    crawl = make(calls)
    crawl.run(["a"], store=store, run_id="r", title="Nightly", branch="try", issue=42)
    info = store.get("r").info
    assert ("Nightly", "try", "42") == (info.title, info.branch, info.row.issue)

    @leftoff.workflow
    def write(title: str) -> str:
        return title

    assert "Book" == write.options(store=store, run_id="w", title="Shown").run(title="Book")
    assert "Shown" == store.get("w").title


def test_a_workflow_inside_a_workflow(store: leftoff.Store, calls: Calls) -> None:
    """Its steps are below it; finished, it is not entered again."""

    @leftoff.step
    def work(what: str) -> str:
        return str(calls(what))

    @leftoff.workflow
    def part(name: str) -> str:
        return work(f"{name}1") + work(f"{name}2")

    @leftoff.workflow
    def whole() -> str:
        return part("a") + part("b") + work("c")

    calls.fail["b2"] = 1
    with pytest.raises(ValueError):
        whole.run(store=store, run_id="r")
    assert ("failed", "failed") == (statuses(store, "r")["2-part"], statuses(store, "r")["2-part/2-work"])
    calls.clear()
    assert "a1a2b1b2c" == whole.run(store=store, run_id="r")
    assert ["b2", "c"] == calls
    expected = [
        "1-part",
        "1-part/1-work",
        "1-part/2-work",
        "2-part",
        "2-part/1-work",
        "2-part/2-work",
        "3-work",
    ]
    assert expected == [step["step"] for step in _shown(store, "r")]
    with pytest.raises(leftoff.Usage, match=r"part\.run was called inside a workflow"):
        leftoff.workflow(lambda: part.run("x"), name="wrong").run(store=store)


def _shown(store: leftoff.Store, ref: str) -> list[dict[str, Any]]:
    from leftoff.engine.find import resolve
    from leftoff.engine.show import document

    found: list[dict[str, Any]] = document(store._store, resolve(store._store, ref), 0)["step_records"]
    return found


def test_inside_a_step_everything_is_that_step(store: leftoff.Store, calls: Calls) -> None:
    """Steps and workflows that a step calls are plain calls."""

    @leftoff.step
    def inner(what: str) -> str:
        return str(calls(what))

    @leftoff.workflow
    def flow(what: str) -> str:
        return inner(what)

    @leftoff.step
    def outer() -> list[str]:
        return [inner("a"), flow("b"), *inner.map(["c"]), inner.defer("d").result()]

    assert list("abcd") == leftoff.workflow(lambda: outer(), name="w").run(store=store, run_id="r")
    assert {"1-outer": "completed"} == statuses(store, "r")


def test_results_are_yours_to_change(store: leftoff.Store) -> None:
    """Lists and dicts are ordinary ones, in their order, and equal each time, whatever you do to them."""
    seen: list[Any] = []

    @leftoff.step
    def rows() -> dict[str, Any]:
        return {"b": [1], "a": {"x": 2}}

    @leftoff.workflow
    def flow() -> None:
        got = rows()
        seen.append((list(got), got["b"].copy()))
        got["b"].append(9)
        got["new"] = 1
        if len(seen) < 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flow.run(store=store, run_id="r")
    flow.run(store=store, run_id="r")
    assert [(["b", "a"], [1])] * 2 == seen


def test_arguments_are_the_same_each_time(store: leftoff.Store) -> None:
    """A workflow gets its arguments as they are recorded, the first time too: the order of a dict, for one."""
    seen: list[Any] = []

    @leftoff.workflow
    def flow(sizes: dict[str, int], /, *more: int, scale: int = 1) -> None:
        seen.append((list(sizes), more, scale))
        if len(seen) < 2:
            raise ValueError

    given = {"z": 1, "a": 2}
    with pytest.raises(ValueError):
        flow.run(given, 5, 6, scale=3, store=store)
    flow.resume(store=store)
    assert [(["a", "z"], (5, 6), 3)] * 2 == seen and ["z", "a"] == list(given)


def test_one_process_executes_a_run_once(store: leftoff.Store) -> None:
    """The lease does not tell threads apart; a second execution of the same run is refused all the same."""

    @leftoff.workflow
    def flow(depth: int) -> None: ...

    @leftoff.step
    def again() -> None:
        outer.run(1, store=store, run_id="r")

    @leftoff.workflow
    def outer(depth: int) -> None:
        again()

    with pytest.raises(leftoff.LeaseHeld, match="by this process"):
        outer.run(1, store=store, run_id="r")


def test_what_cannot_be_durable_is_refused_where_it_is_defined() -> None:
    """Methods, generators, functions without a name, options that mean nothing."""

    step: Any = leftoff.step
    workflow: Any = leftoff.workflow

    def method(self: Any) -> None: ...

    def generator() -> Any:
        yield 1

    for wrong, said in (
        (lambda: step(method), "is a method"),
        (lambda: step(generator), "is a generator"),
        (lambda: step(lambda: 1), "needs one to be known by"),
        (lambda: step(double), "decorated twice"),
        (lambda: step(3), "is not a function"),
        (lambda: step(retrys=1)(lambda: 1), "no option 'retrys'"),
        (lambda: step(key="uri")(make), "no parameter 'uri'"),
        (lambda: step(name="3-fetch")(make), "cannot name"),
        (lambda: step(retries=-1)(make), "not a number of retries"),
        (lambda: step(retries={"most": 1})(make), "retries has no 'most'"),
        (lambda: step(timeout="10 parsecs")(make), "timeout: `10 parsecs` is not a duration"),
        (lambda: step(timeout=0)(make), "no time at all"),
        (lambda: workflow(retries=1)(make), "no option 'retries'"),
        (lambda: workflow(max_parallel=0)(make), "max_parallel=0"),
        (lambda: double.options(colour=1), "no option 'colour'"),
        (lambda: double.map([1], max_parallel=0), "max_parallel=0"),
        (lambda: double.map([1], [1, 2]), "different lengths"),
    ):
        with pytest.raises(leftoff.Usage, match=said):
            wrong()


def test_a_method_of_an_object(store: leftoff.Store) -> None:
    """Bound to its object it is a function like others; the object is no part of the call."""

    class Client:
        def fetch(self, url: str, /, depth: int = 1) -> str:
            return url * depth

    fetch = leftoff.step(Client().fetch)
    flow = leftoff.workflow(lambda: [fetch("a"), fetch("b", 2)], name="flow")
    assert ["a", "bb"] == flow.run(store=store, run_id="r")
    assert {"url": "b", "depth": 2} == store.get("r").steps["2-fetch"]["args"]


def test_a_step_is_pickled_by_its_name() -> None:
    """So that it can be handed to a pool of processes."""
    assert double is pickle.loads(pickle.dumps(double))


def test_types_are_seen_through_the_decorators() -> None:
    """A type checker knows what a step takes and gives."""

    @leftoff.step(retries=1)
    async def later(number: int) -> str:
        return str(number)

    assert_type(double(1), int)
    assert_type(double.map([1]), list[int])
    assert_type(double.defer(1).result(), int)
    one, many = later(1), later.map([1])
    one.close()
    many.close()


@pytest.mark.parametrize(
    "order",
    [
        "import leftoff.workflow.durations as m; import leftoff; d = leftoff.workflow",
        "from leftoff import workflow as d; from leftoff.workflow import durations as m",
        "from leftoff import *; d = workflow; import leftoff.workflow.durations as m",
    ],
)
def test_the_package_is_the_decorator(order: str, tmp_path: Path) -> None:
    """`leftoff.workflow` is both, in whichever order a program meets them."""
    text = f"{order}\n@d\ndef f(x): return x\n@d(version=2)\ndef g(x): return x\nprint(m.seconds('2m'), f.run(3), g(4))"
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True)
    assert ("120.0 3 4\n", "") == (done.stdout, done.stderr)


def test_decorating_loads_nothing_heavy(tmp_path: Path) -> None:
    """Defining steps costs no database, no asyncio, no inspect."""
    text = (
        "import sys, leftoff\n@leftoff.step\ndef f(x: int) -> int: return x\n@leftoff.workflow\ndef g(): ...\n"
        "print([m for m in ('apsw', 'asyncio', 'inspect', 'dataclasses', 'logging') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True)
    assert ("[]\n", "") == (done.stdout, done.stderr)
