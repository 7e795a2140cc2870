"""What `verify` and `resume --dry-run` say is what `resume` then does; and who is refused has changed nothing."""

from __future__ import annotations

from typing import Any

import pytest

import leftoff
from tests.cli.command import call, succeed
from tests.cli.terminal import Terminal
from tests.verify.situations import DAY, Place, codes, plan
from tests.workflow.driving import mark, until, wait


def flow(place: Place, steps: str) -> None:
    place.write(f"name: flow\nsteps:\n{steps}")
    place.commit("flow")


def levels(place: Place, code: str, level: str) -> None:
    place.file("leftoff.toml", f'[verify.levels]\n"{code}" = "{level}"\n')
    place.commit("levels")


def all_of(place: Place) -> tuple[Any, Any]:
    """Everything that a resume could change: the run as it is, and its checkpoints."""
    return place.show(), succeed("log", "r", "--json", cwd=place.folder).json


# -- a step that must not simply run again

SHOT = f"""  - id: a
    idempotent: false
    run: "{mark("a")}; test -e good || kill -KILL $$"
"""


def shot(place: Place) -> None:
    """A step that must not run twice was killed under its driver."""
    flow(place, SHOT)
    place.run().end(1)
    place.file("good")


def test_a_failed_step_that_was_cut_off(place: Place) -> None:
    """Nobody knows how far it came: the verdict asks, as resume does; what is accepted runs."""
    shot(place)
    found = place.verify(code=7)
    assert ("step.not_idempotent", "ask") in codes(found)
    assert {"a": "ask"} == plan(found) == plan(place.dry(code=7))
    place.back("--yes", code=7)
    assert {"a": "run"} == plan(place.dry("--accept", "step.not_idempotent", code=0))
    place.resume("--accept", "step.not_idempotent").end(0)
    assert 2 == len(place.starts("a"))


def test_what_was_left_out_is_asked_about_later(place: Place) -> None:
    """--only asks nothing about other steps, and forgets nothing of them."""
    flow(place, SHOT + f'  - {{id: b, needs: [], run: "{mark("b")}"}}\n')
    place.run().end(1)
    assert [] == place.dry("--only", "b", code=0)["findings"]
    place.resume("--only", "b").end(0)
    place.file("good")
    place.back("--yes", code=7)
    assert 1 == len(place.starts("a"))


# -- levels


@pytest.mark.parametrize(("level", "code"), [("warn", 0), ("resume", 0), ("refuse", 6)])
def test_a_step_as_bad_as_the_project_finds_it(place: Place, level: str, code: int) -> None:
    """`[verify.levels]` holds for what resume does, too."""
    shot(place)
    levels(place, "step.not_idempotent", level)
    place.dry(code=code)
    assert code == place.resume().end()
    assert (2 if code == 0 else 1) == len(place.starts("a"))


@pytest.mark.parametrize(("level", "code"), [("warn", 0), ("refuse", 6)])
def test_a_changed_definition_as_bad_as_the_project_finds_it(place: Place, level: str, code: int) -> None:
    """A finished step is another one now."""
    steps = f'  - {{id: a, run: "{mark("a")}"}}\n  - {{id: b, run: "test -e good"}}\n'
    flow(place, steps)
    place.run().end(1)
    place.file("good")
    place.write(f"name: flow\nsteps:\n{steps.replace('; ', ';  ').replace('echo', 'echo  ')}")
    levels(place, "definition.changed", level)
    assert ("definition.changed", level) in codes(place.dry(code=code))
    assert code == place.resume().end()
    assert 1 == len(place.starts("a"))


