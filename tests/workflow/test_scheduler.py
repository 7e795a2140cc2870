"""The scheduler alone: it is told what happened and asked what may start, without a process or a clock."""

from __future__ import annotations

from leftoff.workflow.definition.model import Graph
from leftoff.workflow.definition.parse import parse
from leftoff.workflow.run.scheduler import Scheduler


def scheduler(text: str, most: int | None = None) -> Scheduler:
    workflow = parse(f"name: w\n{text}", "w.yaml")
    made = Scheduler(workflow, Graph(workflow), most)
    made.restore({})
    return made


CHAIN = "steps: [{id: a, run: x}, {id: b, run: x}, {id: c, run: x}]"
WIDE = "max_parallel: 2\nsteps: [{id: a, run: x, needs: []}, {id: b, run: x, needs: []}, {id: c, run: x, needs: []}]"
FAN = "steps: [{id: f, run: x, foreach: [1, 2, 3, 4, 5]%s}, {id: z, run: x}]"
PHASES = """
steps:
  - id: p
    steps: [{id: a, run: x}, {id: b, run: x, needs: []}]
  - {id: q, run: x}
"""


def items(*names: str, done: str = "") -> list[tuple[str, str]]:
    return [(f"f/{name}", "completed" if name in done else "pending") for name in names]


def test_a_chain_goes_one_by_one() -> None:
    """Without `needs`, a step comes after the one before it; nothing is due while that runs."""
    plan = scheduler(CHAIN)
    seen = []
    while due := plan.due(0):
        assert [] == plan.due(0)
        seen += due
        plan.ended(due[0], due[0], "completed")
    assert (["a", "b", "c"], True) == (seen, plan.over)


def test_places_are_limited() -> None:
    """No more than `max_parallel` at once; who ends makes room for one."""
    plan = scheduler(WIDE)
    assert ["a", "b"] == plan.due(0)
    plan.ended("a", "a", "completed")
    assert ["c"] == plan.due(0)
    assert ["a"] == scheduler(WIDE, most=1).due(0)


def test_a_failure_stops_everything() -> None:
    """With `on_failure: stop` nothing more is due, and the end comes when what runs has ended."""
    plan = scheduler(WIDE)
    plan.due(0)
    assert [] == plan.ended("a", "a", "failed")
    assert ("a", [], False) == (plan.halted, plan.due(0), plan.over)
    plan.put_back("b", "b")
    assert (True, "pending", "failed") == (plan.over, plan.status["b"], plan.status["a"])


def test_a_failure_may_be_passed_over() -> None:
    """With `on_failure: continue` what needs it runs, as if it had ended well."""
    plan = scheduler("steps: [{id: a, run: x, on_failure: continue}, {id: b, run: x}]")
    plan.due(0)
    plan.ended("a", "a", "failed")
    assert ["b"] == plan.due(0)


def test_a_failure_may_hold_what_needs_it() -> None:
    """With `on_failure: ask` other branches go on; what needs it does not."""
    plan = scheduler(
        "steps: [{id: a, run: x, on_failure: ask}, {id: b, run: x}, {id: c, run: x, needs: []}, {id: d, run: x}]"
    )
    assert ["a", "c"] == plan.due(0)
    plan.ended("a", "a", "failed")
    plan.ended("c", "c", "completed")
    assert ["d"] == plan.due(0)
    plan.ended("d", "d", "completed")
    assert (True, "pending") == (plan.over, plan.status["b"])


def test_retries_wait_for_their_time() -> None:
    """A unit that is tried again later holds no place meanwhile."""
    plan = scheduler(WIDE)
    plan.due(0)
    plan.later("a", "a", 5.0)
    assert (["c"], 5.0, False) == (plan.due(0), plan.next_time(), plan.over)
    plan.ended("b", "b", "completed")
    assert [] == plan.due(4.9)
    assert ["a"] == plan.due(5.0)


def test_items_share_the_places_of_all() -> None:
    """Items of a `foreach` without a limit of its own count like steps."""
    plan = scheduler(f"max_parallel: 2\n{FAN % ''}")
    assert ["f"] == plan.due(0)
    plan.expand("f", items(*"12345"))
    assert ["f/1", "f/2"] == plan.due(0)
    plan.ended("f/1", "f", "completed")
    assert ["f/3"] == plan.due(0)


