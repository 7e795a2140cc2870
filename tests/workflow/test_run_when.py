"""Conditions: of a step, of each item, of a phase."""

from __future__ import annotations

from pathlib import Path

from tests.workflow.flows import lines, run


def test_a_condition_that_does_not_hold_skips_the_step(project: Path) -> None:
    """A skipped step runs nothing, says why, counts as done, and whoever needs it runs all the same."""
    ran = run(
        project,
        """
        name: when
        vars: {deploy: false, count: 3}
        steps:
          - {id: a, when: "{{ deploy }}", run: echo a >> trace}
          - {id: b, when: "{{ count > 2 and not deploy }}", run: echo b >> trace}
          - {id: c, when: count == 4, run: echo c >> trace}
          - {id: d, when: "{{ skipped('a') == 1 and status('b') == 'completed' }}", run: echo d >> trace}
        """,
    )
    assert ["b", "d"] == lines(project, "trace")
    steps = ran.steps()
    assert ["skipped", "completed", "skipped", "completed"] == [steps[path]["status"] for path in "abcd"]
    assert [("step_skipped", "a"), ("step_skipped", "c")] == ran.told("step_skipped")
    assert "deploy" in ran.of("step_skipped")[0]["why"]
    assert (2, 2, 100) == (ran.run["steps"]["skipped"], ran.run["steps"]["completed"], ran.run["percent"])
    assert [("step_complete", path) for path in "abcd"] == ran.seals()


def test_a_condition_sees_what_earlier_steps_set(project: Path) -> None:
    """The condition is looked at when the step is reached, with the variables of then."""
    run(
        project,
        """
        name: when
        steps:
          - {id: look, run: echo found=true >> "$LEFTOFF_VARS"}
          - {id: use, when: "{{ found }}", run: touch used}
          - {id: not, when: "{{ not found }}", run: touch not-used}
        """,
    )
    assert (True, False) == ((project / "used").exists(), (project / "not-used").exists())


def test_a_condition_about_the_item_is_one_for_each(project: Path) -> None:
    """Where a condition names the item, each item is asked; the others run."""
    ran = run(
        project,
        """
        name: when
        steps:
          - {id: each, foreach: [1, 2, 3, 4], as: n, when: "{{ n % 2 == 0 }}", run: "echo {{ n }} >> trace"}
        """,
    )
    assert {"2", "4"} == set(lines(project, "trace"))
    assert {
        "each": "completed",
        "each/1": "skipped",
        "each/2": "completed",
        "each/3": "skipped",
        "each/4": "completed",
    } == ran.statuses()


def test_a_condition_of_the_whole_foreach_is_asked_before_its_items_are_looked_for(project: Path) -> None:
    """A `foreach` whose condition does not name the item is skipped as one, and its command does not run."""
    ran = run(
        project,
        """
        name: when
        vars: {wanted: false}
        steps:
          - {id: each, foreach: {command: touch looked; seq 3}, when: "{{ wanted }}", run: touch ran}
        """,
    )
    assert {"each": "skipped"} == ran.statuses()
    assert not (project / "looked").exists() and not (project / "ran").exists()


def test_a_phase_is_skipped_with_everything_in_it(project: Path) -> None:
    """The condition of a phase is asked once; where it does not hold, every step below is skipped."""
    ran = run(
        project,
        """
        name: when
        vars: {deploy: false}
        steps:
          - id: p
            when: "{{ deploy }}"
            steps:
              - {id: a, run: touch ran}
              - {id: b, needs: [], run: touch ran}
              - {id: c, needs: [], foreach: [1, 2], run: touch ran}
              - id: q
                needs: []
                steps:
                  - {id: d, run: touch ran}
          - {id: after, run: touch after}
        """,
    )
    assert {"p", "p/a", "p/b", "p/c", "p/q", "p/q/d"} == {
        path for path, status in ran.statuses().items() if status == "skipped"
    }
    assert ((project / "ran").exists(), (project / "after").exists()) == (False, True)


def test_the_condition_of_a_phase_is_asked_when_it_begins_and_not_again(project: Path) -> None:
    """A step in the phase that makes its condition false does not cut the phase off half way."""
    ran = run(
        project,
        """
        name: when
        vars: {wanted: true}
        steps:
          - id: p
            when: "{{ wanted }}"
            steps:
              - {id: a, run: echo wanted=false >> "$LEFTOFF_VARS"}
              - {id: b, run: touch b}
        """,
    )
    assert {"p": "completed", "p/a": "completed", "p/b": "completed"} == ran.statuses()


def test_a_condition_that_cannot_be_answered_fails_the_step(project: Path) -> None:
    """A name that nobody set is an error that names it, and never a silent no."""
    ran = run(
        project,
        """
        name: when
        steps:
          - {id: look, run: "echo other=1 >> $LEFTOFF_VARS"}
          - {id: use, when: "{{ nobody_set_this == 1 }}", run: touch used}
        """,
        code=None,
    )
    assert ran.code in (1, 2), str(ran)
    assert "nobody_set_this" in ran.called.err + ran.called.out
    assert not (project / "used").exists()
