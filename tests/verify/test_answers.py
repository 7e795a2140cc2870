"""Answers to what was found: typed at a terminal, or given beforehand; asked once, and never of a program."""

from __future__ import annotations

import json

import pytest

import leftoff
from tests.cli.command import call, succeed
from tests.cli.terminal import CTRL_C, CTRL_D, Terminal
from tests.verify.situations import Place, codes, plan
from tests.verify.test_table_world import FLOW, failed, tracked
from tests.workflow.driving import mark


def test_a_file_is_restored(place: Place) -> None:
    """(r) restores tracked files from the checkpoint, then the run goes on; what was there is saved as a checkpoint."""
    tracked(place)
    place.file("config.txt", "port = 2\n")
    with Terminal("resume", "r", cwd=place.folder) as terminal:
        terminal.expect("+port = 2")
        terminal.expect("(k)eep the current, (r)estore from the checkpoint, (s)top: ")
        terminal.type("r\n")
        assert 0 == terminal.end(), terminal.shown
    assert "port = 1\n" == (place.folder / "config.txt").read_text()
    assert ("running", "resume") == (place.show()["status"], place.verify(code=0)["verdict"])
    log = succeed("log", "r", "--json", cwd=place.folder).json["checkpoints"]
    saved = next(entry["seq"] for entry in log if entry["note"] == "before a rollback")
    assert "port = 2\n" == succeed("cat", f"r@{saved}:config.txt", cwd=place.folder).out


@pytest.mark.parametrize(("typed", "code"), [("s\n", 7), (CTRL_D, 7), (CTRL_C, 130)])
def test_stopping_changes_nothing(place: Place, typed: str, code: int) -> None:
    """(s), the end of input and Ctrl-C leave everything as it is."""
    tracked(place)
    place.file("config.txt", "port = 2\n")
    before = place.head
    with Terminal("resume", "r", cwd=place.folder) as terminal:
        terminal.expect("(s)top: ")
        terminal.type(typed)
        assert code == terminal.end(), terminal.shown
    assert (before, "port = 2\n") == (place.head, (place.folder / "config.txt").read_text())


@pytest.mark.parametrize(("typed", "starts"), [("r\n", 2), ("a\n", 1)])
def test_an_output_at_a_terminal(place: Place, typed: str, starts: int) -> None:
    """(r) runs the step again, (a) goes on without; each finding is asked about once, and not again by the runner."""
    failed(place)
    (place.folder / "a.txt").unlink()
    with Terminal("resume", "r", cwd=place.folder) as terminal:
        terminal.expect("(r)un the step again, (a)ccept, (s)top: ")
        terminal.type(typed)
        assert 0 == terminal.end(), terminal.shown
    assert 1 == terminal.shown.count("(s)top")
    assert (starts, 2) == (len(place.starts("a")), len(place.starts("b")))


def test_a_changed_definition_is_asked_about_once(place: Place) -> None:
    """The verdict asks, the runner does not ask again."""
    failed(place)
    place.write(FLOW.replace("echo one", "echo 1"))
    with Terminal("resume", "r", cwd=place.folder) as terminal:
        terminal.expect("[y/N]: ")
        terminal.type("y\n")
        assert 0 == terminal.end(), terminal.shown
    assert 1 == terminal.shown.count("[y/N]")


def test_a_secret_is_typed(place: Place) -> None:
    """At a terminal a value that was not stored is asked for, unseen, and used."""
    place.write(FLOW.replace("test -e good", "test {{ api_key }} = y && test -e good"))
    place.commit("flow")
    assert 1 == place.run("--var", "api_key=ghp_abcdefghijklmnopqrstuvwxyz0123456789").end()
    place.file("good")
    with Terminal("resume", "r", cwd=place.folder) as terminal:
        terminal.expect("api_key (not stored): ")
        terminal.type("y\n")
        assert 0 == terminal.end(), terminal.shown


def test_errors_are_cleared_at_a_terminal(place: Place) -> None:
    """(c) clears what blocks the run, as `unblock` does; then the brief is printed."""
    place.start("--steps", "a,b")
    succeed("step", "block", "a", "--error", "no licence", cwd=place.folder)
    with Terminal("resume", "r", cwd=place.folder) as terminal:
        terminal.expect("no licence")
        terminal.expect("(c)lear them, (g)o on without, (s)top: ")
        terminal.type("c\n")
        assert 0 == terminal.end(), terminal.shown
    assert ("pending", "running") == (place.status("a"), place.show()["status"])


def test_many_of_a_kind_are_one_question(place: Place) -> None:
    """More than five findings of one code are asked about together."""
    names = [f"f{number}.txt" for number in range(8)]
    outputs = ", ".join(names)
    text = FLOW.replace("echo one > a.txt; echo two > b.txt", f"touch {' '.join(names)}")
    failed(place, text.replace("a.txt, b.txt", outputs))
    for name in names:
        (place.folder / name).unlink()
    with Terminal("resume", "r", cwd=place.folder) as terminal:
        terminal.expect("and 3 more like these")
        terminal.expect("(s)top: ")
        terminal.type("r\n")
        assert 0 == terminal.end(), terminal.shown
    assert 2 == len(place.starts("a"))


