"""The same operation leaves the same records, whichever face it came through."""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parity.allowed import ALLOWED, OF_A_FACE, WAITING
from tests.parity.by_command import Command, by_command
from tests.parity.by_functions import Functions
from tests.parity.by_hooks import Hooks
from tests.parity.by_mcp import Mcp
from tests.parity.by_page import Page
from tests.parity.by_python import Python
from tests.parity.by_runner import Runner
from tests.parity.operations import Case
from tests.parity.playing import Face, git
from tests.parity.records import Flat, answer, differences, place_in, told
from tests.parity.table import CASES

FACES: tuple[type[Face], ...] = (Command, Mcp, Page, Python, Hooks, Runner, Functions)


def faces(case: Case) -> list[type[Face]]:
    """Who plays a case; the first is whom the others are compared with."""
    able = [
        face for face in FACES if face.takes_operations and all(op.anyhow or face.can(op) for op in case.ops)
    ]
    return [
        face
        for face in FACES
        if (face in able or face.name in case.scripts)
        and face.name not in case.without
        and (not face.worth or any(op.verb in face.worth for op in case.ops))
    ]


CELLS = [(case, face) for case in CASES for face in faces(case)[1:]]


def play(face: type[Face], case: Case, folder: Path) -> Flat:
    """One face plays a case; all that can be seen of it afterwards, and the answers that it gave."""
    player = face(folder)
    answers: Flat = {}
    try:
        if face.name in case.scripts:
            player.script(case.scripts[face.name])
        else:
            for number, op in enumerate(case.ops):
                found = player.play(op) if face.can(op) else by_command(player, op)
                answers.update(answer(f"answer {number} to {op.verb}", found, folder))
        return {**answers, **told(folder, player.run_id)}
    finally:
        player.end()


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with one commit."""
    folder = tmp_path_factory.mktemp("git")
    git(folder, "init -q -b trunk")
    git(folder, "commit -q --allow-empty -m first")
    return folder


Play = Callable[[type[Face], Case], Flat]
_KNOWN: dict[str, Flat] = {}


@pytest.fixture
def played(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Play a case in a new project."""

    def inner(face: type[Face], case: Case) -> Flat:
        folder = tmp_path / face.name
        if case.git:
            shutil.copytree(repository, folder)
        else:
            folder.mkdir()
        if case.toml:
            (folder / "leftoff.toml").write_text(case.toml)
        monkeypatch.chdir(folder)
        for name, value in case.env.items():
            monkeypatch.setenv(name, value)
        return play(face, case, folder)

    return inner


def matches(place: str, pattern: str) -> bool:
    """Whether a difference is the one that a pattern names: at its place, or in the same record of a checkpoint."""
    return fnmatch.fnmatchcase(place, pattern) or fnmatch.fnmatchcase(place_in(place), pattern)


def waiting(case: Case, face: type[Face]) -> list[pytest.MarkDecorator]:
    reason = WAITING.get((case.name, face.name))
    return [pytest.mark.xfail(strict=True, reason=reason)] if reason else []


@pytest.mark.parametrize(
    ("case", "face"),
    [pytest.param(*cell, id=f"{cell[1].name}: {cell[0].name}", marks=waiting(*cell)) for cell in CELLS],
)
def test_a_face_leaves_the_same_records(case: Case, face: type[Face], played: Play) -> None:
    """Every record, now and at each checkpoint, is what the first face left, but for what the table allows."""
    if case.name not in _KNOWN:
        _KNOWN[case.name] = played(faces(case)[0], case)
    found = differences(_KNOWN[case.name], played(face, case))
    own = ALLOWED.get((case.name, face.name), {})
    patterns = [*OF_A_FACE.get(face.name, {}), *own]
    lines = [
        f"{place}: {both[0]!r}, by {face.name} {both[1]!r}"
        for place, both in found.items()
        if not any(matches(place, pattern) for pattern in patterns)
    ]
    assert not lines, "\n".join(lines)
    unused = [pattern for pattern in own if not any(matches(place, pattern) for place in found)]
    assert [] == unused, "these differences are gone: take them out of the table"


def test_what_the_table_says_of_cells_is_about_some() -> None:
    """A cell that is excepted, or waited for, is one that is played."""
    cells = {(case.name, face.name) for case, face in CELLS}
    assert set() == {*ALLOWED, *WAITING} - cells
    assert len(CASES) == len({case.name for case in CASES})
