"""Long jobs: pruning, removing, sweeping, backing up. Cut short anywhere, they leave nothing wrong."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leftoff.errors import Invalid, LeaseHeld, NotFound, StoreUnavailable
from leftoff.host import Process, this_process
from leftoff.model.changes import blob_stored
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import Holder
from leftoff.testing import FaultyStore
from tests.contract.rules.base import Rules
from tests.contract.rules.blobs import refer
from tests.contract.rules.records import some_changes
from tests.contract.rules.versions import add_hidden, listed
from tests.contract.scribe import AT, Scribe, state_at

Upkeep = Callable[[FaultyStore, Scribe], object]
GONE = Process(this_process().scope, 2**22 + 5, "1")


class UpkeepRules(Rules):
    def test_prune(self, store: SqlStore, other: SqlStore) -> None:
        """Kept checkpoints and the head read as before; dropped and unsealed versions are gone; so is no other run."""
        chance = random.Random(11)
        scribe, neighbour = Scribe(store), Scribe(store, "run-2")
        for _ in range(60):
            scribe.commit(some_changes(chance), seal="manual" if chance.random() < 0.4 else None)
            neighbour.commit(some_changes(chance))
        drop = list(scribe.checkpoints)[::2]
        kept = sorted({*scribe.checkpoints, scribe.seq} - {seq for seq in drop if seq != scribe.seq})
        store.prune(scribe.run, drop)
        assert kept == sorted(v.seq for v in other.read(lambda view: view.versions(scribe.run, sealed=False)))
        assert (kept[0], scribe.seq) == other.read(lambda view: view.bounds(scribe.run))
        scribe.verify(other, seqs=kept)
        neighbour.verify(other)

    def test_prune_drops_names(self, store: SqlStore) -> None:
        """The id and the other names of a dropped checkpoint lead nowhere; those of a kept one still do."""
        scribe = Scribe(store)
        for name in ("cp-2", "cp-3", "cp-4"):
            scribe.commit(seal="manual", aliases=(name,))
        store.prune(scribe.run, [2])
        found = {name: store.read(lambda v, n=name: v.aliased(n)) for name in ("cp-2", "cp-3", "cp-4")}  # type: ignore[misc]
        assert {"cp-2": None, "cp-3": 3, "cp-4": 4} == {n: f[1].seq if f else None for n, f in found.items()}
        assert [] == store.read(lambda v: v.checkpoints(scribe.checkpoints[2]))

    def test_trash(self, store: SqlStore, other: SqlStore) -> None:
        """A run in the trash is seen by nobody, and cannot be committed to; then it is back as it was."""
        scribe, neighbour = Scribe(store), Scribe(store, "run-2")
        scribe.commit({("note", "n"): 1}, seal="manual")
        neighbour.commit({("note", "n"): 2})
        before = other.read(lambda view: view.run_row(scribe.run))
        store.write(lambda tx: tx.trash(scribe.run, AT))
        (there,) = other.read(lambda view: view.trashed())
        assert (scribe.run, AT) == (there.row.run, there.at)
        assert ["run-2"] == listed(other)
        assert (None, None) == other.read(lambda view: (view.find_run("run-1"), view.head(scribe.run)))
        assert other.read(lambda view: view.find_run("run-1", hidden=True)) is not None
        store.sweep()
        store.write(lambda tx: tx.activate(scribe.run))
        assert before == other.read(lambda view: view.run_row(scribe.run))
        assert [] == other.read(lambda view: view.trashed())
        scribe.verify(other)

    def test_archived(self, store: SqlStore, other: SqlStore) -> None:
        """An archived run is not listed, but found by its id. A commit makes it active again, and so does a driver."""
        scribe, neighbour = Scribe(store), Scribe(store, "run-2")
        scribe.commit({("note", "n"): 1}, seal="manual")
        neighbour.commit({("note", "n"): 2})
        before = other.read(lambda view: view.run_row(scribe.run))
        store.write(lambda tx: tx.archive(scribe.run))
        assert ["run-1"] == [row.run_id for row in other.read(lambda view: view.archived())]
        assert ["run-2"] == listed(other)
        assert [] == other.read(lambda view: view.trashed())
        found = other.read(lambda view: view.find_run("run-1"))
        assert found is not None and found.is_archived
        store.sweep()
        checked = store.check()
        assert ([], 2) == (checked["problems"], checked["checked"]["runs"])
        store.write(lambda tx: tx.activate(scribe.run))
        assert before == other.read(lambda view: view.run_row(scribe.run))
        store.write(lambda tx: tx.archive(scribe.run))
        scribe.commit({("note", "n"): 3})
        assert [] == other.read(lambda view: view.archived())
        scribe.verify(other)
        store.write(lambda tx: tx.archive(scribe.run))
        store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("session", None, "s", "agent", AT)))
        assert [] == other.read(lambda view: view.archived())

    def test_an_archived_run_goes_to_the_trash(self, store: SqlStore) -> None:
        """And from there it comes back, or is removed, as any other."""
        scribe = Scribe(store)
        scribe.commit({("note", "n"): 1})
        store.write(lambda tx: tx.archive(scribe.run))
        store.write(lambda tx: tx.trash(scribe.run, AT))
        assert ([], 1) == store.read(lambda view: (view.archived(), len(view.trashed())))
        store.remove(scribe.run)
        assert None is store.read(lambda view: view.find_run("run-1", hidden=True))

    def test_the_trash_is_removed(self, store: SqlStore) -> None:
        """As any run is; and its number tells nothing of the next one."""
        scribe = Scribe(store)
        scribe.commit({("note", "n"): 1})
        store.write(lambda tx: tx.trash(scribe.run, AT))
        store.remove(scribe.run)
        assert [] == store.read(lambda view: view.trashed())
        assert None is store.read(lambda view: view.find_run("run-1", hidden=True))

    def test_part(self, store: SqlStore) -> None:
        """What a collection adds to the digest is the same, all at once or a few at a time."""
        scribe = Scribe(store)
        scribe.commit({("note", f"n{number}"): number for number in range(50)})
        whole = store.read(lambda view: view.bulk(scribe.run, "note")[1])
        assert (whole, 0) == store.read(lambda v: (v.part(scribe.run, "note"), v.part(scribe.run, "nothing")))

    def test_size(self, store: SqlStore) -> None:
        """How much a run takes."""
        scribe = Scribe(store)
        scribe.commit({("note", "n"): "x" * 500_000})
        assert 500_000 < store.read(lambda view: view.size(scribe.run)) < 1_000_000

    def test_prune_keeps_the_head(self, store: SqlStore) -> None:
        """The newest version is kept even where it is named, and commits go on from it."""
        scribe = Scribe(store)
        scribe.commit({("note", "n"): 1}, seal="manual")
        store.prune(scribe.run, [2, 99])
        scribe.verify(seqs=[2])
        scribe.commit({("note", "n"): 2})
        scribe.verify(seqs=[2, 3])

    def test_prune_twice(self, store: SqlStore) -> None:
        """Nothing is left to do the second time; a run that is not there has nothing to prune."""
        scribe = Scribe(store)
        for i in range(5):
            scribe.commit({("note", "n"): i}, seal="manual")
        store.prune(scribe.run, [2, 3])
        store.prune(scribe.run, [2, 3])
        store.prune(scribe.run + 1, [1])
        scribe.verify(seqs=[4, 5, 6])

    def test_prune_gives_space_back(self, store: SqlStore) -> None:
        """What is dropped returns to the file system, and the answer says about how much."""
        chance = random.Random(5)
        scribe = Scribe(store)
        for _ in range(60):
            changes = {("extra", str(i)): b"J" + chance.randbytes(700 if i % 2 else 20_000) for i in range(4)}
            scribe.commit(changes, seal="manual")
        before = self.size(store)
        freed = store.prune(scribe.run, list(scribe.checkpoints))
        after = self.size(store)
        assert after < before / 4
        assert freed >= (before - after) * 0.9
        scribe.verify(seqs=[scribe.seq])

    @pytest.mark.parametrize("when", ["before", "during", "after"])
    def test_prune_cut_short(self, tmp_path: Path, when: Any) -> None:
        """Cut short at any of its writes, kept versions still read as before; done again, it ends as if never cut."""

        def check(store: SqlStore, scribe: Scribe) -> None:
            scribe.verify(seqs=[4, 8])
            store.prune(scribe.run, [3, 5])
            assert [8, 4] == [v.seq for v in store.read(lambda v: v.versions(scribe.run, sealed=False))]
            scribe.verify(seqs=[4, 8])

        self._cut_short(tmp_path, when, lambda store, scribe: store.prune(scribe.run, [3, 5]), check)

    def test_prune_while_others_commit(self, store: SqlStore, other: SqlStore) -> None:
        """Commits go on during a prune, and nothing that they need goes with it."""
        scribe = Scribe(store)
        for i in range(300):
            scribe.commit({("variable", str(i % 7)): f"{i}" * 400}, seal="manual" if i % 10 == 0 else None)
        ended = threading.Event()
        scribe.store = other

        def commit() -> None:
            i = 0
            while not ended.is_set() or i < 20:
                scribe.commit({("variable", str(i % 7)): f"new {i}" * 300}, seal="manual")
                i += 1

        thread = threading.Thread(target=commit)
        thread.start()
        drop = [seq for seq in scribe.checkpoints if seq <= 301]
        try:
            store.prune(scribe.run, drop[::2])
        finally:
            ended.set()
            thread.join()
        scribe.verify(store, seqs=[*drop[1::2], *(seq for seq in scribe.checkpoints if seq > 301)])

    def test_remove_that_is_not_allowed(self, store: SqlStore) -> None:
        """Whoever removes a run is asked once more, in the transaction that takes it out of sight."""
        scribe = Scribe(store)
        store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("process", GONE, None, "x", AT)))

        def refuse(view: View) -> None:
            lease = view.lease(scribe.run)
            assert lease is not None and isinstance(view, Tx)
            raise LeaseHeld("It is driven.")

        with pytest.raises(LeaseHeld):
            store.remove(scribe.run, refuse)
        scribe.verify(store)
        store.remove(scribe.run, lambda view: None)
        assert [] == listed(store)

    def test_remove(self, store: SqlStore, other: SqlStore) -> None:
        """A removed run is found by nothing, its id is free again, and no other run changed."""
        scribe, neighbour = Scribe(store), Scribe(store, "run-2")
        shared = b"J" + b"v" * 9000
        for each in (neighbour, scribe):
            each.commit({("extra", "x"): shared}, seal="manual", aliases=(f"cp-{each.run}",))
            each.commit({("extra", "x"): None})
        store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("process", GONE, None, "x", AT)))
        store.write(lambda tx: tx.add_attempt("token", scribe.run, "a", AT))
        store.remove(scribe.run)
        assert ["run-2"] == listed(other)
        gone = other.read(
            lambda v: (
                v.find_run("run-1", hidden=True),
                v.run_row(scribe.run),
                v.head(scribe.run),
                v.lease(scribe.run),
                v.attempt("token"),
                v.aliased(f"cp-{scribe.run}"),
                v.bounds(scribe.run),
            )
        )
        assert (None,) * 7 == gone
        assert [] == other.read(lambda v: v.collections(scribe.run, past=True))
        assert [] == other.read(lambda v: v.checkpoints(scribe.checkpoints[2]))
        neighbour.verify(other)
        Scribe(store, "run-1").verify(other)

    def test_remove_gives_space_back(self, store: SqlStore) -> None:
        """The bytes of a removed run return to the file system."""
        Scribe(store, "run-2")
        before = self.size(store)
        scribe = Scribe(store)
        for i in range(30):
            scribe.commit({("extra", str(i)): b"J" + random.Random(i).randbytes(20_000)})
        full = self.size(store)
        freed = store.remove(scribe.run)
        assert self.size(store) - before < (full - before) / 10
        assert freed > (full - before) / 2

    @pytest.mark.parametrize("when", ["before", "during", "after"])
    def test_remove_cut_short(self, tmp_path: Path, when: Any) -> None:
        """A removal cut short leaves the run whole, or out of sight and to be swept; never half of it in sight."""

        def check(store: SqlStore, scribe: Scribe) -> None:
            if listed(store):
                scribe.verify()
                store.remove(scribe.run)
            store.sweep()
            assert None is store.read(lambda v: v.run_row(scribe.run))

        self._cut_short(tmp_path, when, lambda store, scribe: store.remove(scribe.run), check)

    def _cut_short(self, tmp_path: Path, when: Any, work: Upkeep, check: Upkeep) -> None:
        """Let ``work`` fail at each of its writes in turn, until none is left; ``check`` what it leaves."""
        done = False
        for nth in itertools.count(1):
            folder = tmp_path / str(nth)
            folder.mkdir()
            store = FaultyStore(self.make_store(folder))
            scribe = prunable(store)
            store.fail(when, nth=nth)
            try:
                work(store, scribe)
                done = True
            except StoreUnavailable:
                pass
            store.heal()
            check(store, scribe)
            assert [] == store.check()["problems"]
            store.close()
            if done:
                break
        assert nth > 3

    def test_sweep_finishes_a_removal(self, store: SqlStore) -> None:
        """A run whose removal was cut off is dropped."""
        scribe = Scribe(store)
        hidden = store.write(lambda tx: add_hidden(tx, "run-2"))
        store.sweep()
        assert None is store.read(lambda v: v.run_row(hidden))
        assert ["run-1"] == listed(store)
        scribe.verify()

    def test_sweep_of_a_clean_store(self, store: SqlStore) -> None:
        """A sweep touches nothing that is in use."""
        scribe = prunable(store)
        content = b"".join(store.load_blob(scribe.history[8]["artifact", "f"][1:]))
        self.age(store)
        store.sweep()
        scribe.verify()
        assert content == b"".join(store.load_blob(scribe.history[8]["artifact", "f"][1:]))

    def test_backup(self, store: SqlStore, tmp_path: Path) -> None:
        """A backup is a whole store: it passes its check, has every version and blob, and can be gone on with."""
        scribe = prunable(store)
        store.backup(str(tmp_path / "copy"))
        copy = self.open_backup(tmp_path / "copy")
        assert [] == copy.check()["problems"]
        scribe.verify(copy)
        hash = scribe.history[8]["artifact", "f"][1:]
        assert b"".join(store.load_blob(hash)) == b"".join(copy.load_blob(hash))
        scribe.store = copy
        scribe.commit({("note", "n"): "only in the copy"})
        scribe.verify(copy)
        assert 8 == (store.read(lambda v: v.head(scribe.run)) or (0,))[0]
        copy.close()

    def test_backup_while_others_write(self, store: SqlStore, other: SqlStore, tmp_path: Path) -> None:
        """The copy holds the first so many commits, each whole, and none of the later ones."""
        scribe = Scribe(other)
        started, ended = threading.Event(), threading.Event()

        def commit() -> None:
            while not ended.is_set():
                n = scribe.seq
                row = other.save_blob([b"blob %d" % n * 100])
                scribe.commit(
                    {("variable", "n"): n, ("artifact", str(n % 5)): blob_stored(row.hash)}, blobs=[row]
                )
                if n == 20:
                    started.set()

        thread = threading.Thread(target=commit)
        thread.start()
        try:
            assert started.wait(60)
            store.backup(str(tmp_path / "copy"))
        finally:
            ended.set()
            thread.join()
        copy = self.open_backup(tmp_path / "copy")
        assert [] == copy.check()["problems"]
        seqs = sorted(v.seq for v in copy.read(lambda v: v.versions(scribe.run, sealed=False)))
        assert list(range(1, seqs[-1] + 1)) == seqs
        assert seqs[-1] > 20
        for seq in seqs:
            assert scribe.history[seq] == copy.read(lambda v, s=seq: state_at(v, scribe.run, s))  # type: ignore[misc]
        copy.close()

    def test_backup_needs_an_empty_folder(self, store: SqlStore, tmp_path: Path) -> None:
        """A backup never writes into a folder that holds something."""
        Scribe(store)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").write_text("mine")
        with pytest.raises(Invalid):
            store.backup(str(tmp_path / "full"))
        assert ["file"] == [path.name for path in (tmp_path / "full").iterdir()]

    def test_backup_leaves_alone_what_lies_beside_it(self, store: SqlStore, tmp_path: Path) -> None:
        """Whatever that is called; and it leaves nothing else there."""
        Scribe(store)
        beside = tmp_path / "backups" / "copy.part"
        beside.mkdir(parents=True)
        (beside / "file").write_text("mine")
        store.backup(str(tmp_path / "backups" / "copy"))
        assert "mine" == (beside / "file").read_text()
        assert ["copy", "copy.part"] == sorted(path.name for path in beside.parent.iterdir())

    def test_backup_of_nothing(self, store: SqlStore, tmp_path: Path) -> None:
        """A store that does not exist has no backup, and is not made by asking."""
        with pytest.raises(NotFound):
            store.backup(str(tmp_path / "copy"))
        assert not store.exists()


def prunable(store: SqlStore) -> Scribe:
    """A run of eight versions with small and large records, a blob, and checkpoints at 3, 4 and 5."""
    scribe = Scribe(store)
    refer(scribe, "f", b"first blob" * 500)
    for seq in range(3, 8):
        changes = {("extra", str(i)): f"{seq} {i} " * (500 if i % 3 == 0 else 2) for i in range(40)}
        scribe.commit(changes, seal="manual" if seq < 6 else None)
    refer(scribe, "f", b"second blob" * 500)
    return scribe