def test_items_have_places_of_their_own() -> None:
    """With a limit of its own a `foreach` is one step to all others, however many items run."""
    plan = scheduler(f"max_parallel: 1\n{FAN % ', max_parallel: 3'}")
    plan.due(0)
    plan.expand("f", items(*"12345"))
    assert ["f/1", "f/2", "f/3"] == plan.due(0)


def test_a_foreach_ends_with_its_last_item() -> None:
    """What ended with it is told; items that were done before count; what needs it runs then."""
    plan = scheduler(FAN % "")
    plan.due(0)
    plan.expand("f", items(*"123", done="2"))
    assert ["f/1", "f/3"] == plan.due(0)
    assert [] == plan.ended("f/3", "f", "completed")
    assert [("f", "completed")] == plan.ended("f/1", "f", "completed")
    assert ["z"] == plan.due(0)


def test_a_foreach_of_nothing_is_complete() -> None:
    """No items: nothing to do."""
    plan = scheduler(FAN % "")
    plan.due(0)
    assert [("f", "completed")] == plan.expand("f", [])
    assert ["z"] == plan.due(0)


def test_a_phase_ends_with_its_last_step() -> None:
    """Phases are told when all in them have ended, with what that amounts to."""
    plan = scheduler(PHASES)
    assert ["p/a", "p/b"] == plan.due(0)
    assert [] == plan.ended("p/a", "p/a", "completed")
    assert [("p", "completed")] == plan.ended("p/b", "p/b", "skipped")
    assert ["q"] == plan.due(0)


def test_what_waits_for_a_person_holds_no_place() -> None:
    """The others go on; at the end it is over, though something waits."""
    plan = scheduler("max_parallel: 1\nsteps: [{id: a, approval: Well?}, {id: b, run: x, needs: []}]")
    assert ["a"] == plan.due(0)
    plan.wait("a")
    assert ["b"] == plan.due(0)
    plan.ended("b", "b", "completed")
    assert (True, ["a"]) == (plan.over, plan.of("waiting"))


def test_a_later_life_starts_where_the_last_one_ended() -> None:
    """Ended leaves stay ended, failed ones are due again, what waits still waits."""
    workflow = parse(f"name: w\n{CHAIN}", "w.yaml")
    plan = Scheduler(workflow, Graph(workflow))
    plan.restore({"a": "completed", "b": "failed"})
    assert ["b"] == plan.due(0)


def test_a_unit_that_runs_already_is_not_due() -> None:
    """A process of an earlier life holds its place, even beyond the limit."""
    plan = scheduler(WIDE, most=1)
    plan.claim("b", "b")
    assert [] == plan.due(0)
    plan.ended("b", "b", "completed")
    assert ["a"] == plan.due(0)
    plan.ended("a", "a", "completed")
    assert ["c"] == plan.due(0)


def test_batches_are_complete_when_all_in_them_ended() -> None:
    """Level by level."""
    plan = scheduler(PHASES)
    plan.due(0)
    plan.ended("p/a", "p/a", "completed")
    assert not plan.batch_is_complete(0)
    plan.ended("p/b", "p/b", "completed")
    assert plan.batch_is_complete(0)


def test_what_is_done_again_goes_before_what_needs_it() -> None:
    """Steps between them that are done do not let the later one begin; what waits for a person does not hold it up."""
    workflow = parse(f"name: w\n{CHAIN}", "w.yaml")
    plan = Scheduler(workflow, Graph(workflow))
    plan.restore({"a": "pending", "b": "completed"})
    assert ["a"] == plan.due(0)
    plan.ended("a", "a", "completed")
    assert ["c"] == plan.due(0)
    plan = Scheduler(workflow, Graph(workflow))
    plan.restore({"a": "blocked", "b": "completed"})
    assert ["c"] == plan.due(0)


def test_what_is_not_to_be_done_now_holds_up_nobody() -> None:
    """Of several steps that are named, those wait for each other, and for no other."""
    workflow = parse(f"name: w\n{CHAIN}", "w.yaml")
    for only, due in (({"a", "c"}, ["a"]), ({"c"}, ["c"])):
        plan = Scheduler(workflow, Graph(workflow))
        plan.only = frozenset(only)
        plan.restore({"a": "pending", "b": "completed"})
        assert due == plan.due(0)
