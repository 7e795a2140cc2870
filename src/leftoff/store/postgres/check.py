"""fsck of a store on a server: values, runs, rows of no run, blobs. The server's own files are its own affair.

All of it is read in one snapshot, some rows at a time, and nobody waits for it.
"""

from __future__ import annotations

from leftoff.errors import Corrupt
from leftoff.store.fsck.check_run import Report, RunCheck, check_blob, check_strays, check_value
from leftoff.store.postgres.queries import Q
from leftoff.store.rows import BlobRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from leftoff.store.postgres.store import PostgresStore
    from leftoff.store.postgres.view import PostgresView

SOME = 200


class Damage(Report):
    """What is wrong, and the numbers of the runs that it is in, with its codes."""

    def __init__(self, counted: Callable[[dict[str, int]], None] | None = None) -> None:
        super().__init__(counted)
        self.runs: dict[int, set[str]] = {}


def inspect(store: PostgresStore) -> Damage:
    """Look at everything; nothing is changed. See ``Store.check``."""
    return store.read(lambda view: _Look(store, view).everything()) if store.exists() else Damage()


class _Look:
    """One snapshot; and blobs as it has them."""

    def __init__(self, store: PostgresStore, view: Any) -> None:
        self._store = store
        self._view: PostgresView = view
        self.report = Damage(store.counted)

    def load(self, row: BlobRow) -> Iterator[bytes]:
        return self._store.blobs.load(row, self._view.ask)

    def everything(self) -> Damage:
        view, report = self._view, self.report
        for hash, data in self._all(Q.all_values):
            check_value(report, hash, data)
        for (run,) in view.ask(Q.runs_to_check):
            self._run(run)
        self._strays()
        for columns in self._all(Q.all_blobs):
            check_blob(report, self, BlobRow(*columns))
        return report

    def _all(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table whose key is a hash."""
        last = b""
        while rows := self._view.ask(sql, (last, SOME)):
            yield from rows
            last = rows[-1][0]

    def _run(self, run: int) -> None:
        before = len(self.report.problems)
        try:
            RunCheck(self._view, self, run, self.report).check()
        except Corrupt as error:
            self.report.problem("unreadable", error.where or self._store.name, error.message)
        self.report.count("runs")
        codes = {problem["code"] for problem in self.report.problems[before:]}
        if codes:
            self.report.runs[run] = codes

    def _strays(self) -> None:
        questions = (Q.rows_of_no_run, Q.hidden_but_complete, Q.newest_commit, Q.wrong_epochs)
        strays, hidden, ((newest, counted),), epochs = self._view.several([(sql, ()) for sql in questions])
        report = self.report
        check_strays(report, strays, [(run_id,) for _, run_id in hidden])
        for _, run_id in epochs:
            report.problem("run", f"run {run_id}", "Its epoch is not that of its lease.", run_id=run_id)
        if counted < newest:
            message = f"It counts {counted} commits, but there is number {newest}."
            report.problem("run", "commit_number", message)
        for run, _ in (*hidden, *epochs):
            report.runs.setdefault(run, {"run"})
