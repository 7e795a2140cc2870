"""Writing rows to PostgreSQL: noted, and sent with the next question or with the end of the transaction."""

from __future__ import annotations

import os

from leftoff.errors import Corrupt
from leftoff.model.codec import text
from leftoff.model.ids import ancestors
from leftoff.model.versions import NO_COUNTS
from leftoff.store.base import INLINE, Tx
from leftoff.store.postgres.held import UNKNOWN, Again, Batch, HoldingView, Known, what
from leftoff.store.postgres.names import cut, plain, whole
from leftoff.store.postgres.queries import Q
from leftoff.store.postgres.view import listed, listing
from leftoff.store.rows import (
    ARCHIVED,
    ATTEMPTS,
    COPYING,
    FACT,
    FREE,
    TRASH,
    TRASHED,
    end_of,
    half_copied,
    identity,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.host import Process
    from leftoff.model.versions import Version
    from leftoff.store.postgres.blobs import PostgresBlobs
    from leftoff.store.postgres.store import PostgresStore
    from leftoff.store.postgres.wire import Rows
    from leftoff.store.rows import BlobRow, Holder, Record
    from leftoff.store.tables import WritableTables

    Address = tuple[str, str]

_BLOB_TAG = ord("B")
_NOT_A_STEP = (None, None, None)


class PostgresTx(HoldingView, Tx):
    """A write transaction on this connection."""

    fetches = True
    store: PostgresStore
    blobs: PostgresBlobs

    def opened(self, found: list[Rows]) -> None:
        self.xid, self.schema, store_id = found[-1][0]
        self.store.know(store_id)

    # -- runs

    def add_run(self, run_id: str, at: int, *, workflow: str, branch: str, status: str, hidden: bool) -> int:
        """Whoever starts one of the same workflow and branch meanwhile waits; if one was started since we looked for
        it, all begins again."""
        names = plain(workflow), plain(branch)
        facts = (plain(run_id), NO_COUNTS, at, *names, status, int(hidden))
        again = [listing(where, limit) for where, limit, _ in self._listings]
        asked = [(Q.start_turn, names), *again, (Q.add_run, facts), (Q.fact, (FACT + COPYING,))]
        _, *found, made, copying = self.gather(None, asked)
        if copying:
            raise half_copied()
        for (where, limit, before), rows in zip(self._listings, found, strict=True):
            if before != what(listed(rows, where, limit)):
                raise Again
        run = int(made[0][0])
        self._heads[run] = (0, bytes(32), NO_COUNTS, 0, run_id, int(hidden), status)
        self._of(run).all = True
        self._alone.add(run)
        return run

    def _change(self, run: int, **facts: Any) -> None:
        """What is known of a head that was changed here."""
        head = self.hold(run)
        if head is not None:
            names = ("seq", "digest", "counts", "epoch", "run_id", "hidden", "status")
            self._heads[run] = tuple(facts.get(name, old) for name, old in zip(names, head, strict=True))

    def set_card(
        self, run: int, columns: dict[str, Any], card: dict[str, Any], *, hidden: bool = False
    ) -> None:
        self._change(run, hidden=int(hidden), status=columns.get("status"))
        names = ("workflow", "branch", "status", "title", "issue", "session")
        shown = [plain(columns.get(name)) for name in names]
        self.note(Q.set_card, (*shown, text(card), int(hidden), run))

    def reveal(self, run: int, run_id: str) -> None:
        self._change(run, hidden=0, run_id=run_id)
        self.note(Q.reveal_run, (plain(run_id), run))

    def trash(self, run: int, at: int) -> None:
        self._change(run, hidden=TRASHED)
        self.note(Q.trash_fact, (f"{TRASH}{run}", str(at)))
        self.note(Q.set_hidden, (TRASHED, run))

    def archive(self, run: int) -> None:
        self._change(run, hidden=ARCHIVED)
        self.note(Q.set_hidden, (ARCHIVED, run))

    def activate(self, run: int) -> None:
        self._change(run, hidden=0)
        self.note(Q.drop_meta, (f"{TRASH}{run}",))
        self.note(Q.set_hidden, (0, run))

    def _activate_archived(self, run: int) -> None:
        head = self.hold(run)
        if head is not None and head[5] == ARCHIVED:
            self.activate(run)

    # -- records

    def put(self, run: int, record: Record, existed: bool, step: tuple[str, str, int] | None = None) -> None:
        self.hold(run)
        collection, key, seq = record.collection, record.key, record.seq
        hash, stored = record.hash, record.stored
        blob = None
        if stored[0] == _BLOB_TAG:
            blob = stored[1:33]
            self._need(blob)
        batch, place = self._batch(run, seq, collection, key), (collection, cut(key))
        if existed:
            batch.superseded.append(place)
        inside = len(stored) <= INLINE
        if not inside:
            batch.values[hash] = stored
        data, outside = (stored, None) if inside else (None, hash)
        facts = step or _NOT_A_STEP
        batch.put.append((*place, whole(key), hash, data, outside, blob, *facts))
        self._changing(run).rows[collection, key] = (seq, hash, data, *facts)
        if collection == "step":
            for path in ancestors(key):
                self._below[run, path] = True

    def _batch(self, run: int, seq: int, collection: str, key: str) -> Batch:
        """Where a change goes: to the last ones, if it is of the same version and of another key."""
        last = self._pending[-1] if self._pending else None
        if (
            not isinstance(last, Batch)
            or (last.run, last.seq) != (run, seq)
            or last.version
            or (collection, key) in last.touched
        ):
            last = Batch(run, seq)
            self._pending.append(last)
        last.touched.add((collection, key))
        return last

    def _need(self, blob: bytes) -> None:
        """Looked at inside the transaction, and held: a prune may have been faster."""
        if not self.ask(Q.need_blob, (blob,)):
            raise Corrupt(
                f"The blob {blob.hex()} that a record refers to is not in the store.", where=blob.hex()
            )

    def drop(self, run: int, seq: int, collection: str, key: str) -> None:
        self.hold(run)
        batch, place = self._batch(run, seq, collection, key), (collection, cut(key))
        batch.superseded.append(place)
        batch.dropped.append(place)
        self._changing(run).rows[collection, key] = None
        if collection == "step":
            self._below.clear()

    def set_leaf(self, run: int, step: str, leaf: bool) -> None:
        self.hold(run)
        known = self._changing(run)
        row = known.get("step", step)
        if row is not UNKNOWN and row is not None:
            known.rows["step", step] = (*row[:5], int(leaf), *row[6:])
        self.note(Q.set_leaf, (int(leaf), run, cut(step)))

    def _changing(self, run: int) -> Known:
        """What is known of a run's records, of which one is changed."""
        known = self._of(run)
        known.written = True
        return known

    def add_version(self, run: int, version: Version, token: bytes) -> None:
        self._activate_archived(run)
        head = self.hold(run)
        stood = (head[0], head[1], head[3], head[5]) if head is not None else (None,) * 4
        before = head[2] if head is not None else None
        seq, digest, counts = version.seq, version.digest, version.counts
        self._change(run, seq=seq, digest=digest, counts=counts)
        self.made.append((run, seq, token))
        sealed = (version.checkpoint, version.trigger, plain(version.step), plain(version.note))
        last = self._pending[-1] if self._pending else None
        if not isinstance(last, Batch) or last.version or (last.run, last.seq) != (run, seq):
            last = Batch(run, seq)
            self._pending.append(last)
        last.version = (
            token,
            digest,
            version.epoch,
            version.at,
            counts,
            *sealed,
            *stood,
            self.schema,
            before,
        )

    def add_alias(self, run: int, seq: int, name: str) -> None:
        self.note(Q.add_alias, (plain(name), run, seq))

    # -- drivers and attempts

    def put_lease(self, run: int, epoch: int, holder: Holder = FREE) -> None:
        self._change(run, epoch=epoch)
        if holder.kind is not None:
            self._activate_archived(run)
        self._leases.pop(run, None)
        facts = (plain(holder.session), plain(holder.who), holder.since)
        self.note(Q.put_lease, (run, epoch, holder.kind, *identity(holder.process), *facts))
        self.note(Q.set_epoch, (epoch, run))

    def beat(self, run: int, epoch: int, at: int) -> bool:
        done = bool(self.ask(Q.beat, (at, run, epoch)))
        seen = self._leases.pop(run, None)
        if not done and seen is not None and seen.held and seen.epoch == epoch:
            raise Again  # freed since we looked
        return done

    def add_attempt(
        self,
        token: str,
        run: int,
        step: str,
        at: int,
        *,
        process: Process | None = None,
        log: str | None = None,
    ) -> int:
        self.hold(run)
        place = cut(step)
        if (run, place) not in self._tries:
            self._tries[run, place] = self.ask(Q.last_attempts, (run, [place]), run)[0][1]
        number = self._tries[run, place] = self._tries[run, place] + 1
        self.note(Q.add_attempt, (token, run, step, place, number, *identity(process), log, at))
        return number

    def set_attempt_process(self, token: str, process: Process) -> None:
        self.note(Q.set_attempt_process, (*identity(process), token))

    def drop_attempt(self, token: str) -> None:
        self._tries.clear()
        self._attempts.clear()
        self.note(Q.drop_attempt, (token,))

    def end_attempt(self, token: str, at: int, exit_code: int | None) -> None:
        self.note(Q.end_attempt, (at, exit_code, token, self._output(token)))

    def keep_log(self, token: str, last: bytes | None, whole: BlobRow | None) -> None:
        if whole is not None:
            self.put_blob(whole)
        self.note(Q.keep_log, (token, last, whole.hash if whole is not None else None))

    def _output(self, token: str) -> bytes | None:
        """The end of the attempt's log, if it lies on this machine: one that ended is in the system's cache."""
        for head in self._heads.values():
            path = os.path.join(self.store.folder, ATTEMPTS, head[4], token, "log") if head else ""
            try:
                return end_of(path)
            except OSError:
                continue
        return None

    def put_fact(self, name: str, value: str | None) -> None:
        if value is None:
            self.note(Q.drop_meta, (FACT + name,))
        else:
            self.note(Q.put_meta, (FACT + name, value))

    def put_blob(self, row: BlobRow) -> None:
        self.note(Q.know_blob, (row.hash,))
        if self.blobs.files is not None:
            self.blobs.hold(self, [row.hash])

    def tables(self) -> WritableTables:
        from leftoff.store.postgres.tables import TablesOfTx

        return TablesOfTx(self)
