"""What becomes of a step that fails: another try, the end of everything, or of its branch only."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import succeed
from tests.workflow.flows import lines, path_with_leftoff, run

QUICK = '[run]\nstop_timeout = "0.3s"\n'


def test_a_failed_step_ends_the_run(project: Path) -> None:
    """Nothing after a failed step runs; the run is failed, the exit code 1, the last lines are in the record."""
    ran = run(
        project,
        """
        name: fails
        steps:
          - {id: a, run: echo fine}
          - {id: b, run: "seq 100; echo out; echo err >&2; exit 3"}
          - {id: c, run: touch never}
        """,
        code=1,
    )
    assert {"a": "completed", "b": "failed", "c": "pending"} == ran.statuses()
    assert ("failed", "idle") == (ran.run["status"], ran.run["health"])
    error = ran.steps()["b"]["error"]
    assert ("exit", 3) == (error["type"], error["exit_code"])
    assert ["99", "100", "out", "err"] == error["tail"].splitlines()[-4:]
    assert 20 == len(error["tail"].splitlines())
    (told,) = ran.of("step_failed")
    assert ("b", 1, None) == (told["step"], told["attempt"], told["will_retry_in"])
    assert [("step_complete", "a"), ("error", "b")] == ran.seals()
    assert not (project / "never").exists()


def test_a_failure_that_is_allowed(project: Path) -> None:
    """The steps that need it start, and the run is completed, whatever `on_failure` says. It is not done again when the
    run is resumed for another step."""
    text = """
        name: allowed
        steps:
          - {id: lint, run: "echo >> tries; false", allow_failure: true, retries: 1}
          - {id: inner, steps: [{id: each, foreach: [a, b], run: "test {{ item }} = a", allow_failure: true}]}
          - {id: after, run: test -e go, when: failed('lint') == 1}
        """
    ran = run(project, text, code=1)
    assert ("failed", "completed", "failed") == tuple(
        ran.statuses()[path] for path in ("lint", "inner/each/a", "after")
    )
    (project / "go").touch()
    plan = succeed("resume", "--dry-run", "--json", cwd=project).json["plan"]
    assert {"after"} == {entry["step"] for entry in plan if entry["action"] == "run"}
    succeed("resume", cwd=project)
    shown = succeed("show", "--json", cwd=project).json
    assert ("completed", 100, 2) == (shown["status"], shown["percent"], shown["steps"]["failed"])
    steps = {record["step"]: record for record in shown["step_records"]}
    assert ("failed", True, 2) == (
        steps["lint"]["status"],
        steps["lint"]["allowed"],
        len(lines(project, "tries")),
    )
    assert ("completed", "completed") == (steps["inner"]["status"], steps["inner/each"]["status"])
    assert "its failure is allowed" in succeed("show", "--steps", cwd=project).out


def test_retries_try_again_and_again(project: Path) -> None:
    """`retries: N` gives N more tries, each an attempt on record; success ends them."""
    ran = run(
        project,
        """
        name: retries
        defaults: {retries: {max: 3, backoff: 0s}}
        steps:
          - {id: third, run: "echo $LEFTOFF_ATTEMPT >> tries; test $(wc -l < tries) -eq 3"}
          - {id: never, run: "echo >> never; exit 7", on_failure: continue}
          - {id: once, retries: 0, run: "echo >> once; false", on_failure: continue}
        """,
        code=1,
    )
    assert (3, 4, 1) == tuple(len(lines(project, name)) for name in ("tries", "never", "once"))
    assert 3 == len(set(lines(project, "tries")))
    steps = ran.steps()
    assert ("completed", 3, None) == (
        steps["third"]["status"],
        steps["third"]["attempt"],
        steps["third"]["error"],
    )
    assert ("failed", 4) == (steps["never"]["status"], steps["never"]["attempt"])
    waits = [event["will_retry_in"] for event in ran.of("step_failed") if event["step"] == "never"]
    assert [0, 0, 0, None] == waits
    assert [("step_complete", "third"), ("error", "never"), ("error", "once")] == ran.seals()


def test_the_pause_before_a_retry_grows(project: Path) -> None:
    """The first pause is `backoff`, each further one `factor` times as long; `jitter` shortens it by at most a half."""
    ran = run(
        project,
        """
        name: backoff
        steps:
          - {id: plain, run: "false", retries: {max: 2, backoff: 40ms, factor: 3, jitter: false}, on_failure: continue}
          - {id: jitter, run: "false", retries: {max: 2, backoff: 40ms, factor: 3}, on_failure: continue}
        """,
        code=1,
    )
    plain, jitter = (
        [event["will_retry_in"] for event in ran.of("step_failed") if event["step"] == step][:2]
        for step in ("plain", "jitter")
    )
    assert [0.04, 0.12] == plain
    assert 0.02 <= jitter[0] <= 0.04 and 0.06 <= jitter[1] <= 0.12


def test_a_step_that_takes_too_long_is_ended(project: Path) -> None:
    """`timeout` ends the step and everything it started; that is a failure like any other, and is retried."""
    ran = run(
        project,
        """
        name: slow
        steps:
          - id: slow
            timeout: 500ms
            retries: {max: 1, backoff: 0s}
            on_failure: continue
            run: |
              sh -c 'exec 9> lock; flock 9; sleep 600' &
              sleep 600
          - {id: free, run: flock -n lock true}
        """,
        code=1,
    )
    steps = ran.steps()
    assert ("failed", 2, "completed") == (
        steps["slow"]["status"],
        steps["slow"]["attempt"],
        steps["free"]["status"],
    )
    error = steps["slow"]["error"]
    assert "timeout" == error["type"] and "0.5s" in error["message"]
    assert [0, None] == [event["will_retry_in"] for event in ran.of("step_failed")]


def test_a_step_that_ignores_sigterm_is_killed(project: Path) -> None:
    """A step that does not end when it is told to is killed after the grace, and so is everything it started."""
    (project / "leftoff.toml").write_text(QUICK)
    ran = run(
        project,
        """
        name: stubborn
        steps:
          - id: stubborn
            timeout: 1s
            on_failure: continue
            run: |
              trap '' TERM
              sh -c 'trap "" TERM; exec 9> lock; flock 9; while :; do sleep 0.05; done' &
              while :; do sleep 0.05; done
          - {id: free, run: flock -n lock true}
        """,
        code=1,
    )
    assert {"stubborn": "failed", "free": "completed"} == ran.statuses()
    assert "timeout" == ran.steps()["stubborn"]["error"]["type"]


def test_stop_ends_the_others(project: Path) -> None:
    """`on_failure: stop`: what runs beside a failed step is ended, and is to be done again; nothing more starts."""
    ran = run(
        project,
        """
        name: stop
        steps:
          - {id: bad, run: "until [ -e up ]; do sleep 0.02; done; exit 1"}
          - id: beside
            needs: []
            run: trap 'echo ended >> trace; exit 1' TERM; touch up; while :; do sleep 0.02; done
          - {id: later, needs: [beside], run: touch later}
          - {id: items, needs: [], foreach: [1, 2, 3, 4, 5, 6], run: "while :; do sleep 0.02; done"}
        """,
        code=1,
    )
    statuses = ran.statuses()
    assert ("failed", "pending", "pending") == tuple(statuses[path] for path in ("bad", "beside", "later"))
    assert {"pending"} == {status for path, status in statuses.items() if path.startswith("items/")}
    assert ["ended"] == lines(project, "trace")
    assert not (project / "later").exists()
    why = next(event["why"] for event in ran.of("step_stopped") if event["step"] == "beside")
    assert "bad" in why
    assert ("error", "bad") in ran.seals()
    assert {"failed": 1, "running": 0}.items() <= ran.run["steps"].items()


def test_stop_ends_a_check_that_runs(project: Path) -> None:
    """A check that hangs does not hold up the end of a run that failed elsewhere."""
    ran = run(
        project,
        """
        name: stop
        steps:
          - {id: checked, run: "true", checks: ["touch checking; sleep 600"]}
          - {id: bad, needs: [], run: "until [ -e checking ]; do sleep 0.02; done; exit 1"}
        """,
        code=1,
    )
    assert {"checked": "pending", "bad": "failed"} == ran.statuses()


def test_continue_goes_on_and_says_so_at_the_end(project: Path) -> None:
    """`on_failure: continue`: who needs the step runs all the same; the run is failed in the end, the exit code 1."""
    ran = run(
        project,
        """
        name: goes-on
        steps:
          - {id: bad, run: exit 9, on_failure: continue}
          - {id: after, run: echo after >> trace}
          - {id: repair, when: "{{ failed('bad') }}", run: echo repair >> trace}
          - {id: publish, when: "{{ failed('bad') == 0 }}", run: echo publish >> trace}
        """,
        code=1,
    )
    assert ["after", "repair"] == lines(project, "trace")
    assert {"bad": "failed", "after": "completed", "repair": "completed", "publish": "skipped"} == (
        ran.statuses()
    )
    assert "failed" == ran.run["status"]


def test_items_that_fail_are_counted(project: Path) -> None:
    """With `continue` every item is tried; `failed('each')` counts those that failed, and the whole is failed."""
    ran = run(
        project,
        """
        name: goes-on
        steps:
          - id: phase
            on_failure: continue
            steps:
              - {id: each, foreach: [1, 2, 3, 4, 5], run: "test {{ item }} -gt 2"}
          - {id: after, run: "echo {{ failed('phase/each') }} {{ completed('each') }} {{ failed('phase') }} > count"}
        """,
        code=1,
    )
    assert ["2 3 2"] == lines(project, "count")
    statuses = ran.statuses()
    assert ("failed", "failed", "failed", "completed") == tuple(
        statuses[path] for path in ("phase", "phase/each", "phase/each/1", "phase/each/3")
    )


def test_ask_holds_the_branch_and_lets_the_others_end(project: Path) -> None:
    """`on_failure: ask`: what needs the step waits for a person; everything else runs to its end."""
    ran = run(
        project,
        """
        name: asks
        max_parallel: 1
        steps:
          - {id: each, foreach: [1, 2, 3], max_parallel: 2, on_failure: ask, run: "test {{ item }} -ne 2"}
          - {id: needs-it, run: touch needs-it}
          - {id: bad, needs: [], run: "false", on_failure: ask}
          - {id: beside, needs: [], run: touch beside}
          - {id: behind, needs: [beside], run: touch behind}
        """,
        code=1,
    )
    statuses = ran.statuses()
    assert ("failed", "failed", "completed", "completed", "pending") == tuple(
        statuses[path] for path in ("each/2", "bad", "beside", "behind", "needs-it")
    )
    assert ("completed", "completed") == (statuses["each/1"], statuses["each/3"])
    assert not (project / "needs-it").exists()
    assert "failed" == ran.run["status"]


def test_a_step_says_itself_that_it_failed_or_is_blocked(project: Path) -> None:
    """What a step reports of itself goes before its exit code; blocked means that a person must act: exit 7."""
    ran = run(
        project,
        """
        name: says
        steps:
          - {id: blocked, run: 'leftoff step block "/$LEFTOFF_STEP" --error "no licence"; exit 0'}
          - {id: after, run: touch after}
        """,
        code=7,
        PATH=path_with_leftoff(),
    )
    assert {"blocked": "blocked", "after": "pending"} == ran.statuses()
    assert "blocked" == ran.run["status"]
    ran = run(
        project,
        """
        name: says-failed
        steps:
          - {id: failed, run: 'leftoff step fail "/$LEFTOFF_STEP" --error "it is wrong"; exit 0'}
          - {id: after, run: touch after}
        """,
        code=1,
        PATH=path_with_leftoff(),
    )
    assert "it is wrong" == ran.steps()["failed"]["error"]["message"]
    assert not (project / "after").exists()


def test_a_step_says_itself_that_it_is_skipped_or_what_it_found(project: Path) -> None:
    """A step may skip itself, and may report its own result; what comes after it sees both."""
    ran = run(
        project,
        """
        name: says
        steps:
          - {id: skips, run: 'leftoff step skip "/$LEFTOFF_STEP"; echo lost=1 >> "$LEFTOFF_VARS"'}
          - id: finds
            run: leftoff step done "/$LEFTOFF_STEP" --result '{"n":5}'
          - {id: after, run: "echo {{ skipped('skips') }} {{ results.finds.n }} > seen"}
        """,
        PATH=path_with_leftoff(),
    )
    assert {"skips": "skipped", "finds": "completed", "after": "completed"} == ran.statuses()
    assert ["1 5"] == lines(project, "seen")
    assert {} == ran.variables()
    assert [("step_skipped", "skips")] == ran.told("step_skipped")


ENDS = [
    ("kill -SEGV $$", "signal", "SIGSEGV"),
    ("exit 255", "exit", "255"),
    ("no-such-command-at-all", "exit", "command not found"),
    ("false | true", "exit", "1"),
    ("false; echo not here", "exit", "1"),
    ("echo $undefined_is_fine; exit 5", "exit", "5"),
]


def test_how_a_command_failed_is_said(project: Path) -> None:
    """A signal, an exit code, a command that is not there; a failure inside a pipe or before the end counts."""
    bad = "".join(f"  - {{id: s{n}, run: {script!r}}}\n" for n, (script, _, _) in enumerate(ENDS))
    steps = run(project, f"name: ends\ndefaults: {{on_failure: continue}}\nsteps:\n{bad}", code=1).steps()
    for n, (script, kind, said) in enumerate(ENDS):
        error = steps[f"s{n}"]["error"]
        assert kind == error["type"] and said in error["message"] + error.get("tail", ""), script


def test_what_a_failed_step_left_running_is_ended(project: Path) -> None:
    """A step's process group ends with the step, however the step ended."""
    run(
        project,
        """
        name: leaves
        steps:
          - id: bad
            run: |
              (exec 9> lock; flock 9; touch locked; sleep 600) &
              until [ -e locked ]; do sleep 0.02; done
              exit 1
            on_failure: continue
          - {id: free, run: flock -n lock true}
          - id: good
            run: |
              (exec 9> lock; flock 9; touch again; sleep 600) &
              until [ -e again ]; do sleep 0.02; done
          - {id: free-too, run: flock -n lock true}
        """,
        code=1,
    )
    assert (project / "again").exists()


