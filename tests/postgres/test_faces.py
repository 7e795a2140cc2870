"""What any face does on a server leaves the records that the first face leaves in a folder: the table of the parity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from leftoff.clock import Clock
from leftoff.engine import project
from leftoff.files import make_folder
from leftoff.operations import store_upkeep
from leftoff.store.base import SqlStore
from leftoff.store.postgres import PostgresStore
from tests.parity.operations import Case
from tests.parity.playing import Face
from tests.parity.records import Flat
from tests.parity.test_parity import CELLS, Play, faces, waiting
from tests.parity.test_parity import played as in_folder  # noqa: F401
from tests.parity.test_parity import repository as repository
from tests.parity.test_parity import test_a_face_leaves_the_same_records as compare
from tests.postgres.conftest import drop
from tests.postgres.server import Server


class Placed(PostgresStore):
    """One whose folder of this machine is where a test looks."""

    folder = ""

    def _settle(self) -> None:
        make_folder(self.folder)
        self._there = True


class Servers:
    """Opens a store on the server wherever one in a folder is asked for, once that is wanted."""

    def __init__(self, server: Server, name: str) -> None:
        self.wanted = False
        self.made: dict[str, str] = {}
        self._server, self._name, self._open = server, name, project.open_store_at

    def open(self, location: str, clock: Clock | None = None) -> SqlStore:
        if not self.wanted or "://" in location or "leftoff-" in location:  # of what is looked at aside
            return self._open(location, clock)
        name = self.made.setdefault(location, f"{self._name}-{len(self.made)}")
        store = Placed(self._server.url(name), "", clock)
        store.folder = store.name = store.place.name = location  # what a face shows, and where its test looks
        return store


@pytest.fixture
def servers(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    made = Servers(server, name)
    for module in (project, store_upkeep):
        monkeypatch.setattr(module, "open_store_at", made.open)
    yield made
    for each in made.made.values():
        drop(server, each)


@pytest.fixture
def played(in_folder: Play, servers: Servers) -> Play:  # noqa: F811
    """The first face in a folder, every other one on the server."""

    def inner(face: type[Face], case: Case) -> Flat:
        servers.wanted = face is not faces(case)[0]
        return in_folder(face, case)

    return inner


SAMPLE = 60  # one of so many is played by every test run


def _cells() -> list[Any]:
    """All of them for the full matrix."""
    return [
        pytest.param(
            case,
            face,
            id=f"{face.name}: {case.name}",
            marks=[*waiting(case, face), *([pytest.mark.crash_full] if number % SAMPLE else [])],
        )
        for number, (case, face) in enumerate(CELLS)
    ]


@pytest.mark.parametrize(("case", "face"), _cells())
def test_a_face_on_a_server(case: Case, face: type[Face], played: Play) -> None:
    """Every record, now and at each checkpoint, is what the first face left in a folder."""
    compare(case, face, played)
