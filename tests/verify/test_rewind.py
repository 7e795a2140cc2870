"""Going back to an older version of a run that a runner drives: all is asked first, and only then it goes back."""

from __future__ import annotations

import pytest

from tests.cli.command import call
from tests.verify.situations import Place, codes, plan
from tests.workflow.driving import mark, until, wait

FLOW = f"""
name: flow
steps:
  - {{id: a, run: "{mark("a")}"}}
  - {{id: b, run: "{mark("b")}; {wait()}", idempotent: false, needs: [a]}}
"""


@pytest.fixture
def cut(place: Place) -> Place:
    """`a` is done; `b`, which must not simply run again, goes on without its driver."""
    place.write(FLOW)
    place.commit("flow")
    driver = place.run()
    until(lambda: place.starts("b"), "the start of b")
    driver.kill()
    return place


def back_to(place: Place) -> str:
    log = call("log", "r", "--json", cwd=place.folder).json["checkpoints"]
    return f"r@{next(entry['seq'] for entry in log if entry['step'] == 'a')}"


def test_a_step_that_must_not_be_ended_unasked(cut: Place) -> None:
    """Without an answer nothing is changed: no rollback, and what is in flight lives on; `verify` says the same."""
    ref, before = back_to(cut), cut.show()
    found = cut.verify(ref, code=7)
    assert ("step.not_idempotent", "ask") in codes(found)
    assert found["findings"] == call("resume", ref, "--dry-run", "--json", cwd=cut.folder).json["findings"]
    for words in ((), ("--yes",)):
        done = call("resume", ref, *words, cwd=cut.folder)
        assert (7, True) == (done.code, "step.not_idempotent" in done.err)
    assert before == cut.show()
    assert cut.processes()
    cut.file("gate")
    until(lambda: not cut.processes(), "the end of b")


def test_accepted_it_is_ended_and_done_again(cut: Place) -> None:
    """Accepted, what was in flight is ended, the run goes back, and the step is done again."""
    ref = back_to(cut)
    driver = cut.drive("resume", ref, "--accept", "step.not_idempotent", "--yes")
    until(lambda: len(cut.starts("b")) == 2, "the second start of b")
    cut.file("gate")
    driver.end(0)
    assert (1, 2) == (len(cut.starts("a")), len(cut.starts("b")))
    triggers = [entry["trigger"] for entry in call("log", "r", "--json", cwd=cut.folder).json["checkpoints"]]
    assert "rollback" in triggers


def test_a_definition_that_changed(place: Place) -> None:
    """A finished step that reads differently is asked about before the run goes back."""
    place.write(FLOW)
    place.file("gate")
    place.commit("flow")
    place.run().end(0)
    ref, before = back_to(place), place.show()
    place.write(FLOW.replace("starts.a", "starts.other"))
    done = call("resume", ref, cwd=place.folder)
    assert (7, True) == (done.code, "definition.changed" in done.err)
    assert before == place.show()


def test_a_live_driver(place: Place) -> None:
    """While somebody drives it, nobody goes back: exit 5, and nothing is changed."""
    place.write(FLOW)
    place.commit("flow")
    driver = place.run()
    until(lambda: place.starts("b"), "the start of b")
    ref, seq = back_to(place), place.head["seq"]
    assert 5 == call("resume", ref, "--yes", "--accept", "step.not_idempotent", cwd=place.folder).code
    assert seq == place.head["seq"]
    place.file("gate")
    driver.end(0)


def test_a_step_that_was_cut_off(place: Place) -> None:
    """A step that must not simply run again and was killed by its time limit: `verify` asks, as `resume` does."""
    place.write('name: flow\nsteps:\n  - {id: a, run: "sleep 60", timeout: 0.1, idempotent: false}\n')
    place.commit("flow")
    place.run().end(1)
    found = place.verify(code=7)
    assert [("step.not_idempotent", "ask")] == codes(found)
    assert {"a": "ask"} == plan(found)
    place.back("--yes", code=7)
    place.back("--accept", "step.not_idempotent", code=1)
