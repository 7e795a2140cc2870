"""`leftoff next`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cli.command import call, succeed
from tests.cli.people import story
from tests.cli.runs import started


def test_the_first_pending_leaf_in_declared_order(tmp_path: Path) -> None:
    """stdout is the step alone; its title, instructions and the reason are on stderr, and all of it in the document."""
    run = started(tmp_path, "flow", "--steps", "z,m,a")
    succeed("step", "done", "z", cwd=tmp_path)
    succeed("put", "step", "m", '{"title": "Middle", "instructions": "Mind the gap."}', cwd=tmp_path)
    done = succeed("next", cwd=tmp_path)
    assert "m\n" == done.out
    assert ["Middle", "Mind the gap."] == done.err.splitlines()[:2] and "1 of 3" in done.err
    found = succeed("next", "--json", cwd=tmp_path).json
    assert ("m", "Middle", "Mind the gap.", run) == tuple(
        found[key] for key in ("step", "title", "instructions", "run_id")
    )
    assert 3 == succeed("ls", "--json", cwd=tmp_path).json["runs"][0]["head"]["seq"]  # asking changes nothing


def test_what_is_not_offered_is_explained(tmp_path: Path) -> None:
    """Steps that are running, blocked or failed are not next, and `why` says what is the matter with each."""
    started(tmp_path, "flow", "--steps", "a,b,c,d")
    succeed("step", "start", "a", cwd=tmp_path)
    succeed("step", "block", "b", "--error", "no key", cwd=tmp_path)
    succeed("step", "fail", "c", "--error", "exit 1", cwd=tmp_path)
    found = succeed("next", "--json", cwd=tmp_path).json
    assert "d" == found["step"]
    for said in (
        "a is in progress",
        "b is blocked: “no key”",
        "c has failed: “exit 1”",
        "The run is blocked",
    ):
        assert said in found["why"]


def test_what_was_left_for_the_step(tmp_path: Path) -> None:
    """Where somebody said how to go on with a step, that is part of its instructions."""
    started(tmp_path, "flow", "--steps", "a")
    succeed("step", "fail", "a", "--resume-with", "clear the cache", cwd=tmp_path)
    succeed("start", "flow", "--resume", cwd=tmp_path)
    assert "clear the cache" == succeed("next", "--json", cwd=tmp_path).json["instructions"]


def test_nothing_left(tmp_path: Path) -> None:
    """Exit 0 and an empty stdout; the document says null and why."""
    started(tmp_path, "flow", "--steps", "a")
    succeed("step", "done", "a", cwd=tmp_path)
    done = succeed("next", cwd=tmp_path)
    assert "" == done.out and "All 1 steps are done." in done.err
    found = succeed("next", "--start", "--json", cwd=tmp_path).json
    assert (None, None, None) == (found["step"], found["title"], found["instructions"])
    succeed("finish", cwd=tmp_path)
    assert "completed" in succeed("next", "--run", "latest", cwd=tmp_path).err


def test_start_takes_it(tmp_path: Path) -> None:
    """--start marks the step running in the same commit, so that all who ask at once get another one each."""
    names = [f"s{number:02d}" for number in range(12)]
    started(tmp_path, "flow", "--steps", ",".join(names))
    with ThreadPoolExecutor(12) as pool:
        taken = list(pool.map(lambda _: succeed("next", "--start", cwd=tmp_path).out.strip(), names))
    assert names == sorted(taken)
    assert "" == succeed("next", "--start", cwd=tmp_path).out
    run = succeed("ls", "--json", cwd=tmp_path).json["runs"][0]
    assert (12, 13) == (run["steps"]["running"], run["head"]["seq"])


def test_without_a_run(tmp_path: Path) -> None:
    """Exit 3, and no store is made."""
    assert (3, 3) == (call("next", cwd=tmp_path).code, call("next", "--start", cwd=tmp_path).code)
    assert [] == list(tmp_path.iterdir())


def test_two_runs(tmp_path: Path) -> None:
    """A step of the wrong run is not offered: it exits 2 and lists both."""
    one, two = started(tmp_path, "one"), started(tmp_path, "two")
    done = call("next", cwd=tmp_path)
    assert 2 == done.code and one in done.err and two in done.err


def test_what_the_run_waits_for_comes_first(tmp_path: Path) -> None:
    """A step that somebody must do by hand is offered with its instructions; what waits for a decision is named with
    the command for it; what is the runner's is not offered."""
    run = story(tmp_path)
    found = succeed("next", "--json", cwd=tmp_path).json
    assert ("read-aloud", "By ear", "Read the pages aloud.\nAll.") == tuple(
        found[key] for key in ("step", "title", "instructions")
    )
    for said in (
        "1 of 4 steps are done, and the run is waiting for this one.",
        "`leftoff step done read-aloud`",
        "sign-off is waiting for a decision: “Is docs/a.md good?” (approve, roundtable, reject)",
        f"`leftoff approve {run} sign-off`",
    ):
        assert said in found["why"]
    assert 1 == found["why"].count("read-aloud")
    assert "read-aloud\n" == succeed("next", "--start", cwd=tmp_path).out
    succeed("step", "done", "read-aloud", cwd=tmp_path)
    left = succeed("next", "--start", "--json", cwd=tmp_path).json
    assert None is left["step"] and f"The others are the runner's: `leftoff resume {run}`" in left["why"]
    assert f"`leftoff approve {run} sign-off`" in left["why"]


def test_a_step_below_a_runners_step_is_anybodys(tmp_path: Path) -> None:
    """What a step of a workflow declared of its own is offered all the same."""
    run = story(tmp_path)
    succeed("step", "done", "read-aloud", cwd=tmp_path)
    succeed("put", "step", "draft/sub-1", '{"title": "First"}', cwd=tmp_path)
    assert "draft/sub-1\n" == succeed("next", "--run", run, cwd=tmp_path).out