def test_a_retry_that_is_due_later_does_not_hold_up_the_end(project: Path) -> None:
    """Where another step's failure ends the run, what waits for its next try stays pending, and nobody waits for it."""
    ran = run(
        project,
        """
        name: over
        steps:
          - {id: waits, run: "exit 1", retries: {max: 3, backoff: 10m}}
          - id: bad
            needs: []
            run: |
              until leftoff show --json | grep -q 'ended with exit code 1'; do sleep 0.05; done
              exit 1
        """,
        code=1,
        PATH=path_with_leftoff(),
    )
    assert {"waits": "pending", "bad": "failed"} == ran.statuses()


def test_a_process_that_is_killed_with_everything_around_it(project: Path) -> None:
    """Nobody knows how far it came: it has failed, and is tried again; but not what may not be done twice."""
    ran = run(
        project,
        """
        name: killed
        defaults: {retries: {max: 1, backoff: 0s}, on_failure: continue}
        steps:
          - {id: a, run: "echo a >> trace; kill -KILL 0"}
          - {id: b, idempotent: false, run: "echo b >> trace; kill -KILL 0"}
          - {id: c, idempotent: false, run: "echo c >> trace; exit 1"}
        """,
        code=1,
    )
    assert ["a", "a", "b", "c", "c"] == lines(project, "trace")
    assert ["killed", "killed", "exit"] == [ran.steps()[path]["error"]["type"] for path in "abc"]
