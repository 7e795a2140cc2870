"""A look at a server may be lost half way, and begins again: nothing of the first one stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leftoff.store.base import View
from leftoff.store.postgres import PostgresStore
from tests.cli.command import call, succeed
from tests.seams import SEAMS

REPORTS = (
    "start site --run-id r-1 --steps a,b",
    "set x=1",
    "artifact flow.yaml",
    "step done a --output flow.yaml",
    "save",
)
VERBS = (
    "ls",
    "show r-1",
    "log r-1",
    "diff r-1@1 r-1",
    "verify r-1",
    "fsck",
    "prune --dry-run",
    "export r-1 -o run.leftoff",
    "cat r-1:flow.yaml",
    "get",
)


@pytest.mark.parametrize("verb", VERBS)
def test_a_look_that_begins_again(
    project: Path, url: str, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Who looks twice finds what he finds once."""
    (project / "flow.yaml").write_text("name: f\nsteps: []\n")
    for line in REPORTS:
        succeed(*line.split(), cwd=project, LEFTOFF_STORE=url)

    def say() -> tuple[int, str, bytes]:
        done = call(*verb.split(), "--json", cwd=project, LEFTOFF_STORE=url)
        made = project / "run.leftoff"
        return done.code, done.out, made.read_bytes() if made.exists() else b""

    once = say()
    looks = PostgresStore._look
    lost = []

    def looked(store: PostgresStore, fn: Callable[[View], Any]) -> Any:
        lost.append(looks(store, fn))
        return looks(store, fn)

    monkeypatch.setattr(SEAMS["PostgresStore._look"], looked)
    assert once == say()
    assert lost