def test_a_verdict_is_no_error(place: Place) -> None:
    """With --json what was found is an event, the last line is the run, and nothing is called an error."""
    tracked(place)
    place.file("config.txt", "port = 2\n")
    done = call("resume", "r", "--json", cwd=place.folder)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert (7, ["verdict", "end"]) == (done.code, [line["event"] for line in lines])
    assert ("ask", "files.changed", "r") == (
        lines[0]["verdict"],
        lines[0]["findings"][0]["code"],
        lines[1]["run"]["run_id"],
    )


def test_several_refusals(place: Place) -> None:
    """Exit 4 comes before 5 before 6, and every finding is told."""
    store = leftoff.open(place.folder / ".leftoff")
    run = store.start("work", run_id="r", steps=["a"])
    succeed("put", "context", "resumable", "false", "--run", "r", cwd=place.folder)
    found = place.verify(code=5)
    assert {"lease.held", "recovery.not_resumable"} == set(dict(codes(found)))
    run.pause()
    store.close()
    place.verify(code=6)


# -- parts of a run

THREE = f"""
name: flow
steps:
  - {{id: a, run: "{mark("a")}"}}
  - {{id: b, run: "{mark("b")}; test -e good"}}
  - {{id: c, run: "{mark("c")}", needs: [b]}}
"""


def test_only_some_steps(place: Place) -> None:
    """--only does these and no others, also where they are done; what they need must be done or among them."""
    failed(place, THREE.replace("on_failure", ""))
    assert {"a": "run", "b": "skip", "c": "skip"} == plan(place.dry("--only", "a", code=0))
    place.resume("--only", "a").end(0)
    assert [2, 1, 0] == [len(place.starts(step)) for step in "abc"]
    assert "paused" == place.show()["status"]
    refused = place.back("--only", "c", code=5)
    assert "--only b c" in refused.err
    place.resume("--only", "b", "c").end(0)
    assert [2, 2, 1] == [len(place.starts(step)) for step in "abc"]
    assert "completed" == place.show()["status"]


def test_only_what_failed(place: Place) -> None:
    """--failed does what failed; the rest is left for another time."""
    failed(place, THREE)
    place.resume("--failed").end(0)
    assert [1, 2, 0] == [len(place.starts(step)) for step in "abc"]
    assert ("paused", "pending") == (place.show()["status"], place.status("c"))
    place.resume().end(0)
    assert "completed" == place.show()["status"]


# -- in Python


def test_python_is_told_what_to_accept(place: Place) -> None:
    """`leftoff.resume` raises `CannotResume` with the findings; its hint has the codes, which go on."""
    tracked(place)
    place.file("config.txt", "port = 2\n")
    store = leftoff.open(place.folder / ".leftoff")
    with pytest.raises(leftoff.CannotResume) as raised:
        store.resume("r")
    assert ["files.changed"] == [getattr(finding, "code", None) for finding in raised.value.findings]
    assert "accept=['files.changed']" in raised.value.hint
    store.resume("r", accept=["files.changed"]).pause()
    with pytest.raises(leftoff.Usage):
        store.resume("r", accept=["files.changd"])
    store.close()


def test_python_run_verifies_what_it_goes_on_with(place: Place) -> None:
    """`leftoff.run` checks a run before it goes on with it; refused, nobody drives it; accepted, it goes on."""
    place.file("out.txt", "one\n")
    place.start("--steps", "a,b")
    succeed("step", "done", "a", "--output", "out.txt", cwd=place.folder)
    (place.folder / "out.txt").unlink()
    store = leftoff.open(place.folder / ".leftoff")
    with pytest.raises(leftoff.CannotResume) as raised:
        store.run("work")
    assert "leftoff.run('work', accept=['outputs.missing'])" in raised.value.hint
    assert "lease.held" not in dict(codes(place.verify(code=7)))
    with store.run("work", accept=["outputs.missing"]) as run:
        assert ("r", True) == (run.id, run.resumed)
    store.close()


def test_what_was_answered_is_foreseen(place: Place) -> None:
    """`--dry-run` takes the answers that are given with it as the resume would, and changes nothing."""
    place.start("--steps", "a,b")
    (place.folder / "out.txt").write_text("made")
    succeed("step", "done", "a", "--output", "out.txt", cwd=place.folder)
    succeed("set", "x=1", cwd=place.folder)
    (place.folder / "out.txt").write_text("changed")
    before = place.head
    assert "ask" == plan(place.dry(code=7))["a"]
    assert {"a": "skip", "b": "run"} == plan(place.dry("--yes", code=0))
    assert {"a": "run", "b": "run"} == plan(place.dry("--answer", "outputs.changed=run", code=0))
    assert 2 == call("resume", "r", "--dry-run", "--answer", "outputs.changed=x", cwd=place.folder).code
    assert before == place.head