@pytest.mark.parametrize(
    ("needs", "code"),
    [
        ("requires: {paths: [nowhere]}", "prerequisite.missing"),
        ("secrets: [NO_SUCH_WORD]", "variables.redacted"),
    ],
)
def test_what_is_needed_as_much_as_the_project_finds_it(place: Place, needs: str, code: str) -> None:
    """For a new run, and for one that goes on."""
    levels(place, code, "warn")
    place.write(f"name: flow\n{needs}\nsteps: [{{id: a, run: test -e good}}]")
    place.commit("flow")
    place.run().end(1)
    place.file("good")
    assert (code, "warn") in codes(place.dry(code=0))
    place.resume().end(0)
    levels(place, code, "refuse")
    assert 6 == call("run", "flow.yaml", cwd=place.folder).code


# -- what is made again

MADE = f"""  - id: a
    run: "{mark("a")}; if test -e again; then sleep 0.2; fi; echo a > a.txt"
    outputs: [a.txt]
  - {{id: b, run: "{mark("b")}"}}
  - {{id: c, run: "{mark("c")}; test -e good; cat a.txt"}}
"""


def test_what_is_made_again_goes_before_what_needs_it(place: Place) -> None:
    """Also where a step between them is done: c needs b, which needs a."""
    flow(place, MADE.replace("a.txt", "a.pem"))
    place.run().end(1)
    for name in ("good", "again"):
        place.file(name)
    (place.folder / "a.pem").unlink()
    driver = place.resume("--yes")
    driver.end(0)
    told = [(e["event"], e["step"]) for e in driver.events if e["event"] in ("step_start", "step_done")]
    assert [("step_start", "a"), ("step_done", "a"), ("step_start", "c"), ("step_done", "c")] == told
    assert 1 == len(place.starts("b"))


def test_steps_that_are_named_keep_their_order(place: Place) -> None:
    """--only a c: c waits for a, though b between them is done and not named."""
    flow(place, MADE)
    place.file("good")
    place.run().end(0)
    place.file("again")
    (place.folder / "a.txt").unlink()
    place.resume("--only", "a", "c").end(0)
    assert [2, 1, 2] == [len(place.starts(step)) for step in "abc"]


# Of a file like a.pem no copy is kept, which --yes would bring back.
ONCE = f"""  - id: a
    idempotent: false
    run: "{mark("a")}; echo a > a.txt"
    outputs: [a.txt]
  - {{id: b, run: "test -e good"}}
"""


def test_a_finished_step_that_must_not_run_twice(place: Place) -> None:
    """Its output is gone: --yes does not make it again; a person goes on without, or says that it may."""
    flow(place, ONCE.replace("a.txt", "a.pem"))
    place.run().end(1)
    place.file("good")
    (place.folder / "a.pem").unlink()
    before = all_of(place)
    refused = place.back("--yes", code=7)
    assert "--accept outputs.missing" in refused.err and "is not safe to repeat" in refused.err
    assert before == all_of(place)
    place.resume("--accept", "outputs.missing").end(0)
    assert 1 == len(place.starts("a"))


def test_one_that_may_run_twice_after_all(place: Place) -> None:
    """Both are said: that it is made again, and that it may be."""
    flow(place, ONCE.replace("a.txt", "a.pem"))
    place.run().end(1)
    place.file("good")
    (place.folder / "a.pem").unlink()
    place.resume("--yes", "--accept", "step.not_idempotent").end(0)
    assert 2 == len(place.starts("a"))


def test_whoever_sits_there_may_make_it_again(place: Place) -> None:
    """The answer is about this very step."""
    flow(place, ONCE)
    place.run().end(1)
    place.file("good")
    (place.folder / "a.txt").unlink()
    with Terminal("resume", "r", cwd=place.folder) as terminal:
        terminal.expect("(r)un the step again, (a)ccept, (s)top: ")
        terminal.type("r\n")
        assert 0 == terminal.end(), terminal.shown
    assert 2 == len(place.starts("a"))


