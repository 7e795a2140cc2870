"""What runs after what, and how much of it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.flows import lines, most_at_once, run


def test_steps_run_one_after_the_other(project: Path) -> None:
    """Without `needs`, a step runs after the one before it in the file."""
    ran = run(
        project,
        """
        name: chain
        steps:
          - {id: c, run: echo c >> trace}
          - {id: a, run: echo a >> trace}
          - {id: b, run: echo b >> trace}
        """,
    )
    assert ["c", "a", "b"] == lines(project, "trace")
    assert {"c": "completed", "a": "completed", "b": "completed"} == ran.statuses()
    assert ("completed", 100) == (ran.run["status"], ran.run["percent"])


def test_empty_needs_start_at_once(project: Path) -> None:
    """`needs: []` waits for nothing: both run at once, whatever their order in the file."""
    run(
        project,
        """
        name: at-once
        defaults: {timeout: 30s}
        steps:
          - {id: a, run: sh meet.sh 2}
          - {id: b, needs: [], run: sh meet.sh 2}
        """,
    )
    assert 2 == most_at_once(project)


def test_needs_name_what_is_waited_for(project: Path) -> None:
    """A step runs when all that it needs have ended, also where that stands further down in the file."""
    run(
        project,
        """
        name: upwards
        steps:
          - {id: last, needs: [b, c], run: echo last >> trace}
          - {id: c, needs: [a], run: echo c >> trace}
          - {id: b, needs: [c], run: echo b >> trace}
          - {id: a, needs: [], run: echo a >> trace}
        """,
    )
    assert ["a", "c", "b", "last"] == lines(project, "trace")


def test_a_phase_is_waited_for_as_a_whole_and_waits_as_a_whole(project: Path) -> None:
    """Who needs a phase waits for all steps in it; these wait for what the phase needs, even with `needs: []`."""
    ran = run(
        project,
        """
        name: phases
        steps:
          - {id: before, run: echo before >> trace}
          - id: outer
            steps:
              - id: inner
                steps:
                  - {id: x, run: sleep 0.1; echo x >> trace}
                  - {id: y, run: echo y >> trace}
              - {id: z, needs: [], run: test -e trace; echo z >> trace}
          - {id: after, needs: [outer], run: echo after >> trace}
        """,
    )
    trace = lines(project, "trace")
    assert ("before", "after") == (trace[0], trace[-1])
    assert trace.index("x") < trace.index("y")
    assert {"before", "x", "y", "z", "after"} == set(trace)
    assert {"outer": "completed", "outer/inner": "completed", "outer/inner/x": "completed"}.items() <= (
        ran.statuses().items()
    )
    assert 5 == ran.run["steps"]["total"]


@pytest.mark.parametrize(
    ("top", "words"), [("max_parallel: 2", ()), ("max_parallel: 4", ("--max-parallel", "2"))]
)
def test_no_more_than_max_parallel_at_once(project: Path, top: str, words: tuple[str, ...]) -> None:
    """As many steps run at once as `max_parallel` says, and no more; the command's word goes before the file's."""
    steps = "\n".join(f"  - {{id: s{n}, needs: [], run: sh meet.sh 2}}" for n in range(6))
    run(project, f"name: wide\n{top}\ndefaults: {{timeout: 30s}}\nsteps:\n{steps}\n", *words)
    assert 2 == most_at_once(project)
    assert 6 == len(lines(project, "counts"))


def test_a_foreach_has_a_limit_of_its_own(project: Path) -> None:
    """The items of a `foreach` with `max_parallel` run that many at once, whatever the workflow allows its steps."""
    run(
        project,
        """
        name: fan
        max_parallel: 1
        defaults: {timeout: 30s}
        steps:
          - {id: each, foreach: [1, 2, 3, 4, 5, 6, 7], max_parallel: 3, run: sh meet.sh 3}
        """,
    )
    assert 3 == most_at_once(project)


def test_items_without_a_limit_share_that_of_the_workflow(project: Path) -> None:
    """A `foreach` without `max_parallel` runs as many items at once as the workflow allows steps."""
    run(
        project,
        """
        name: fan
        max_parallel: 2
        defaults: {timeout: 30s}
        steps:
          - {id: each, foreach: [1, 2, 3, 4, 5], run: sh meet.sh 2}
        """,
    )
    assert 2 == most_at_once(project)


def test_max_parallel_of_the_command_is_a_ceiling_for_everything(project: Path) -> None:
    """`--max-parallel 2` holds for items of a `foreach` and for the steps beside it, taken together."""
    run(
        project,
        """
        name: fan
        max_parallel: 8
        defaults: {timeout: 30s}
        steps:
          - {id: each, foreach: [1, 2, 3, 4, 5], max_parallel: 5, run: sh meet.sh 2}
          - {id: a, needs: [], run: sh meet.sh 2}
          - {id: b, needs: [], run: sh meet.sh 2}
        """,
        "--max-parallel",
        "2",
    )
    assert 2 == most_at_once(project)
    assert 7 == len(lines(project, "counts"))


def test_one_at_a_time_with_a_foreach_that_has_a_limit(project: Path) -> None:
    """`--max-parallel 1` runs everything one by one and does not block itself."""
    run(
        project,
        """
        name: fan
        steps:
          - {id: each, foreach: {command: seq 3}, max_parallel: 5, run: sh meet.sh 1}
          - {id: a, needs: [], run: sh meet.sh 1}
        """,
        "--max-parallel",
        "1",
    )
    assert ["1"] * 4 == [line.strip() for line in lines(project, "counts")]


def test_a_phase_has_a_limit_of_its_own(project: Path) -> None:
    """`max_parallel` of a phase limits the steps in it, and not those beside it."""
    steps = "\n".join(f"      - {{id: s{n}, needs: [], run: sh meet.sh 2}}" for n in range(5))
    head = "name: phase\nmax_parallel: 8\ndefaults: {timeout: 30s}\nsteps:\n"
    run(project, f"{head}  - id: p\n    max_parallel: 2\n    steps:\n{steps}\n")
    assert 2 == most_at_once(project)


def test_many_steps_in_a_chain(project: Path) -> None:
    """A long chain keeps its order, and each step has its checkpoint."""
    steps = "\n".join(f"  - {{id: s{n:03d}, run: echo {n} >> trace}}" for n in range(40))
    ran = run(project, f"name: long\nsteps:\n{steps}\n")
    assert [str(n) for n in range(40)] == lines(project, "trace")
    assert 40 == ran.run["steps"]["completed"]
    assert [("step_complete", f"s{n:03d}") for n in range(40)] == ran.seals()


def test_a_graph_with_fan_out_and_fan_in(project: Path) -> None:
    """One step, many that need it, one that needs them all: nobody starts before what it needs has ended."""
    wide = "\n".join(
        f"  - {{id: w{n}, needs: [first], run: test -e first.done && touch w{n}.done}}" for n in range(12)
    )
    needs = ", ".join(f"w{n}" for n in range(12))
    ran = run(
        project,
        f"name: graph\nmax_parallel: 6\nsteps:\n  - {{id: first, run: touch first.done}}\n{wide}\n"
        f'  - {{id: last, needs: [{needs}], run: "test $(ls w*.done | wc -l) -eq 12"}}\n',
    )
    assert 14 == ran.run["steps"]["completed"]
    assert [["first"], [f"w{n}" for n in range(12)], ["last"]] == ran.show()["records"]["context"]["graph"][
        "batches"
    ]
