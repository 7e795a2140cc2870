"""Reading in a transaction that will write, in few round trips.

Whoever writes to a run holds its row first: from then on nobody else changes anything of it. What was looked at before
(a listing, the run that is meant) may have moved by then; where it has, the work begins again (``Again``), as it does
after a deadlock. So it works on what is so, and different runs never wait for each other.

What is written is only noted, and sent with the next question or with the end of the transaction. What is known of a
run's live records is kept in step with it: a small run is read whole when it is first looked at, so most questions
about it are answered here.

A driver commits again and again, and mostly nobody else does. So a run is first taken to stand where this process left
it (``Left``). The statement that moves its head says where it must stand, and fails where it does not; then all begins
again, with a look at it. Such a commit is one round trip.
"""

from __future__ import annotations

from leftoff.store.postgres.names import cut, plain
from leftoff.store.postgres.queries import Q
from leftoff.store.postgres.view import SMALL, VERSION, PostgresView, checked
from leftoff.store.rows import TRASHED, Attempt, version_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from leftoff.model.versions import Version
    from leftoff.store.postgres.connection import Link
    from leftoff.store.postgres.wire import Rows, Statement
    from leftoff.store.rows import Lease, Record, RunRow

    Address = tuple[str, str]

UNKNOWN: Any = object()
MOST_LEFT = 64  # runs of which a process keeps in mind how it left them
FEW = 8  # records that are written one by one: the server keeps the plans of such statements
_REPLACE, _END_ONE = f"WITH s AS ({Q.supersede}) {Q.put}", f"WITH s AS ({Q.supersede}) {Q.drop}"
END: Statement = ("COMMIT", ())


class Again(BaseException):
    """What was looked at is not so any more: begin again. No error: nobody who catches errors may stop it."""


class Awaited(Again):
    """A commit that was sent to this run and given up may still arrive: the run has to move on before."""

    def __init__(self, guesses: list[Statement]) -> None:
        super().__init__()
        self.guesses = guesses


class Known:
    """What a transaction knows of the live records of one run: by address, ``None`` where there is none.

    Of each: seq, hash, bytes (``None``: not here), status, ord and leaf. ``all``: there are no others.
    """

    def __init__(self) -> None:
        self.rows: dict[Address, tuple[Any, ...] | None] = {}
        self.all = False
        self.collections: set[str] = set()  # those of which all are known
        self.written = False  # whether any was changed

    def has(self, collection: str) -> bool:
        """Whether all of a collection is known."""
        return self.all or collection in self.collections

    def get(self, collection: str, key: str) -> Any:
        return self.rows.get((collection, key), None if self.has(collection) else UNKNOWN)

    def range(self, collection: str, low: str, high: str | None) -> list[tuple[str, tuple[Any, ...]]]:
        """The records of a collection in key order, where all are known."""
        found = [(a[1], row) for a, row in self.rows.items() if a[0] == collection and row is not None]
        return sorted(each for each in found if low <= each[0] and (high is None or each[0] < high))


class Left:
    """How the last transactions of this process left their runs: the head of each, what is known of its records if
    that is all, and the schema. For the next transaction to begin with, which has it for itself.

    Where others commit in between, that would fail each time: so only a run that was last found as it was left is
    taken to be so again.
    """

    def __init__(self) -> None:
        self._runs: dict[int, tuple[tuple[Any, ...], Known | None, str, bool]] = {}
        self._late: set[Statement] = set()  # what proves the guesses of commits that may still be under way

    def await_late(self, guesses: Iterable[Statement | None]) -> None:
        """Commits that went by these guesses were given up before they were heard of."""
        self._late.update(guess for guess in guesses if guess is not None)

    def settle(self, guess: Statement) -> None:
        """It is there, or cannot come any more."""
        self._late.discard(guess)

    def need_settled(self, run: int) -> None:
        """Whoever looks at a run shall find what there will be: ``Awaited`` where more of ours may come."""
        if awaited := [guess for guess in tuple(self._late) if guess[1][0] == run]:
            raise Awaited(awaited)

    def is_at(self, run: int, head: tuple[Any, ...] | None) -> bool:
        """Whether a run is found as it was left."""
        found = self._runs.get(run)
        return found is not None and found[0] == head

    def take(self, run: int) -> tuple[tuple[Any, ...], Known | None, str] | None:
        found = self._runs.pop(run, None)
        if found is None or found[3]:
            return found and found[:3]
        self._runs.setdefault(run, found)
        return None

    def forget(self) -> None:
        self._runs = {}

    def keep(self, run: int, head: tuple[Any, ...], known: Known | None, schema: str, alone: bool) -> None:
        """A transaction that changed no record knows nothing of them; what was known before still holds, if it found
        the run so (``alone``)."""
        before = self._runs.pop(run, None)
        if known is None or not known.all or len(known.rows) > SMALL:
            same = (
                alone and before is not None and before[0][:2] == head[:2] and not (known and known.written)
            )
            known = before[1] if before is not None and same else None
        if len(self._runs) >= MOST_LEFT:
            self._runs.clear()
        self._runs[run] = head, known, schema, alone