@pytest.mark.parametrize("words", [("--from-step", "a"), ("--only", "a")])
def test_going_back_over_one_is_asked_about(place: Place, words: tuple[str, ...]) -> None:
    """However it would come to run a second time: --yes is no such decision."""
    flow(place, ONCE)
    place.file("good")
    place.run().end(0)
    assert ("step.not_idempotent", "ask") in codes(place.dry(*words, code=7))
    before = all_of(place)
    place.back(*words, "--yes", code=7)
    assert before == all_of(place)
    place.resume(*words, "--yes", "--accept", "step.not_idempotent").end(0)
    assert 2 == len(place.starts("a"))


# -- what is adopted

CHECKED = f"""  - id: a
    run: "{mark("a")}; {wait()}; echo whole > a.txt"
    outputs: [a.txt]
    checks: ["grep -q whole a.txt"]
"""


def cut_off(place: Place, steps: str, **files: str) -> None:
    """The driver and its step are killed; these files were left."""
    flow(place, steps)
    driver = place.run()
    driver.until("step_start", step="a")
    until(lambda: place.starts("a"), "its start")
    driver.kill_all()
    for name, text in files.items():
        place.file(name.replace("_", "."), text)


def test_a_good_end_without_its_outputs(place: Place) -> None:
    """An exit code of 0 is believed, and is not enough."""
    flow(place, CHECKED.replace("idempotent", ""))
    driver = place.run()
    driver.until("step_start", step="a")
    until(lambda: place.starts("a"), "its start")
    driver.kill()
    place.file("gate")
    place.gone()
    assert {"a": "adopt"} == plan(place.dry(code=0))
    (place.folder / "a.txt").unlink()
    assert {"a": "run"} == plan(place.dry(code=0))
    place.resume().end(0)
    assert 2 == len(place.starts("a"))


# -- the plan is the plan


def test_the_plan_of_a_changed_definition(place: Place) -> None:
    """New steps are in it, steps that are gone are not; resume tells the very same."""
    flow(place, '  - {id: a, run: "true"}\n  - {id: b, run: "test -e good"}\n  - {id: c, run: "true"}\n')
    place.run().end(1)
    place.file("good")
    flow(place, '  - {id: a, run: "true"}\n  - {id: b, run: "test -e good"}\n  - {id: d, run: "true"}\n')
    said = place.dry(code=0)["plan"]
    assert {"a": "skip", "b": "run", "d": "run"} == plan({"plan": said})
    driver = place.resume()
    driver.end(0)
    assert said == driver.of("plan")[0]["plan"]


def test_the_plan_after_a_rejection(place: Place) -> None:
    """What was rejected is not asked again, and what it stops is not done."""
    flow(place, "  - {id: a, approval: Well?}\n  - {id: b, run: 'true'}\n")
    place.run().end(7)
    assert {"a": "ask", "b": "run"} == plan(place.dry(code=7))
    succeed("reject", "r", "a", cwd=place.folder)
    said = place.dry(code=0)["plan"]
    assert {"a": "skip", "b": "skip"} == plan({"plan": said})
    driver = place.resume()
    driver.end(1)
    assert said == driver.of("plan")[0]["plan"]


# -- runs that are over


def test_a_completed_run_has_nothing_left(place: Place) -> None:
    """Whatever became of its outputs, verify, the dry run and resume agree: exit 0, and what differs is told."""
    flow(place, ONCE)
    place.file("good")
    place.run().end(0)
    (place.folder / "a.txt").unlink()
    found = place.dry(code=0)
    assert (["skip", "skip"], "warn") == (list(plan(found).values()), found["verdict"])
    assert "nothing is left" in place.back(code=0).out
    assert ("outputs.missing", "warn") in codes(place.verify(code=0))
    for words in (("verify",), ("resume", "latest", "--dry-run")):
        assert "nothing is left" in succeed(*words, cwd=place.folder).out


