"""Writing rows to PostgreSQL, in few round trips.

Whoever writes to a run holds its row first: from then on nobody else changes anything of it. What was looked at before
(a listing, the run that is meant) may have moved by then; where it has, the work begins again (``Again``), as it does
after a deadlock. So it works on what is so, and different runs never wait for each other.

What is written is only noted, and sent with the next question or with the end of the transaction. What is known of a
run's live records is kept in step with it: a small run is read whole when it is first looked at, so most questions
about it are answered here.
"""

from __future__ import annotations

from leftoff.errors import Corrupt
from leftoff.model.codec import text
from leftoff.model.versions import NO_COUNTS
from leftoff.store.base import INLINE, Tx
from leftoff.store.postgres.names import cut, plain, whole
from leftoff.store.postgres.queries import Q
from leftoff.store.postgres.view import SMALL, PostgresView, checked
from leftoff.store.rows import FACT, FREE, TRASH, TRASHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from leftoff.host import Process
    from leftoff.store.postgres.connection import Link
    from leftoff.store.postgres.wire import Rows, Statement
    from leftoff.store.rows import BlobRow, Holder, Record, RunRow

    Address = tuple[str, str]

_BLOB_TAG = ord("B")
_NOT_A_STEP = (None, None, None)
_NOT_SEALED = (None, None, None, None)
_UNKNOWN: Any = object()


class Again(BaseException):
    """What was looked at is not so any more: begin again. No error: nobody who catches errors may stop it."""


class Known:
    """What a transaction knows of the live records of one run: by address, ``None`` where there is none.

    Of each: seq, hash, bytes (``None``: not here), status, ord and leaf. ``all``: there are no others.
    """

    def __init__(self) -> None:
        self.rows: dict[Address, tuple[Any, ...] | None] = {}
        self.all = False

    def get(self, collection: str, key: str) -> Any:
        return self.rows.get((collection, key), None if self.all else _UNKNOWN)

    def range(self, collection: str, low: str, high: str | None) -> list[tuple[str, tuple[Any, ...]]]:
        """The records of a collection in key order, where all are known."""
        found = [(a[1], row) for a, row in self.rows.items() if a[0] == collection and row is not None]
        return sorted(each for each in found if low <= each[0] and (high is None or each[0] < high))


class _Batch:
    """Records of one run and version that are put, or ended, together."""

    def __init__(self, run: int, seq: int) -> None:
        self.run, self.seq = run, seq
        self.superseded: list[Address] = []
        self.put: list[tuple[Any, ...]] = []
        self.dropped: list[Address] = []
        self.values: dict[bytes, bytes] = {}
        self.touched: set[Address] = set()

    def statements(self) -> Iterator[Statement]:
        if self.superseded:
            yield Q.supersede, (self.run, self.seq, *_columns(self.superseded, 2))
        if self.dropped:
            yield Q.drop_records, (self.run, *_columns(self.dropped, 2))
        if self.values:
            yield Q.put_values, (list(self.values), list(self.values.values()))
        if self.put:
            yield Q.put_records, (self.run, self.seq, *_columns(self.put, 10))


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[i] for row in rows] for i in range(width)]


