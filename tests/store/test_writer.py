"""Writers: threads share a sync, processes take turns, and Ctrl-C stops nobody but whom it strikes."""

from __future__ import annotations

import fcntl
import linecache
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from leftoff.store.base import Tx
from leftoff.store.sqlite import SqliteStore, Ticket
from tests.seams import SEAMS
from tests.store.processes import child

PATIENCE = 30.0


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(store_path))
    yield store
    store.close()


def add(name: str) -> Callable[[Tx], int]:
    """Work that can be done once only: the name must be free."""

    def work(tx: Tx) -> int:
        run = tx.add_run(name, 1, workflow="w", branch="main", status="running")
        tx.hide(run, name)
        return run

    return work


def names(store: SqliteStore) -> set[str]:
    rows = store.read(lambda view: view.execute("SELECT run_id FROM run WHERE run > 0").fetchall())  # type: ignore[attr-defined]
    return {name for (name,) in rows}


class Crowd:
    """Threads that write, and how each ended."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.threads: list[threading.Thread] = []
        self.ended: dict[str, BaseException | None] = {}
        self.held = threading.Event()
        self.release = threading.Event()

    def start(
        self,
        name: str,
        work: Callable[[Tx], Any] | None = None,
        trace: Any = None,
        *,
        durable: bool = True,
    ) -> None:
        def run() -> None:
            sys.settrace(trace)
            try:
                self.store.write(work or add(name), durable=durable)
                self.ended[name] = None
            except BaseException as error:
                self.ended[name] = error
            finally:
                sys.settrace(None)

        self.threads.append(threading.Thread(target=run, name=name))
        self.threads[-1].start()

    def hold(self) -> None:
        """One thread leads and does not get on with it, so that others queue up."""

        def work(tx: Tx) -> None:
            self.held.set()
            assert self.release.wait(PATIENCE)

        self.start("holder", work, durable=False)  # so the one after it has to switch syncs on again
        assert self.held.wait(PATIENCE)

    def waiting(self) -> list[Ticket]:
        queue = self.store.queue
        return [ticket for ticket in [*queue._queue] if ticket is not queue._leader and not ticket.done]

    def wait_for_queue(self, length: int) -> None:
        end = time.monotonic() + PATIENCE
        while len(self.waiting()) < length:
            assert time.monotonic() < end, "nobody queued up"
            time.sleep(0.0005)

    def wait_for(self, name: str, length: int) -> None:
        """Until this one waits too, or has ended already."""
        end = time.monotonic() + PATIENCE
        while name not in self.ended and len(self.waiting()) < length:
            assert time.monotonic() < end, f"{name} does not get there"
            time.sleep(0.0005)

    def queue(self, *waiting: str) -> None:
        """These wait in this order. One that was there before may leave the queue meanwhile."""
        for name in waiting:
            before, end = self.waiting(), time.monotonic() + PATIENCE
            self.start(name)
            while all(ticket in before for ticket in self.waiting()):
                assert time.monotonic() < end, f"{name} did not queue up"
                time.sleep(0.0005)

    def join(self) -> None:
        self.release.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name} hangs"


def everyone_can_write(store: SqliteStore, name: str) -> None:
    """Nothing is left locked: not the queue, nor the turn, nor the database."""
    assert not store.queue.busy
    fd = os.open(store.folder + "/lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)
    store.write(add(f"{name} here"))
    other = SqliteStore(store.folder)
    other.write(add(f"{name} there"))
    other.close()


# -- sharing


def test_threads_share_a_sync(store: SqliteStore) -> None:
    """Whoever queues up while one commits is committed together, by one sync."""
    commits: list[int] = []

    def count() -> bool:
        commits.append(1)
        return False  # go on

    store.write(lambda tx: tx.db.set_commit_hook(count))  # type: ignore[attr-defined]
    commits.clear()
    crowd = Crowd(store)
    crowd.hold()
    crowd.queue(*(f"t{i}" for i in range(15)))
    crowd.join()
    assert {f"t{i}" for i in range(15)} == names(store)
    assert 2 == len(commits)  # the one that they waited for, and theirs


def test_batch_is_bounded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction holds at most so many commits, so that nobody waits for long."""
    monkeypatch.setattr(SEAMS["writer.MOST"], 4)
    sizes: list[int] = []
    plain = store.queue._lead

    def lead(batch: list[Ticket]) -> None:
        sizes.append(len(batch))
        plain(batch)

    monkeypatch.setattr(store.queue, "_lead", lead)
    crowd = Crowd(store)
    crowd.hold()
    crowd.queue(*(f"t{i}" for i in range(10)))
    crowd.join()
    assert [1, 4, 4, 2] == sizes
    assert {f"t{i}" for i in range(10)} == names(store)


