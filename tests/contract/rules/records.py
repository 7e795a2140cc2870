"""Records: live, superseded, ended; in ranges; as steps; small and large."""

from __future__ import annotations

import random
from typing import Any

from leftoff.model.codec import sha256, term
from leftoff.store.base import INLINE, VALUE_MAX, SqlStore, Tx, View
from leftoff.store.store_copy import TABLES, table_rows
from tests.contract.rules.base import Rules
from tests.contract.scribe import Scribe, facts, stored

# In the order of their code points, which is that of their UTF-8 bytes.
KEYS = [
    "0",
    "A",
    "a",
    "a b",
    "a/",
    "a/b",
    "a0",
    "b%",
    "z",
    "ä",
    "€",
    "\ue000",
    "\uffff",
    "😀",
    "\U0010ffff",
    "\U0010ffffx",
]


class RecordRules(Rules):
    def test_every_version_reads_back(self, store: SqlStore, other: SqlStore) -> None:
        """Whatever was put, replaced, ended and put again is read at each version as that version had it."""
        chance = random.Random(7)
        scribe = Scribe(store)
        for _ in range(40):
            scribe.commit(some_changes(chance), seal="manual" if chance.random() < 0.3 else None)
        scribe.verify()
        scribe.verify(other)

    def test_ended_record_stays_in_the_past(self, store: SqlStore) -> None:
        """Ending a record hides it from now on and from nobody who looks back; it can come again."""
        scribe = Scribe(store)
        scribe.commit({("note", "n"): "first"})
        scribe.commit({("note", "n"): None})
        assert None is store.read(lambda v: v.record(scribe.run, "note", "n"))
        assert None is store.read(lambda v: v.row(scribe.run, "note", "n"))
        scribe.commit({("note", "n"): "again"})
        scribe.verify()

    def test_one_record(self, store: SqlStore) -> None:
        """A record comes with its collection, key, bytes, their hash and the version that wrote it."""
        scribe = Scribe(store)
        scribe.commit({("variable", "a"): {"x": 1}})
        seq = scribe.commit({("variable", "a"): {"x": 2}})
        scribe.commit({("variable", "b"): 0})
        record = store.read(lambda v: v.record(scribe.run, "variable", "a"))
        value = stored({"x": 2})
        assert record is not None
        assert ("variable", "a", seq, sha256(value).digest(), value) == facts(
            record, "collection key seq hash stored"
        )
        assert None is store.read(lambda v: v.record(scribe.run, "note", "a"))
        assert None is store.read(lambda v: v.record(scribe.run + 1, "variable", "a"))

    def test_ranges(self, store: SqlStore) -> None:
        """Keys come in the order of their code points, from the low one on, up to before the high one."""
        scribe = Scribe(store)
        scribe.commit({("extra", key): key for key in KEYS})
        scribe.commit({("file", "a"): 1})

        def keys(low: str = "", high: str | None = None) -> list[str]:
            return store.read(lambda v: [r.key for r in v.records(scribe.run, "extra", low, high)])

        assert KEYS == keys()
        assert KEYS[3:] == keys("a b")
        assert ["a/", "a/b"] == keys("a/", "a0")
        assert KEYS[:3] == keys("", "a b")
        assert [] == keys("b", "a")
        assert [] == store.read(lambda v: list(v.records(scribe.run, "score")))

    def test_hashes(self, store: SqlStore) -> None:
        """The hashes of a range are those of its live records, whatever their keys."""
        scribe = Scribe(store)
        scribe.commit({("extra", key): key for key in KEYS})
        scribe.commit({("extra", "a"): "new", ("extra", "z"): None})
        expected = {k: sha256(v).digest() for (c, k), v in scribe.live.items() if c == "extra"}
        assert expected == store.read(lambda v: v.hashes(scribe.run, "extra"))
        inner = {k: h for k, h in expected.items() if "a/" <= k < "a0"}
        assert inner == store.read(lambda v: v.hashes(scribe.run, "extra", "a/", "a0"))

    def test_bulk(self, store: SqlStore) -> None:
        """All live records of a collection at once are what they are one by one, and their part of the digest."""
        scribe = Scribe(store)
        scribe.commit({("extra", key): key for key in KEYS})
        scribe.commit({("extra", "a"): "x" * 100_000, ("extra", "z"): None, ("file", "a"): 1})
        expected = store.read(lambda v: [(r.key, r.hash, r.stored) for r in v.records(scribe.run, "extra")])
        rows, part = store.read(lambda v: v.bulk(scribe.run, "extra"))
        assert expected == rows
        assert sum(term("extra", key, hash) for key, hash, _ in expected) == part
        assert ([], 0) == store.read(lambda v: v.bulk(scribe.run, "score"))

    def test_last_key(self, store: SqlStore) -> None:
        """The last live key before the high one, if it is not below the low one."""
        scribe = Scribe(store)
        scribe.commit({("item", f"list/{i:010d}"): i for i in range(12)})
        scribe.commit({("item", f"list/{11:010d}"): None, ("item", "list0"): 0})

        def last(low: str, high: str) -> str | None:
            return store.read(lambda v: v.last_key(scribe.run, "item", low, high))

        assert f"list/{10:010d}" == last("list/", "list0")
        assert None is last("other/", "other0")

    def test_collections(self, store: SqlStore) -> None:
        """Collections are those with live records; looking back, those that had some too."""
        scribe = Scribe(store)
        scribe.commit({("note", "n"): 1, ("file", "f"): 1, ("item", "i"): 1})
        scribe.commit({("file", "f"): None, ("item", "i"): None})
        assert ["note", "run"] == store.read(lambda v: v.collections(scribe.run))
        assert ["file", "item", "note", "run"] == store.read(lambda v: v.collections(scribe.run, past=True))
        assert [] == store.read(lambda v: v.collections(scribe.run + 1, past=True))

    def test_runs_do_not_mix(self, store: SqlStore) -> None:
        """The same keys in two runs are different records."""
        scribes = [Scribe(store, name) for name in ("run-1", "run-2")]
        for i in range(3):
            for number, scribe in enumerate(scribes):
                scribe.commit({("variable", "a"): [number, i]})
        for scribe in scribes:
            scribe.verify()

    def test_steps(self, store: SqlStore) -> None:
        """A step's status, order and leaf are kept beside it, and follow it."""
        scribe = Scribe(store)
        below = {"a/x": ("pending", "00000002/00000000", 1)}
        scribe.commit(steps={"b": ("pending", "00000001", 1), "a": ("running", "00000002", 0), **below})
        scribe.commit(steps={"b": ("completed", "00000001", 1)})
        rows = store.read(lambda v: {key: v.row(scribe.run, "step", key) for key in ("a", "a/x", "b")})
        facts = {key: row[1:] if row else None for key, row in rows.items()}
        assert {
            "a": ("running", "00000002", 0),
            "a/x": ("pending", "00000002/00000000", 1),
            "b": ("completed", "00000001", 1),
        } == facts
        assert store.read(lambda v: v.has_below(scribe.run, "a"))
        assert not store.read(lambda v: v.has_below(scribe.run, "b"))
        scribe.verify()

    def test_has_below_knows_neighbours(self, store: SqlStore) -> None:
        """A step whose name merely starts like another's is not below it."""
        scribe = Scribe(store)
        names = ["a", "a-b", "a.b", "a0", "ab", "a b"]
        scribe.commit(steps={name: ("pending", f"{i:08d}", 1) for i, name in enumerate(names)})
        assert [] == [name for name in names if store.read(lambda v, n=name: v.has_below(scribe.run, n))]  # type: ignore[misc]

    def test_first_leaf_of_a_status(self, store: SqlStore) -> None:
        """The first leaf in declared order, not by name; inner steps and other statuses do not count."""
        scribe = Scribe(store)
        scribe.commit(
            steps={
                "z": ("completed", "00000000", 1),
                "y": ("pending", "00000001", 0),
                "y/b": ("pending", "00000001/00000000", 1),
                "y/a": ("pending", "00000001/00000001", 1),
                "a": ("pending", "00000002", 1),
            }
        )
        assert "y/b" == store.read(lambda v: v.leaf(scribe.run, "pending"))
        assert "z" == store.read(lambda v: v.leaf(scribe.run, "completed"))
        assert None is store.read(lambda v: v.leaf(scribe.run, "failed"))
        scribe.commit(steps={"y/b": ("completed", "00000001/00000000", 1)})
        assert "y/a" == store.read(lambda v: v.leaf(scribe.run, "pending"))

    def test_first_leaves_of_a_status(self, store: SqlStore) -> None:
        """The first few leaves in declared order, and no more than were asked for."""
        scribe = Scribe(store)
        steps = {name: ("pending", f"{i:08d}", 1) for i, name in enumerate("dacb")}
        steps |= {"y": ("pending", "00000000", 0), "y/z": ("completed", "00000000/00000000", 1)}
        scribe.commit(steps=steps)
        assert ["d", "a", "c"] == store.read(lambda v: v.leaves(scribe.run, "pending", 3))
        assert ["d", "a", "c", "b"] == store.read(lambda v: v.leaves(scribe.run, "pending", 9))
        assert [] == store.read(lambda v: v.leaves(scribe.run, "failed", 9))

    def test_leaves_by_the_page(self, store: SqlStore) -> None:
        """The leaves behind a place, in declared order; with a word in their path, whatever its capitals."""
        scribe = Scribe(store)
        steps = {name: ("pending", f"{i:08d}", 1) for i, name in enumerate(["d", "a%2Fx", "C", "b"])}
        scribe.commit(
            steps={**steps, "y": ("pending", "00000000", 0), "y/z": ("failed", "00000000/00000000", 1)}
        )

        def page(after: tuple[str, str], words: tuple[str, str], limit: int) -> list[str]:
            found = store.read(lambda v: v.leaf_page(scribe.run, "pending", after, words, limit))
            assert [steps[path][1] for _, path in found] == [order for order, _ in found]
            return [path for _, path in found]

        assert ["d", "a%2Fx"] == page(("", ""), ("", ""), 2)
        assert ["C", "b"] == page(("00000001", "a%2Fx"), ("", ""), 9)
        assert ["a%2Fx"] == page(("", ""), ("A/X", "A%2FX"), 9)
        assert ["C"] == page(("", ""), ("c", "c"), 9)
        assert [] == page(("00000003", "b"), ("", ""), 9)

    def test_leaves_below_a_step_are_counted(self, store: SqlStore) -> None:
        """By status; a step whose name merely starts alike is not below it, nor is one that has others below it."""
        scribe = Scribe(store)
        words = {"a": "running", "a/x": "completed", "a/y": "completed", "a/z": "running", "a/z/1": "failed"}
        steps = {
            name: (word, f"{i:08d}", int(name not in ("a", "a/z")))
            for i, (name, word) in enumerate(words.items())
        }
        scribe.commit(steps={**steps, "a0": ("pending", "00000009", 1)})
        assert {"completed": 2, "failed": 1} == store.read(lambda v: v.leaf_counts(scribe.run, "a"))
        assert {} == store.read(lambda v: v.leaf_counts(scribe.run, "a0"))

    def test_last_order(self, store: SqlStore) -> None:
        """The greatest order of the leaves whose order starts so, whatever their status."""
        scribe = Scribe(store)
        assert None is store.read(lambda v: v.last_order(scribe.run, ""))
        scribe.commit(
            steps={
                "a": ("running", "00000001", 0),
                "a/x": ("completed", "00000001/00000003", 1),
                "a/y": ("failed", "00000001/00000007", 1),
                "a/z": ("pending", "00000001/00000005", 1),
                "b": ("pending", "00000002", 1),
            }
        )
        assert "00000001/00000007" == store.read(lambda v: v.last_order(scribe.run, "00000001/"))
        assert "00000002" == store.read(lambda v: v.last_order(scribe.run, ""))
        assert None is store.read(lambda v: v.last_order(scribe.run, "00000002/"))

    def test_set_leaf(self, store: SqlStore) -> None:
        """A step stops being a leaf, and becomes one again, without a new record."""
        scribe = Scribe(store)
        seq = scribe.commit(steps={"a": ("pending", "00000001", 1)})

        def work(tx: Tx) -> tuple[str | None, str | None]:
            tx.set_leaf(scribe.run, "a", False)
            no_leaf = tx.leaf(scribe.run, "pending")
            tx.set_leaf(scribe.run, "a", True)
            return no_leaf, tx.leaf(scribe.run, "pending")

        assert (None, "a") == store.write(work)
        assert "a" == store.read(lambda v: v.leaf(scribe.run, "pending"))
        record = store.read(lambda v: v.record(scribe.run, "step", "a"))
        assert seq == (record.seq if record else None)

    def test_the_whole_history(self, store: SqlStore, other: SqlStore) -> None:
        """The rows of a run, some at a time: every record, live and superseded, with its bytes and its versions."""
        chance = random.Random(3)
        scribe, second = Scribe(store), Scribe(store, "run-2")
        for _ in range(30):
            scribe.commit(some_changes(chance))
            second.commit(some_changes(chance))

        def rows(view: View, table: str) -> list[dict[str, Any]]:
            columns, width = TABLES[table]
            found: list[dict[str, Any]] = []
            after = None
            while some := table_rows(view, table, after, 7, scribe.run):
                after = some[-1][:width]
                found += [dict(zip(columns, row, strict=True)) for row in some]
            return found

        found = other.read(lambda view: rows(view, "record") + rows(view, "past"))
        assert {scribe.run} == {row["run"] for row in found}
        for seq, state in scribe.history.items():
            seen = [row for row in found if row["seq"] <= seq and seq < row.get("until", seq + 1)]
            assert state == {(row["collection"], row["key"]): row["data"] for row in seen}

    def test_values_of_every_size(self, store: SqlStore, other: SqlStore) -> None:
        """Bytes come back as they were, at the borders of what is kept in the row and beside it."""
        sizes = (1, INLINE - 1, INLINE, INLINE + 1, 4096, 70_000, VALUE_MAX)
        scribe = Scribe(store)
        scribe.commit({("extra", str(size)): b"J" + b"x" * (size - 1) for size in sizes})
        scribe.commit({("extra", str(size)): b"J" + b"y" * (size - 1) for size in sizes})
        scribe.verify(other)

    def test_large_values_are_kept_once(self, store: SqlStore) -> None:
        """The same large bytes under many keys and in many versions take their space once."""
        scribe = Scribe(store)
        value = b"J" + random.Random(1).randbytes(200_000)
        scribe.commit({("extra", "0"): value})
        once = self.size(store)
        for i in range(20):
            scribe.commit({("extra", str(i)): value})
            scribe.commit({("extra", str(i)): "small"})
        assert self.size(store) < once + 100_000
        scribe.verify()

    def test_shared_value_outlives_one_of_its_keys(self, store: SqlStore) -> None:
        """Large bytes stay as long as anything, live or superseded, has them."""
        scribe = Scribe(store)
        value = b"J" + b"v" * 50_000
        scribe.commit({("extra", "a"): value, ("extra", "b"): value}, seal="manual")
        scribe.commit({("extra", "a"): None})
        store.prune(scribe.run, [2])
        scribe.verify(seqs=[3])
        scribe.commit({("extra", "b"): None}, seal="manual")
        store.prune(scribe.run, [])
        scribe.verify(seqs=[4])
        scribe.commit({("extra", "c"): value})
        scribe.verify(seqs=[4, 5])


def some_changes(chance: random.Random) -> dict[tuple[str, str], Any]:
    """A few records put or ended, small ones and large ones."""
    changes: dict[tuple[str, str], Any] = {}
    for _ in range(chance.randint(1, 6)):
        address = chance.choice(("variable", "item", "note")), chance.choice("abcdefgh")
        size = chance.choice((1, 20, 900, 1100, 3000))
        changes[address] = chance.choice((None, chance.random(), chance.choice("xyz") * size))
    return changes
