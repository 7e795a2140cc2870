"""What a step's process finds: its environment, its folder, its shell; and what it may report itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.command import succeed
from tests.workflow.flows import lines, path_with_leftoff, run


def test_what_is_in_the_environment(project: Path) -> None:
    """A step knows its run, its step, its attempt, its project and the file for its variables; the rest is ours."""
    ran = run(
        project,
        """
        name: environment
        steps:
          - id: p
            steps:
              - {id: each, foreach: [x y], run: env | grep -E '^(LEFTOFF_|OURS=)' | sort > env}
        """,
        "--branch",
        "side",
        OURS="inherited",
    )
    found = dict(line.split("=", 1) for line in lines(project, "env"))
    assert (ran.id, "p/each/x y", str(project), "inherited", "side") == (
        found["LEFTOFF_RUN"],
        found["LEFTOFF_STEP"],
        found["LEFTOFF_PROJECT"],
        found["OURS"],
        found["LEFTOFF_BRANCH"],
    )
    assert len(found["LEFTOFF_ATTEMPT"]) >= 16
    assert found["LEFTOFF_VARS"].startswith(str(project / ".leftoff"))


def test_env_and_cwd_are_the_steps_own(project: Path) -> None:
    """`env:` adds to the environment and `cwd:` chooses the folder; both are templates, and phases hand them down."""
    (project / "site/deep").mkdir(parents=True)
    run(
        project,
        """
        name: own
        vars: {where: site}
        steps:
          - id: p
            env: {A: phase, B: phase}
            cwd: "{{ where }}"
            steps:
              - {id: inherits, run: "echo $A $B $(basename $PWD) > one"}
              - id: own
                env: {B: "it's {{ where }}"}
                cwd: "{{ where }}/deep"
                run: echo $A $B $(basename $PWD) > two
          - {id: top, run: "echo ${A-unset} $(basename $PWD) > three"}
        """,
    )
    assert ["phase phase site"] == lines(project, "site/one")
    assert ["phase it's site deep"] == lines(project, "site/deep/two")
    assert [f"unset {project.name}"] == lines(project, "three")


def test_a_folder_that_is_not_there_fails_the_step(project: Path) -> None:
    """A `cwd` that does not exist is named in the step's failure."""
    ran = run(project, "name: cwd\nsteps: [{id: a, cwd: no/where, run: touch ran}]\n", code=1)
    assert "no/where" in ran.steps()["a"]["error"]["message"]


SHELLS = [
    ("bash", "false; echo ok"),
    ("[bash, -ec]", "echo ok"),
    ("sh -e", "echo ok"),
    ("python3", "print('ok', end='')"),
    ("[python3, -c]", "print('ok', end='')"),
    ("perl", "print 'ok';"),
]


def test_the_shell_can_be_another_one(project: Path) -> None:
    """`shell:` says who reads the script: a name, a name with options, or the whole command line."""
    steps = "".join(
        f"  - id: s{n}\n    shell: {shell}\n    run: {script!r}\n" for n, (shell, script) in enumerate(SHELLS)
    )
    ran = run(project, f"name: shell\nsteps:\n{steps}")
    for n, (shell, _) in enumerate(SHELLS):
        assert "ok" == succeed("logs", ran.id, f"s{n}", cwd=project).out.strip(), shell


@pytest.mark.parametrize("there", [True, False], ids=["bash", "sh"])
def test_without_bash_it_is_sh(project: Path, there: bool) -> None:
    """The shell is bash with pipefail where there is one, else sh; either ends at the first failure."""
    folder = project / "bin"
    folder.mkdir()
    for name in ("sh", "touch", "true", "false", *(("bash",) if there else ())):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    ran = run(
        project,
        """
        name: shells
        steps:
          - {id: which, run: 'echo "${BASH_VERSION:+bash}" > which'}
          - {id: first, run: "false; touch beyond", on_failure: continue}
          - {id: pipe, run: "false | true", on_failure: continue}
        """,
        code=1,
        PATH=str(folder),
    )
    assert ["bash" if there else ""] == lines(project, "which")
    assert not (project / "beyond").exists()
    assert ("failed", "failed" if there else "completed") == (
        ran.statuses()["first"],
        ran.statuses()["pipe"],
    )