def test_first_writes_race(store_path: Path) -> None:
    """Many threads that write to a new store at once make it once, and leave nothing locked."""
    for attempt in range(5):
        store = SqliteStore(str(store_path / str(attempt) / ".leftoff"))
        crowd = Crowd(store)
        for i in range(8):
            crowd.start(f"t{i}")
        crowd.join()
        assert {None} == set(crowd.ended.values())
        everyone_can_write(store, "after")
        store.close()


def test_failed_commit_spoils_no_later_outcome(store: SqliteStore) -> None:
    """Work that failed in a transaction that failed as a whole is done again, and its new outcome is what counts."""
    store.write(lambda tx: None)
    tries: dict[str, int] = {"moody": 0}
    broken = [True]

    def moody(tx: Any) -> None:
        tries["moody"] += 1
        if tries["moody"] == 1:
            raise ValueError("the first time")
        add("moody")(tx)

    def breaks_commit(tx: Any) -> None:
        tx.db.set_commit_hook(lambda: broken.pop() if broken else False)

    crowd = Crowd(store)
    crowd.hold()
    crowd.start("leader", breaks_commit)
    crowd.wait_for_queue(1)
    crowd.start("moody", moody)
    crowd.wait_for_queue(2)
    crowd.join()
    assert crowd.ended["leader"] is not None
    assert (None, 2, {"moody"}) == (crowd.ended["moody"], tries["moody"], names(store))


# -- fairness

LOOP = """
store.write(add(f"first {os.getpid()}"))
say("ready"); hear()
count, end = 0, time.monotonic() + 2.0
while time.monotonic() < end:
    store.write(add(f"{os.getpid()} {count}"))
    count += 1
say(count)
"""


def test_processes_share_fairly(store: SqliteStore) -> None:
    """Four processes in a tight loop: the slowest gets at least a third of the fastest's commits."""
    store.write(lambda tx: None)
    with ExitStack() as stack:
        children = [stack.enter_context(child(LOOP, store.folder)) for _ in range(4)]
        for each in children:
            assert "ready" == each.hear()
        for each in children:
            each.tell()
        counts = [int(each.hear()) for each in children]
    assert min(counts) * 3 >= max(counts), counts
    assert sum(counts) + 4 == len(names(store))


# -- Ctrl-C


class Strike:
    """Raises KeyboardInterrupt at the nth place that a thread comes by in the store's write path, as Ctrl-C might.

    Places are the lines and the ends of functions. A signal is noticed after a call or at a jump back, so neither where
    a clause is only entered nor where a `with` is left; those are left out.
    """

    PATH = frozenset(
        {
            "run",
            "_take",
            "_settle",
            "_open",
            "_lead",
            "_transact",
            "_set_sync",
            "share",
            "_end_turn",
            "take",
            "give",
        }
    )

    def __init__(self, nth: int) -> None:
        self.left = nth
        self.where = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        in_store = code.co_filename.endswith(("store/sqlite_connection.py", "store/sqlite.py"))
        return self.line if in_store and code.co_name in self.PATH else None

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        file, number = frame.f_code.co_filename, frame.f_lineno
        text = linecache.getline(file, number).strip()
        entered = text == "try:" and linecache.getline(file, number - 1).strip() == "finally:"
        if event not in ("line", "return") or entered or text.startswith(("with ", "except ", "def ")):
            return self.line
        self.left -= 1
        if self.left == 0:
            self.where = f"{frame.f_code.co_name}: {text} ({event})"
            raise KeyboardInterrupt
        return self.line


LEADING = {"run", "_lead", "_transact", "_settle", "take", "give", "_set_sync"}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_interrupt_anywhere_wedges_nobody(store: SqliteStore, place: int) -> None:
    """Struck anywhere, leading or led, first or last: the others' work is done, once, and everyone goes on."""
    store.write(lambda tx: None)

    def among_others(name: str, strike: Strike) -> Crowd:
        crowd = Crowd(store)
        crowd.hold()
        for i in range(3):
            if i == place:
                crowd.start(name, trace=strike)
                crowd.wait_for(name, place + 1)
            else:
                crowd.queue(f"other {i} {name}")
        crowd.join()
        done = names(store)
        for i in {0, 1, 2} - {place}:
            assert None is crowd.ended[f"other {i} {name}"], strike.where
            assert f"other {i} {name}" in done, strike.where
        return crowd

    assert (LEADING | {"_take", "share", "_open"} if place == 0 else {"run"}) <= struck_in(
        store, among_others
    )


