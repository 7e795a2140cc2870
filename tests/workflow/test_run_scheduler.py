"""The scheduler alone, on any graph and with any outcome: it keeps the order and the limits, and never gets stuck."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leftoff.workflow.definition import Graph
from leftoff.workflow.parse_definition import parse_definition
from leftoff.workflow.scheduler import Scheduler

ENDS = ("completed", "failed", "skipped", "later", "block", "wait")


@st.composite
def workflows(draw: st.DrawFn) -> str:
    """A definition: steps, `foreach` steps and phases, each with needs, limits and policies of its own."""
    lines = [f"name: any\nmax_parallel: {draw(st.integers(1, 3))}\nsteps:"]
    known: list[str] = []
    for number in range(draw(st.integers(1, 5))):
        name = f"s{number}"
        if draw(st.booleans()):
            lines += _step(draw, name, known, "  ")
        else:
            lines += [f"  - id: {name}", *_needs(draw, known, "    ")]
            if draw(st.booleans()):
                lines.append(f"    max_parallel: {draw(st.integers(1, 2))}")
            lines.append("    steps:")
            inner: list[str] = []
            for below in range(draw(st.integers(1, 3))):
                lines += _step(draw, f"i{below}", inner, "      ")
                inner.append(f"i{below}")
        known.append(name)
    return "\n".join(lines) + "\n"


def _step(draw: st.DrawFn, name: str, known: list[str], margin: str) -> list[str]:
    lines = [f"{margin}- id: {name}", f"{margin}  run: x", *_needs(draw, known, margin + "  ")]
    lines.append(f"{margin}  on_failure: {draw(st.sampled_from(('stop', 'continue', 'continue', 'ask')))}")
    if draw(st.booleans()):
        lines.append(f"{margin}  foreach: [a]")
        if draw(st.booleans()):
            lines.append(f"{margin}  max_parallel: {draw(st.integers(1, 3))}")
    return lines


def _needs(draw: st.DrawFn, known: list[str], margin: str) -> list[str]:
    if not known or draw(st.booleans()):
        return [] if draw(st.booleans()) else [f"{margin}needs: []"]
    chosen = draw(st.lists(st.sampled_from(known), unique=True, max_size=3))
    return [f"{margin}needs: [{', '.join(chosen)}]"]


class Play:
    """Feeds a scheduler with random outcomes, and looks over its shoulder."""

    def __init__(self, text: str, most: int | None, draw: Any) -> None:
        self.workflow = parse_definition(text, "flow.yaml")
        self.graph = Graph(self.workflow)
        self.scheduler = Scheduler(self.workflow, self.graph, most)
        self.scheduler.restore({})
        self.most = most
        self.draw = draw
        self.begun: set[str] = set()
        self.open: list[str] = []

    def run(self) -> None:
        for _ in range(400):
            for unit in self.scheduler.due(float("inf")):
                self.begin(unit)
            self.limits()
            if self.scheduler.over:
                return
            if not self.open:
                continue  # it was expanded, and something is due now
            self.end(self.open.pop(self.draw(st.integers(0, len(self.open) - 1))))
        raise AssertionError("it never ends")

    def begin(self, unit: str) -> None:
        leaf = self.scheduler.taken[unit]
        before = {path: self.scheduler.status[path] for path in self.graph.before[leaf]}
        assert {"completed", "skipped", "failed"} >= set(before.values()), (unit, before)
        if unit == leaf and self.scheduler.steps[leaf].foreach is not None:
            items = [(f"{leaf}/{n}", "pending") for n in range(self.draw(st.integers(0, 4)))]
            self.scheduler.expand(leaf, items)
            return
        self.begun.add(unit)
        self.open.append(unit)

    def end(self, unit: str) -> None:
        leaf = self.scheduler.taken[unit]
        how = self.draw(st.sampled_from(ENDS))
        if how == "later":
            self.scheduler.later(unit, leaf, 0.0)
        elif how == "block":
            self.scheduler.block(unit, leaf)
        elif how == "wait" and unit == leaf:
            self.scheduler.wait(leaf)
        else:
            self.scheduler.ended(unit, leaf, "completed" if how == "wait" else how)

    def limits(self) -> None:
        """No scope has more units running than it allows; a `foreach` with a limit is one unit to those above it."""
        steps, taken = self.scheduler.steps, self.scheduler.taken
        if self.most is not None:
            assert len(taken) <= self.most
        own = {leaf for leaf in taken.values() if steps[leaf].foreach and steps[leaf].max_parallel}
        units = [leaf for unit, leaf in taken.items() if leaf not in own] + sorted(own)
        assert len(units) <= (self.most or self.workflow.max_parallel)
        for leaf in own:
            assert sum(of == leaf for of in taken.values()) <= (steps[leaf].max_parallel or 1)
        for phase in self.workflow.steps:
            if phase.kind == "phase" and phase.max_parallel:
                inside = [leaf for leaf in units if leaf.startswith(f"{phase.path}/")]
                assert len(inside) <= phase.max_parallel


@given(text=workflows(), most=st.none() | st.integers(1, 3), data=st.data())
def test_it_keeps_order_and_limits_and_ends(text: str, most: int | None, data: st.DataObject) -> None:
    """Nothing starts before what it needs has ended, no limit is passed, and it ends with nothing left undone.

    What is left undone at the end was stopped by a failure, or needs what waits for a person.
    """
    play = Play(text, most, data.draw)
    play.run()
    scheduler = play.scheduler
    if scheduler.halted is not None:
        return
    held = {path for path, status in scheduler.status.items() if status in ("waiting", "blocked", "failed")}
    held |= {path for path, status in scheduler.status.items() if status == "running"}  # items of it are held
    for path, status in scheduler.status.items():
        if status == "pending":
            assert play.graph.before[path] & held or any(
                scheduler.status[needed] == "pending" for needed in play.graph.before[path]
            ), (path, scheduler.status)


# -- what a run that is driven again needs; the rest is tested with real steps

CHAIN = "steps: [{id: a, run: x}, {id: b, run: x}, {id: c, run: x}]"
WIDE = "max_parallel: 2\nsteps: [{id: a, run: x, needs: []}, {id: b, run: x, needs: []}, {id: c, run: x, needs: []}]"
PHASES = """
steps:
  - id: p
    steps: [{id: a, run: x}, {id: b, run: x, needs: []}]
  - {id: q, run: x}
"""


def scheduler(text: str, most: int | None = None) -> Scheduler:
    workflow = parse_definition(f"name: w\n{text}", "w.yaml")
    made = Scheduler(workflow, Graph(workflow), most)
    made.restore({})
    return made


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
    workflow = parse_definition(f"name: w\n{CHAIN}", "w.yaml")
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
    workflow = parse_definition(f"name: w\n{CHAIN}", "w.yaml")
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
    workflow = parse_definition(f"name: w\n{CHAIN}", "w.yaml")
    for only, due in (({"a", "c"}, ["a"]), ({"c"}, ["c"])):
        plan = Scheduler(workflow, Graph(workflow))
        plan.only = frozenset(only)
        plan.restore({"a": "pending", "b": "completed"})
        assert due == plan.due(0)
