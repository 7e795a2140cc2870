"""The tests' own server, and a project on it for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres.proxy import Proxy
from tests.postgres.server import Server, shared

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests of a run."""
    found, held = shared(os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid()))
    yield found
    os.close(held)


@pytest.fixture
def name(server: Server) -> Iterator[str]:
    """The name of a project of its own, dropped behind the test."""
    project = f"t{os.getpid()}-{next(_numbers)}"
    yield project
    drop(server, project)


@pytest.fixture
def url(server: Server, name: str) -> str:
    """Where that project is."""
    return server.url(name)


@pytest.fixture(params=["folder", "server"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of either kind, for what must hold of both: import this and ``server``, ``name`` and ``url``."""
    return str(tmp_path / ".leftoff") if request.param == "folder" else request.getfixturevalue("url")


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """What stands between a test and the server, and can do what networks do."""
    between = Proxy(server.folder)
    yield between
    between.close()


def drop(server: Server, project: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(f'DROP SCHEMA IF EXISTS "leftoff_{project}" CASCADE'.encode())
