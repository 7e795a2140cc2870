"""Threads that share a run, and several runs in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leftoff
from tests.api.others import elsewhere, out_of_reach
from tests.races.between import Seam
from tests.seams import SEAMS

THREADS, COMMITS = 8, 50


def in_threads(work: Callable[[int], None], number: int = THREADS) -> None:
    """Run it in several threads at once; the first error of any is ours."""
    errors: list[BaseException] = []
    together = threading.Barrier(number)

    def guarded(index: int) -> None:
        try:
            together.wait()
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_nothing_is_lost_between_threads(run: leftoff.Run, store: leftoff.Store) -> None:
    """8 threads, 50 commits each: variables of their own, appends to one list, all there."""

    def work(index: int) -> None:
        for number in range(COMMITS):
            run.variables[f"t{index}"] = number
            run.append("log", [index, number])
            run.commit()

    in_threads(work)
    for seen in (run, store.get(run.id)):
        assert {f"t{i}": COMMITS - 1 for i in range(THREADS)} == {
            name: value for name, value in seen.variables.items() if name != "log"
        }
        log = seen.variables["log"]
        assert THREADS * COMMITS == len(log)
        for index in range(THREADS):
            assert list(range(COMMITS)) == [number for thread, number in log if thread == index]


def test_steps_of_several_threads(run: leftoff.Run, store: leftoff.Store) -> None:
    """Each thread has its own steps; whoever asks sees all that are done."""

    def work(index: int) -> None:
        for number in range(20):
            path = f"t{index}/s{number}"
            with run.step(path):
                run.note(f"{path} was here")
            assert run.done(path)

    in_threads(work)
    for seen in (run, store.get(run.id)):
        assert {"completed"} == {step["status"] for step in seen.steps.values()}
        assert THREADS * 20 == len(seen.steps) == len(seen.records["note"])
        assert all(note["text"] == f"{note['step']} was here" for note in seen.records["note"].values())


def test_a_step_done_stays_done_whatever_others_commit(run: leftoff.Run, store_path: Path) -> None:
    """What another process commits in between makes a thread forget nothing of its own."""
    stop = threading.Event()

    def disturb() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            elsewhere(store_path, run.id, {("knowledge", "tick"): number})

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:

        def work(index: int) -> None:
            for number in range(15):
                path = f"t{index}/s{number}"
                assert number == run.do(path, lambda number=number: number)
                assert run.done(path)

        in_threads(work, 4)
    finally:
        stop.set()
        disturber.join()
    assert {"completed"} == {step["status"] for step in run.steps.values()}


def test_a_thread_remembers_no_steps_from_before_another_ones_commit(
    run: leftoff.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the steps while another thread ends one, has it too afterwards."""
    buffer, reading, ended = run._buffer, threading.Event(), threading.Event()
    at_head = buffer.at_head

    def slowly(work: Any) -> Any:
        found = at_head(work)
        if threading.current_thread() is reader:
            reading.set()
            ended.wait(0.3)  # as long as it takes the other one, unless that has to wait for us
        return found

    monkeypatch.setattr(buffer, "at_head", slowly)
    reader = threading.Thread(target=buffer.step_records)
    buffer.forget_steps()
    reader.start()
    assert reading.wait(60)
    run.do("a", lambda: None)
    ended.set()
    reader.join()
    assert run.done("a")


def test_a_step_removed_is_not_seen_again(run: leftoff.Run, store_path: Path) -> None:
    """Nor where others commit before its removal is durable."""
    run.do("a", lambda: None)
    run._buffer.remove_step("a")
    elsewhere(store_path, run.id, {("knowledge", "tick"): 1})
    run.refresh()
    assert "a" not in run.steps
    run.commit()
    assert "a" not in run.steps


