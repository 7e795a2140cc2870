"""Writing rows to SQLite."""

from __future__ import annotations

from leftoff.errors import Corrupt
from leftoff.model.codec import text
from leftoff.model.versions import NO_COUNTS
from leftoff.store.base import INLINE, Tx
from leftoff.store.rows import (
    ARCHIVED,
    COPYING,
    FACT,
    FREE,
    TRASH,
    TRASHED,
    half_copied,
    identity,
    run_from,
)
from leftoff.store.sqlite.queries import Q
from leftoff.store.sqlite.view import SqliteView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import apsw

    from leftoff.host import Process
    from leftoff.model.versions import Version
    from leftoff.store.blobs import Blobs
    from leftoff.store.rows import BlobRow, Holder, Record, RunRow

_BLOB_TAG = ord("B")
_SUPERSEDE, _PUT, _DROP = Q.supersede, Q.put_record, Q.drop_record
_NEXT, _MOVE, _VERSION = Q.next_n, Q.move_head, Q.add_version
_HEAD, _ROW = Q.head, Q.row
_NOT_A_STEP = (None, None, None)


class SqliteTx(SqliteView, Tx):
    """A write transaction that the store opened on this connection."""

    def __init__(
        self,
        db: apsw.Connection,
        blobs: Blobs,
        proved: set[int] | None = None,
    ) -> None:
        super().__init__(db, set() if proved is None else proved)
        self._blobs = blobs
        # The count of changes when the transaction began; -1: they are none of ours to judge.
        self.began_at = -1
        # One cursor for the statements of every commit: making one costs a third of what they do. It is used only
        # where nothing is read from it, or all at once.
        self.quick: Any = db.cursor().execute

    def _is_settled(self) -> bool:
        return self.db.total_changes() == self.began_at

    def _refuse_unlisted(self, run_id: str, hidden: bool) -> None:
        """Not where every new run would pay for it: that its id is free is checked when it is added."""

    def _current(self, columns: tuple[Any, ...] | None) -> RunRow | None:
        """Not where every commit would pay for it: one on an older head makes a version that is there already."""
        return run_from(columns) if columns is not None else None

    def add_run(self, run_id: str, at: int, *, workflow: str, branch: str, status: str, hidden: bool) -> int:
        if self.fact(COPYING) is not None:
            raise half_copied()
        self.execute(Q.add_run, (run_id, NO_COUNTS, at, at, workflow, branch, status, int(hidden)))
        return self.db.last_insert_rowid()

    def set_card(
        self, run: int, columns: dict[str, Any], card: dict[str, Any], *, hidden: bool = False
    ) -> None:
        shown = [columns.get(name) for name in ("workflow", "branch", "status", "title", "issue", "session")]
        self.execute(Q.set_card, (*shown, text(card), int(hidden), run))

    def reveal(self, run: int, run_id: str) -> None:
        self.execute(Q.reveal_run, (run_id, run))

    def trash(self, run: int, at: int) -> None:
        self.execute(Q.put_meta, (f"{TRASH}{run}", f"{at} {self.newest()}"))
        self.execute(Q.set_hidden, (TRASHED, run))

    def archive(self, run: int) -> None:
        self.execute(Q.set_hidden, (ARCHIVED, run))

    def activate(self, run: int) -> None:
        self.execute(Q.drop_meta, (f"{TRASH}{run}",))
        self.execute(Q.set_hidden, (0, run))

    def put(self, run: int, record: Record, existed: bool, step: tuple[str, str, int] | None = None) -> None:
        execute = self.quick
        collection, key, seq, stored = record.collection, record.key, record.seq, record.stored
        if existed:
            execute(_SUPERSEDE, (seq, run, collection, key))
        blob = None
        if stored[0] == _BLOB_TAG:
            blob = stored[1:33]
            self._need(blob)
        data: bytes | None = stored
        if len(stored) > INLINE:
            execute(Q.put_value, (record.hash, stored))
            data = None
        execute(_PUT, (run, collection, key, seq, record.hash, data, blob, *(step or _NOT_A_STEP)))

    def _need(self, blob: bytes) -> None:
        """Looked at again inside the transaction: a prune may have been faster."""
        if self.blob(blob) is None or not self._blobs.present(blob):
            raise Corrupt(
                f"The blob {blob.hex()} that a record refers to is not in the store.", where=blob.hex()
            )

    def drop(self, run: int, seq: int, collection: str, key: str) -> None:
        self.quick(_SUPERSEDE, (seq, run, collection, key))
        self.quick(_DROP, (run, collection, key))

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        return self.quick(_HEAD, (run,)).fetchone()  # type: ignore[no-any-return]

    def row(
        self, run: int, collection: str, key: str
    ) -> tuple[bytes, str | None, str | None, int | None] | None:
        return self.quick(_ROW, (run, collection, key)).fetchone()  # type: ignore[no-any-return]

    def set_leaf(self, run: int, step: str, leaf: bool) -> None:
        self.execute(Q.set_leaf, (int(leaf), run, step))

    def add_version(self, run: int, version: Version, token: bytes) -> None:
        execute = self.quick
        execute(_NEXT)
        seq, digest, at, counts = version.seq, version.digest, version.at, version.counts
        seal = (version.checkpoint, version.trigger, version.step, version.note)
        execute(_MOVE, (seq, digest, counts, at, version.checkpoint, run))
        execute(_VERSION, (run, seq, token, digest, version.epoch, at, counts, *seal))

    def add_alias(self, run: int, seq: int, name: str) -> None:
        self.execute(Q.add_alias, (name, run, seq))

    def put_lease(self, run: int, epoch: int, holder: Holder = FREE) -> None:
        facts = (holder.session, holder.who, holder.since, holder.since)
        self.execute(Q.put_lease, (run, epoch, holder.kind, *identity(holder.process), *facts))
        if holder.kind is not None:
            self.execute(Q.activate, (run,))

    def beat(self, run: int, epoch: int, at: int) -> bool:
        return self.execute(Q.beat, (at, run, epoch)).fetchone() is not None

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
        row = self.execute(Q.add_attempt, (token, run, step, *identity(process), log, at)).fetchall()
        return int(row[0][0])

    def set_attempt_process(self, token: str, process: Process) -> None:
        self.execute(Q.set_attempt_process, (*identity(process), token))

    def drop_attempt(self, token: str) -> None:
        self.execute(Q.drop_attempt, (token,))

    def end_attempt(self, token: str, at: int, exit_code: int | None) -> None:
        self.execute(Q.end_attempt, (at, exit_code, token))

    def put_fact(self, name: str, value: str | None) -> None:
        if value is None:
            self.execute(Q.drop_meta, (FACT + name,))
        else:
            self.execute(Q.put_meta, (FACT + name, value))

    def put_blob(self, row: BlobRow) -> None:
        self._blobs.present(row.hash)
        self.execute(Q.put_blob, (row.hash, row.size, row.stored, row.encoding))
