"""Which checkpoints a run leaves, and why each was sealed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tests.cli.command import succeed
from tests.workflow.flows import run

at = datetime.fromisoformat  # as text, a whole second would come after its parts


def test_levels_of_one_step_seal_only_the_step(project: Path) -> None:
    """A chain has a `step_complete` for each step, and nothing else."""
    ran = run(
        project, "name: chain\nsteps: [{id: a, run: 'true'}, {id: b, run: 'true'}, {id: c, run: 'true'}]\n"
    )
    assert [("step_complete", "a"), ("step_complete", "b"), ("step_complete", "c")] == ran.seals()
    assert [] == ran.of("batch_start") + ran.of("batch_complete")


def test_levels_of_several_steps_have_a_beginning_and_an_end(project: Path) -> None:
    """`batch_start` before the first step of a level starts, `batch_complete` after the last one ended."""
    ran = run(
        project,
        """
        name: levels
        steps:
          - {id: a, run: "true"}
          - {id: b, needs: [a], run: "true"}
          - {id: c, needs: [a], when: "false", run: "true"}
          - {id: d, needs: [a], run: "false", on_failure: continue}
          - {id: e, needs: [b, c, d], run: "true"}
        """,
        code=1,
    )
    seals = ran.seals()
    assert ("step_complete", "a") == seals[0]
    assert ("batch_start", None) in seals[1:3]  # a step may be skipped before the first one starts
    assert {("step_complete", "b"), ("step_complete", "c"), ("error", "d"), ("batch_start", None)} == set(
        seals[1:5]
    )
    assert [("batch_complete", None), ("step_complete", "e")] == seals[5:]
    (start,), (end,) = ran.of("batch_start"), ran.of("batch_complete")
    assert {"batch": 2, "of": 3, "steps": ["b", "c", "d"]}.items() <= start.items()
    assert {"batch": 2, "of": 3, "steps": ["b", "c", "d"]}.items() <= end.items()
    kinds = [event["event"] for event in ran.events if event["event"] not in ("checkpoint", "step_skipped")]
    assert kinds.index("batch_start") < kinds.index("step_start", kinds.index("step_done"))


def test_a_phase_ends_with_a_transition(project: Path) -> None:
    """`phase_transition` when the last step of a phase has ended, from the inside out; its begin is told."""
    ran = run(
        project,
        """
        name: phases
        steps:
          - id: one
            steps:
              - id: inner
                steps: [{id: a, run: "true"}]
              - {id: b, run: "true"}
          - id: two
            steps: [{id: c, run: "true"}]
        """,
    )
    assert [
        ("step_complete", "one/inner/a"),
        ("phase_transition", "one/inner"),
        ("step_complete", "one/b"),
        ("phase_transition", "one"),
        ("step_complete", "two/c"),
        ("phase_transition", "two"),
    ] == ran.seals()
    assert [("", "one"), ("one", "two")] == [(event["from"], event["to"]) for event in ran.of("phase")]


def test_phases_that_run_at_once_begin_once(project: Path) -> None:
    """However the steps of two phases alternate, each phase is told to begin once."""
    steps = "".join(f"\n      - {{id: s{n}, run: 'true'}}" for n in range(4))
    ran = run(
        project,
        f"name: both\nsteps:\n  - id: one\n    steps:{steps}\n  - id: two\n    needs: []\n    steps:{steps}\n",
    )
    assert ["one", "two"] == sorted(event["to"] for event in ran.of("phase"))


def test_items_and_their_foreach(project: Path) -> None:
    """Every item has its checkpoint, and the `foreach` as a whole has one; also one without any items."""
    ran = run(
        project,
        """
        name: items
        max_parallel: 1
        steps:
          - {id: each, foreach: [a, b], run: "true"}
          - {id: none, foreach: [], run: "true"}
        """,
    )
    assert [
        ("step_complete", "each/a"),
        ("step_complete", "each/b"),
        ("step_complete", "each"),
        ("step_complete", "none"),
    ] == ran.seals()


def test_save_false_commits_without_a_checkpoint(project: Path) -> None:
    """`checkpoint: {save: false}`: the step and its variables are on record, and nothing is sealed for it."""
    ran = run(
        project,
        """
        name: unsealed
        steps:
          - {id: a, run: 'echo x=1 >> "$LEFTOFF_VARS"', checkpoint: {save: false}}
          - {id: b, run: "true", checkpoint: false}
          - {id: each, foreach: [1, 2], run: "true", checkpoint: {save: false}}
          - {id: skipped, when: "false", run: "true", checkpoint: {save: false}}
          - {id: c, run: "true"}
        """,
    )
    assert [("step_complete", "c")] == ran.seals()
    assert {"completed"} == {status for path, status in ran.statuses().items() if path != "skipped"}
    assert {"x": 1} == ran.variables()
    assert ["c"] == [event["step"] for event in ran.of("checkpoint")]


def test_every_checkpoint_that_is_told_can_be_read_back(project: Path) -> None:
    """The id in a `checkpoint` event is a REF: it shows the run as it was then."""
    ran = run(
        project,
        """
        name: history
        steps:
          - {id: a, run: 'echo x=1 >> "$LEFTOFF_VARS"'}
          - {id: b, run: 'echo x=2 >> "$LEFTOFF_VARS"'}
        """,
    )
    ids = [event["checkpoint_id"] for event in ran.of("checkpoint")]
    assert [1, 2] == [succeed("show", ref, "--json", cwd=project).json["variables"]["x"] for ref in ids]
    then = succeed("show", ids[0], "--json", cwd=project).json
    assert {"a": "completed", "b": "pending"} == {r["step"]: r["status"] for r in then["step_records"]}


def test_times_and_attempts_are_on_record(project: Path) -> None:
    """Every step that ran has when it started and ended; so have phases and a `foreach`."""
    ran = run(
        project,
        """
        name: times
        steps:
          - id: p
            steps:
              - {id: a, run: "true", estimate: 5m, title: The first, type: demo}
              - {id: each, foreach: [1], run: "true"}
        """,
    )
    steps = ran.steps()
    assert all(record["started_at"] and record["completed_at"] for record in steps.values()), steps
    times = {name: (at(record["started_at"]), at(record["completed_at"])) for name, record in steps.items()}
    assert all(started <= completed for started, completed in times.values())
    assert times["p"][0] <= times["p/a"][0]
    assert {"title": "The first", "estimate": 300.0, "type": "demo", "attempt": 1}.items() <= steps[
        "p/a"
    ].items()
    assert [1, 2] == [steps[path]["batch"] for path in ("p/a", "p/each")]
