"""`matrix:` and `key:`: items that are combinations, and what items are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.workflow.flows import lines

MATRIX = """\
name: m
vars: {pythons: ["3.11", "3.12"]}
steps:
  - id: build
    matrix: {system: [linux, mac], python: pythons}
    when: not (matrix.system == 'mac' and matrix.python == '3.11')
    run: echo {{ matrix.system }} {{ matrix.python }} >> out
"""


def statuses(place: Path) -> dict[str, str]:
    shown = succeed("show", "latest", "--json", cwd=place).json
    return {one["step"]: one["status"] for one in shown["step_records"]}


def test_every_combination(tmp_path: Path) -> None:
    """An item each, called by its values; `when` leaves some out; a failed one is tried again alone."""
    (tmp_path / "f.yaml").write_text(MATRIX)
    succeed("run", "f.yaml", cwd=tmp_path)
    assert {
        "build": "completed", "build/linux-3.11": "completed", "build/linux-3.12": "completed",
        "build/mac-3.11": "skipped", "build/mac-3.12": "completed",
    } == statuses(tmp_path)  # fmt: skip
    assert ["linux 3.11", "linux 3.12", "mac 3.12"] == sorted(lines(tmp_path, "out"))


@pytest.mark.parametrize(
    ("key", "names"),
    [("n", ["each/a", "each/b"]), ("'{{ item.n }}-{{ item.u }}'", ["each/a-x", "each/b-y"])],
)
def test_what_items_are_called(tmp_path: Path, key: str, names: list[str]) -> None:
    """By something in them, or by a template."""
    step = "{id: each, foreach: [{n: a, u: x}, {n: b, u: y}], key: %s, run: 'echo {{ item.u }}'}"
    (tmp_path / "f.yaml").write_text(f"steps:\n  - {step % key}\n")
    succeed("run", "f.yaml", cwd=tmp_path)
    assert ["each", *names] == sorted(statuses(tmp_path))


def test_a_key_tells_items_apart(tmp_path: Path) -> None:
    """Two with the same are an error, not a guess."""
    (tmp_path / "f.yaml").write_text(
        "steps:\n  - {id: each, foreach: [{n: a}, {n: a}], key: n, run: 'true'}\n"
    )
    done = call("run", "f.yaml", cwd=tmp_path)
    assert (1, True) == (done.code, "two items have the key 'a'" in done.out)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("{id: a, run: x, matrix: [1]}", "`matrix` must be a mapping of names to lists, not a list"),
        ("{id: a, run: x, matrix: {b: 1}}", "`b` must be a list, not `1`"),
        ("{id: a, run: x, matrix: {b: [1]}, foreach: [1]}", "`foreach` and `matrix` at once"),
        ("{id: a, run: x, key: b}", "`key` without `foreach`"),
        ("{id: a, run: 'echo {{ matrix.b }} {{ item }}', matrix: {b: [1]}}", "`item` is not defined"),
        ("{id: a, run: x, matrix: {b: nothing}}", "`nothing` is not defined"),
    ],
)
def test_wrong(tmp_path: Path, step: str, told: str) -> None:
    """One problem each, with its place."""
    (tmp_path / "f.yaml").write_text(f"steps:\n  - {step}\n")
    done = call("run", "f.yaml", "--check", cwd=tmp_path)
    assert 2 == done.code
    assert done.err.startswith("leftoff: f.yaml:2:")
    assert told in done.err