def test_an_abandoned_run_is_refused(place: Place) -> None:
    """By verify, by the dry run and by resume; one of its checkpoints can be gone back to."""
    place.start("--steps", "a,b")
    succeed("step", "done", "a", cwd=place.folder)
    succeed("finish", "--status", "abandoned", cwd=place.folder)
    assert ("recovery.not_resumable", "refuse") in codes(place.verify(code=6))
    place.dry(code=6)
    assert "abandoned" in place.back(code=6).err
    succeed("resume", "r~1", "--yes", cwd=place.folder)
    assert "running" == place.show()["status"]


# -- going back

BACK = f"""  - {{id: a, run: "{mark("a")}"}}
  - id: b
    idempotent: false
    run: "{mark("b")}; {wait()}"
"""


def in_flight(place: Place) -> Any:
    """A driver whose second step runs."""
    flow(place, BACK)
    driver = place.run()
    driver.until("step_start", step="b")
    until(lambda: place.starts("b"), "its start")
    return driver


@pytest.mark.parametrize("dead", [True, False], ids=["dead", "alive"])
def test_a_refused_way_back_changes_nothing(place: Place, dead: bool) -> None:
    """A step in flight that must not simply run again is asked about before anything is rewound or ended."""
    driver = in_flight(place)
    driver.kill_all() if dead else driver.kill()
    before, alive = all_of(place), place.processes()[:1]  # the one that leads
    done = call("resume", "r~0", "--yes", cwd=place.folder)
    assert 7 == done.code and "--accept step.not_idempotent" in done.err, str(done)
    assert (before, alive) == (all_of(place), place.processes()[:1])
    place.file("gate")
    place.gone()
    place.drive("resume", "r~0", "--yes", "--accept", "step.not_idempotent").end(0)
    assert (1, 2) == (len(place.starts("a")), len(place.starts("b")))


def test_a_refused_resume_takes_the_run_from_nobody(place: Place) -> None:
    """A driver that cannot be seen, and may be alive, is fenced off by whoever goes on, not by whoever only asks."""
    cut_off(place, CHECKED.replace("- id: a", "- id: a\n    idempotent: false"), a_txt="half")
    hour = DAY // 24
    place.tamper(
        f"UPDATE lease SET scope = 'there@there/boot/1', beat = beat - {hour}, since = since - {hour}"
    )
    place.back("--yes", code=7)
    assert ("lease.silent", "ask") in codes(place.verify(code=7))
    place.file("gate")
    place.resume("--yes", "--accept", "step.not_idempotent").end(0)


def test_contradictions(place: Place) -> None:
    """--from-step and --only say different things: wrong usage, and nothing is done."""
    flow(place, ONCE)
    place.run().end(1)
    before = all_of(place)
    place.back("--from-step", "b", "--only", "a", code=2)
    place.back("--from-step", "b", "--failed", code=2)
    assert before == all_of(place)


def test_the_dry_run_of_a_way_back(place: Place) -> None:
    """Where finished steps would run again it asks, as resume does; whoever only looks is told."""
    flow(place, f'  - {{id: a, run: "{mark("a")}"}}\n  - {{id: b, run: "true"}}\n')
    place.run().end(0)
    assert ("step.again", "ask") in codes(place.dry("--from-step", "a", code=7))
    place.back("--from-step", "a", code=7)
    place.dry("--from-step", "a", "--accept", "step.again", code=0)
    assert ("step.again", "warn") in codes(place.verify("r~1", code=0))
    place.resume("--from-step", "a", "--accept", "step.again").end(0)
    assert 2 == len(place.starts("a"))


# -- who waits for a person


def test_a_run_that_waits_for_a_person(place: Place) -> None:
    """Where nothing goes without the decision that is the verdict, and resume ends so; else it is worth a word."""
    asks = "  - {id: a, approval: Well?}\n"
    flow(place, asks + "  - {id: b, needs: [], run: test -e good}\n  - {id: c, needs: [a], run: echo}\n")
    place.run().end(7)
    assert ("step.waiting", "warn") in codes(place.dry(code=0))
    place.file("good")
    place.resume().end(7)
    assert ("step.waiting", "ask") in codes(place.verify(code=7))
    assert 7 == place.resume("--yes").end()
    succeed("approve", "r", "a", cwd=place.folder)
    assert "step.waiting" not in dict(codes(place.dry(code=0)))
    place.resume().end(0)


