"""What a step must leave: outputs, checks, criteria."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import succeed
from tests.workflow.flows import lines, run


def test_outputs_are_kept_and_handed_on(project: Path) -> None:
    """Declared outputs are in the step's record, kept as artifacts, and there for the templates of later steps."""
    ran = run(
        project,
        """
        name: outputs
        vars: {name: my report}
        steps:
          - id: write
            run: mkdir -p out; echo one > out/{{ name }}.txt; echo two > out/b.md; echo three > out/c.md
            outputs: ["out/{{ name }}.txt", "out/*.md"]
          - {id: read, run: "cat {{ outputs.write[0] }} > copy; printf '%s\\\\n' {{ outputs['write'] }} > names"}
        """,
    )
    paths = ["out/my report.txt", "out/b.md", "out/c.md"]
    assert paths == ran.steps()["write"]["outputs"]
    assert (["one"], paths) == (lines(project, "copy"), lines(project, "names"))
    artifacts = {artifact["path"]: artifact for artifact in ran.show()["artifacts"]}
    assert set(paths) == set(artifacts)
    assert {("write", True, 4)} == {
        (a["step"], a["captured"], a["size"]) for path, a in artifacts.items() if path != "out/c.md"
    }
    assert paths == next(event["outputs"] for event in ran.of("step_done") if event["step"] == "write")


@pytest.mark.parametrize("declared", ["missing.txt", "missing/*.txt", "{{ name }}.txt"])
def test_an_output_that_is_not_there_fails_the_step(project: Path, declared: str) -> None:
    """A command that ends well and did not write what it declared has failed: the output is named."""
    ran = run(
        project,
        f"""
        name: outputs
        vars: {{name: missing}}
        steps:
          - {{id: a, run: echo x=1 >> "$LEFTOFF_VARS"; touch there, outputs: [there, "{declared}"]}}
          - {{id: b, run: touch after}}
        """,
        code=1,
    )
    assert {"a": "failed", "b": "pending"} == ran.statuses()
    assert "missing" in ran.steps()["a"]["error"]["message"]
    assert ({"name": "missing"}, []) == (ran.variables(), ran.show()["artifacts"])


def test_outputs_of_every_kind(project: Path) -> None:
    """A folder is named and not copied; a path is one of the project, else one of the step's folder."""
    (project / "site").mkdir()
    ran = run(
        project,
        """
        name: outputs
        steps:
          - id: a
            cwd: site
            run: mkdir folder; echo x > in-site; echo y > ../in-project; echo z > 'odd [1].txt'
            outputs: [site/folder, in-site, in-project, "site/odd [1].txt"]
        """,
    )
    assert ["site/folder", "site/in-site", "in-project", "site/odd [1].txt"] == ran.steps()["a"]["outputs"]
    assert {"site/in-site", "in-project", "site/odd [1].txt"} == {a["path"] for a in ran.show()["artifacts"]}


def test_an_output_folder_that_cannot_be_written(project: Path) -> None:
    """A step that cannot write its output fails with what the system said; nothing is recorded as written."""
    (project / "out").write_text("a file, where a folder is wanted")
    ran = run(
        project,
        """
        name: unwritable
        steps:
          - {id: a, run: echo x > out/a.txt, outputs: [out/a.txt]}
        """,
        code=1,
    )
    error = ran.steps()["a"]["error"]
    assert "exit" == error["type"] and "out/a.txt" in error["tail"]
    assert [] == ran.show()["artifacts"]


def test_checks_must_hold(project: Path) -> None:
    """A step is complete only when its checks hold; they run in the project's folder, after the command."""
    (project / "site").mkdir()
    ran = run(
        project,
        """
        name: checks
        vars: {file: a b.txt}
        steps:
          - {id: good, cwd: site, run: "echo x > ../{{ file }}", checks: ["test -s {{ file }}", "grep -q x *.txt"]}
          - id: bad
            run: echo y=1 >> "$LEFTOFF_VARS"; echo ran >> ran
            checks: ["true", "echo looked; echo why it does not >&2; false", touch not-reached]
            retries: {max: 1, backoff: 0s}
            on_failure: continue
        """,
        code=1,
    )
    steps = ran.steps()
    assert ("completed", "failed", 2) == (
        steps["good"]["status"],
        steps["bad"]["status"],
        steps["bad"]["attempt"],
    )
    error = steps["bad"]["error"]
    assert "check" == error["type"] and "echo looked" in error["message"]
    assert ["looked", "why it does not"] == error["tail"].splitlines()
    assert ["ran", "ran"] == lines(project, "ran")
    assert not (project / "not-reached").exists()
    assert "y" not in ran.variables()


def test_a_check_that_takes_too_long_does_not_hold(project: Path) -> None:
    """The step's timeout holds for each of its checks, too."""
    ran = run(
        project,
        """
        name: checks
        steps:
          - {id: a, run: "true", timeout: 500ms, checks: [sleep 600]}
        """,
        code=1,
    )
    assert "sleep 600" in ran.steps()["a"]["error"]["message"]


def test_criteria_are_judged_and_recorded(project: Path) -> None:
    """Criteria are looked at when the step is done: met or not is on record, and one that is not met fails nothing."""
    ran = run(
        project,
        """
        name: criteria
        steps:
          - id: a
            run: touch one two
            criteria: {"two_files": "test $(ls one two | wc -l) -eq 2", "three files": "test -e three"}
          - {id: each, foreach: [x, y], run: "touch x", criteria: {is_there: "test -e {{ item }}"}}
          - {id: b, run: touch after}
        """,
    )
    assert (project / "after").exists()
    found = ran.show()["records"]["criterion"]
    assert {
        "two_files": (True, "a"),
        "three files": (False, "a"),
        "each/x: is_there": (True, "each/x"),
        "each/y: is_there": (False, "each/y"),
    } == {key: (value["met"], value["step"]) for key, value in found.items()}
    said = succeed("resume", ran.id, cwd=project).out
    assert "three files" in said and "two_files" not in said


def test_keep_hash(project: Path) -> None:
    """With `keep: hash` an output is known by its hash, and the store has no copy. If it is missing, its step runs
    again."""
    text = """
        name: keep
        steps:
          - {id: big, run: seq 100000 > big; echo big >> began, outputs: [big], keep: hash}
          - {id: stop, run: test -e go}
        """
    ran = run(project, text, code=1)
    (about,) = ran.show()["artifacts"]
    assert (False, 588895, "sha256:") == (about["captured"], about["size"], about["hash"][:7])
    assert 0 == succeed("store", "info", "--json", cwd=project).json["bytes_blobs"]
    (project / "big").unlink()
    (project / "go").touch()
    succeed("resume", "--yes", cwd=project)
    assert (["big", "big"], 588895) == (lines(project, "began"), (project / "big").stat().st_size)
