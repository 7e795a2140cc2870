"""A contract that cannot fail is worthless: each of these stores is broken on purpose, and is caught."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leftoff.store.blobs import Blobs
from leftoff.store.rows import FREE, Holder
from leftoff.store.sqlite import SqliteStore, SqliteTx, SqliteView
from leftoff.store.sqlite_connection import Q
from tests.contract.test_sqlite import TestSqliteStore as _Contract
from tests.seams import SEAMS

Patch = pytest.MonkeyPatch
Sabotage = Callable[[Patch], None]
CAUGHT_BY: dict[Sabotage, str] = {}


def caught_by(rule: str) -> Callable[[Sabotage], Sabotage]:
    """Says which rule of the contract must notice."""

    def add(sabotage: Sabotage) -> Sabotage:
        CAUGHT_BY[sabotage] = rule
        return sabotage

    return add


@caught_by("test_failure_changes_nothing")
def keeps_what_a_failure_wrote(patch: Patch) -> None:
    def transact(store: Any, tx: Any, batch: Any) -> None:
        tx.execute("BEGIN IMMEDIATE")
        try:
            batch[0].result = batch[0].fn(tx)
        finally:
            tx.execute("COMMIT")
            batch[0].done = True

    patch.setattr(SEAMS["SqliteStore._transact"], transact)


@caught_by("test_failure_takes_no_other_with_it")
def shares_a_transaction_without_savepoints(patch: Patch) -> None:
    def share(tx: Any, batch: Any) -> None:
        for ticket in batch:
            try:
                ticket.result = ticket.fn(tx)
            except Exception as error:
                ticket.error = error

    patch.setattr(SEAMS["store.share"], share)


@caught_by("test_read_is_one_snapshot")
def reads_without_a_snapshot(patch: Patch) -> None:
    def read(store: Any, fn: Any) -> Any:
        db = store.take()
        try:
            return fn(SqliteView(db, set()))
        finally:
            store.give(db)

    patch.setattr(SEAMS["SqliteStore.read"], read)


@caught_by("test_reading_never_creates")
def makes_a_store_to_read_it(patch: Patch) -> None:
    patch.setattr(SEAMS["SqliteStore.read"], lambda store, fn: store.write(fn))


@caught_by("test_every_version_reads_back")
def forgets_what_it_replaces(patch: Patch) -> None:
    patch.setattr(SEAMS["Q.put_record"], Q.put_record.replace("SET seq=?4,", "SET "))


@caught_by("test_ranges")
def stops_before_the_last_characters(patch: Patch) -> None:
    plain = SqliteView.records
    patch.setattr(
        SEAMS["SqliteView.records"],
        lambda v, run, c, low="", high=None: plain(v, run, c, low, high or "\U0010ffff"),
    )


@caught_by("test_first_leaf_of_a_status")
def takes_any_step_for_a_leaf(patch: Patch) -> None:
    sql = "SELECT key FROM record WHERE run = ? AND status = ? ORDER BY ord LIMIT ?"
    patch.setattr(SEAMS["Q.leaves"], sql)


@caught_by("test_listing_is_by_commit_number")
def lists_by_the_clock(patch: Patch) -> None:
    plain = SqliteView.list_runs

    def list_runs(view: Any, where: Any, limit: int | None = None) -> Any:
        return sorted(plain(view, where), key=lambda row: -row.updated_at)[:limit]

    patch.setattr(SEAMS["SqliteView.list_runs"], list_runs)


@caught_by("test_applied")
def takes_any_later_commit_for_ours(patch: Patch) -> None:
    patch.setattr(SEAMS["SqliteView.applied"], lambda view, run, since, token: since + 1)


@caught_by("test_run_numbers_are_never_given_again")
def gives_run_numbers_again(patch: Patch) -> None:
    def add_run(tx: Any, *args: Any, **more: Any) -> Any:
        tx.execute("UPDATE sqlite_sequence SET seq = (SELECT max(run) FROM run)")
        return plain(tx, *args, **more)

    plain = SqliteTx.add_run
    patch.setattr(SEAMS["SqliteTx.add_run"], add_run)


@caught_by("test_epochs_only_grow")
def forgets_the_epoch_of_a_free_lease(patch: Patch) -> None:
    plain = SqliteTx.put_lease

    def put_lease(tx: Any, run: int, epoch: int, holder: Holder = FREE) -> None:
        plain(tx, run, epoch if holder.kind else 0, holder)

    patch.setattr(SEAMS["SqliteTx.put_lease"], put_lease)


@caught_by("test_beat_under_an_old_epoch_is_refused")
def lets_anyone_beat(patch: Patch) -> None:
    patch.setattr(SEAMS["Q.beat"], "UPDATE lease SET beat = ? WHERE run = ? AND ? > 0 RETURNING epoch")


@caught_by("test_attempts_are_numbered")
def takes_every_attempt_for_the_current_one(patch: Patch) -> None:
    patch.setattr(SEAMS["Q.attempt_columns"], Q.attempt_columns.replace("max(b.number)", "a.number"))


@caught_by("test_reference_needs_its_blob")
def refers_to_blobs_unseen(patch: Patch) -> None:
    patch.setattr(SEAMS["SqliteTx.need_blob"], lambda tx, blob: True)


@caught_by("test_damage_is_told")
def reads_blobs_unchecked(patch: Patch) -> None:
    def load(blobs: Blobs, row: Any) -> Any:
        yield Path(blobs.path(row.hash)).read_bytes()

    patch.setattr(SEAMS["Blobs.load"], load)


@caught_by("test_comes_back_from_the_trash")
def unlinks_at_once(patch: Patch) -> None:
    patch.setattr(SEAMS["Blobs.discard"], lambda blobs, hash: os.unlink(blobs.path(hash)))


@caught_by("test_pruned_while_it_is_read")
def asks_for_blobs_anew(patch: Patch) -> None:
    load = SqliteStore.load_blob
    patch.setattr(SEAMS["SqliteStore.load_blob"], lambda store, hash, known=None: load(store, hash))


@caught_by("test_shared_value_outlives_one_of_its_keys")
def drops_values_that_others_have(patch: Patch) -> None:
    patch.setattr(SEAMS["Q.drop_value_if_unused"], "DELETE FROM value WHERE hash = ?")


@caught_by("test_prune")
def prunes_what_is_still_seen(patch: Patch) -> None:
    patch.setattr(SEAMS["Q.past_batch"], Q.past_batch.replace("v.seq >= p.seq AND", "v.seq > p.seq AND"))


@caught_by("test_prune_gives_space_back")
def keeps_the_space(patch: Patch) -> None:
    patch.setattr(SEAMS["SqliteStore.vacuum"], lambda store: 0)


@caught_by("test_remove_cut_short")
def removes_in_plain_sight(patch: Patch) -> None:
    patch.setattr(SEAMS["Tx.hide"], lambda tx, run, name: None)


@caught_by("test_remove_that_is_not_allowed")
def removes_without_asking(patch: Patch) -> None:
    remove = SqliteStore.remove
    patch.setattr(SEAMS["SqliteStore.remove"], lambda store, run, allowed=None: remove(store, run))


@caught_by("test_backup")
def leaves_blobs_out_of_the_backup(patch: Patch) -> None:
    patch.setattr(SEAMS["backup._copy_blob"], lambda source, target, row: None)


@pytest.mark.damages_store
@pytest.mark.parametrize("sabotage", CAUGHT_BY, ids=lambda s: s.__name__)
def test_broken_store_is_caught(sabotage: Sabotage, tmp_path: Path, monkeypatch: Patch) -> None:
    """The rule that stands against this breakage passes on a sound store, and fails on a broken one."""
    rule = CAUGHT_BY[sabotage]
    hold(rule, tmp_path / "sound")
    sabotage(monkeypatch)
    with pytest.raises(
        (Exception, pytest.fail.Exception)
    ):  # an assertion, or whatever such a store runs into
        hold(rule, tmp_path / "broken")


def hold(rule: str, folder: Path) -> None:
    """Run one rule of the contract on a store in that folder."""
    folder.mkdir()
    contract = _Contract()
    test = getattr(contract, rule)
    store = contract.make_store(folder)
    other = contract.reopen(store)
    given = {"store": store, "other": other, "tmp_path": folder, "when": "during", "name": "text"}
    try:
        test(**{name: given[name] for name in inspect.signature(test).parameters})
        assert [] == store.check()["problems"]
    finally:
        other.close()
        store.close()
