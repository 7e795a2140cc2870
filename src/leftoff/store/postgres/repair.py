"""Repair on a server: what is damaged is set aside in tables, what is whole is kept.

Each damaged run is settled in a transaction of its own that holds it, so that nobody else is disturbed. All its rows
are copied into the table ``quarantine`` first, as they are. Then its versions are proved from its records, as
everywhere (``leftoff.store.repair.salvage``), and it is written again: at its newest version that counts. Blobs that
cannot be read give their pieces to ``quarantine_piece``.
"""

from __future__ import annotations

from leftoff.clock import compact, iso
from leftoff.errors import Corrupt, LeaseHeld
from leftoff.host import this_process
from leftoff.store.postgres.check import inspect
from leftoff.store.postgres.queries import Q
from leftoff.store.repair.rebuild import Rebuilding, RunRebuild, lines
from leftoff.store.repair.salvage import Found, Rest
from leftoff.store.rows import BlobRow, is_of_attempt
from leftoff.store.tables import RUN, TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.store.postgres.check import Damage
    from leftoff.store.postgres.store import PostgresStore
    from leftoff.store.postgres.tx import PostgresTx
    from leftoff.store.rows import Lease

    Values = dict[str, Any]

WRITTEN = ("record", "past", "version", "alias")  # the tables whose rows of a run are written again
OF_RUN = ("run", *WRITTEN, "lease", "attempt")


def check_and_repair(store: PostgresStore) -> dict[str, Any]:
    """See ``Store.check``."""
    report = inspect(store)
    if not report.problems:
        return report.to_json()
    work = _Repair(store, report)
    work.run()
    again = inspect(store)
    again.quarantined = [f"{store.place.schema}.quarantine, where repair = '{work.name}'"]
    return {**again.to_json(), "repaired": report.problems, "salvaged": work.losses}


class _Repair:
    """One repair, which is named by its time."""

    def __init__(self, store: PostgresStore, report: Damage) -> None:
        self._store = store
        self._report = report
        self._at = store.clock.now()
        self.name = compact(self._at)
        self.losses: list[dict[str, Any]] = []  # run by run: what could not be proved

    def run(self) -> None:
        store = self._store
        store.on_link(lambda link: link.script(Q.make_quarantine.split(";")))
        if "stray" in self._report.codes():
            store.write(self._take_strays)
        for run in self._report.runs:
            loss = store.write(lambda tx: self._settle_run(tx, run))  # noqa: B023
            self.losses += [loss] if loss is not None else []
        store.write(self._take_values)
        for hash in sorted({bytes.fromhex(p["blob"]) for p in self._report.problems if p["code"] == "blob"}):
            self._settle_blob(hash)
        store.write(lambda tx: tx.note(Q.catch_up))  # type: ignore[attr-defined]

    def _aside(self, tx: Any, table: str, where: str, values: tuple[Any, ...] = ()) -> None:
        """Copy rows into the quarantine."""
        tx.note(
            f"INSERT INTO quarantine (repair, source, kept) SELECT ${len(values) + 1}, '{table}', to_jsonb(t) "
            f"FROM {table} t WHERE {where}",
            (*values, self.name),
        )

    def _take_strays(self, tx: Any) -> None:
        for table in (*WRITTEN, "lease", "attempt"):
            where = "t.run NOT IN (SELECT run FROM run)"
            self._aside(tx, table, where)
            tx.note(f"DELETE FROM {table} t WHERE {where}")

    def _take_values(self, tx: Any) -> None:
        """Those that nothing can refer to: the runs that did are written again."""
        where = (
            "sha256(t.data) <> t.hash AND NOT EXISTS (SELECT 1 FROM record WHERE outside = t.hash) "
            "AND NOT EXISTS (SELECT 1 FROM past WHERE outside = t.hash)"
        )
        self._aside(tx, "value", where)
        tx.note(f"DELETE FROM value t WHERE {where}")

    # -- a run

    def _settle_run(self, tx: Any, run: int) -> dict[str, Any] | None:
        """Write a run again, at its newest version that is proved; what could not be."""
        if tx.hold(run) is None:
            return None
        lease = tx.lease(run)
        found = _rows(tx, run)
        if self._report.runs[run] == {"run"}:  # its row is what is wrong, and proves nothing
            found.runs[run]["seq"] = 0
        rest = Rest(found, run)
        _refuse_driven(rest.run_id, lease)
        for table in OF_RUN:
            self._aside(tx, table, "t.run = $1", (run,))
        unplaced = [*lines(rest, rest.split()[2])]
        for line in unplaced:
            tx.note(Q.unplaced, (self.name, line.decode()))
        for table in WRITTEN:
            tx.note(f"DELETE FROM {table} WHERE run = $1", (run,))
        self._take_attempts(tx, run)
        if rest.head:
            self._write_again(tx, rest, found, lease)
        else:
            for table in ("lease", "attempt", "run"):
                tx.note(f"DELETE FROM {table} WHERE run = $1", (run,))
        loss = rest.loss()
        return {**loss, "aside": f"table quarantine, repair {self.name}"} if loss and unplaced else loss

    def _take_attempts(self, tx: Any, run: int) -> None:
        """Those that name a folder which is none of theirs."""
        known = tx.ask("SELECT token, log FROM attempt WHERE run = $1 AND log IS NOT NULL", (run,), run)
        strange = [token for token, folder in known if not is_of_attempt(folder)]
        tx.note("DELETE FROM attempt WHERE token = ANY($1::text[])", (strange,))

    def _write_again(self, tx: PostgresTx, rest: Rest, found: Found, lease: Lease | None) -> None:
        loss, marks = rest.loss(), {}
        if loss is not None and loss["newest"] != loss["kept"]:
            told = {key: loss[key] for key in ("kept", "newest", "message")}
            marks[rest.run_id] = {"at": iso(self._at), "aside": [f"quarantine {self.name}"], **told}
        newest = tx.ask("SELECT nextval('commit_number')")[0][0] - 1 if marks else 0
        whole = _Rebuild(self._store, tx, marks, self._at, newest)
        RunRebuild(whole, rest).write()
        whole.flush()
        names = [row for row in found.others.get("alias", []) if row["seq"] in rest.proved]
        tx.tables().add("alias", [_row("alias", row) for row in names])
        epoch = max(rest.row["epoch"] if rest.row else 0, lease.epoch if lease is not None else 0)
        tx.put_lease(rest.run, epoch + 1)  # whoever drove it before goes by what is not so any more

    # -- a blob

    def _settle_blob(self, hash: bytes) -> None:
        """One that can be read after all is known again. Of one that cannot, that is known: its records stay. Whoever
        saves it again meanwhile has done so before, or waits."""
        store = self._store

        def work(tx: Any) -> None:
            tx.ask(Q.lock_blobs, ([hash],))
            if _is_whole(store, tx, hash):
                tx.note(Q.know_blob, (hash,))
                return
            store.blobs.set_aside(hash, self.name)
            self._aside(tx, "blob", "t.hash = $1", (hash,))
            tx.note(Q.pieces_aside, (hash, self.name))
            tx.note(Q.drop_former, (hash, 0))
            tx.note(Q.lose_blob, (hash,))
            tx.lose_blob(hash, self._at)

        store.write(work)


