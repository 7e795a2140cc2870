"""What waits for people: a run goes on as far as it can without them, and from where it was once they decided."""

from __future__ import annotations

import signal

import pytest

from tests.workflow.driving import Flow, mark, wait

STORY = f"""
name: story
steps:
  - id: a
    run: "{mark("a")}"
  - id: ok
    approval: {{ask: "Is it good?", options: [approve, roundtable, reject]}}
  - id: b
    run: "{mark("b")}; echo {{{{ choice('ok') }}}} > chosen"
  - id: side
    needs: [a]
    run: "{mark("side")}; test ! -e bad"
  - id: far
    run: "{mark("far")}"
"""


def starts(flow: Flow, *names: str) -> list[int]:
    return [len(flow.starts(name)) for name in names or ("a", "b", "side", "far")]


def test_every_branch_that_can_run_does_before_the_run_pauses(flow: Flow) -> None:
    """Then it waits: exit 7, and it says how to decide."""
    flow.write(STORY)
    driver = flow.run()
    driver.end(7)
    assert [1, 0, 1, 1] == starts(flow)
    assert ["leftoff approve r ok"] == [told["how"] for told in driver.of("waiting")]
    assert ("paused", "idle", "waiting") == (driver.run["status"], driver.run["health"], flow.status("ok"))
    assert "approval" in flow.triggers()


@pytest.mark.parametrize("policy", ["continue", "ask"])
def test_a_run_that_failed_and_waits(flow: Flow, policy: str) -> None:
    """A run that failed somewhere and waits for a person is paused, exit 7. It is failed once the rest is done."""
    flow.file("bad")
    flow.write(STORY.replace("- id: side", f"- id: side\n    on_failure: {policy}"))
    for start in (flow.run, flow.resume):
        driver = start()
        driver.end(7)
        steps = driver.run["steps"]
        assert ("paused", 1, 1) == (driver.run["status"], steps["failed"], steps["waiting"])
        assert 7 == driver.of("end")[-1]["exit"]
        assert ("failed", "waiting") == (flow.status("side"), flow.status("ok"))
    flow.succeed("approve", "r", "ok")
    driver = flow.resume()
    driver.end(1)
    assert "failed" == driver.run["status"]
    (flow.folder / "bad").unlink()
    flow.resume().end(0)
    assert [1, 1] == starts(flow, "a", "b")


def test_a_run_that_a_failure_stopped(flow: Flow) -> None:
    """It waits for its approval all the same: exit 7."""
    flow.file("bad")
    flow.write(STORY)
    driver = flow.run()
    driver.end(7)
    assert ("paused", "waiting") == (driver.run["status"], flow.status("ok"))


def test_a_decision_while_it_rests(flow: Flow) -> None:
    """What was decided is recorded, with who and when; resume goes on, and nothing before it runs again."""
    flow.write(STORY)
    flow.run().end(7)
    flow.succeed("approve", "r", "ok", "--choice", "roundtable", "--note", "talk")
    approval = flow.show()["records"]["approval"]["ok"]
    assert ("approved", "roundtable", "talk") == (approval["status"], approval["choice"], approval["note"])
    assert "@" in approval["by"] and approval["at"].endswith("Z")
    driver = flow.resume()
    driver.end(0)
    assert ["roundtable"] == flow.lines("chosen")
    assert [1, 1, 1, 1] == starts(flow)


def test_resume_without_a_decision_asks_again_and_runs_nothing(flow: Flow) -> None:
    """`--yes` never approves; the question is the same as before."""
    flow.write(STORY)
    flow.run().end(7)
    asked_at = flow.show()["records"]["approval"]["ok"]["asked_at"]
    for words in ((), ("--yes",)):
        driver = flow.resume(*words)
        driver.end(7)
        assert "ask" == driver.plan()["ok"][0]
        assert ["Is it good?"] == [told["ask"] for told in driver.of("waiting")]
    assert [1, 0, 1, 1] == starts(flow)
    assert asked_at == flow.show()["records"]["approval"]["ok"]["asked_at"]


def test_a_rejection_while_it_rests(flow: Flow) -> None:
    """A step that was rejected failed: resume does not ask again, what waited for it never runs. --from-step asks."""
    flow.write(STORY)
    flow.run().end(7)
    flow.succeed("reject", "r", "ok", "--note", "no")
    for _ in range(2):
        driver = flow.resume()
        driver.end(1)
        assert not driver.of("waiting")
    assert ("failed", "failed", [1, 0, 1, 1]) == (driver.run["status"], flow.status("ok"), starts(flow))
    flow.resume("--from-step", "ok", "--yes").end(7)
    flow.succeed("approve", "r", "ok")
    flow.resume().end(0)
    assert ["approve"] == flow.lines("chosen")
    assert 1 == len(flow.starts("a"))


def test_a_rejection_with_on_failure_continue(flow: Flow) -> None:
    """Then the rest goes on, and the run is failed at the end."""
    flow.write(
        STORY.replace("- id: ok", "- id: ok\n    on_failure: continue").replace("{{ choice('ok') }}", "x")
    )
    flow.run().end(7)
    flow.succeed("reject", "r", "ok")
    flow.resume().end(1)
    assert [1, 1, 1, 1] == starts(flow)


BESIDE = f"""
name: beside
steps:
  - id: ok
    approval: Is it good?
  - id: b
    run: "{mark("b")}"
  - id: long
    needs: []
    run: "{mark("long")}; {wait()}"
"""


