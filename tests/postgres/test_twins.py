"""Machines of one image have one name and one id: what a driver on the other one does is not taken for a dead one's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leftoff.engine.project import open_store_at
from leftoff.errors import Conflict
from leftoff.host import Process, scope, this_process
from leftoff.store.base import SqlStore
from leftoff.store.rows import Holder
from leftoff.store.store_copy import copy_store
from tests.contract.scribe import AT, Scribe


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    store = open_store_at(url)
    yield store
    store.close()


def twin() -> Holder:
    """A process of a machine that is called as this one is, and was started at another time."""
    machine, _, space = scope().split("/")
    process = Process(f"{machine}/another-boot/{space}", 1, this_process().started)
    return Holder("process", process, None, "twin", AT)


def driven(store: SqlStore) -> Scribe:
    scribe = Scribe(store)
    store.write(lambda tx: tx.put_lease(scribe.run, 1, twin()))
    return scribe


def test_its_runs_are_not_copied_away(store: SqlStore, tmp_path: Path) -> None:
    """What it commits meanwhile would be in the old store only."""
    driven(store)
    with pytest.raises(Conflict, match="driven by twin"):
        copy_store(store, open_store_at(str(tmp_path / ".leftoff")))


@pytest.mark.damages_store
def test_its_run_is_not_repaired(store: SqlStore) -> None:
    """It would go on from what is not so any more."""
    scribe = driven(store)
    store.write(lambda tx: tx.note("UPDATE run SET title = 'x' WHERE run = $1", (scribe.run,)))
    with pytest.raises(Conflict, match="driven by twin"):
        store.check(repair=True)