class _Rebuild(Rebuilding):
    """Rows of one run, held by a transaction."""

    def __init__(
        self, store: PostgresStore, tx: PostgresTx, marks: dict[str, Values], at: int, newest: int
    ) -> None:
        super().__init__(marks, at, newest)
        self._store = store
        self._tx = tx
        self._rows: dict[str, list[Values]] = {}

    def put(self, table: str, row: Values) -> None:
        self._rows.setdefault(table, []).append(row)

    def add_blob(self, hash: bytes) -> None:
        """Its row is there, or is made for the reference to have something: of a blob that is not known."""
        self._tx.note(Q.refer_to_blob, (hash,))

    def load_blob(self, hash: bytes) -> Iterator[bytes]:
        row = self._tx.blob(hash)
        return self._store.blobs.load(row) if row is not None else iter(())

    def flush(self) -> None:
        for table in ("value", "record", "past", "version"):
            self._tx.tables().add(table, [_row(table, row) for row in self._rows.get(table, [])])
        (run,) = self._rows["run"]
        names = [name for name in RUN.split() if name not in ("run", "created_at")]
        marks = ", ".join(f"{name} = ${i + 2}" for i, name in enumerate(names))
        self._tx.note(f"UPDATE run SET {marks} WHERE run = $1", [run["run"], *(run[name] for name in names)])


def _row(table: str, row: Values) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in TABLES[table][0])


def _rows(tx: PostgresTx, run: int) -> Found:
    """All rows of a run. Any of its records may be garbled; what versions say of themselves is taken as it is."""
    found = Found({})
    columns = ["epoch", *RUN.split()]
    for row in tx.ask(f"SELECT {', '.join(columns)} FROM run WHERE run = $1", (run,)):
        found.add("run", dict(zip(columns, row, strict=True)), sure=True)
    for table in WRITTEN:
        named = TABLES[table][0]
        shown = [
            _SHOWN.get(name, f"t.{name}") if table in ("record", "past") else f"t.{name}" for name in named
        ]
        join = "LEFT JOIN value v ON v.hash = t.outside" if table in ("record", "past") else ""
        for row in tx.ask(f"SELECT {', '.join(shown)} FROM {table} t {join} WHERE t.run = $1", (run,)):
            found.add(table, dict(zip(named, row, strict=True)), sure=table in ("version", "alias"))
    return found


_SHOWN = {"key": "coalesce(t.whole, t.key)", "data": "coalesce(t.data, v.data)"}


def _is_whole(store: PostgresStore, view: Any, hash: bytes) -> bool:
    """Whether all of a blob is there, known or not."""
    try:
        columns = view.ask(Q.any_blob, (hash,))
        for _ in store.blobs.load(BlobRow(hash, *columns[0]), view.ask) if columns else ():
            pass
        return bool(columns)
    except Corrupt:
        return False


def _refuse_driven(run_id: str, lease: Lease | None) -> None:
    """Its driver would go on from what is not so any more."""
    if lease is None or lease.process == this_process() or not lease.is_at_work(0):
        return
    who = f"{lease.who or 'a process'} ({lease.process or lease.session})"
    since = f", since {iso(lease.since)}" if lease.since is not None else ""
    raise LeaseHeld(
        f"Run {run_id} is driven by {who}{since}.",
        hint="Let it end, or stop it; a damaged run is repaired while nobody drives it.",
    )
