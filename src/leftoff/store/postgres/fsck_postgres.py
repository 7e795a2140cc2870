"""fsck and repair of a store on PostgreSQL. The server takes care of its own files.

fsck reads everything in one snapshot and blocks nobody. Repair settles each damaged run in a transaction of its own: it
copies all rows of the run into the table `quarantine` and writes the run again at its newest version that is proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from leftoff.clock import compact, iso
from leftoff.errors import Corrupt, LeaseHeld
from leftoff.host import this_process
from leftoff.store.integrity import Report, RunCheck, check_blob, check_strays, check_value
from leftoff.store.postgres.queries import Q
from leftoff.store.remains import RunRemains, mark_of
from leftoff.store.rows import BlobRow, Lease, is_of_attempt
from leftoff.store.tables import RUN, TABLES

if TYPE_CHECKING:
    from leftoff.store.postgres.store import PostgresStore
    from leftoff.store.postgres.tx import PostgresTx

SOME = 200
WRITTEN = ("record", "past", "version", "alias")  # the tables whose rows of a run are written again
OF_RUN = ("run", *WRITTEN, "lease", "attempt")


def inspect(store: PostgresStore) -> tuple[Report, set[int]]:
    """Check everything and change nothing; return also the numbers of the damaged runs."""
    if not store.exists():
        return Report(), set()
    return store.read(lambda view: _check(store, view))


def _check(store: PostgresStore, view: Any) -> tuple[Report, set[int]]:
    report, damaged, blobs = Report(store.counted), set[int](), _Blobs(store, view)
    for hash, data in _by_hash(view, Q.all_values):
        check_value(report, hash, data)
    for (run,) in view.ask(Q.runs_to_check):
        before = len(report.problems)
        try:
            RunCheck(view, blobs, run, report).check()
        except Corrupt as error:
            report.problem("unreadable", error.where or store.name, error.message)
        if len(report.problems) > before:
            damaged.add(run)
    questions = (Q.rows_of_no_run, Q.hidden_but_complete, Q.newest_commit, Q.wrong_epochs)
    strays, hidden, ((newest, counted),), epochs = view.several([(sql, ()) for sql in questions])
    check_strays(report, strays, [(run_id,) for _, run_id in hidden])
    for _, run_id in epochs:
        report.problem("run", f"run {run_id}", "Its epoch is not that of its lease.", run_id=run_id)
    if counted < newest:
        message = f"It counts {counted} commits, but there is number {newest}."
        report.problem("run", "commit_number", message)
    damaged.update(run for run, _ in (*hidden, *epochs))
    for columns in _by_hash(view, Q.all_blobs):
        check_blob(report, blobs, BlobRow(*columns))
    return report, damaged


class _Blobs:
    """Loads blobs as one snapshot sees them."""

    def __init__(self, store: PostgresStore, view: Any) -> None:
        self._store = store
        self._view = view

    def load(self, row: BlobRow) -> Iterator[bytes]:
        return self._store.blobs.load(row, self._view.ask)


def _by_hash(view: Any, sql: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table whose key is a hash, some at a time."""
    last = b""
    while rows := view.ask(sql, (last, SOME)):
        yield from rows
        last = rows[-1][0]


def check_and_repair(store: PostgresStore) -> dict[str, Any]:
    """Check the store, set what is damaged aside, and check again."""
    report, damaged = inspect(store)
    if not report.problems:
        return report.to_json()
    repair = _Repair(store)
    repair.run(report, damaged)
    again, _ = inspect(store)
    if report.codes() != {"blob"} or damaged:
        again.quarantined = [f"{store.place.schema}.quarantine, where repair = '{repair.name}'"]
    repaired = [problem for problem in report.problems if problem not in again.problems]
    return {**again.to_json(), "repaired": repaired, "salvaged": repair.losses}


