"""`leftoff run --check` and `--graph`: what the real command says of a file, without starting anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import call, succeed

GOOD = """\
name: site
vars: {topic: whales}
steps:
  - {id: fetch, run: "fetch {{ topic }}"}
  - id: pages
    steps:
      - {id: text, run: "true"}
      - {id: pictures, needs: [], foreach: [a, b], run: "show {{ item }}"}
  - {id: sign-off, approval: "Publish it?"}
  - {id: publish, when: "choice('sign-off') == 'approve'", run: "true"}
"""
BATCHES = [["fetch"], ["pages/text", "pages/pictures"], ["sign-off"], ["publish"]]


@pytest.fixture
def flow(project: Path) -> Path:
    """A file that is right."""
    path = project / "flow.yaml"
    path.write_text(GOOD)
    return path


def test_a_file_that_is_right(flow: Path, project: Path) -> None:
    """One line, exit 0, and nothing is made: no store, no run."""
    result = succeed("run", "flow.yaml", "--check", cwd=project)
    assert ("flow.yaml: ok, 5 steps in 4 batches\n", "") == (result.out, result.err)
    assert ["flow.yaml"] == [path.name for path in project.iterdir()]


def test_as_json(flow: Path, project: Path) -> None:
    """One document, with the batches."""
    wanted = {"ok": True, "workflow": "site", "steps": 5, "batches": BATCHES, "warnings": []}
    assert wanted == succeed("run", "flow.yaml", "--check", "--json", cwd=project).json


def test_the_graph(flow: Path, project: Path) -> None:
    """The batches, a line per step, with what is special about it."""
    wanted = """\
site: 5 steps in 4 batches
1  fetch
2  pages/text
   pages/pictures  (for each item)
3  sign-off  (approval)
4  publish  (when)
"""
    assert wanted == succeed("run", "flow.yaml", "--graph", cwd=project).out
    document = succeed("run", "flow.yaml", "--graph", "--json", cwd=project).json
    assert BATCHES == document["batches"]
    assert ["pages/pictures", "pages/text"] == document["before"]["sign-off"]


def test_a_file_that_is_wrong(project: Path) -> None:
    """Exit 2; every problem on a line of its own, as compilers tell it; nothing on stdout."""
    (project / "flow.yaml").write_text("steps:\n  - id: a\n    rnu: echo\n    needs: [b]\n")
    result = call("run", "flow.yaml", "--check", cwd=project)
    wanted = """\
