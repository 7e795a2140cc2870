"""Blobs: saved once, checked whenever read, there as long as anything refers to them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from leftoff.errors import Corrupt, NotFound, StoreUnavailable
from leftoff.model.changes import blob_stored
from leftoff.model.codec import sha256
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import BlobRow
from tests.contract.rules.base import Rules
from tests.contract.scribe import Scribe, facts

if TYPE_CHECKING:
    from leftoff.store.base import Save

TEXT = b"the quick brown fox jumps over the lazy dog\n" * 30_000
NOISE = random.Random(3).randbytes(1_500_000)
CONTENTS = {
    "empty": b"",
    "byte": b"x",
    "small": b"y" * 600,
    "text": TEXT,
    "noise": NOISE,
    "text, then noise": TEXT[:100_000] + NOISE,
    "noise, then text": NOISE[:100_000] + TEXT,
}


BLOB = "hash size stored encoding"


class BlobRules(Rules):
    @pytest.mark.parametrize("name", CONTENTS)
    def test_round_trip(self, store: SqlStore, other: SqlStore, name: str) -> None:
        """Content comes back as it was saved, whole, to every handle."""
        content = CONTENTS[name]
        scribe = Scribe(store)
        row = refer(scribe, "f", content)
        assert (sha256(content).digest(), len(content)) == (row.hash, row.size)
        assert content == b"".join(other.load_blob(row.hash))
        scribe.verify(other)

    @pytest.mark.parametrize("name", CONTENTS)
    def test_pieces_make_no_difference(self, store: SqlStore, name: str) -> None:
        """The same content is the same blob, however it was cut into pieces when it was saved."""
        content = CONTENTS[name]
        scribe = Scribe(store)
        first = refer(scribe, "f", content)
        for size in (100, 70_000, 1_000_000):
            pieces = [content[i : i + size] for i in range(0, len(content), size)]
            assert facts(first, BLOB) == facts(store.save_blob([b"", *pieces, b""]), BLOB)
            assert content == b"".join(store.load_blob(first.hash))

    def test_saved_once(self, store: SqlStore) -> None:
        """Saving what is there already takes no more space."""
        scribe = Scribe(store)
        refer(scribe, "f", NOISE)
        once = self.size(store)
        refer(scribe, "g", NOISE)
        assert self.size(store) < once + 20_000

    def test_saved_together(self, store: SqlStore, other: SqlStore) -> None:
        """Several at once, the same content twice among them: all are there, for every handle."""
        contents = [b"one", TEXT, b"two", b"one", b""]
        scribe = Scribe(store)
        rows = store.save_together(lambda save: [save([content]) for content in contents])
        for number, (content, row) in enumerate(zip(contents, rows, strict=True)):
            assert facts(refer(scribe, f"f{number}", content), BLOB) == facts(row, BLOB)
            assert content == b"".join(other.load_blob(row.hash))

    def test_together_or_not_at_all(self, store: SqlStore) -> None:
        """Where the work fails, what it saved cannot be referred to, and the next one can succeed."""
        scribe = Scribe(store)
        rows: list[BlobRow] = []

        def work(save: Save) -> None:
            rows.append(save([b"lost"]))
            raise ValueError("enough")

        with pytest.raises(ValueError, match="enough"):
            store.save_together(work)
        with pytest.raises(Corrupt):
            scribe.commit({("artifact", "f"): blob_stored(rows[0].hash)}, blobs=rows)
        refer(scribe, "f", b"lost")

    def test_unknown_blob(self, store: SqlStore) -> None:
        """A blob that was never referred to is not found, nor known."""
        Scribe(store)
        row = store.save_blob([b"not referred to"])
        for hash in (row.hash, bytes(32)):
            assert None is store.read(lambda v, h=hash: v.blob(h))  # type: ignore[misc]
            with pytest.raises(NotFound):
                store.load_blob(hash)

    def test_row(self, store: SqlStore) -> None:
        """A blob that is referred to is known by its size and how it is stored."""
        scribe = Scribe(store)
        row = refer(scribe, "f", TEXT)
        known = store.read(lambda v: v.blob(row.hash))
        assert known is not None
        assert facts(row, BLOB) == facts(known, BLOB)
        assert known.stored < known.size

    def test_reference_needs_its_blob(self, store: SqlStore) -> None:
        """A record cannot refer to a blob that is not there: refused inside the transaction, nothing changed."""
        scribe = Scribe(store)
        lost = BlobRow(bytes(32), 5, 5, "raw")
        for blobs in ((), (lost,)):
            with pytest.raises(Corrupt):
                scribe.commit({("artifact", "f"): blob_stored(bytes(32)), ("note", "n"): 1}, blobs=blobs)
        scribe.verify()
        assert None is store.read(lambda v: v.blob(bytes(32)))

    def test_kept_while_referred_to(self, store: SqlStore) -> None:
        """A blob stays as long as any readable version refers to it, and no longer."""
        scribe = Scribe(store)
        row = refer(scribe, "f", NOISE, seal="manual")
        scribe.commit({("artifact", "f"): None}, seal="manual")
        store.prune(scribe.run, [])
        assert NOISE == b"".join(store.load_blob(row.hash))
        freed = store.prune(scribe.run, [2])
        assert freed >= row.stored
        with pytest.raises(NotFound):
            store.load_blob(row.hash)

    def test_pruned_while_it_is_read(self, store: SqlStore) -> None:
        """A snapshot from before a prune can have the content for a while; afterwards it is told to look again."""
        scribe = Scribe(store)
        row = refer(scribe, "f", NOISE)

        def look(view: View) -> None:
            known = view.blob(row.hash)
            assert known is not None
            scribe.commit({("artifact", "f"): None})
            store.prune(scribe.run, [])
            store.sweep()
            assert NOISE == b"".join(store.load_blob(row.hash, known))
            begun = store.load_blob(row.hash, known)
            self.age(store)
            store.sweep()
            for content in (begun, store.load_blob(row.hash, known)):
                with pytest.raises(StoreUnavailable) as caught:
                    b"".join(content)
                assert caught.value.retry

        store.read(look)

    def test_pruned_before_its_first_piece(self, store: SqlStore) -> None:
        """Whoever asked for a blob that was there, and comes late, is told to look again: nothing is damaged."""
        scribe = Scribe(store)
        row = refer(scribe, "f", NOISE)
        content = store.load_blob(row.hash)
        scribe.commit({("artifact", "f"): None})
        store.prune(scribe.run, [])
        self.age(store)
        store.sweep()
        with pytest.raises(StoreUnavailable) as caught:
            b"".join(content)
        assert caught.value.retry

    def test_shared_between_runs(self, store: SqlStore) -> None:
        """Removing a run leaves the blobs that another one refers to."""
        scribes = [Scribe(store, name) for name in ("run-1", "run-2")]
        row, _ = (refer(scribe, "f", NOISE) for scribe in scribes)
        store.remove(scribes[0].run)
        self.age(store)
        store.sweep()
        assert NOISE == b"".join(store.load_blob(row.hash))

    def test_comes_back_from_the_trash(self, store: SqlStore) -> None:
        """A commit that refers to a blob while it is being forgotten takes it back."""
        scribe = Scribe(store)
        row = refer(scribe, "f", NOISE)
        scribe.commit({("artifact", "f"): None})
        store.prune(scribe.run, [])
        store.sweep()
        scribe.commit({("artifact", "g"): blob_stored(row.hash)}, blobs=[row])
        self.age(store)
        store.sweep()
        assert NOISE == b"".join(store.load_blob(row.hash))
        scribe.verify(seqs=[scribe.seq])

    def test_gone_after_its_grace(self, store: SqlStore) -> None:
        """What was thrown away is unlinked by a sweep once its grace is over, and cannot be referred to then."""
        scribe = Scribe(store)
        row = refer(scribe, "f", NOISE)
        scribe.commit({("artifact", "f"): None})
        store.prune(scribe.run, [])
        before = self.size(store)
        self.age(store)
        assert store.sweep() >= row.stored
        assert self.size(store) <= before - row.stored
        with pytest.raises(Corrupt):
            scribe.commit({("artifact", "g"): blob_stored(row.hash)}, blobs=[row])
        scribe.verify(seqs=[scribe.seq])

    def test_a_commit_may_come_days_later(self, store: SqlStore, other: SqlStore) -> None:
        """A blob that is saved waits for its commit, as long as a step takes, whoever tidies up meanwhile."""
        scribe = Scribe(store)
        row = store.save_blob([NOISE])
        for _ in range(3):
            self.let_pass(store, 86_400)
            other.sweep()
        scribe.commit({("artifact", "f"): blob_stored(row.hash)}, blobs=[row])
        assert NOISE == b"".join(store.load_blob(row.hash))

    def test_sweep_drops_what_no_commit_took(self, store: SqlStore) -> None:
        """A blob whose commit never came is dropped after its grace, not before."""
        Scribe(store)
        before = self.size(store)
        row = store.save_blob([NOISE])
        store.sweep()
        assert self.size(store) >= before + row.stored
        for _ in range(2):  # to the trash, then out of it
            self.age(store)
            store.sweep()
        assert self.size(store) < before + row.stored

    @pytest.mark.parametrize("name", ["byte", "text", "noise"])
    def test_damage_is_told(self, store: SqlStore, name: str) -> None:
        """A damaged blob raises `Corrupt` before its last piece is given out, and a check names it."""
        scribe = Scribe(store)
        row = refer(scribe, "f", CONTENTS[name])
        undo = self.damage_blob(store, row.hash)
        got = 0
        with pytest.raises(Corrupt, match=row.hash.hex()[2:]):
            for piece in store.load_blob(row.hash):
                got += len(piece)
        assert got < row.size
        problems = store.check()["problems"]
        assert [row.hash.hex()] == [problem.get("blob") for problem in problems]
        undo()

    def test_saving_again_heals(self, store: SqlStore) -> None:
        """Saving the content of a damaged blob puts it right."""
        scribe = Scribe(store)
        row = refer(scribe, "f", NOISE)
        self.damage_blob(store, row.hash)
        refer(scribe, "g", NOISE)
        assert NOISE == b"".join(store.load_blob(row.hash))


def refer(scribe: Scribe, key: str, content: bytes, seal: str | None = None) -> BlobRow:
    """Save content and commit an artifact that refers to it."""
    row = scribe.store.save_blob([content])
    scribe.commit({("artifact", key): blob_stored(row.hash)}, blobs=[row], seal=seal)
    return row
