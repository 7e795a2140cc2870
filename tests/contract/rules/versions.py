"""Runs and their versions: heads, checkpoints, other names, tokens, listings. Order is by commit number."""

from __future__ import annotations

from typing import Any

from leftoff.model.changes import NO_COUNTS
from leftoff.store.base import SqlStore, Tx
from leftoff.store.rows import Holder
from tests.contract.rules.base import Rules
from tests.contract.scribe import AT, Scribe, facts

CARD = {"workflow": "work", "branch": "main", "status": "running"}  # as the scribe's runs have it


class VersionRules(Rules):
    def test_head(self, store: SqlStore) -> None:
        """A head is the last version's seq, digest and counters, the epoch, and the run's id."""
        scribe = Scribe(store)
        plan = scribe.plan(steps={"a": ("pending", "00000001", 1), "b": ("failed", "00000002", 1)})
        scribe.make(plan)
        store.write(lambda tx: tx.put_lease(scribe.run, 3, Holder("process", None, None, "me", AT)))
        assert (2, plan.digest, "[1,0,0,0,1,0,0]", 3, "run-1") == store.read(lambda v: v.head(scribe.run))
        assert None is store.read(lambda v: v.head(scribe.run + 1))

    def test_version(self, store: SqlStore) -> None:
        """A version keeps what it was made with; a checkpoint also its id, trigger and other names."""
        scribe = Scribe(store)
        plan = scribe.plan({("note", "n"): 1}, seal="approval", aliases=("b-2", "a-1"))
        plan.epoch = 5
        scribe.make(plan)
        version = store.read(lambda v: v.version(scribe.run, 2))
        assert version is not None
        assert ("run-1", 2, plan.digest, plan.at, 5) == facts(version, "run_id seq digest at epoch")
        assert (NO_COUNTS, plan.sealed, "approval", None, None) == facts(
            version, "counts checkpoint trigger step note"
        )
        assert {"a-1", "b-2"} == set(version.aliases)
        assert None is store.read(lambda v: v.version(scribe.run, 3))

    def test_versions(self, store: SqlStore) -> None:
        """Versions come newest first: all, the sealed, those before one, the first few."""
        scribe = Scribe(store)
        for i in range(2, 8):
            scribe.commit({("note", "n"): i}, seal="manual" if i % 2 else None)

        def seqs(**which: Any) -> list[int]:
            return store.read(lambda v: [version.seq for version in v.versions(scribe.run, **which)])

        assert [7, 6, 5, 4, 3, 2, 1] == seqs(sealed=False)
        assert [7, 5, 3] == seqs(sealed=True)
        assert [5, 3] == seqs(sealed=True, before=7)
        assert [5] == seqs(sealed=True, before=7, limit=1)
        assert [4, 3] == seqs(sealed=False, before=5, limit=2)

    def test_commit_numbers_only_grow(self, store: SqlStore) -> None:
        """Every commit has its number in the whole store, greater than that of each before it."""
        scribes = [Scribe(store, name) for name in ("run-1", "run-2", "run-3")]
        made = [(scribes[i], scribes[i].commit({("note", "n"): n})) for n, i in enumerate((0, 2, 1, 1, 0))]
        versions = store.read(lambda view: [view.version(scribe.run, seq) for scribe, seq in made])
        numbers = [version.n for version in versions if version is not None]
        assert 5 == len(numbers)
        assert sorted(set(numbers)) == numbers

    def test_checkpoints_by_prefix(self, store: SqlStore) -> None:
        """A checkpoint is found by any beginning of its id, in one run or all; an unsealed version is not."""
        scribes = [Scribe(store, name) for name in ("run-1", "run-2")]
        for i in range(30):
            for scribe in scribes:
                scribe.commit({("note", "n"): i}, seal="manual" if i % 3 else None)
        known = {id: (s.run, seq) for s in scribes for seq, id in s.checkpoints.items()}
        for id, place in list(known.items())[:5]:
            found = store.read(lambda v, id=id: v.checkpoints(id))  # type: ignore[misc]
            assert [place] == [(run, version.seq) for run, version in found]
        for prefix in "0123456789abcdef":
            expected = {place for id, place in known.items() if id.startswith(prefix)}
            found = store.read(lambda v, p=prefix: v.checkpoints(p, limit=99))  # type: ignore[misc]
            assert expected == {(run, version.seq) for run, version in found}
            mine = store.read(lambda v, p=prefix: v.checkpoints(p, scribes[0].run, 99))  # type: ignore[misc]
            assert {place for place in expected if place[0] == scribes[0].run} == {
                (r, v.seq) for r, v in mine
            }
        assert 2 == len(store.read(lambda v: v.checkpoints("", limit=2)))

    def test_other_names(self, store: SqlStore) -> None:
        """Another name leads to the newest checkpoint that carries it, in one run, all, or all but one."""
        scribes = [Scribe(store, name) for name in ("run-1", "run-2")]
        scribes[0].commit(seal="manual", aliases=("cp-1",))
        scribes[1].commit(seal="manual", aliases=("cp-1", "cp-2"))
        scribes[0].commit(seal="manual", aliases=("cp-1",))
        scribes[1].commit(seal="manual")

        def found(name: str, run: int | None = None) -> tuple[int, int] | None:
            got = store.read(lambda v: v.aliased(name, run))
            return (got[0], got[1].seq) if got else None

        assert (scribes[0].run, 3) == found("cp-1")
        assert (scribes[1].run, 2) == found("cp-1", scribes[1].run)
        assert (scribes[1].run, 2) == found("cp-2")
        assert None is found("cp-2", scribes[0].run)
        assert None is found("cp-3")
        other = store.read(lambda v: v.aliased("cp-1", but=scribes[0].run))
        assert other is not None and (scribes[1].run, 2) == (other[0], other[1].seq)
        assert None is store.read(lambda v: v.aliased("cp-2", but=scribes[1].run))

        def starting(prefix: str, run: int | None = None, limit: int = 20) -> list[str]:
            return store.read(lambda v: v.other_names(prefix, run, limit))

        assert ["cp-1", "cp-2"] == starting("cp-") == starting("cp-", scribes[1].run)
        assert ["cp-1"] == starting("cp-", scribes[0].run) == starting("cp-1") == starting("cp-", limit=1)
        assert [] == starting("cp-12") == starting("p-1") == starting("CP")

    def test_bounds(self, store: SqlStore) -> None:
        """The oldest and newest readable version; nothing where there is none yet."""
        scribe = Scribe(store)
        scribe.commit({("note", "n"): 1}, seal="manual")
        scribe.commit({("note", "n"): 2})
        assert (1, 3) == store.read(lambda v: v.bounds(scribe.run))
        store.prune(scribe.run, [])
        assert (2, 3) == store.read(lambda v: v.bounds(scribe.run))
        assert None is store.read(lambda v: v.bounds(scribe.run + 1))

    def test_around(self, store: SqlStore) -> None:
        """The nearest versions that can be read before and after another, which need not be there."""
        scribe = Scribe(store)
        for n in range(2, 8):
            scribe.commit({("note", "n"): n}, seal="manual" if n in (3, 5) else None)
        Scribe(store, "run-2")
        store.prune(scribe.run, [])
        found = {seq: store.read(lambda v, s=seq: v.around(scribe.run, s)) for seq in (2, 3, 4, 5, 7, 9)}  # type: ignore[misc]
        assert {2: (None, 3), 3: (None, 5), 4: (3, 5), 5: (3, 7), 7: (5, None), 9: (7, None)} == found

    def test_applied(self, store: SqlStore) -> None:
        """A commit is known by its token, if it came after the version that the caller last saw."""
        scribe = Scribe(store)
        plan = scribe.plan({("note", "n"): 1})
        plan.token = b"sixteen bytes..."
        scribe.make(plan)
        scribe.commit({("note", "n"): 2})

        def applied(since: int, token: bytes, run: int = scribe.run) -> int | None:
            found = store.read(lambda v: v.applied(run, since, token))
            return found.seq if found is not None else None

        assert 2 == applied(1, plan.token)
        assert 2 == applied(0, plan.token)
        assert None is applied(2, plan.token)
        assert None is applied(0, b"another token...")
        assert None is applied(0, plan.token, scribe.run + 1)

    def test_applied_and_pruned(self, store: SqlStore) -> None:
        """A prune forgets versions, but not which commits there were: whoever never got an answer may still ask."""
        scribe = Scribe(store)
        plan = scribe.plan({("note", "n"): 1})
        plan.token = b"sixteen bytes..."
        scribe.make(plan)
        scribe.commit({("note", "n"): 2})
        for _ in range(2):  # what an earlier prune kept, the next one keeps, too
            store.prune(scribe.run, [])
            assert None is store.read(lambda v: v.version(scribe.run, 2))
            found = store.read(lambda v: v.applied(scribe.run, 1, plan.token))
            assert found is not None
            assert (scribe.run_id, 2) == (found.run_id, found.seq)
            assert None is store.read(lambda v: v.applied(scribe.run, 2, plan.token))

    def test_run_row(self, store: SqlStore) -> None:
        """A listing shows a run's head and its card, by id or number."""
        scribe = Scribe(store, workflow="convert", branch="try-b")
        card = {"team": "blue", "size": 3}
        shown = {"workflow": "convert", "branch": "try-b", "status": "paused"}
        shown |= {"title": "T", "issue": "42", "session": "s"}
        scribe.set_card(shown, card)
        scribe.commit({("note", "n"): 1}, seal="manual")
        row = store.read(lambda v: v.find_run("run-1"))
        assert row is not None
        same = store.read(lambda v: v.run_row(scribe.run))
        assert same is not None and row.run_id == same.run_id
        assert shown == {name: getattr(row, name) for name in shown}
        assert card == row.card
        assert (3, scribe.checkpoints[3], AT, AT + 3) == facts(row, "seq checkpoint created_at updated_at")
        assert None is store.read(lambda v: v.find_run(""))
        assert None is store.read(lambda v: v.find_run("run"))

    def test_listing_is_by_commit_number(self, store: SqlStore) -> None:
        """Runs come latest commit first, whatever the clocks said."""
        scribes = [Scribe(store, f"run-{i}") for i in range(4)]
        for distance, i in enumerate((2, 0, 3, 1)):
            plan = scribes[i].plan({("note", "n"): i})
            plan.at = AT - 1000 * distance  # each later commit has an earlier time
            scribes[i].make(plan)
        assert ["run-1", "run-3", "run-0", "run-2"] == listed(store)
        assert ["run-1", "run-3"] == listed(store, limit=2)
        second = store.read(lambda view: view.list_runs({}, 2))[-1]
        assert ["run-0"] == listed(store, limit=1, before=second.n)

    def test_lives(self, store: SqlStore) -> None:
        """The commits of each epoch: when the first and the last were made, and how many."""
        scribe = Scribe(store)
        for epoch in (0, 1, 1, 3):
            plan = scribe.plan()
            plan.epoch = epoch
            scribe.make(plan)
        found = store.read(lambda v: v.lives(scribe.run))
        assert [(0, 2), (1, 2), (3, 1)] == [(epoch, number) for epoch, _, _, number in found]
        assert all(began <= ended for _, began, ended, _ in found)
        assert found[0][2] < found[1][1] < found[1][2] < found[2][1]

    def test_listing_filters(self, store: SqlStore) -> None:
        """Each filter alone, and all of them together, choose the runs that fit."""
        for i in range(8):
            scribe = Scribe(store, f"{'ab'[i % 2]}-{i}")
            columns = {
                "workflow": f"w{i % 2}",
                "branch": f"b{i // 2 % 2}",
                "status": ("running", "failed", "completed")[i % 3],
                "title": f"t{i // 4}",
                "issue": str(i % 4),
                "session": f"s{i % 3}",
            }
            scribe.set_card(columns)
        assert ["b-7", "b-5", "b-3", "b-1"] == listed(store, workflow="w1")
        assert ["b-7", "a-6", "b-3", "a-2"] == listed(store, branch="b1")
        assert ["b-7", "a-6", "a-4", "b-3", "b-1", "a-0"] == listed(store, status=["running", "failed"])
        assert [] == listed(store, status=[])
        assert ["b-7", "b-5", "b-3", "b-1"] == listed(store, name="W1")
        assert ["b-3", "a-2", "b-1", "a-0"] == listed(store, name="T0")
        assert ["b-3", "a-2", "b-1", "a-0"] == listed(store, title="t0")
        assert ["b-5", "b-1"] == listed(store, issue="1")
        assert ["b-5", "a-2"] == listed(store, session="s2")
        assert ["a-6", "a-4", "a-2", "a-0"] == listed(store, prefix="a-")
        assert ["a-6"] == listed(
            store, workflow="w0", branch="b1", status=["running"], title="t1", prefix="a"
        )

    def test_listing_forks(self, store: SqlStore) -> None:
        """The runs that were forked from one, whatever else begins or is said like it."""
        for run_id, card in {
            "a": {"parent": "x@3"},
            "b": {"parent": "xx@3", "agent": "x@3"},
            "c": {"parent": "x@12", "agent": "é"},
            "d": {},
        }.items():
            Scribe(store, run_id).set_card(CARD, card)
        assert ["a", "c"] == sorted(listed(store, forked_from="x"))
        assert [] == listed(store, forked_from="d")

    def test_hidden_run(self, store: SqlStore) -> None:
        """A run that is being removed is found only by those who ask for hidden ones."""
        Scribe(store)
        run = store.write(lambda tx: add_hidden(tx, "run-2"))
        assert ["run-1"] == listed(store)
        assert None is store.read(lambda v: v.find_run("run-2"))
        row = store.read(lambda v: v.find_run("run-2", hidden=True))
        assert run == (row.run if row else None)
        assert None is store.read(lambda v: v.find_run("", hidden=True))

    def test_hidden_run_has_no_checkpoints(self, store: SqlStore) -> None:
        """Nor can a version of it be found by id or name."""
        scribe = Scribe(store)
        scribe.commit(seal="manual", aliases=("cp",))
        assert 1 == len(store.read(lambda v: v.checkpoints(scribe.checkpoints[2])))
        store.write(lambda tx: tx.hide(scribe.run, "run-1 removed"))
        assert [] == store.read(lambda v: v.checkpoints(scribe.checkpoints[2]))
        assert None is store.read(lambda v: v.aliased("cp"))

    def test_run_numbers_are_never_given_again(self, store: SqlStore) -> None:
        """A process that still holds the number of a removed run cannot reach another one by it."""
        Scribe(store)
        removed = Scribe(store, "run-2")
        store.remove(removed.run)
        later = Scribe(store, "run-2")
        assert removed.run != later.run
        assert None is store.read(lambda v: v.head(removed.run))


def add_hidden(tx: Tx, run_id: str) -> int:
    run = tx.add_run(run_id, AT, workflow="w", branch="main", status="running")
    tx.hide(run, run_id)
    return run


def listed(store: SqlStore, limit: int | None = None, **where: Any) -> list[str]:
    return store.read(lambda view: [row.run_id for row in view.list_runs(where, limit)])