def test_a_deadline_that_has_passed(place: Place) -> None:
    """It is no question any more: the dry run says that it is rejected, as resume does."""
    flow(place, "  - {id: a, approval: Well?, timeout: 0.1s}\n  - {id: b, run: 'true'}\n")
    place.run().end(7)
    until(lambda: planned(place)[0]["action"] == "skip", "its deadline")
    driver = place.resume()
    driver.end(1)
    assert "skip" == driver.plan()["a"][0]


def planned(place: Place) -> Any:
    """The plan, whatever the verdict is: the deadline may pass at any moment."""
    return call("resume", "r", "--dry-run", "--json", cwd=place.folder).json["plan"]


# -- what is made again, cut short


def test_a_death_while_something_is_made_again(place: Place) -> None:
    """A later step is done already: that is how it must be, and nobody is asked."""
    flow(place, MADE.replace("sleep 0.2", wait()).replace("a.txt", "a.pem"))
    place.run().end(1)
    for name in ("good", "again"):
        place.file(name)
    (place.folder / "a.pem").unlink()
    driver = place.resume("--yes")
    until(lambda: len(place.starts("a")) == 2, "its second start")
    driver.kill_all()
    assert "progress.illegal" not in dict(codes(place.verify(code=0)))
    place.file("gate")
    place.resume().end(0)
    assert "once_more" not in succeed("get", "step/a", "r", cwd=place.folder).json


def test_the_file_is_gone(place: Place) -> None:
    """The run's own copy is used: that is worth a word, to whoever looks and to whoever resumes."""
    flow(place, "  - {id: a, run: 'test -e good'}\n")
    place.run().end(1)
    place.file("good")
    (place.folder / "flow.yaml").unlink()
    assert ("definition.changed", "warn") in codes(place.verify(code=0))
    driver = place.resume()
    driver.end(0)
    assert "is gone" in driver.of("warning")[0]["message"]


def test_a_lease_is_what_it_is(place: Place) -> None:
    """Who drives a run is not for a project to find more or less bad."""
    place.start("--steps", "a")
    levels(place, "lease.silent", "resume")
    assert 2 == call("verify", "r", cwd=place.folder).code


def test_criteria_offer_their_steps(place: Place) -> None:
    """Of a completed run those that could meet what is not met, to people and to programs."""
    flow(place, "  - {id: a, run: 'true'}\n  - {id: b, run: 'true', criteria: {good: 'test -e good'}}\n")
    place.run().end(0)
    assert "Steps: b." in place.back(code=0).out
    told = place.back("--json", code=0).json
    assert (["good"], ["b"]) == (told["unmet"], told["could_meet"])


# -- programs


def test_a_program_that_resumes_forgets_nothing(place: Place) -> None:
    """A step of a workflow file that was in flight is still for the runner to judge, whoever had the run meanwhile."""
    cut_off(
        place,
        f"""  - id: a
    idempotent: false
    run: "{mark("a")}; {wait()}"
""",
    )
    with leftoff.open(place.folder / ".leftoff") as store:
        store.resume("r").pause()
    place.back("--yes", code=7)
    assert 1 == len(place.starts("a"))


def test_a_program_cannot_accept_a_refusal(place: Place) -> None:
    """As nobody can."""
    place.start("--steps", "a")
    succeed("put", "context", "resumable", "false", "--run", "r", cwd=place.folder)
    with leftoff.open(place.folder / ".leftoff") as store, pytest.raises(leftoff.CannotResume):
        store.resume("r", accept=["recovery.not_resumable"])
