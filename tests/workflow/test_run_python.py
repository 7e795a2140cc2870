"""`python:` steps: a function of the project, called in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.workflow.flows import lines, run

TOOLS = """
import os, sys

def build(name="nobody", count=0, **more):
    print("building", name)
    return {"name": name, "count": count + 1, "more": more}

def nothing():
    pass

def fails():
    print("before")
    raise ValueError("the data is wrong")

def bad():
    return object()

def sets():
    with open(os.environ["LEFTOFF_VARS"], "a") as file:
        print("from_python=5", file=file)
    return os.getcwd()

def leaves():
    sys.exit(3)

class Holder:
    @staticmethod
    def method(n):
        return n * 2

not_callable = 5
"""


@pytest.fixture
def tools(project: Path) -> Path:
    (project / "tools").mkdir()
    (project / "tools/__init__.py").touch()
    (project / "tools/index.py").write_text(TOOLS)
    (project / "broken.py").write_text("import no_such_module_at_all\n")
    return project


def test_what_it_returns_is_its_result(tools: Path) -> None:
    """The function gets its arguments as they are; what it returns is the step's result, for later steps too."""
    ran = run(
        tools,
        """
        name: python
        vars: {n: 4, who: "ad'a"}
        steps:
          - id: build
            python: tools.index:build
            with: {name: "{{ who }}!", count: "{{ n }}", list: [1, "{{ n }}", {deep: "{{ [n, n] }}"}], flag: true}
          - {id: nothing, python: "tools.index:nothing"}
          - {id: method, python: "tools.index:Holder.method", with: {n: "{{ results.build.count }}"}}
          - {id: sets, python: "tools.index:sets"}
          - {id: use, run: "echo {{ results.build.name }} {{ results.method }} {{ from_python }} > seen"}
        """,
    )
    steps = ran.steps()
    expected = {
        "name": "ad'a!",
        "count": 5,
        "more": {"list": [1, 4, {"deep": [4, 4]}], "flag": True},
    }
    assert (expected, None, 10) == tuple(steps[path]["result"] for path in ("build", "nothing", "method"))
    assert str(tools) == steps["sets"]["result"]
    assert ["ad'a! 10 5"] == lines(tools, "seen")


FAILS = {
    "tools.index:fails": "ValueError: the data is wrong",
    "tools.index:bad": "JSON",
    "tools.index:no_such": "no_such",
    "tools.no_such:build": "no_such",
    "tools.index:not_callable": "not_callable",
    "tools.index:leaves": "exit code 3",
    "broken:build": "no_such_module_at_all",
}


def test_how_it_fails_is_said(tools: Path) -> None:
    """What is raised, not there, or returned and not JSON: the step fails, and its last lines say why."""
    steps = "".join(f'  - {{id: s{n}, python: "{function}"}}\n' for n, function in enumerate(FAILS))
    ran = run(tools, f"name: python\ndefaults: {{on_failure: continue}}\nsteps:\n{steps}", code=1)
    for record, said in zip(ran.steps().values(), FAILS.values(), strict=True):
        error = record["error"]
        assert said in error["message"] + error.get("tail", ""), error
        assert record["result"] is None


def test_large_arguments(tools: Path) -> None:
    """Arguments larger than an environment may be reach the function, and its result is kept."""
    text = "x" * 300_000
    ran = run(
        tools,
        f'name: python\nvars: {{text: {json.dumps(text)}}}\nsteps:\n  - id: a\n    python: "tools.index:build"\n'
        '    with: {name: "{{ text }}"}\n',
    )
    assert text == ran.steps()["a"]["result"]["name"]


def test_a_secret_in_a_result_is_there_for_this_process_only(tools: Path) -> None:
    """A later step of the same process may use it; a resumed run is told that it is not there, and gets no stand-in."""
    (tools / "tools/login.py").write_text(
        "def login():\n    return {'user': 'ada', 'password': 'hunter2hunter2'}\n"
    )
    ran = run(
        tools,
        """
        name: python
        steps:
          - {id: login, python: "tools.login:login"}
          - {id: use, run: "echo {{ results.login.user }} {{ results.login.password }} >> seen; test -e ready"}
        """,
        code=1,
    )
    assert ["ada hunter2hunter2"] == lines(tools, "seen")
    (tools / "ready").touch()
    again = call("resume", ran.id, cwd=tools)
    assert 7 == again.code and "variables.redacted" in again.err
    assert ["ada hunter2hunter2"] == lines(tools, "seen")
    again = call("resume", ran.id, "--accept", "variables.redacted", cwd=tools)
    assert 1 == again.code
    assert "password" in ran.steps()["use"]["error"]["message"]
    assert ["ada hunter2hunter2"] == lines(tools, "seen")


def test_a_module_called_like_one_of_pythons(tools: Path) -> None:
    """Is not in our way: a project may have a `types.py`, which its function may not even mean."""
    for name in ("types", "json", "runpy", "leftoff"):
        (tools / f"{name}.py").write_text(f"raise SystemExit('this is {name}.py of the project')")
    (tools / "site").mkdir()
    (tools / "site" / "near.py").write_text("def here(): return 'found'")
    near = "{id: b, python: 'near:here', cwd: site}"
    ran = run(tools, f"name: flow\nsteps:\n  - {{id: a, python: 'tools.index:build'}}\n  - {near}\n")
    assert ("nobody", "found") == (ran.steps()["a"]["result"]["name"], ran.steps()["b"]["result"])


def test_its_output_is_in_the_log(tools: Path) -> None:
    """What the function prints is in the step's log, like that of a command."""
    ran = run(tools, 'name: python\nsteps: [{id: a, python: "tools.index:build"}]\n')
    assert "building nobody\n" == succeed("logs", ran.id, "a", cwd=tools).out