class _Repair:
    """One repair, named by its time."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._at = store.clock.now()
        self.name = compact(self._at)
        self.losses: list[dict[str, Any]] = []

    def run(self, report: Report, damaged: set[int]) -> None:
        store = self._store
        store.on_link(lambda link: link.script([Q.make_quarantine]))
        if "stray" in report.codes():
            store.write(self._take_strays)
        for run in sorted(damaged):
            loss = store.write(lambda tx: self._settle_run(tx, run))  # type: ignore[arg-type]  # noqa: B023
            self.losses += [loss] if loss is not None else []
        store.write(self._take_values)
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
        """Take out the damaged values; no run refers to them once those that did are written again."""
        where = (
            "sha256(t.data) <> t.hash AND NOT EXISTS (SELECT 1 FROM record WHERE outside = t.hash) "
            "AND NOT EXISTS (SELECT 1 FROM past WHERE outside = t.hash)"
        )
        self._aside(tx, "value", where)
        tx.note(f"DELETE FROM value t WHERE {where}")

    def _settle_run(self, tx: PostgresTx, run: int) -> dict[str, Any] | None:
        """Write a run again at its newest version that is proved; return what could not be."""
        if tx.hold(run) is None:
            return None
        lease = tx.lease(run)
        row = next(_named(["epoch", *RUN.split()], tx.ask(_columns("run", "epoch"), (run,))))
        records = [record for table in ("record", "past") for record in _rows(tx, table, run)]
        remains = RunRemains(run, row, records, _rows(tx, "version", run))
        _refuse_driven(remains.run_id, lease)
        for table in OF_RUN:
            self._aside(tx, table, "t.run = $1", (run,))
        aliases = list(_rows(tx, "alias", run)) if remains.head else []
        known = tx.ask("SELECT token, log FROM attempt WHERE run = $1 AND log IS NOT NULL", (run,), run)
        strange = [token for token, log in known if not is_of_attempt(log)]
        tx.note("DELETE FROM attempt WHERE token = ANY($1::text[])", (strange,))
        for table in WRITTEN if remains.head else OF_RUN:
            tx.note(f"DELETE FROM {table} WHERE run = $1", (run,))
        loss = remains.loss(f"table quarantine, repair {self.name}")
        if remains.head:
            self._write_again(tx, remains, loss, aliases)
            epoch = max(row["epoch"], lease.epoch if lease is not None else 0)
            tx.put_lease(run, epoch + 1)  # a driver that goes by what was lost is fenced off
        return loss

    def _write_again(
        self, tx: PostgresTx, remains: RunRemains, loss: dict[str, Any] | None, aliases: Iterable[Any]
    ) -> None:
        mark, n = None, 0
        if loss is not None and loss["newest"] != loss["kept"]:
            mark = mark_of(loss, self._at, [f"quarantine {self.name}"])
            n = tx.ask("SELECT nextval('commit_number')")[0][0]

        def load(hash: bytes) -> Iterator[bytes]:
            found = tx.blob(hash)
            return self._store.blobs.load(found) if found is not None else iter(())

        rebuilt = remains.rebuilt(load, mark, self._at, n)
        rebuilt["alias"] = [row for row in aliases if row["seq"] in remains.proved]
        for hash in {row["blob"] for table in ("record", "past") for row in rebuilt[table]} - {None}:
            tx.note(Q.refer_to_blob, (hash,))
            tx.note(Q.know_blob, (hash,))  # reading it says whether it is whole
        for table in ("value", "record", "past", "version", "alias"):
            names = TABLES[table][0]
            tx.tables().add(table, [tuple(row.get(name) for name in names) for row in rebuilt[table]])
        (run,) = rebuilt["run"]
        listed = [name for name in RUN.split() if name not in ("run", "created_at")]
        marks = ", ".join(f"{name} = ${i + 2}" for i, name in enumerate(listed))
        tx.note(f"UPDATE run SET {marks} WHERE run = $1", [run["run"], *(run[name] for name in listed)])


def _columns(table: str, *more: str) -> str:
    """Return the query for the rows of a run in a table, with whole keys and stored bytes."""
    names = RUN.split() if table == "run" else TABLES[table][0]
    shown = [f"t.{name}" for name in (*more, *names)]
    join = ""
    if table in ("record", "past"):
        whole = {"t.key": "coalesce(t.whole, t.key)", "t.data": "coalesce(t.data, v.data)"}
        shown, join = [whole.get(name, name) for name in shown], "LEFT JOIN value v ON v.hash = t.outside"
    return f"SELECT {', '.join(shown)} FROM {table} t {join} WHERE t.run = $1"


def _rows(tx: PostgresTx, table: str, run: int) -> Iterator[dict[str, Any]]:
    return _named(TABLES[table][0], tx.ask(_columns(table), (run,)))


def _named(names: Iterable[str], rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    columns = list(names)
    for row in rows:
        yield dict(zip(columns, row, strict=True))


def _refuse_driven(run_id: str, lease: Lease | None) -> None:
    """Raise if a process drives the run: it would continue from what is lost."""
    if lease is None or lease.process == this_process() or not lease.is_at_work(0):
        return
    who = f"{lease.who or 'a process'} ({lease.process or lease.session})"
    since = f", since {iso(lease.since)}" if lease.since is not None else ""
    raise LeaseHeld(
        f"Run {run_id} is driven by {who}{since}.",
        hint="Let it end, or stop it; a damaged run is repaired while nobody drives it.",
    )