leftoff: flow.yaml:3:5: unknown key `rnu`. Did you mean `run`?
flow.yaml:4:13: `needs` names a step that is not there: `b`. The steps are a.
2 problems; nothing was started.
"""
    assert (2, "", wanted) == (result.code, result.out, result.err)
    assert ["flow.yaml"] == [path.name for path in project.iterdir()]


def test_one_problem_and_its_hint(project: Path) -> None:
    """A line that says what is wrong, a line that says what to do; the path is as it was given."""
    folder = project / "flows"
    folder.mkdir()
    (folder / "a.yaml").write_text("steps:\n  - {id: a, run: x, timeout: 5 minutes}\n")
    result = call("run", "flows/a.yaml", "--check", cwd=project)
    first, second = result.err.splitlines()
    assert "leftoff: flows/a.yaml:2:30: timeout: `5 minutes` is not a duration" == first
    assert second.startswith("A duration is like 500ms, 2s, 30m")


def test_a_wrong_file_as_json(project: Path) -> None:
    """The error is a document too."""
    (project / "flow.yaml").write_text("stesp: []\n")
    result = call("run", "flow.yaml", "--check", "--json", cwd=project)
    assert 2 == result.code
    assert {
        "error": {
            "code": "bad_definition",
            "message": "flow.yaml:1:1: unknown key `stesp`",
            "hint": "Did you mean `steps`?",
        }
    } == result.json


@pytest.mark.parametrize("mode", ["--check", "--graph", "--fresh"])
def test_a_wrong_file_is_never_run(mode: str, project: Path) -> None:
    """The same is checked before anything starts."""
    (project / "flow.yaml").write_text("steps:\n  - {id: a, run: 'touch started {{ x }}'}\n")
    result = call("run", "flow.yaml", mode, cwd=project)
    assert (2, "leftoff: flow.yaml:2:36: `x` is not defined") == (result.code, result.err.splitlines()[0])
    assert not (project / "started").exists() and not (project / ".leftoff").exists()


def test_what_is_given(project: Path) -> None:
    """A variable that comes from outside is defined."""
    (project / "flow.yaml").write_text("steps:\n  - {id: a, run: 'echo {{ x }}'}\n")
    assert 2 == call("run", "flow.yaml", "--check", cwd=project).code
    assert 0 == call("run", "flow.yaml", "--check", "--var", "x=1", cwd=project).code


def test_doubts_are_told_and_change_nothing(project: Path) -> None:
    """On stderr, with their place; the file is right all the same."""
    more = "  - {id: by, python: 'm:f'}\n  - {id: last, run: 'echo {{ topc }}'}\n"
    (project / "flow.yaml").write_text(GOOD + more)
    result = succeed("run", "flow.yaml", "--check", cwd=project)
    told = "flow.yaml:12:30: `topc` is not under `vars`; an earlier step must set it. Did you mean `topic`?"
    assert f"leftoff: {told}\n" == result.err
    assert [told] == succeed("run", "flow.yaml", "--check", "--json", cwd=project).json["warnings"]


def test_no_such_file(project: Path) -> None:
    """Exit 3, and a folder is no file."""
    for name, what in (("nothing.yaml", "does not exist"), (".", "is a folder")):
        result = call("run", name, "--check", cwd=project)
        assert 3 == result.code and f"The file {name} {what}." in result.err


@pytest.mark.parametrize("words", [["--check", "--graph"], ["--resume", "--fresh"], ["--var", "x"]])
def test_wrong_usage(words: list[str], flow: Path, project: Path) -> None:
    """Options that exclude each other, and a variable without a value."""
    assert 2 == call("run", "flow.yaml", *words, cwd=project).code
    assert not (project / ".leftoff").exists()


def test_no_control_character_reaches_the_terminal(project: Path) -> None:
    """Whatever a file says is shown in visible characters."""
    (project / "flow.yaml").write_text('steps:\n  - {id: a, run: x, "\\e[31mred": 1}\n')
    result = call("run", "flow.yaml", "--check", cwd=project)
    assert 2 == result.code and "\x1b" not in result.err and "[31mred" in result.err


def test_the_last_event_has_the_exit_code(tmp_path: Path) -> None:
    """However it ends: completed, failed (also by a check), waiting, asked about, refused, nothing left to do."""
    flows = {
        "good": [{"id": "a", "run": "true"}],
        "bad": [
            {"id": "a", "run": "echo a > a", "outputs": ["a"]},
            {"id": "b", "run": "false", "needs": ["a"]},
        ],
        "checked": [{"id": "a", "run": "true", "checks": ["false"]}],
        "asks": [{"id": "a", "approval": "Well?"}],
    }
    for name, steps in flows.items():
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"name": name, "steps": steps}))

    def ends(*words: str) -> tuple[int, int, set[str]]:
        done = call(*words, "--json", cwd=tmp_path)
        last = json.loads(done.out.splitlines()[-1])
        assert "end" == last["event"] and last["run"]["run_id"], str(done)
        return done.code, last["exit"], set(last) - {"event", "exit", "run"}

    told = {"rejected", "logged"}
    assert (0, 0, set()) == ends("run", "good.yaml", "--run-id", "good")
    assert (1, 1, told) == ends("run", "bad.yaml", "--run-id", "bad")
    assert (1, 1, told) == ends("run", "checked.yaml", "--run-id", "checked")
    assert (7, 7, told) == ends("run", "asks.yaml", "--run-id", "asks")
    assert (1, 1, told) == ends("resume", "checked")
    assert (7, 7, told) == ends("resume", "asks")
    (tmp_path / "a").unlink()
    assert (7, 7, set()) == ends("resume", "bad")
    succeed("finish", "--status", "abandoned", "--run", "bad", cwd=tmp_path)
    assert (6, 6, set()) == ends("resume", "bad")
    code, same, more = ends("resume", "good")
    assert (0, 0) == (code, same) and {"brief", "run_id", "status"} <= more
