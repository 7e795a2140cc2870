"""One store under several URLs: what this machine knows of its steps is found by each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import succeed
from tests.postgres.conftest import drop
from tests.postgres.pooler import Pooler
from tests.postgres.server import Server
from tests.workflow.driving import Flow, mark, wait


@pytest.fixture(params=["another host and port", "the port in the query"])
def other(server: Server, name: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Another URL of the same store."""
    if request.param == "another host and port":
        pooler = Pooler(server.folder)
        yield pooler.url(name)
        pooler.close()
    else:
        yield server.url(name, port="5432")


def folder(project: Path, url: str) -> str:
    """The folder of this machine, as `store info` reports it."""
    return str(succeed("store", "info", "--json", cwd=project, LEFTOFF_STORE=url).json["folder"])


def test_a_step_that_outlived_its_driver_is_not_run_again(project: Path, url: str, other: str) -> None:
    """Its driver was killed, it ended well, and the run is resumed with another URL."""
    flow = Flow(project)
    flow.write(
        f"name: f\nsteps:\n  - id: a\n    run: {mark('a')}; {wait()}\n  - id: b\n    run: {mark('b')}\n"
    )
    driver = flow.run(env={"LEFTOFF_STORE": url})
    flow.started("a")
    driver.kill()
    flow.file("gate")
    flow.gone()
    flow.resume(env={"LEFTOFF_STORE": other}).end(0)
    assert (1, 1) == (len(flow.starts("a")), len(flow.starts("b")))
    assert folder(project, url) == folder(project, other)


def test_a_step_that_still_runs_is_followed(project: Path, url: str, other: str) -> None:
    """It is resumed with another URL while the step is at work: how that ends is known."""
    flow = Flow(project)
    flow.write(f"name: f\nsteps:\n  - id: a\n    run: {mark('a')}; {wait()}\n")
    driver = flow.run(env={"LEFTOFF_STORE": url})
    flow.started("a")
    driver.kill()
    second = flow.resume(env={"LEFTOFF_STORE": other})
    second.until("plan")
    flow.file("gate")
    second.end(0)
    assert 1 == len(flow.starts("a"))


def test_a_store_in_the_same_database_has_another_folder(
    project: Path, server: Server, url: str, name: str
) -> None:
    """Projects are stores of their own, and so is one that takes the place of another."""
    beside = f"{name}-b"
    try:
        for each in (url, server.url(beside)):
            succeed("start", "work", "--run-id", "r", cwd=project, LEFTOFF_STORE=each)
        first = folder(project, url)
        assert first != folder(project, server.url(beside))
    finally:
        drop(server, beside)
    drop(server, name)
    succeed("start", "work", "--run-id", "r", cwd=project, LEFTOFF_STORE=url)
    assert first != folder(project, url)