@pytest.mark.parametrize("kept", [True, False], ids=["committed", "failed"])
def test_a_record_is_seen_while_another_thread_commits_it(
    run: leftoff.Run, store: leftoff.Store, store_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """What was put does not vanish between being put and being durable; then it is what others make of it."""
    seen, write = [], store._store.write

    def look_first(*args: Any, **options: Any) -> Any:
        reader = threading.Thread(target=lambda: seen.append(dict(run.records["knowledge"])))
        reader.start()
        reader.join()
        return write(*args, **options) if kept else out_of_reach()

    run.put("knowledge", "k", 1)
    with monkeypatch.context() as patch:
        patch.setattr(store._store, "write", look_first)
        if kept:
            run.commit()
        else:
            with pytest.raises(leftoff.StoreUnavailable):
                run.commit()
    assert [{"k": 1}] == seen
    assert {"k": 1} == dict(run.records["knowledge"])
    run.commit()
    elsewhere(store_path, run.id, {("knowledge", "k"): 2})
    run.refresh()
    assert {"k": 2} == dict(run.records["knowledge"])


def another_thread(run: leftoff.Run, act: Callable[[], Any]) -> None:
    """Acts now, unless it would have to wait for what we are doing to the run."""

    def attempt() -> None:
        if run._buffer.lock.acquire(blocking=False):
            run._buffer.lock.release()
            act()

    in_threads(lambda _: attempt(), 1)


def test_a_record_is_seen_though_it_becomes_durable_while_it_is_read(
    run: leftoff.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is between what the store has and what waits for it."""
    run.put("knowledge", "k", 1)
    at_head = run._buffer.at_head

    def then_another(work: Any) -> Any:
        found = at_head(work)
        another_thread(run, run.commit)
        return found

    monkeypatch.setattr(run._buffer, "at_head", then_another)
    assert {"k": 1} == dict(run.records["knowledge"])


def test_a_step_is_removed_while_another_thread_reads_all(
    run: leftoff.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has none of them from before."""
    run.do("a", lambda: None)
    buffer = run._buffer

    def read_again() -> None:
        buffer.forget_steps()
        buffer.step_records()

    Seam(monkeypatch).before(SEAMS["lifecycle.remove"], lambda: another_thread(run, read_again))
    buffer.remove_step("a")
    assert "a" not in run.steps


def test_a_step_goes_on_while_another_thread_commits_that_it_is_blocked(
    run: leftoff.Run, store: leftoff.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on with it."""
    write = store._store.write

    def go_on_first(*args: Any, **options: Any) -> Any:
        other = threading.Thread(target=lambda: run.put("step", "a", {"status": "running"}))
        other.start()
        other.join()
        return write(*args, **options)

    run.put("step", "a", {"status": "blocked"})
    with monkeypatch.context() as patch:
        patch.setattr(store._store, "write", go_on_first)
        run.commit()
    assert "blocked" == store.get(run.id).status
    run.commit()
    assert "running" == store.get(run.id).status


def test_batches_of_several_threads(run: leftoff.Run) -> None:
    """Each thread may loop over items of its own batch."""

    def work(index: int) -> None:
        assert ["a", "b", "c"] == list(run.each(f"batch-{index}", ["a", "b", "c"]))

    in_threads(work, 4)
    assert 12 == run.info.steps["completed"]


def test_a_thread_reads_what_another_one_is_committing(run: leftoff.Run) -> None:
    """A value does not vanish between being assigned and being durable."""
    seen: list[Any] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(run.variables["n"])

    run.variables["n"] = 0
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(50):
            run.variables["n"] = number
            run.commit()
    finally:
        stop.set()
        reader.join()
    assert sorted(seen) == seen


@pytest.mark.parametrize("where", ["new_token", "Terms", "commit_apart"])
def test_a_commit_that_is_given_up_anywhere(
    run: leftoff.Run, store: leftoff.Store, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Ctrl-C before anything is sent: what was to be committed still is."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    run.variables["a"] = 1
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(f"leftoff.python.run_buffer.{where}", interrupted)
        run.commit()
    run.commit()
    assert 1 == store.get(run.id).variables["a"]


class Interrupted:
    """A lock; Ctrl-C strikes when it has just been given back for the first time."""

    def __init__(self, lock: Any) -> None:
        self._lock, self._strikes = lock, True

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        strikes, self._strikes = self._strikes, False
        if strikes:
            raise KeyboardInterrupt


@pytest.mark.parametrize("committed", [False, True])
def test_a_commit_that_is_given_up_as_a_lock_is_given_back(
    run: leftoff.Run, store: leftoff.Store, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """The changes are taken out by then, or durable: they are there, and once."""
    run.append("log", 1)
    run.put("knowledge", "k", 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if committed:
            Seam(patch).after(
                SEAMS["run_buffer.commit_apart"],
                lambda: patch.setattr(run._buffer, "lock", Interrupted(run._buffer.lock)),
            )
        else:
            patch.setattr(run._buffer, "lock", Interrupted(run._buffer.lock))
        run.commit()
    run.append("log", 2)
    run.commit()
    for seen in (run, store.get(run.id)):
        assert [1, 2] == seen.variables["log"]
        assert {"k": 1} == dict(seen.records["knowledge"])


@pytest.mark.parametrize("where", ["RunBuffer._adopt", "RunBuffer._fold", "after_append"])
def test_a_commit_that_is_given_up_when_it_is_durable(
    run: leftoff.Run, store_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Ctrl-C before it is remembered: what is read is what the store has, then and whatever others make of it."""
    run.variables.update(a=0, log=[])
    run.commit()
    run.variables.update(a=1)
    run.append("log", 1)
    run.put("knowledge", "k", 1)

    def strike() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Seam(patch).before(f"leftoff.python.run_buffer.{where}", strike)
        run.commit()
    run.append("log", 2)
    assert (1, [1, 2], {"k": 1}) == (run.variables["a"], run.variables["log"], dict(run.records["knowledge"]))
    run.commit()
    assert (1, [1, 2], {"k": 1}) == (run.variables["a"], run.variables["log"], dict(run.records["knowledge"]))
    elsewhere(store_path, run.id, {("variable", "a"): 2, ("knowledge", "k"): 2})
    run.refresh()
    assert (2, {"k": 2}) == (run.variables["a"], dict(run.records["knowledge"]))


def test_a_failed_commit_of_one_thread(run: leftoff.Run, store: leftoff.Store, monkeypatch: Any) -> None:
    """What failed waits; a thread that commits later takes it along."""
    run.variables["a"] = 1
    with monkeypatch.context() as patch:
        patch.setattr(store._store, "write", out_of_reach)
        with pytest.raises(leftoff.StoreUnavailable):
            run.commit()

    def work(index: int) -> None:
        run.variables[f"t{index}"] = index
        run.commit()

    in_threads(work, 4)
    assert {"a": 1, **{f"t{i}": i for i in range(4)}} == dict(store.get(run.id).variables)


def test_several_runs_in_one_process(store: leftoff.Store) -> None:
    """Each has its own state, and each is driven."""
    runs = [store.start("w", run_id=f"r{i}") for i in range(4)]

    def work(index: int) -> None:
        for number in range(20):
            runs[index].variables["n"] = [index, number]
            runs[index].commit()

    in_threads(work, 4)
    assert [[i, 19] for i in range(4)] == [store.get(f"r{i}").variables["n"] for i in range(4)]


def test_two_stores_in_one_process(store_path: Path) -> None:
    """The same folder opened twice is one store."""
    with leftoff.open(store_path) as one, leftoff.open(store_path) as two:
        runs = [one.start("w", run_id="one"), two.start("w", run_id="two")]

        def work(index: int) -> None:
            for number in range(20):
                runs[index].variables["n"] = number
                runs[index].commit()

        in_threads(work, 2)
        assert 19 == one.get("two").variables["n"] == two.get("one").variables["n"]


def test_beats(store: leftoff.Store, run: leftoff.Run) -> None:
    """A beat is a sign of life: it touches the lease and makes no version."""
    before = run.info.to_json()["head"]
    lease = store._store.read(lambda view: view.lease(run._number))
    run.beat()
    after = store._store.read(lambda view: view.lease(run._number))
    assert before == run.info.to_json()["head"]
    assert lease is not None and after is not None and (after.beat or 0) >= (lease.beat or 0)
    run.finish()
    run.beat()  # nobody drives it, nobody minds


def test_a_background_thread_beats(project: Path) -> None:
    """While a run is driven, as often as leftoff.toml says; it stops when the run ends."""
    (project / "leftoff.toml").write_text('[heartbeat]\ninterval = "10s"\n')
    with leftoff.open(".leftoff") as store:
        run = store.start("w")
        heart = run._buffer.heart
        assert heart is not None and 10.0 == heart._interval
        assert heart._thread.is_alive() and heart._thread.daemon
        run.finish()
        assert not heart._thread.is_alive()


def test_the_thread_really_beats(run: leftoff.Run) -> None:
    """Given a short interval, the lease's beat moves without anyone's help."""
    from leftoff.python.run_buffer import Heartbeat

    beaten = threading.Event()

    class Watched:
        run_id = run.id

        def beat(self) -> None:
            run.beat()
            beaten.set()

    watched: Any = Watched()
    heart = Heartbeat(watched, 0.01)
    assert beaten.wait(30)
    heart.stop()
