"""What is waited for: a commit of a driver that knows its run once, a listing and a head once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import leftoff
from leftoff.engine.commit import Head, Seal, Terms, commit
from leftoff.engine.run_info import list_info
from leftoff.model.changes import ChangeSet
from leftoff.python.store_api import Store
from tests.cli.command import call
from tests.postgres.proxy import Proxy


@pytest.fixture
def store(proxy: Proxy, name: str, project: Path) -> Iterator[Store]:
    """A store behind the proxy, with a run of three steps that was reported on."""
    opened = leftoff.open(proxy.url(name))
    with opened.start("work", run_id="first", steps=["a", "b", "c"], variables={"n": 0}):
        pass
    yield opened
    opened.close()


class Counted:
    """How many round trips were made since."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy, self._before = proxy, proxy.rounds

    @property
    def so_far(self) -> int:
        return self._proxy.rounds - self._before


def put(store: Store, head: Head, *changes: tuple[str, str, object], seal: Seal | None = None) -> None:
    wanted = ChangeSet()
    for collection, key, value in changes:
        wanted.put(collection, key, value)
    assert commit(store._store, head, wanted, Terms(1_770_000_000_000, seal=seal)) is not None


def head_of(store: Store) -> Head:
    row = store._store.read(lambda view: view.find_run("first"))
    assert row is not None
    return Head.of(row)


def test_a_commit_of_a_driver(store: Store, proxy: Proxy) -> None:
    """It stands where this process left it: all that is written, and COMMIT; for known records and for new ones."""
    head = head_of(store)
    put(store, head, ("variable", "n", 1))
    counted = Counted(proxy)
    put(store, head, ("variable", "n", 2), ("variable", "new", 1), ("note", "x", {"text": "hello"}))
    assert 1 == counted.so_far
    put(store, head, ("variable", "n", 3), seal=Seal("manual"))
    assert 2 == counted.so_far
    put(store, head, *(("extra", f"k{i:04d}", i) for i in range(1000)))
    assert 3 == counted.so_far
    put(store, head, ("variable", "n", 4), ("extra", "k0007", 0))
    assert 4 == counted.so_far


def test_a_commit_of_new_steps(store: Store, proxy: Proxy, name: str) -> None:
    """That nothing is above or below a step is looked up by the server itself."""
    steps = [(f"d/{i}", {"status": "pending"}) for i in range(20)]
    head = head_of(store)
    put(store, head, ("variable", "n", 1))
    counted = Counted(proxy)
    put(store, head, *(("step", path, about) for path, about in steps))
    assert 1 == counted.so_far


def test_steps_of_python_code(store: Store, proxy: Proxy) -> None:
    """A step that begins and ends through the Python API is a commit, or two."""
    with store.run("work") as run:
        with run.step("a"):
            pass
        counted = Counted(proxy)
        with run.step("b"):
            run.variables["n"] = 5
        assert counted.so_far <= 4


@pytest.mark.parametrize(
    ("words", "most"),
    [("set n=7", 6), ("step start b", 9), ("note hello", 7), ("step done a", 10), ("save", 7)],
)
def test_a_report(proxy: Proxy, store: Store, name: str, project: Path, words: str, most: int) -> None:
    """From a process that knows nothing: is there a store, which run is meant, hold and look at it, write. What seals
    a checkpoint finds the run and looks for tracked files first; then that run is held with the first question."""
    store.start("work", run_id="second", steps=["a", "b"]).pause()
    assert (
        0 == call("beat", cwd=project, LEFTOFF_STORE=proxy.url(name)).code
    )  # what is due once a day is done
    counted = Counted(proxy)
    proxy.statements.clear()
    done = call(*words.split(), cwd=project, LEFTOFF_STORE=proxy.url(name))
    assert 0 == done.code, done
    assert most >= counted.so_far, "\n".join(s[:150] for s in proxy.statements)


def test_a_checkpoint_with_tracked_files(proxy: Proxy, store: Store, name: str, project: Path) -> None:
    """What is known of the files comes with one question; what changed would have to be saved, too."""
    store.start("work", run_id="second", steps=["a", "b"]).pause()
    (project / "notes.md").write_text("notes")
    for words in (["beat"], ["track", "notes.md"], ["save"]):
        assert 0 == call(*words, cwd=project, LEFTOFF_STORE=proxy.url(name)).code
    counted = Counted(proxy)
    proxy.statements.clear()
    assert 0 == call("save", cwd=project, LEFTOFF_STORE=proxy.url(name)).code
    assert 7 >= counted.so_far, "\n".join(s[:150] for s in proxy.statements)


def test_a_listing_of_the_archive(store: Store, proxy: Proxy) -> None:
    """However many runs are in it."""
    for number in range(5):
        store.start("work", run_id=f"old-{number}", steps=["a"]).finish()
        row = store._store.read(lambda view, n=number: view.find_run(f"old-{n}"))  # type: ignore[misc]
        store._store.write(lambda tx, run=row.run: tx.archive(run))  # type: ignore[misc]
    counted = Counted(proxy)
    assert 5 == len(list_info(store._store, 1_770_000_000_000, archived=True))
    assert 1 == counted.so_far


def test_a_listing(store: Store, proxy: Proxy) -> None:
    """Runs, their health, their current and next steps."""
    for number in range(5):
        with store.start("work", run_id=f"more-{number}", steps=["a", "b"]) as run, run.step("a"):
            pass
    counted = Counted(proxy)
    found = list_info(store._store, 1_770_000_000_000)
    shown = [(info.run_id, info.next_step, info.health) for info in found]
    assert 1 == counted.so_far
    assert ("more-4", "b", "finished") == shown[0]
    assert ("first", "a", "finished") == shown[-1]


def test_a_head_of_a_thousand_records(store: Store, proxy: Proxy) -> None:
    """At once."""
    head = head_of(store)
    put(store, head, *(("extra", f"k{i:04d}", i) for i in range(1000)))
    counted = Counted(proxy)
    rows, _ = store._store.read(lambda view: view.bulk(head.run, "extra"))
    assert (1000, 1) == (len(rows), counted.so_far)