class PostgresTx(PostgresView, Tx):
    """A write transaction on this connection."""

    def __init__(self, link: Link, proved: set[int], before: Sequence[Statement]) -> None:
        super().__init__(link, proved, before)
        self.xid: str | None = None
        self.schema: str | None = None
        self.made: list[tuple[int, int, bytes]] = []  # run, seq and token of what is committed
        self._heads: dict[int, tuple[Any, ...] | None] = {}  # of the runs that are held
        self._known: dict[int, Known] = {}
        self._seen: dict[
            int, tuple[int, int, str]
        ] = {}  # seq, hidden and status of runs before they were held
        self._listed: list[tuple[dict[str, Any], int | None, list[tuple[int, str]]]] = []
        self._wanted: dict[int, list[Address]] = {}
        self._tries: dict[tuple[int, str], int] = {}
        self._pending: list[Statement | _Batch] = []

    # -- asking

    def opened(self, found: list[Rows]) -> None:
        self.xid, self.schema = found[-1][0]

    def note(self, sql: str, values: Sequence[Any] = ()) -> None:
        """A statement whose answer nobody needs: it goes with the next one."""
        self._pending.append((sql, values))

    def flushed(self) -> list[Statement]:
        """What was noted, to be sent now."""
        pending, self._pending = self._pending, []
        out: list[Statement] = []
        for each in pending:
            out.extend(each.statements() if isinstance(each, _Batch) else (each,))
        return out

    def ask(self, sql: str, values: Sequence[Any] = (), run: int | None = None) -> Rows:
        return self.gather(run, [(sql, values)])[-1]

    def gather(self, run: int | None, questions: Sequence[Statement] = ()) -> list[Rows]:
        """Hold a run, fetch what is wanted of it, send what was noted, and ask: all of it at once."""
        first: list[Statement] = []
        wanted: list[Address] = []
        if run is not None and run not in self._heads:
            first.append((Q.hold, (run,)))
            wanted = self._wanted.pop(run, [])
            if wanted:
                first += self._fetching(run, wanted)
        noted = self.flushed()
        found = self.several([*first, *noted, *questions])
        if first and run is not None:
            self._held(run, found[0])
            if wanted:
                self._fetched(run, wanted, found[1], found[2])
        return found[len(found) - len(questions) :] if questions else []

    def hold(self, run: int) -> tuple[Any, ...] | None:
        """Where the run stands, which from now on only this transaction changes."""
        if run not in self._heads:
            self.gather(run)
        return self._heads[run]

    def _held(self, run: int, rows: Rows) -> None:
        head = rows[0] if rows else None
        if run in self._seen and (head is None or (head[0], head[5], head[6]) != self._seen[run]):
            raise Again
        self._heads[run] = head

    def _saw(self, row: RunRow | None) -> RunRow | None:
        """A run that is not held yet: if it moves before it is, all begins again."""
        if row is not None and row.run not in self._heads:
            self._seen[row.run] = (row.seq, row.hidden, row.status)
        return row

    def fetch(self, run: int, addresses: Iterable[Address]) -> None:
        if run not in self._heads:
            self._wanted.setdefault(run, []).extend(addresses)

    def _fetching(self, run: int, wanted: list[Address]) -> list[Statement]:
        cuts = [(collection, cut(key)) for collection, key in wanted]
        steps = [key for collection, key in cuts if collection == "step"]
        return [(Q.rows, (run, *_columns(cuts, 2))), (Q.last_attempts, (run, steps))]

    def _fetched(self, run: int, wanted: list[Address], rows: Rows, tries: Rows) -> None:
        known = self._of(run)
        names = {(collection, cut(key)): (collection, key) for collection, key in wanted}
        for collection, key, hash, status, order, leaf, there in rows:
            address = names[collection, key]
            known.rows[address] = (None, hash, None, status, order, leaf) if there else None
        for place, number in tries:
            self._tries[run, place] = number

    def _of(self, run: int) -> Known:
        if run not in self._known:
            self._known[run] = Known()
        return self._known[run]

    # -- what is known is answered here

    def find_run(self, run_id: str, *, hidden: bool = False) -> RunRow | None:
        return self._saw(super().find_run(run_id, hidden=hidden))

    def list_runs(self, where: dict[str, Any], limit: int | None = None) -> list[RunRow]:
        rows = super().list_runs(where, limit)
        self._listed.append((where, limit, [(row.run, row.status) for row in rows]))
        for row in rows:
            self._saw(row)
        return rows

    def prove(self, row: RunRow, most: int = SMALL) -> None:
        if row.run in self._heads:
            return
        rows = self.ask(Q.small, (row.run, most + 1), row.run)
        if not self.made:
            self.add_up(row, rows, most)
        if len(rows) <= most:
            known = self._of(row.run)
            known.all = True
            for collection, key, *facts in rows:
                known.rows[collection, key] = tuple(facts)

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        head = self.hold(run)
        return head[:5] if head is not None and head[5] < TRASHED else None

    def row(
        self, run: int, collection: str, key: str
    ) -> tuple[bytes, str | None, str | None, int | None] | None:
        known = self._of(run).get(collection, key)
        if known is _UNKNOWN:
            return super().row(run, collection, key)
        return (known[1], *known[3:]) if known is not None else None

    def record(self, run: int, collection: str, key: str) -> Record | None:
        known = self._of(run).get(collection, key)
        if known is None:
            return None
        if known is _UNKNOWN or known[2] is None:
            return super().record(run, collection, key)
        return checked(run, collection, key, *known[:3])

    def _batches(self, run: int, collection: str, low: str = "", high: str | None = None) -> Iterator[Rows]:
        known = self._of(run)
        found = known.range(collection, low, high) if known.all else []
        if not known.all or any(row[2] is None for _, row in found):
            yield from super()._batches(run, collection, low, high)
        else:
            yield [(key, key, *row[:3]) for key, row in found]

    def hashes(self, run: int, collection: str, low: str = "", high: str | None = None) -> dict[str, bytes]:
        known = self._of(run)
        if known.all:
            return {key: row[1] for key, row in known.range(collection, low, high)}
        return super().hashes(run, collection, low, high)

    def last_key(self, run: int, collection: str, low: str, high: str) -> str | None:
        known = self._of(run)
        if known.all:
            return max((key for key, _ in known.range(collection, low, high)), default=None)
        return super().last_key(run, collection, low, high)

    def has_below(self, run: int, step: str) -> bool:
        known = self._of(run)
        if known.all:
            return bool(known.range("step", step + "/", step + "0"))
        return super().has_below(run, step)

    def leaves(self, run: int, status: str, limit: int) -> list[str]:
        known = self._of(run)
        if not known.all:
            return super().leaves(run, status, limit)
        steps = known.range("step", "", None)
        found = sorted((row[4], key) for key, row in steps if row[3] == status and row[5])
        return [key for _, key in found[:limit]]

    def last_order(self, run: int, prefix: str) -> str | None:
        known = self._of(run)
        if not known.all:
            return super().last_order(run, prefix)
        orders = (row[4] for _, row in known.range("step", "", None) if row[5])
        return max((order for order in orders if order.startswith(prefix)), default=None)

    def collections(self, run: int, *, past: bool = False) -> list[str]:
        known = self._of(run)
        if past or not known.all:
            return super().collections(run, past=past)
        return sorted({address[0] for address, row in known.rows.items() if row is not None})

    # -- runs

    def add_run(self, run_id: str, at: int, *, workflow: str, branch: str, status: str, hidden: bool) -> int:
        """Whoever starts one of the same workflow and branch meanwhile waits; if one was started since we looked for
        it, all begins again."""
        names = plain(workflow), plain(branch)
        facts = (plain(run_id), NO_COUNTS, at, *names, status, int(hidden))
        self.gather(None, [(Q.start_turn, names)])
        for where, limit, before in self._listed:
            found = PostgresView.list_runs(self, where, limit)
            if before != [(row.run, row.status) for row in found]:
                raise Again
        run = int(self.ask(Q.add_run, facts)[0][0])
        self._heads[run] = (0, bytes(32), NO_COUNTS, 0, run_id, int(hidden), status)
        self._of(run).all = True
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

    def untrash(self, run: int) -> None:
        self._change(run, hidden=0)
        self.note(Q.drop_meta, (f"{TRASH}{run}",))
        self.note(Q.set_hidden, (0, run))

    # -- records

    def put(
        self,
        run: int,
        seq: int,
        collection: str,
        key: str,
        hash: bytes,
        stored: bytes,
        existed: bool,
        step: tuple[str, str, int] | None = None,
    ) -> None:
        self.hold(run)
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
        self._of(run).rows[collection, key] = (seq, hash, data, *facts)

    def _batch(self, run: int, seq: int, collection: str, key: str) -> _Batch:
        """Where a change goes: to the last ones, if it is of the same version and of another key."""
        last = self._pending[-1] if self._pending else None
        if (
            not isinstance(last, _Batch)
            or (last.run, last.seq) != (run, seq)
            or (collection, key) in last.touched
        ):
            last = _Batch(run, seq)
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
        self._of(run).rows[collection, key] = None

    def set_leaf(self, run: int, step: str, leaf: bool) -> None:
        self._set_step(run, step, 5, int(leaf))
        self.note(Q.set_leaf, (int(leaf), run, cut(step)))

    def set_order(self, run: int, step: str, order: str) -> None:
        self._set_step(run, step, 4, order)
        self.note(Q.set_order, (order, run, cut(step)))

    def _set_step(self, run: int, step: str, column: int, value: Any) -> None:
        self.hold(run)
        known = self._of(run).get("step", step)
        if known is not _UNKNOWN and known is not None:
            self._of(run).rows["step", step] = (*known[:column], value, *known[column + 1 :])

    def add_version(
        self,
        run: int,
        seq: int,
        token: bytes,
        digest: bytes,
        epoch: int,
        at: int,
        counts: str,
        seal: tuple[str, str, str | None, str | None] | None,
    ) -> None:
        self._change(run, seq=seq, digest=digest, counts=counts)
        self.made.append((run, seq, token))
        sealed = (seal[0], seal[1], plain(seal[2]), plain(seal[3])) if seal else _NOT_SEALED
        self.note(Q.add_version, (run, seq, token, digest, epoch, at, counts, *sealed))

    def add_alias(self, run: int, seq: int, name: str) -> None:
        self.note(Q.add_alias, (plain(name), run, seq))

    # -- drivers and attempts

    def put_lease(self, run: int, epoch: int, holder: Holder = FREE) -> None:
        self._change(run, epoch=epoch)
        facts = (plain(holder.session), plain(holder.who), holder.since)
        self.note(Q.put_lease, (run, epoch, holder.kind, *_place(holder.process), *facts))
        self.note(Q.set_epoch, (epoch, run))

    def beat(self, run: int, epoch: int, at: int) -> bool:
        return bool(self.ask(Q.beat, (at, run, epoch)))

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
        self.note(Q.add_attempt, (token, run, step, place, number, *_place(process), log, at))
        return number

    def set_attempt_process(self, token: str, process: Process) -> None:
        self.note(Q.set_attempt_process, (*_place(process), token))

    def drop_attempt(self, token: str) -> None:
        self._tries.clear()
        self.note(Q.drop_attempt, (token,))

    def end_attempt(self, token: str, at: int, exit_code: int | None) -> None:
        self.note(Q.end_attempt, (at, exit_code, token))

    def put_fact(self, name: str, value: str | None) -> None:
        if value is None:
            self.note(Q.drop_meta, (FACT + name,))
        else:
            self.note(Q.put_meta, (FACT + name, value))

    def put_blob(self, row: BlobRow) -> None:
        self.note(Q.know_blob, (row.hash,))

    def load(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        from leftoff.store.postgres.rows_apart import load

        load(self, table, rows)

    def load_runs(self, rows: list[tuple[Any, ...]]) -> None:
        from leftoff.store.postgres.rows_apart import load_runs

        load_runs(self, rows)

    def clear(self) -> None:
        from leftoff.store.postgres.rows_apart import clear

        clear(self)


def _place(process: Process | None) -> tuple[str | None, int | None, str | None]:
    return (process.scope, process.pid, process.started) if process else (None, None, None)