def test_a_decision_while_it_runs(flow: Flow) -> None:
    """The driver that lives notices it and goes on, in the same life."""
    flow.write(BESIDE)
    driver = flow.run()
    driver.until("waiting")
    flow.succeed("approve", "r", "ok")
    flow.started("b")
    flow.file("gate")
    driver.end(0)
    assert 1 == len(flow.starts("long"))


def test_a_rejection_while_it_runs(flow: Flow) -> None:
    """The step failed, and with `on_failure: stop` everything else ends."""
    flow.write(BESIDE)
    driver = flow.run()
    driver.until("waiting")
    flow.started("long")
    flow.succeed("reject", "r", "ok")
    driver.end(1)
    assert ("failed", "pending") == (flow.status("ok"), flow.status("long"))
    assert [] == flow.starts("b")


def test_a_decision_before_the_driver_died_is_kept(flow: Flow) -> None:
    """A decision is nobody's but the run's."""
    flow.write(BESIDE)
    driver = flow.run()
    driver.until("waiting")
    flow.started("long")
    driver.signal(signal.SIGSTOP)  # it cannot notice
    flow.succeed("approve", "r", "ok")
    driver.kill()
    flow.file("gate")
    flow.resume().end(0)
    assert [1, 1] == starts(flow, "b", "long")


# -- deadlines


SOON = f"""
name: soon
steps:
  - id: ok
    timeout: 1ms
    approval: Is it good?
  - id: b
    run: "{mark("b")}"
"""


def test_a_deadline_that_passed_is_noticed_by_resume(flow: Flow) -> None:
    """It is a point in time: whoever looks next finds the step rejected, and that is final."""
    flow.write(SOON)
    flow.run().end(7)
    flow.resume().end(1)
    assert "rejected" == flow.steps()["ok"]["error"]["type"]
    assert "expired" == flow.show()["records"]["approval"]["ok"]["status"]
    assert 5 == flow.call("approve", "r", "ok").code
    flow.resume().end(1)
    assert [] == flow.starts("b")


def test_a_deadline_that_passed_is_noticed_by_whoever_decides(flow: Flow) -> None:
    """Too late is too late, also for resume."""
    flow.write(SOON)
    flow.run().end(7)
    assert 5 == flow.call("approve", "r", "ok").code
    flow.resume().end(1)
    assert [] == flow.starts("b")


def test_a_deadline_that_passes_while_it_runs(flow: Flow) -> None:
    """The driver that lives looks at the clock, too."""
    flow.write(BESIDE.replace("- id: ok", "- id: ok\n    timeout: 300ms\n    on_failure: continue"))
    driver = flow.run()
    driver.until("step_failed", step="ok")
    flow.started("b")
    flow.file("gate")
    driver.end(1)


# -- steps done by hand

HAND = f"""
name: hand
steps:
  - id: a
    run: "{mark("a")}"
  - id: read
    instructions: "Read the pages of {{{{ run.id }}}} aloud."
  - id: b
    run: "{mark("b")}"
"""


def test_a_step_done_by_hand(flow: Flow) -> None:
    """The run waits, `next` shows what is to be done, `step done` ends it, resume goes on."""
    flow.write(HAND)
    driver = flow.run()
    driver.end(7)
    assert ["Read the pages of r aloud."] == [told["ask"] for told in driver.of("waiting")]
    told = flow.succeed("next", "--run", "r", "--json").json
    assert ("read", "Read the pages of r aloud.") == (told["step"], told["instructions"])
    flow.resume("--yes").end(7)
    flow.succeed("step", "done", "read", "--run", "r", "--result", '{"pages": 3}')
    flow.resume().end(0)
    assert [1] == starts(flow, "a")


@pytest.mark.parametrize(("word", "code", "runs"), [("skip", 0, 1), ("fail", 7, 0), ("block", 7, 0)])
def test_other_ends_of_a_step_by_hand(flow: Flow, word: str, code: int, runs: int) -> None:
    """Skipped is as good as done; failed waits again, as a failed step is done again; blocked stays blocked."""
    flow.write(HAND)
    flow.run().end(7)
    flow.succeed("step", word, "read", "--run", "r")
    flow.resume().end(code)
    assert runs == len(flow.starts("b"))


def test_a_step_that_somebody_does_before_its_turn(flow: Flow) -> None:
    """What is reported done beside a live driver is not done by it again."""
    flow.write(f"""
name: turn
steps:
  - id: long
    run: "{mark("long")}; {wait()}"
  - id: b
    run: "{mark("b")}"
  - id: c
    run: "{mark("c")}"
""")
    driver = flow.run()
    flow.started("long")
    flow.succeed("step", "done", "b", "--run", "r")
    flow.file("gate")
    driver.end(0)
    assert [1, 0, 1] == starts(flow, "long", "b", "c")


def test_a_step_that_somebody_has_begun_is_theirs(flow: Flow) -> None:
    """It is not started beside them: the run does what else it can, and waits for them."""
    flow.write(f"""
name: turn
steps:
  - id: long
    run: "{mark("long")}; {wait()}"
  - id: b
    run: "{mark("b")}"
  - id: side
    needs: [long]
    run: "{mark("side")}"
""")
    driver = flow.run()
    flow.started("long")
    flow.succeed("step", "start", "b", "--run", "r")
    flow.file("gate")
    driver.end(7)
    assert [1, 0, 1] == starts(flow, "long", "b", "side")
    flow.succeed("step", "done", "b", "--run", "r")
    flow.resume().end(0)
    assert [1, 0, 1] == starts(flow, "long", "b", "side")
