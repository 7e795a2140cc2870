"""The state machine's ground: a store that is opened, closed, crashed and looked at, and the model beside it."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

import leftoff
from leftoff.clock import Clock, iso
from leftoff.errors import StaleEpoch
from leftoff.model.codec import thaw
from tests.model import encoding, world
from tests.model.encoding import Address, Json, State, canon, plain, section

picks = st.integers(0, 999)  # one of however many there are


def _but_steps(state: State) -> State:
    return {address: value for address, value in state.items() if address[0] != "step"}


class StandingClock(Clock):
    """Time passes between operations, never during one."""

    def __init__(self) -> None:
        self.ms = time.time_ns() // 1_000_000_000 * 1000

    def now(self) -> int:
        return self.ms


def abandon(store: leftoff.Store) -> None:
    """What a crash does to a store object: nothing is paused, nothing committed, nothing tidied up."""
    atexit.unregister(store._at_exit)
    for run in store._runs:
        if run._buffer.heart is not None:
            run._buffer.heart.stop()
    inner: Any = store._store
    if inner.shared:
        inner.close()
        return
    while inner._free:
        inner._free.pop().close()
    if inner._writer is not None:
        inner._writer.db.close()
    inner.turn.close()


class Ground(RuleBasedStateMachine):
    """A store, its runs and the handles on them."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="leftoff-machine-"))
        self.clock = StandingClock()
        self.folders = 0
        self.runs: list[world.Run] = []
        self.handles: list[world.Handle] = []
        self.removed: list[str] = []
        self.contents: set[bytes] = set()  # of artifacts
        self.store = self.open(self.base / "p0")

    def open(self, project: Path) -> leftoff.Store:
        project.mkdir(exist_ok=True)
        self.project = project
        return leftoff.Store(self.location(project), str(project), self.clock)

    def location(self, project: Path) -> str:
        """Where the store of a project is."""
        return str(project / ".leftoff")

    def copy(self, old: Path, new: Path) -> None:
        """All of a project, while its store is open."""
        shutil.copytree(old, new, ignore=shutil.ignore_patterns("*-shm"))

    @property
    def now(self) -> str:
        return iso(self.clock.ms)

    def tick(self) -> None:
        self.clock.ms += 1000

    def run_at(self, pick: int) -> world.Run:
        return self.runs[pick % len(self.runs)]

    def handle_at(self, pick: int, *, sharp: bool = False) -> world.Handle:
        """A handle; with ``sharp`` one that is certain of what it sees."""
        self.tick()
        handle = self.handles[pick % len(self.handles)]
        if sharp and len(handle.views) > 1:
            handle.real.refresh()
            handle.views = [handle.run.state]
        if len(handle.views) > 1:  # its version was pruned: whatever it does now may read the newest
            handle.views = [*handle.views, handle.run.state]
        else:
            for _, name in self.hopeless(handle):
                handle.real.variables[name] = "assigned anew"
                handle.put("variable", name, "assigned anew")
        return handle

    def hopeless(self, handle: world.Handle) -> list[Address]:
        """What waits to be appended to something that is no list any more, in any of the handle's views."""
        appends = [address for address, change in handle.pending.items() if change.entries is not None]
        there = [(a, view[a].value) for a in appends for view in handle.views if a in view]
        return [address for address, value in there if not isinstance(value, list)]

    def version_at(self, run: world.Run, pick: int) -> world.Version:
        return run.versions[sorted(run.versions)[pick % len(run.versions)]]

    # -- committing

    def committed(
        self, handle: world.Handle, real: Callable[[], Any], seal: world.Seal | None = None
    ) -> None:
        """Commit for real and in the model; they agree on whether there is a new version, and which."""
        if handle.stale and (handle.pending or seal is not None):
            with pytest.raises(StaleEpoch):
                real()
            self.forget(handle)
            return
        if self.unappendable(handle):
            with pytest.raises(leftoff.Invalid):
                real()
            self.forget(handle)
            return
        found = real()
        expected = handle.commit(seal)
        if expected is None:
            assert found is None, f"{found} was made of nothing"
        else:
            assert (expected.seq, expected.digest) == (found.seq, found.digest)

    def played(self, handle: world.Handle) -> None:
        """An operation on steps is over: take its versions, and compare its checkpoints with those foretold."""
        run = handle.run
        new = [v for v in reversed(self.store.get(run.id).history(sealed=False)) if v.seq > run.newest]
        for version in new:
            if version.checkpoint is None:
                state = self.read_state(run, version.seq)
                assert _but_steps(run.state) == _but_steps(state), "a start tells nothing but that"
                run.add(state)
            else:
                seal, state = handle.sealed.pop(0)
                assert seal == (version.trigger, version.step, version.note)
                run.add(state, seal)
            assert (run.newest, run.head.digest) == (version.seq, version.digest)
        assert [] == handle.sealed
        if new:  # whatever was told of steps waits no longer
            handle.views = [run.state]
            said = {
                a
                for a, change in handle.pending.items()
                if a[0] == "step" and run.state.get(a) == change.value
            }
            handle.pending = {a: change for a, change in handle.pending.items() if a not in said}

    def read_state(self, run: world.Run, seq: int) -> State:
        """A version as it is, for what cannot be foretold."""
        records = self.store.get(run.id).at(seq).records
        by_hash = {"sha256:" + sha256(content).hexdigest(): content for content in self.contents}
        return {
            (name, key): Json(thaw(value), by_hash[value["hash"]] if name == "artifact" else None)
            for name in records
            if name != "item"
            for key, value in records[name].items()
        }

    def unappendable(self, handle: world.Handle) -> bool:
        """Whether it appends to something that another writer has made no list."""
        try:
            world.with_changes(handle.run.state, handle.pending)
        except TypeError:
            return True
        return False

    def settle_buffer(self, handle: world.Handle) -> bool:
        """Commit what is buffered, before something that commits more than once; whether the handle still lives."""
        self.committed(handle, handle.real.commit)
        return handle in self.handles

    def forget(self, handle: world.Handle) -> None:
        """A handle that can do no more: nobody calls it again."""
        if handle in self.handles:
            self.handles.remove(handle)
        self.store._runs.discard(handle.real)
        if handle.real._buffer.heart is not None:
            handle.real._buffer.heart.stop()

    def adopt(self, run: world.Run, real: leftoff.Run, epoch: int) -> world.Handle:
        handle = world.Handle(run, real, epoch)
        self.handles.append(handle)
        return handle

    # -- comparing

    def check_handle(self, handle: world.Handle) -> None:
        """What a handle shows is its version under what it has buffered; an append that has nowhere to go says so."""
        if len(handle.views) > 1:  # its version was pruned: what it reads now is the newest by now
            handle.views = [*handle.views, handle.run.state]
        if hopeless := self.hopeless(handle):
            for _, name in hopeless if len(handle.views) == 1 else []:
                with pytest.raises(leftoff.Invalid, match="is no longer a list"):
                    _ = handle.real.variables[name]
            return
        allowed = [handle.visible(view) for view in handle.views]
        found = {name: Json(thaw(handle.real.variables[name])) for name in handle.real.variables}
        if len(allowed) == 1:
            assert allowed[0] == found
        for name, value in found.items():  # where the version was pruned: the old value or the newest
            assert value in [view[name] for view in allowed if name in view], name

    def check_version(self, run: world.Run, version: world.Version) -> None:
        """A kept version reads back exactly, collection by collection."""
        snapshot = self.store.get(run.id).at(version.seq)
        self.check_records(version.state, snapshot.records)
        assert canon(plain(section(version.state, "variable"))) == canon(dict(snapshot.variables))
        assert version.digest == snapshot.version.digest

    def check_records(self, state: State, records: Any) -> None:
        names = {collection for collection, _ in state}
        assert names == set(records) - {"item"}
        for name in names:
            assert canon(plain(section(state, name))) == canon(dict(records[name])), name

    def check_history(self, run: world.Run) -> None:
        """Every kept version is listed with its digest and seal, newest first, and no other."""
        found = self.store.get(run.id).history(sealed=False)
        shown = [(v.seq, v.digest, (v.trigger, v.step, v.note) if v.checkpoint else None) for v in found]
        expected = [(v.seq, v.digest, v.seal) for _, v in sorted(run.versions.items(), reverse=True)]
        assert expected == shown

    def check_gone(self, run: world.Run) -> None:
        """Versions that were pruned say so; those that never were, too."""
        view = self.store.get(run.id)
        for seq in range(1, run.newest):
            if seq not in run.versions:
                with pytest.raises(leftoff.Pruned):
                    view.at(seq)
        with pytest.raises(leftoff.NoCheckpoint):
            view.at(run.newest + 1)

    def check_all(self) -> None:
        for run in self.runs:
            self.check_history(run)
            self.check_gone(run)
            for version in run.versions.values():
                self.check_version(run, version)
        for run_id in self.removed:
            with pytest.raises(leftoff.NotFound):
                self.store.get(run_id)
        for content in self.contents & self.kept_contents():
            assert content == b"".join(self.store._store.load_blob(sha256(content).digest()))

    def kept_contents(self) -> set[bytes]:
        states = [version.state for run in self.runs for version in run.versions.values()]
        return {value.content for state in states for value in state.values() if value.content is not None}

    @invariant()
    def listing_agrees(self) -> None:
        """The listing has every run with its head, status, title and leaf counters, and nothing else."""
        found = {info.run_id: info for info in self.store.list()}
        assert {run.id for run in self.runs} == set(found)
        for run in self.runs:
            info = found[run.id]
            assert (run.newest, run.head.digest) == (info.row.seq, info.row.digest)
            counts = encoding.counts(run.state)
            assert {"total": sum(counts.values()), **counts} == info.steps
            assert run.status == info.status

    def teardown(self) -> None:
        """Everything that is kept reads back, and fsck is clean; unless a rule has failed already."""
        try:
            if sys.exc_info()[0] is None:
                self.check_all()
                report = self.store.fsck()
                assert report.ok, report.problems
        finally:
            abandon(self.store)
            shutil.rmtree(self.base, ignore_errors=True)
