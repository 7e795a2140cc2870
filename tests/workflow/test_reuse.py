"""Steps that an earlier run has: taken from there where command, inputs, environment and outputs are as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed

FLOW = """\
name: f
vars: {day: mon}
steps:
  - {id: a, run: 'echo {{ day }} > a.txt; echo a >> log; echo n=3 >> "$LEFTOFF_VARS"', outputs: [a.txt]}
  - {id: b, run: 'cat a.txt src.txt > b.txt; echo b{{ n }} >> log', inputs: [src.txt], env: {E: x}, outputs: [b.txt]}
  - {id: c, needs: [a], foreach: [1, 2], run: 'echo c >> log'}
  - {id: d, needs: [b], run: 'echo d >> log'}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project in which the workflow ran once."""
    (tmp_path / "f.yaml").write_text(FLOW)
    (tmp_path / "src.txt").write_text("s")
    succeed("run", "f.yaml", "--run-id", "first", "--max-parallel", "1", cwd=tmp_path)
    assert ["a", "b3", "c", "c", "d"] == sorted(log(tmp_path))
    return tmp_path


def log(place: Path) -> list[str]:
    """What ran since this was last asked."""
    lines = (place / "log").read_text().split() if (place / "log").exists() else []
    (place / "log").write_text("")
    return lines


def again(place: Path, *words: str) -> dict[str, str]:
    """The plan, by step; then the run, which does what the plan says."""
    plan = succeed("run", "f.yaml", "--reuse", "--dry-run", "--json", *words, cwd=place).json["plan"]
    assert [] == log(place)
    succeed("run", "f.yaml", "--reuse", *words, cwd=place)
    return {one["step"]: f"{one['action']}: {one['why']}" for one in plan}


def test_nothing_changed(place: Path) -> None:
    """Nothing runs; variables, outputs and items are those of the earlier run."""
    assert {path: "skip: as in first" for path in ("a", "b", "c/1", "c/2", "d")} == again(place)
    assert [] == log(place)
    shown = succeed("show", "latest", "--json", cwd=place).json
    assert ("completed", 3, 5) == (shown["status"], shown["variables"]["n"], shown["steps"]["completed"])
    assert ["a.txt"] == next(one for one in shown["step_records"] if one["step"] == "a")["outputs"]


def test_without_the_option_everything_runs(place: Path) -> None:
    """As ever; and the plan says so."""
    plan = succeed("run", "f.yaml", "--dry-run", "--json", cwd=place).json["plan"]
    assert {"run"} == {one["action"] for one in plan}
    succeed("run", "f.yaml", cwd=place)
    assert 5 == len(log(place))


@pytest.mark.parametrize(
    ("change", "why", "ran"),
    [
        (("src.txt", "other"), ("b", "run: input src.txt changed"), ["b3", "d"]),
        (("a.txt", "mine"), ("a", "run: a.txt is not as it was left"), ["a"]),
        (("f.yaml", FLOW.replace("E: x", "E: y")), ("b", "run: its environment changed"), ["b3"]),
        (("f.yaml", FLOW.replace("echo d", "echo  d")), ("d", "run: its command changed"), ["d"]),
        (
            ("f.yaml", FLOW + "  - {id: e, run: 'echo e >> log'}\n"),
            ("e", "run: it has not been done before"),
            ["e"],
        ),
    ],
)
def test_what_changed_runs_again(
    place: Path, change: tuple[str, str], why: tuple[str, str], ran: list[str]
) -> None:
    """That step, and those after it whose inputs are others for it: content decides, not time."""
    (place / change[0]).write_text(change[1])
    assert why[1] == again(place)[why[0]]
    assert ran == log(place)


def test_another_value(place: Path) -> None:
    """A value that stands in the command is part of it."""
    plan = again(place, "--var", "day=tue")
    assert ("run: its command changed", "run: a, which it needs, would run") == (plan["a"], plan["b"])
    assert ["a", "b3", "c", "c", "d"] == sorted(log(place))


def test_outputs_come_back(place: Path) -> None:
    """From the copies that are kept."""
    (place / "a.txt").unlink()
    (place / "b.txt").unlink()
    assert "skip: as in first; b.txt is brought back" == again(place)["b"]
    assert ([], "mon\n", "mon\ns") == (
        log(place),
        (place / "a.txt").read_text(),
        (place / "b.txt").read_text(),
    )


@pytest.mark.damages_store
def test_outputs_without_a_sound_copy(place: Path) -> None:
    """What cannot be brought back as it was is made again."""
    (place / "a.txt").unlink()
    for copy in (path for path in (place / ".leftoff/blobs").rglob("*") if path.is_file()):
        copy.chmod(0o600)
        copy.write_bytes(b"rubbish")
    plan = again(place)
    assert "run: a.txt is missing, and no copy of it is kept" == plan["a"]
    assert "a" in log(place) and "mon\n" == (place / "a.txt").read_text()


def test_a_step_with_its_own_word(tmp_path: Path) -> None:
    """`cache: true` needs no option, `cache: false` takes none."""
    step = "  - {id: %s, cache: %s, run: 'echo %s >> log'}\n"
    (tmp_path / "f.yaml").write_text("steps:\n" + step % ("a", "true", "a") + step % ("b", "false", "b"))
    for words, ran in (([], ["a", "b"]), ([], ["b"]), (["--reuse"], ["b"])):
        succeed("run", "f.yaml", *words, cwd=tmp_path)
        assert ran == log(tmp_path)


def test_a_failed_step_is_not_taken(tmp_path: Path) -> None:
    """Only what was completed; what was completed of a run that failed is."""
    (tmp_path / "f.yaml").write_text(
        "steps: [{id: a, run: 'echo a >> log'}, {id: b, run: 'echo b >> log; test -e ok'}]\n"
    )
    assert 1 == call("run", "f.yaml", cwd=tmp_path).code
    (tmp_path / "ok").touch()
    log(tmp_path)
    succeed("run", "f.yaml", "--reuse", "--fresh", cwd=tmp_path)
    assert ["b"] == log(tmp_path)


def test_an_input_that_is_not_there(tmp_path: Path) -> None:
    """Known before anything runs; where a step could have written it, when its turn comes."""
    path = tmp_path / "f.yaml"
    path.write_text("steps: [{id: a, run: cat x, inputs: [x]}, {id: b, run: 'true'}]\n")
    done = call("run", "f.yaml", cwd=tmp_path)
    assert (2, True) == (done.code, "f.yaml:1:9: a: nothing is there for the input x." in done.err)
    path.write_text("steps: [{id: a, run: 'true'}, {id: b, run: cat x, inputs: ['x*']}]\n")
    done = call("run", "f.yaml", cwd=tmp_path)
    assert (1, True) == (done.code, "nothing is there for the input x*" in done.out + done.err)


def test_a_plan_makes_no_store(tmp_path: Path) -> None:
    """--dry-run changes nothing."""
    (tmp_path / "f.yaml").write_text(FLOW)
    (tmp_path / "src.txt").write_text("s")
    done: Any = succeed("run", "f.yaml", "--reuse", "--dry-run", cwd=tmp_path)
    assert "run   a  it has not been done before" in done.out
    assert ["f.yaml", "src.txt"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_run_from_elsewhere_is_not_taken(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What somebody else says was done decides nothing here; unless all of it is trusted."""
    other = tmp_path_factory.mktemp("other")
    succeed("export", "first", "-o", str(other / "b.leftoff"), cwd=place)
    for name in ("f.yaml", "src.txt"):
        (other / name).write_text((place / name).read_text())
    succeed("import", "b.leftoff", cwd=other)
    plan = succeed("run", "f.yaml", "--reuse", "--dry-run", "--json", cwd=other).json["plan"]
    assert "it has not been done before" == plan[0]["why"]
    plan = succeed("run", "f.yaml", "--reuse", "--dry-run", "--json", "--trust", cwd=other).json["plan"]
    assert "as in first; a.txt is brought back" == plan[0]["why"]


def test_nobody_else_says_what_may_be_taken(place: Path) -> None:
    """A record that is put has no say in it."""
    record = succeed("get", "step/a", "first", "--json", cwd=place).json
    succeed("start", "f", "--run-id", "forged", cwd=place)
    value = json.dumps({"status": "completed", "cache": record.get("cache"), "outputs": []})
    call("put", "step", "a", value, "--run", "forged", cwd=place)
    plan = succeed("run", "f.yaml", "--reuse", "--dry-run", "--json", cwd=place).json["plan"]
    assert "as in first" == plan[0]["why"]