def test_interrupt_anywhere_alone(store: SqliteStore) -> None:
    """Struck anywhere with nobody else around, a writer leaves nothing locked, for other processes either."""
    store.write(lambda tx: None)

    def alone(name: str, strike: Strike) -> Crowd:
        crowd = Crowd(store)
        crowd.start(name, trace=strike)
        crowd.join()
        return crowd

    assert LEADING <= struck_in(store, alone)


def struck_in(store: SqliteStore, scene: Callable[[str, Strike], Crowd]) -> set[str]:
    """Play a scene once for each place where its thread can be struck; the functions where it was."""
    nth = 0
    functions: set[str] = set()
    while True:
        nth += 1
        strike = Strike(nth)
        store.write(lambda tx: None, durable=False)  # as the holder above
        crowd = scene(f"struck {nth}", strike)
        everyone_can_write(store, f"{nth} {strike.where}")
        if strike.left > 0:
            return functions
        assert isinstance(crowd.ended[f"struck {nth}"], KeyboardInterrupt), strike.where
        functions.add(strike.where.partition(":")[0])


def test_interrupt_while_waiting(store: SqliteStore) -> None:
    """Ctrl-C reaches a thread that waits for its turn; its work is not done, and those behind it are not held up."""
    crowd = Crowd(store)
    crowd.hold()

    def strike() -> None:
        crowd.wait_for_queue(1)
        crowd.queue("behind")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    striker = threading.Thread(target=strike)
    striker.start()
    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(KeyboardInterrupt):
        store.write(add("waiting"))
    striker.join()
    crowd.join()
    assert {"behind"} == names(store)
    everyone_can_write(store, "after")


BOMBARDED = """
import faulthandler, signal
faulthandler.dump_traceback_later(30, exit=True)  # where it hangs, if it does
inside = [False]
def handler(number, frame):
    if inside[0]:
        inside[0] = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
failed, stop, counts = [], threading.Event(), [0, 0, 0]

def work(i):
    while not stop.is_set():
        try:
            store.write(add(f"thread {i} {counts[i]}"))
            counts[i] += 1
        except BaseException as error:
            failed.append(repr(error))
            return

threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
for thread in threads: thread.start()
struck, n, unsure, sure = 0, 0, [], []
say("ready")
while struck < 120:
    n += 1
    try:
        inside[0] = True
        store.write(add(f"main {n}"))
        inside[0] = False
        sure.append(f"main {n}")
    except KeyboardInterrupt:
        struck += 1
        unsure.append(f"main {n}")
        say("struck")
stop.set()
for thread in threads: thread.join(30)
hanging = [t.name for t in threads if t.is_alive()]
found = {name for (name,) in store.read(lambda v: v.execute("SELECT run_id FROM run WHERE run > 0").fetchall())}
expected = set(sure) | {f"thread {i} {k}" for i in range(3) for k in range(counts[i])}
say("missing", sorted(expected - found), "strange", sorted(found - expected - set(unsure)), failed, hanging)
store.close()
"""


def test_interrupts_by_signal(store: SqliteStore) -> None:
    """A main thread under fire by SIGINT loses no commit of its other threads, nor does any of them happen twice."""
    store.write(lambda tx: None)
    with child(BOMBARDED, store.folder) as each:
        assert "ready" == each.hear()
        for _ in range(120):
            pause = time.perf_counter() + 0.001 * (os.urandom(1)[0] / 64)
            while time.perf_counter() < pause:
                pass
            os.kill(each.pid, signal.SIGINT)
            line = wait_for_strike(each)
            assert "struck" == line
        assert "missing [] strange [] [] []" == each.hear()
        assert 0 == each.finish()
    everyone_can_write(store, "after")


def wait_for_strike(each: Any) -> str:
    """A signal may come between two writes, where it is ignored: it is sent again until one strikes."""
    heard: list[str] = []
    listener = threading.Thread(target=lambda: heard.append(each.hear()))
    listener.start()
    while listener.is_alive():
        listener.join(0.05)
        if listener.is_alive():
            os.kill(each.pid, signal.SIGINT)
    return heard[0]