def test_a_script_longer_than_a_command_line(project: Path) -> None:
    """A script of any length runs, and nothing of it is left behind."""
    long = "\n".join(f"        : {'x' * 100} {n}" for n in range(3000))
    ran = run(
        project,
        f"name: long\nsteps:\n  - id: a\n    run: |\n{long}\n        echo done > out\n  - {{id: b, run: 'true'}}\n",
    )
    assert ["done"] == lines(project, "out")
    assert "completed" == ran.run["status"]
    assert [] == [path for path in (project / ".leftoff/attempts").rglob("*") if path.is_file()]


def test_a_step_reports_its_sub_steps(project: Path) -> None:
    """`leftoff step done sub-1` inside a step reports a step below it; the run counts the leaves."""
    ran = run(
        project,
        """
        name: subs
        steps:
          - id: a
            run: |
              leftoff step start sub-1
              leftoff step done sub-1 --result '{"n": 1}'
              leftoff step skip sub-2
              leftoff note "half way"
          - {id: each, foreach: [x], run: leftoff step done inner}
          - {id: b, run: 'true'}
        """,
        PATH=path_with_leftoff(),
    )
    steps = ran.steps()
    assert {
        "a": "completed",
        "a/sub-1": "completed",
        "a/sub-2": "skipped",
        "each": "completed",
        "each/x": "completed",
        "each/x/inner": "completed",
        "b": "completed",
    } == {path: record["status"] for path, record in steps.items()}
    assert {"n": 1} == steps["a/sub-1"]["result"]
    assert {"total": 4, "completed": 3, "skipped": 1}.items() <= ran.run["steps"].items()
    assert ("step_complete", "a/sub-1") in ran.seals()


def test_the_token_of_an_attempt_that_is_over_is_refused(project: Path) -> None:
    """A process that a step's first try left behind in another session cannot report on the second: exit 5."""
    run(
        project,
        """
        name: fence
        steps:
          - id: a
            retries: {max: 1, backoff: 0s}
            run: |
              if [ -e token ]; then
                LEFTOFF_ATTEMPT=$(cat token) leftoff step done sub-1 && exit 9
                echo $? > refused
              else
                echo $LEFTOFF_ATTEMPT > token; exit 1
              fi
        """,
        PATH=path_with_leftoff(),
    )
    assert ["5"] == lines(project, "refused")


def test_a_step_that_somebody_has_done_already_is_not_run(project: Path) -> None:
    """A step that was reported done before it was its turn is taken as done."""
    ran = run(
        project,
        """
        name: ahead
        steps:
          - {id: a, run: leftoff step done /b --note "by hand"}
          - {id: b, run: touch ran}
          - {id: c, run: touch after}
        """,
        PATH=path_with_leftoff(),
    )
    assert {"a": "completed", "b": "completed", "c": "completed"} == ran.statuses()
    assert ((project / "ran").exists(), (project / "after").exists()) == (False, True)


def test_the_project_is_the_nearest_one_upward(project: Path) -> None:
    """`leftoff run` from a folder below works in the project: steps, outputs and the store are there."""
    (project / "leftoff.toml").touch()
    (project / "flows").mkdir()
    (project / "flows/flow.yaml").write_text(
        "name: below\nsteps: [{id: a, run: pwd > where, outputs: [where]}]\n"
    )
    succeed("run", "flow.yaml", cwd=project / "flows")
    assert [str(project)] == lines(project, "where")
    assert (project / ".leftoff/store.db").exists()


def test_stdin_is_empty(project: Path) -> None:
    """A step that reads its standard input gets nothing, and does not eat that of the command."""
    run(project, "name: stdin\nsteps: [{id: a, run: cat > read}]\n")
    assert 0 == os.path.getsize(project / "read")
