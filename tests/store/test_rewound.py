"""A store that goes back behind what it had acknowledged: nobody who knew more goes on in silence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import leftoff
from leftoff.engine.commit import Head, Terms, commit
from leftoff.engine.opening import Opening, start_new_run
from leftoff.errors import Rewound
from leftoff.model.changes import ChangeSet
from leftoff.store.sqlite import SqliteStore
from leftoff.testing import FakeClock
from tests.cli.command import call

AT = FakeClock().now()
pytestmark = pytest.mark.damages_store  # an older copy is put over a store that somebody has open
GoBack = Callable[[], None]


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(store_path))
    yield store
    store.close()


@pytest.fixture
def head(store: SqliteStore) -> Head:
    return start_new_run(store, Opening("work", run_id="run-1"), AT)[0]


def put(store: SqliteStore, head: Head, **values: int) -> None:
    changes = ChangeSet()
    for name, value in values.items():
        changes.put("variable", name, value)
    commit(store, head, changes, Terms(AT))


@pytest.fixture
def go_back(store_path: Path, tmp_path: Path) -> Callable[[], GoBack]:
    """Keep the store as it is now; what comes back puts it there again, under whoever has it open. The number in `lock`
    goes back with it, as a server that took over would not know of one."""

    def keep() -> GoBack:
        _over(store_path / "store.db", tmp_path / "kept")

        def back() -> None:
            _over(tmp_path / "kept", store_path / "store.db")
            os.truncate(store_path / "lock", 0)

        return back

    return keep


def _over(source: Path, target: Path) -> None:
    """In a process of its own: whoever closes a file gives up all locks that its process has on it."""
    code = "import sqlite3, sys; one, two = map(sqlite3.connect, sys.argv[1:]); one.backup(two); two.close()"
    subprocess.run([sys.executable, "-c", code, source, target], check=True)


def test_a_store_that_is_behind(store: SqliteStore, head: Head, go_back: Callable[[], GoBack]) -> None:
    """A commit on top of versions that are lost is refused, and says how far the run was."""
    back = go_back()
    put(store, head, a=1)
    put(store, head, a=2)
    back()
    with pytest.raises(Rewound, match=r"lost version 3 of run run-1.*it is at version 1") as caught:
        put(store, head, a=3)
    assert ("rewound", 4, 1, 3) == (
        caught.value.code,
        caught.value.exit_code,
        caught.value.kept,
        caught.value.newest,
    )


@pytest.mark.parametrize("others", [2, 3])
def test_a_store_that_went_another_way_since(
    store: SqliteStore, head: Head, go_back: Callable[[], GoBack], others: int
) -> None:
    """The number of the version alone proves nothing: others may have got as far, or further."""
    back = go_back()
    put(store, head, a=1)
    put(store, head, a=2)
    back()
    row = store.read(lambda view: view.run_row(head.run))
    assert row is not None
    for number in range(others):
        put(store, Head.of(row), b=number)
    with pytest.raises(Rewound):
        put(store, head, a=3)


def test_who_commits_marks_the_run(store_path: Path, go_back: Callable[[], GoBack]) -> None:
    """A Python program is stopped; the run asks before anybody resumes it."""
    opened = leftoff.open(store_path)
    run = opened.start("work", run_id="run-1")
    run.variables["a"] = 1
    run.commit()
    back = go_back()
    run.variables["a"] = 2
    run.commit()
    back()
    run.variables["a"] = 3
    for act in (run.commit, run.refresh, opened.close):
        with pytest.raises(leftoff.Rewound):
            act()
    found = call("verify", "run-1", "--json", cwd=store_path.parent).json["findings"]
    told = {each["code"]: each["message"] for each in found}
    assert "went back to @2, though it had acknowledged @3" in told["integrity.salvaged"]