class Batch:
    """Records of one run and version that are put, or ended, together. ``version``: the version itself, if it is
    complete with them: what ``Q.add_version`` says behind run and seq."""

    def __init__(self, run: int, seq: int) -> None:
        self.run, self.seq = run, seq
        self.superseded: list[Address] = []
        self.put: list[tuple[Any, ...]] = []
        self.dropped: list[Address] = []
        self.values: dict[bytes, bytes] = {}
        self.touched: set[Address] = set()
        self.version: tuple[Any, ...] = ()

    def statements(self) -> Iterator[Statement]:
        if self.version:
            yield Q.add_version, (self.run, self.seq, *self.version)
        if self.values:
            yield Q.put_values, (list(self.values), list(self.values.values()))
        yield from self._one_by_one() if len(self.touched) <= FEW else self._together()

    def _one_by_one(self) -> Iterator[Statement]:
        for row in self.put:
            yield _REPLACE if row[:2] in self.superseded else Q.put, (self.run, self.seq, *row)
        for place in self.dropped:
            yield _END_ONE, (self.run, self.seq, *place)

    def _together(self) -> Iterator[Statement]:
        if self.superseded:
            yield Q.supersede_many, (self.run, self.seq, *columns_of(self.superseded, 2))
        if self.dropped:
            yield Q.drop_many, (self.run, *columns_of(self.dropped, 2))
        if self.put:
            yield Q.put_many, (self.run, self.seq, *columns_of(self.put, 10))


