"""A forked process may use the store that its parent had open, and neither harms the other."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leftoff.store.sqlite import SqliteStore
from tests.contract.scribe import Scribe
from tests.store.processes import child


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(store_path))
    yield store
    store.close()


def forked(work: Callable[[], None]) -> int:
    """The exit code of a forked child that does this; a child that hangs is ended by its alarm."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(60)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_both_go_on(store: SqliteStore) -> None:
    """Child and parent read and write, each sees what the other did, and the store is sound."""
    parent = Scribe(store, "parent")

    def work() -> None:
        parent.verify()
        parent.commit({("variable", "by"): "child"})
        mine = Scribe(store, "child")
        mine.commit({("variable", "by"): "child"}, seal="manual")
        mine.verify()

    assert 0 == forked(work)
    parent.adopt(parent.plan({("variable", "by"): "child"}))
    parent.verify()
    parent.commit({("variable", "by"): "parent"})
    parent.verify()
    row = store.read(lambda view: view.find_run("child"))
    assert 2 == (row.seq if row else None)
    assert [] == store.check()["problems"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_nothing_crosses_the_fork(store: SqliteStore) -> None:
    """A child inherits neither a connection nor the descriptor of the lock."""
    Scribe(store).verify()
    inside = os.path.realpath(store.folder)

    def work() -> None:
        open_files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if link(fd)]
        assert [] == [path for path in open_files if path.startswith(inside)]

    assert 0 == forked(work)


def link(fd: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{fd}")


OUTLIVES = """
for i in range(100): store.write(add(f"parent {i}"))
if os.fork():
    store.close()
    os._exit(0)
done, count = threading.Event(), 0
threading.Thread(target=lambda: (hear(), done.set()), daemon=True).start()
say("alone")
while not done.is_set():
    store.write(add(f"child {count}"))
    count += 1
say(count)
"""


def test_child_outlives_its_parent(store: SqliteStore) -> None:
    """The child of a parent that is gone keeps writing, while others open and close the store."""
    with child(OUTLIVES, store.folder) as each:
        assert "alone" == each.hear()
        for _ in range(200):
            other = SqliteStore(store.folder)
            other.read(lambda view: view.list_runs({}))
            other.close()
        each.tell()
        count = each.hear()
    assert count, "the child crashed"
    sql = "SELECT count(*) FROM run WHERE run_id LIKE 'child %'"
    assert int(count) == store.read(lambda view: view.execute(sql).fetchone()[0])  # type: ignore[attr-defined]


BUSY = """
stop = threading.Event()
def work():
    n = 0
    while not stop.is_set():
        store.write(add(f"thread {n}"))
        store.read(lambda view: view.list_runs({}))
        n += 1
thread = threading.Thread(target=work)
thread.start()
codes = set()
for i in range(25):
    pid = os.fork()
    if pid == 0:
        import signal
        signal.alarm(30)
        store.write(add(f"child {i}"))
        os._exit(0)
    codes.add(os.waitpid(pid, 0)[1])
stop.set()
thread.join()
say(codes)
store.close()
"""


def test_fork_while_another_thread_writes(store: SqliteStore) -> None:
    """A fork in the middle of other threads' operations leaves the child a store that works."""
    with child(BUSY, store.folder) as each:
        assert "{0}" == each.hear()
    sql = "SELECT count(*) FROM run WHERE run_id LIKE 'child %'"
    assert 25 == store.read(lambda view: view.execute(sql).fetchone()[0])  # type: ignore[attr-defined]


HOLDS = """
store.write(add("first"))
pid = os.fork()
if pid == 0:
    time.sleep(600)  # it never uses the store
    os._exit(0)
say(pid)
store.write(lambda tx: (say("writing"), time.sleep(600)))
"""


def test_idle_child_keeps_nothing_locked(store: SqliteStore) -> None:
    """A parent that is killed while it writes leaves no lock behind in a child that does nothing."""
    with child(HOLDS, store.folder) as each:
        idle = int(each.hear())
        try:
            assert "writing" == each.hear()
            each.kill()
            writer = threading.Thread(target=lambda: Scribe(store), daemon=True)
            writer.start()
            writer.join(20)
            assert not writer.is_alive(), "the dead parent's lock is still held"
        finally:
            os.kill(idle, signal.SIGKILL)
