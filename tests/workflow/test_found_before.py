"""What is found before anything runs, or said when a run goes on: variables, patterns, and what changed in the file."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cli.command import call, succeed

FLOW = "name: f\nvars: {day: monday}\nsteps:\n  - {id: a, run: 'echo {{ day }} >> out'}\n"


def test_a_misspelt_variable(tmp_path: Path) -> None:
    """Exit 2 with the right name; nothing is made. The same with --check."""
    (tmp_path / "f.yaml").write_text(FLOW)
    for more in ([], ["--check"]):
        done = call("run", "f.yaml", "--var", "dayy=friday", *more, cwd=tmp_path)
        assert (2, "") == (done.code, done.out)
        assert "--var dayy: f.yaml has no such variable." in done.err
        assert "Did you mean `day`?" in done.err
    assert ["f.yaml"] == os.listdir(tmp_path)


def test_a_variable_that_is_only_mentioned(tmp_path: Path) -> None:
    """In a template, or by `leftoff get`; or the file takes any."""
    for text in ("echo {{ x }}", "leftoff get x", "echo {{ x | default(1) }}"):
        (tmp_path / "f.yaml").write_text(f"steps: [{{id: a, run: '{text}'}}]\n")
        succeed("run", "f.yaml", "--check", "--var", "x=1", cwd=tmp_path)
    for top in ("", "other_vars: true\nvars: {xx: 1}\n"):
        (tmp_path / "f.yaml").write_text(f"{top}steps: [{{id: a, run: ls}}]\n")
        succeed("run", "f.yaml", "--check", "--var", "x=1", cwd=tmp_path)


def test_a_misspelt_variable_of_resume(tmp_path: Path) -> None:
    """The same rule; what the run has already may be given anew."""
    (tmp_path / "f.yaml").write_text(FLOW + "  - {id: b, run: 'test -e fixed'}\n")
    assert 1 == call("run", "f.yaml", cwd=tmp_path).code
    done = call("resume", "--var", "dayy=friday", cwd=tmp_path)
    assert (2, True) == (done.code, "Did you mean `day`?" in done.err)
    (tmp_path / "fixed").touch()
    succeed("resume", "--var", "day=friday", cwd=tmp_path)


def test_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    """Known before anything runs where no step comes before it; else when it is reached; unless it is allowed."""
    path = tmp_path / "f.yaml"
    each = "{id: each, foreach: {glob: 'in/*.txt'%s}, run: 'cat {{ item }}'}\n"
    path.write_text("steps:\n  - " + each % "" + "  - {id: b, run: touch b}\n")
    done = call("run", "f.yaml", cwd=tmp_path)
    assert (2, ["f.yaml"]) == (done.code, os.listdir(tmp_path))
    assert "f.yaml:2:5: each: foreach: nothing matches in/*.txt." in done.err
    path.write_text("steps:\n  - {id: a, run: touch a}\n  - " + each % "")
    done = call("run", "f.yaml", cwd=tmp_path)
    assert (1, True) == (done.code, "nothing matches in/*.txt" in done.out + done.err)
    path.write_text("steps:\n  - " + each % ", allow_empty: true")
    succeed("run", "f.yaml", "--fresh", cwd=tmp_path)


def test_what_changed_is_called_what_it_is(tmp_path: Path) -> None:
    """A finished step that was removed, and values under `vars` that the run does not take."""
    path = tmp_path / "f.yaml"
    path.write_text(
        "name: f\nvars: {day: monday}\nsteps:\n  - {id: a, run: 'true'}\n  - {id: b, run: 'false'}\n"
    )
    assert 1 == call("run", "f.yaml", cwd=tmp_path).code
    path.write_text("name: f\nvars: {day: friday}\nsteps:\n  - {id: b, run: 'false'}\n")
    done = call("verify", "f", cwd=tmp_path)
    assert "finished, and removed since: a" in done.out
    assert "other values under `vars`, where the run keeps those that it has: day" in done.out