def columns_of(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [[row[i] for row in rows] for i in range(width)]


class HoldingView(PostgresView):
    """Reading in a transaction that writes: what is held, what was seen before, what is known, what was noted."""

    def __init__(self, link: Link, proved: set[int], before: Sequence[Statement], left: Left) -> None:
        super().__init__(link, proved, before)
        self._left = left
        self.guessed: Statement | None = None  # what proves that a run stands where it was left
        self._alone: set[int] = set()  # runs that nobody else changed since
        self.xid: str | None = None
        self.schema: str | None = None
        self.wrote = False
        self.made: list[tuple[int, int, bytes]] = []  # run, seq and token of what is committed
        self._heads: dict[int, tuple[Any, ...] | None] = {}  # of the runs that are held
        self._known: dict[int, Known] = {}
        # Of runs before they were held: seq, hidden and status; and the epochs of their leases.
        self._seen: dict[int, tuple[int, int, str]] = {}
        self._epochs: dict[int, int] = {}
        self._listings: list[tuple[dict[str, Any], int | None, list[tuple[int, str]]]] = []
        self._wanted: dict[int, list[Address]] = {}
        self._small: dict[int, Rows] = {}  # of the likely run, before it was found to be the one
        self._tokens: dict[int, str] = {}  # attempts that will be asked for, by run
        self._again: dict[int, tuple[list[Address], int]] = {}  # what is wanted of runs that others changed
        self._versions: dict[tuple[int, int], Version | None] = {}
        self._attempts: dict[str, Attempt | None] = {}
        self._below: dict[tuple[int, str], bool] = {}
        self._tries: dict[tuple[int, str], int] = {}
        self._pending: list[Statement | Batch] = []

    # -- asking

    def note(self, sql: str, values: Sequence[Any] = ()) -> None:
        """A statement whose answer nobody needs: it goes with the next one."""
        self._pending.append((sql, values))

    def flushed(self) -> list[Statement]:
        """What was noted, to be sent now."""
        pending, self._pending = self._pending, []
        self.wrote = self.wrote or bool(pending)
        out: list[Statement] = []
        for each in pending:
            out.extend(each.statements() if isinstance(each, Batch) else (each,))
        return out

    @property
    def writes(self) -> bool:
        """Whether anything is written, sent or not."""
        return self.wrote or bool(self._pending)

    def changed(self) -> dict[str, int]:
        """The runs that others are told of, each by its id, with its newest version."""
        return {head[4]: head[0] for head in self._heads.values() if head} if self.wrote else {}

    def gather(
        self, run: int | None, questions: Sequence[Statement] = (), *, hold: bool = False
    ) -> list[Rows]:
        """Hold a run, fetch what is wanted of it, send what was noted, and ask: all of it at once.

        A run that was seen in a listing is only looked at, until somebody writes to it (``hold``): if it has moved by
        then, all begins again. The likely one is held with the first question.
        """
        if run is None and not self.began and self._wanted:
            run, likely = next(iter(self._wanted)), True
        else:
            likely = False
        first: list[Statement] = []
        if run is not None and run not in self._heads and (hold or run not in self._seen):
            self._left.need_settled(run)
            first = [(Q.hold, (run,)), *self._fetching(run)]
            if likely:
                first.append((Q.small, (run, SMALL + 1)))
        found = self.several([*first, *self.flushed(), *questions])
        if first and run is not None:
            self._held(run, found[0])
            self._fetched(run, found[1 : len(first)])
            if likely:
                self._small[run] = found[len(first) - 1]
        return found[len(found) - len(questions) :] if questions else []

    def hold(self, run: int) -> tuple[Any, ...] | None:
        """Where the run stands, which from now on only this transaction changes."""
        if run not in self._heads and not self._is_left(run):
            self.gather(run, hold=True)
        return self._heads[run]

    def _is_left(self, run: int) -> bool:
        """Whether it is taken to stand where this process left it. Proved with whatever is sent first."""
        if self.began or self.guessed is not None or run in self._seen or run in self._tokens:
            return False
        found = self._left.take(run)
        if found is None or (found[1] is None and self._wanted.get(run)):
            return False
        head, known, self.schema = found
        self.guessed = Q.as_left, (run, head[0], head[1], head[3], head[5], self.schema, head[2])
        self._before = [*self._before[:-1], self.guessed, self._before[-1]]
        self._heads[run] = head
        self._alone.add(run)
        if known is not None:
            self._known[run] = known
            self._wanted.pop(run, None)
        return True

    def leave(self) -> None:
        """It is durable: so the runs are left."""
        for run, head in self._heads.items():
            if head is not None and head[5] == 0 and self.schema is not None:
                self._left.keep(run, head, self._known.get(run), self.schema, run in self._alone)

    def ending(self) -> list[Statement]:
        """What is left to be sent of a transaction of which nothing was sent yet, and which went by a guess. The
        statement that makes a version proves the guess, too."""
        if not self._pending:
            return [self.guessed] if self.guessed is not None else []
        alone = len(self._pending) == 1 and isinstance(self._pending[0], Batch)
        first = [each for each in self._before[:-1] if not alone or each is not self.guessed]
        self.began = True
        return [*first, *self.flushed(), END]

    def _held(self, run: int, rows: Rows) -> None:
        head = rows[0] if rows else None
        if run in self._seen and (head is None or (head[0], head[5], head[6]) != self._seen[run]):
            raise Again
        if head is not None and self._epochs.get(run, head[3]) != head[3]:
            raise Again
        if self._left.is_at(run, head):
            self._alone.add(run)
        self._heads[run] = head
        self._leases.pop(run, None)  # as it was before

    def _saw(self, row: RunRow | None) -> RunRow | None:
        """A run that is not held yet: if it moves before it is, all begins again."""
        if row is not None and row.run not in self._heads:
            self._seen[row.run] = (row.seq, row.hidden, row.status)
        return row

    # -- what is fetched with a head

    def fetch(
        self,
        run: int,
        addresses: Iterable[Address],
        attempt: str | None = None,
        again: Iterable[Address] = (),
        since: int = 0,
    ) -> None:
        if run not in self._heads:
            self._wanted.setdefault(run, []).extend(addresses)
            self._again[run] = list(again), since
            if attempt is not None:
                self._tokens[run] = attempt

    def _fetching(self, run: int) -> list[Statement]:
        """The questions whose answers ``_fetched`` knows how to take."""
        again, since = self._again.get(run, ([], 0))
        wanted = self._wanted[run] = [*self._wanted.get(run, []), *again]
        out: list[Statement] = [(VERSION, (run, since))] if since else []
        if run in self._tokens:
            out.append((Q.attempt, (plain(self._tokens[run]),)))
        out += [(Q.live, (run, name, "", None, SMALL)) for name in _whole_collections(wanted)]
        cuts = [(collection, cut(key)) for collection, key in wanted if key]
        if cuts:
            steps = [key for collection, key in cuts if collection == "step"]
            out += [(Q.rows, (run, *columns_of(cuts, 2))), (Q.last_attempts, (run, steps))]
        return out

    def _fetched(self, run: int, found: list[Rows]) -> None:
        known, wanted, answers = self._of(run), self._wanted.pop(run, []), iter(found)
        since = self._again.pop(run, ([], 0))[1]
        if since:
            rows = next(answers)
            self._versions[run, since] = version_from(rows[0]) if rows else None
        token = self._tokens.pop(run, None)
        if token is not None:
            rows = next(answers)
            self._attempts[token] = Attempt(rows[0]) if rows else None
        for name in _whole_collections(wanted):
            self._know(run, name, next(answers))
        names = {(collection, cut(key)): key for collection, key in wanted if key}
        for collection, place, seq, *facts, below in next(answers) if names else ():
            key = names[collection, place]
            known.rows[collection, key] = (seq, *facts) if seq is not None else None
            if collection == "step":
                self._below[run, key] = below
        for place, number in next(answers) if names else ():
            self._tries[run, place] = number

    def _know(self, run: int, collection: str, rows: Rows) -> None:
        """All of a collection, if it is small."""
        if len(rows) < SMALL:
            known = self._of(run)
            known.collections.add(collection)
            for _, key, *facts in rows:
                known.rows[collection, key] = (*facts, None, None, None)

    def _of(self, run: int) -> Known:
        if run not in self._known:
            self._known[run] = Known()
        return self._known[run]

    # -- what is known is answered here

    def find_run(self, run_id: str, *, hidden: bool = False) -> RunRow | None:
        return self._saw(super().find_run(run_id, hidden=hidden))

    def list_runs(
        self, where: dict[str, Any], limit: int | None = None, *, ahead: bool = False
    ) -> list[RunRow]:
        """With their leases: who looks for the run that is meant asks for them. No cache outlives a write."""
        rows = super().list_runs(where, limit, ahead=True)
        self._listed.clear()
        self._orders.clear()
        self._listings.append((where, limit, what(rows)))
        for row in rows:
            self._saw(row)
        return rows

    def lease(self, run: int) -> Lease | None:
        found = super().lease(run)
        if run not in self._heads:
            self._epochs[run] = found.epoch if found is not None else 0
        return found

    def version(self, run: int, seq: int) -> Version | None:
        return self._versions[run, seq] if (run, seq) in self._versions else super().version(run, seq)

    def attempt(self, token: str) -> Attempt | None:
        return self._attempts[token] if token in self._attempts else super().attempt(token)

    def prove(self, row: RunRow, most: int = SMALL) -> None:
        if row.run in self._small:
            rows = self._small.pop(row.run)
        elif row.run in self._heads:
            return
        else:
            rows = self.gather(row.run, [(Q.small, (row.run, most + 1))], hold=True)[0]
        if not self.made:
            self.add_up(row, rows, most)
        if len(rows) <= most:
            known = self._of(row.run)
            known.all = True
            for collection, key, *facts in rows:
                known.rows[collection, key] = tuple(facts)

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        head = self.hold(run)
        return head[:5] if head is not None and head[5] != TRASHED else None

    def row(
        self, run: int, collection: str, key: str
    ) -> tuple[bytes, str | None, str | None, int | None] | None:
        known = self._of(run).get(collection, key)
        if known is UNKNOWN:
            return super().row(run, collection, key)
        return (known[1], *known[3:]) if known is not None else None

    def record(self, run: int, collection: str, key: str) -> Record | None:
        known = self._of(run).get(collection, key)
        if known is None:
            return None
        if known is UNKNOWN or known[2] is None:
            return super().record(run, collection, key)
        return checked(run, collection, key, *known[:3])

    def _batches(self, run: int, collection: str, low: str = "", high: str | None = None) -> Iterator[Rows]:
        known = self._of(run)
        found = known.range(collection, low, high) if known.has(collection) else []
        if not known.has(collection) or any(row[2] is None for _, row in found):
            yield from super()._batches(run, collection, low, high)
        else:
            yield [(key, key, *row[:3]) for key, row in found]

    def hashes(self, run: int, collection: str, low: str = "", high: str | None = None) -> dict[str, bytes]:
        known = self._of(run)
        if known.has(collection):
            return {key: row[1] for key, row in known.range(collection, low, high)}
        return super().hashes(run, collection, low, high)

    def last_key(self, run: int, collection: str, low: str, high: str) -> str | None:
        known = self._of(run)
        if known.has(collection):
            return max((key for key, _ in known.range(collection, low, high)), default=None)
        return super().last_key(run, collection, low, high)

    def has_below(self, run: int, step: str) -> bool:
        known = self._of(run)
        if known.all:
            return bool(known.range("step", step + "/", step + "0"))
        if (run, step) in self._below:
            return self._below[run, step]
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


def what(rows: list[RunRow]) -> list[tuple[int, str]]:
    """What a listing is compared by when it is made again."""
    return [(row.run, row.status) for row in rows]


def _whole_collections(wanted: list[Address]) -> list[str]:
    return list(dict.fromkeys(collection for collection, key in wanted if not key))
