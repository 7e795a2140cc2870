"""The process of a `python:` step: a function, its arguments, its result, and what can be wrong with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """import collections, dataclasses, datetime

import asyncio, os, sys

class Builder:
    @staticmethod
    def build(): return "built"

VALUE = 3

def add(a, b=2): return {"sum": a + b}
def nothing(): print("hello")
@dataclasses.dataclass
class Page: name: str; size: tuple
def kinds(): return Page("a", (1, 2)), {3, 1}, datetime.date(2026, 1, 2), collections.Counter("aab")
def odd(): return {"x": open(os.devnull)}
def fails(): raise ValueError("no such thing")
def leaves(): sys.exit(5)
async def later(n): await asyncio.sleep(0); return n + 1
def where(): return [os.getcwd(), sys.argv]
def prints(): print("a line"); os._exit(0)
"""


@pytest.fixture
def place(project: Path) -> Path:
    (project / "tools").mkdir()
    (project / "tools" / "index.py").write_text(MODULE)
    (project / "tools" / "broken.py").write_text("import json\nimport nowhere_to_be_found\n")
    (project / "tools" / "wrong.py").write_text("x = 1 +\n")
    (project / "work").mkdir()
    return project


class Called:
    def __init__(self, code: int, out: str, error: str, result: object) -> None:
        self.code = code
        self.out = out
        self.error = error
        self.result = result


def call(place: Path, target: str, given: object = None, *, cwd: str = "work") -> Called:
    env = {**os.environ, "LEFTOFF_PROJECT": str(place), "LEFTOFF_RESULT": str(place / "result")}
    if given is not None:
        env["LEFTOFF_ARGS"] = given if isinstance(given, str) else json.dumps(given)
    words = [sys.executable, "-m", "leftoff.workflow.python_step", *target.split(" ")]
    done = subprocess.run(words, cwd=place / cwd, env=env, capture_output=True, text=True, timeout=60)
    left = place / "result"
    result = json.loads(left.read_text()) if left.exists() else None
    return Called(done.returncode, done.stdout, done.stderr, result)


def test_a_function_with_arguments(place: Path) -> None:
    """It is called with what is given, and its result is kept as JSON."""
    assert (0, {"sum": 7}) == ((done := call(place, "tools.index:add", {"a": 3, "b": 4})).code, done.result)
    assert {"sum": 5} == call(place, "tools.index:add", {"a": 3}).result
    assert ["result", "tools", "work"] == sorted(os.listdir(place))


def test_arguments_in_a_file(place: Path) -> None:
    """What is too large for an environment comes in a file."""
    (place / "args").write_text('{"a": 1}')
    assert {"sum": 3} == call(place, "tools.index:add", f"@{place / 'args'}").result


def test_a_function_without_a_result(place: Path) -> None:
    """None leaves nothing."""
    done = call(place, "tools.index:nothing")
    assert (0, "hello\n", None, False) == (done.code, done.out, done.result, (place / "result").exists())


def test_methods_and_coroutines(place: Path) -> None:
    assert "built" == call(place, "tools.index:Builder.build").result
    assert 5 == call(place, "tools.index:later", {"n": 4}).result


def test_where_it_runs(place: Path) -> None:
    """In the folder of the step, with the project's modules to be found from anywhere."""
    assert [str(place / "work"), ["tools.index:where"]] == call(place, "tools.index:where").result


def test_lines_are_shown_as_they_are_printed(place: Path) -> None:
    """Output does not wait in a buffer that a sudden end would lose."""
    assert "a line\n" == call(place, "tools.index:prints").out


def test_an_error_of_the_function(place: Path) -> None:
    """Exit code 1, and a traceback."""
    done = call(place, "tools.index:fails")
    assert (1, None) == (done.code, done.result)
    assert done.error.startswith("Traceback (most recent call last):\n  File ")
    assert done.error.endswith("ValueError: no such thing\n")
    assert "tools/index.py" in done.error


def test_an_exit_of_the_function(place: Path) -> None:
    assert 5 == call(place, "tools.index:leaves").code


def one_line(done: Called, code: int) -> str:
    """What is wrong with a call takes one line, and no traceback."""
    assert code == done.code, done.error
    (line,) = done.error.splitlines()
    assert line.startswith("leftoff: ")
    return line


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere.index:add", ["no module 'nowhere'", "nowhere.index:add"]),
        ("tools.index:ad", ["has no 'ad'"]),
        ("tools.index:Builder.bild", ["Builder has no 'bild'"]),
        ("tools.index:VALUE", ["is int, which cannot be called"]),
        ("tools.index", ["names no function", "tools.index:build"]),
        ("a b", ["names no function"]),
    ],
)
def test_what_is_not_there(place: Path, target: str, words: list[str]) -> None:
    """127, and a line that names it."""
    line = one_line(call(place, target), 127)
    assert [] == [word for word in words if word not in line]


def test_arguments_that_do_not_fit(place: Path) -> None:
    assert "unexpected keyword argument 'c'" in one_line(call(place, "tools.index:add", {"a": 1, "c": 2}), 1)
    assert "missing a required argument: 'a'" in one_line(call(place, "tools.index:add"), 1)
    assert "LEFTOFF_ARGS is not a JSON object" in one_line(call(place, "tools.index:add", [1]), 1)
    assert "LEFTOFF_ARGS cannot be read" in one_line(call(place, "tools.index:add", "{"), 1)
    assert "LEFTOFF_ARGS cannot be read" in one_line(call(place, "tools.index:add", "@/nowhere"), 1)


def test_a_module_that_does_not_load(place: Path) -> None:
    """What is wrong inside of a module is shown as Python shows it: the module itself is there."""
    done = call(place, "tools.broken:x")
    assert (1, True) == (done.code, done.error.endswith("No module named 'nowhere_to_be_found'\n"))
    done = call(place, "tools.wrong:x")
    assert (1, True) == (done.code, "SyntaxError" in done.error)


def test_a_result_is_the_json_that_comes_nearest(place: Path) -> None:
    """What Python code may keep, a step may return: no work is lost for the type of what it gives."""
    done = call(place, "tools.index:kinds")
    assert (0, "") == (done.code, done.error)
    assert [{"name": "a", "size": [1, 2]}, [1, 3], "2026-01-02", {"a": 2, "b": 1}] == done.result


def test_a_result_that_cannot_be_kept(place: Path) -> None:
    """It is refused with the path of what cannot be kept; as text it stands in the log."""
    done = call(place, "tools.index:odd")
    returned, refused = done.error.splitlines()
    assert 1 == done.code and "tools.index:odd returned: {'x': <_io.TextIOWrapper" in returned
    assert "what tools.index:odd returned cannot be kept: " in refused and "result.x" in refused
    assert not (place / "result").exists()


def test_a_result_that_cannot_be_written(place: Path) -> None:
    (place / "result.new").mkdir()
    assert "cannot be written" in one_line(call(place, "tools.index:add", {"a": 1}), 1)
