"""Moving everything from one store to another, whatever each is made of: ids, numbers and history are kept.

The runs' own rows come last, all at once: until then nobody sees any of it, and nobody can begin a run there. What was
copied, how far, and by whom is noted in the target, so that a copy that was cut short goes on, by one process; if the
source has moved since, it begins again. While the runs arrive nobody commits to the source: what is acknowledged before
is in the copy. In the end the target is checked as fsck does it: every version's digest follows from the records that
are there.
"""

from __future__ import annotations

import os
import time

from leftoff.errors import Conflict, Corrupt, Invalid, NotFound
from leftoff.files import is_led_away, write_private
from leftoff.model.codec import decode, sha256, text
from leftoff.model.fields import Fields
from leftoff.store.rows import ATTEMPTS, COPYING, MOST_OUTPUT, PYTHON_LOGS, end_of, is_of_attempt, misplaced
from leftoff.store.tables import TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from leftoff.store.base import Store, Tx, View
    from leftoff.store.tables import Row

    Tell = Callable[[str, int, int], None]  # the table at work, rows that were copied, and how many there are

SOME, SOME_LARGE = 1000, 32  # rows at a time
TRIES = 3  # a source that moves more often than that is being worked on
ASKED_S = 10.0  # after so long a snapshot is asked something: a server ends one that nobody goes on with
LOG, PIECE = "log", 1 << 18  # the file in an attempt's folder, and how it is read


def copy(
    source: Store,
    target: Store,
    tell: Tell = lambda table, rows, total: None,
    *,
    moves: bool = False,
) -> dict[str, Any]:
    """Everything of ``source`` into ``target``, which is empty or was left by a copy of the same; what was copied.

    What is reported in the source meanwhile is taken in. ``moves``: others go on with it, and one moment of it will do.
    """
    if not source.exists():
        raise NotFound(f"There is no store at {source.name}.", hint="There is nothing to copy.")
    if not moves:
        refuse_driven(source, source.clock.now())
    ours = os.urandom(8).hex()
    for _ in range(TRIES):
        stamp, runs, done = source.read(lambda view: _copy_rows(source, view, target, ours, tell))
        if _reveal(target, stamp, runs) if moves else _reveal_held(source, target, stamp, runs):
            break
    else:
        _give_up(target, stamp)
        raise Conflict(
            f"{source.name} went on while it was copied.",
            hint="Somebody works in it right now. Nothing was kept of the copy; try again when they have finished.",
        )
    counts = {"run": len(runs), **{table: count for table, (count, _) in done.items()}}
    return {"copied": counts, "checked": check(target)}


def check(target: Store) -> dict[str, int]:
    """What was checked in a copy, which is sound."""
    found = target.check()
    if found["problems"]:
        problem = found["problems"][0]
        raise Corrupt(f"The copy in {target.name} is not sound: {problem['message']}", where=problem["where"])
    return dict(found["checked"])


def refuse_driven(source: Store, now: int) -> None:
    """Nobody may drive a run meanwhile: what they commit would be in the old store only."""
    source.read(lambda view: _refuse_driven(view, now))


def _refuse_driven(view: View, now: int) -> None:
    for run_id, lease in view.leases():
        if lease.is_at_work(now):
            raise Conflict(
                f"Run {run_id} is driven by {lease.who or lease.process or lease.session}.",
                hint="Nothing was copied. Let it end, or stop it; then copy again.",
            )


def _state(view: View, runs: list[Row]) -> str:
    """What stands for a source as it is, whatever its name: every commit, and all that is done to a run, changes it."""
    return sha256(f"{dict(view.notes('store_id'))['store_id']} {runs!r}".encode()).hexdigest()


def _copy_rows(
    source: Store, view: View, target: Store, ours: str, tell: Tell
) -> tuple[str, list[Row], dict[str, Any]]:
    """All but the rows of the runs, which are for the end; what stands for this copy, those rows, and of each table how
    many there were."""
    runs = view.tables().runs()
    stamp = f"{_state(view, runs)} {ours}"
    done = _begin(target, stamp)
    rows = Copy(source, view, target, stamp, tell, view.tables().size())
    for table in TABLES:
        rows.table(table, done)
    _copy_logs(source, view, target)
    _copy_python_logs(source, view, target)
    return stamp, runs, done


def _reveal_held(source: Store, target: Store, stamp: str, runs: list[Row]) -> bool:
    """The runs are there, if the source is still what was copied, and nobody drives one; whether it was.

    Nobody commits to the source meanwhile. Where we may not write to it (another disk, put in to be read; a standby; a
    role that only looks) it can only be looked at.
    """
    revealed = False

    def work(view: View) -> bool:
        nonlocal revealed
        if not revealed:  # a server may have to be asked once more to let go
            try:
                _refuse_driven(view, source.clock.now())
            except Conflict:
                _give_up(target, stamp)
                raise
            revealed = _state(view, view.tables().runs()) == stamp.partition(" ")[0] and _reveal(
                target, stamp, runs
            )
        return revealed

    return source.write(work) if source.writable() else source.read(work)


def _reveal(target: Store, stamp: str, runs: list[Row]) -> bool:
    def work(tx: Tx) -> bool:
        _need_ours(tx, target, stamp)
        tx.tables().add_runs(runs)
        tx.put_fact(COPYING, None)
        return True

    return target.write(work)


def _give_up(target: Store, stamp: str) -> None:
    """Nothing is left of this copy; another one that has begun since stays."""

    def work(tx: Tx) -> None:
        _need_ours(tx, target, stamp)
        tx.tables().clear()

    target.write(work)


def _need_ours(tx: Tx, target: Store, stamp: str) -> None:
    """An error where another copy has begun since, goes on with ours, or has ended."""
    if (tx.fact(COPYING) or "").partition("\n")[0] != stamp or tx.tables().runs():
        raise Conflict(
            f"Meanwhile, another copy was made into {target.name}.",
            hint="Nothing more was copied. `leftoff ls --all` shows what is there; or choose another place.",
        )


def _begin(target: Store, stamp: str) -> dict[str, Any]:
    """How far a copy of the same came that was cut short: of each table how many rows, and the key of the last."""

    def work(tx: Tx) -> dict[str, Any]:
        if tx.tables().runs():
            raise Invalid(
                f"{target.name} has runs already; a copy goes into a store that is empty.",
                hint="Choose another place (`?project=NAME` makes one on the same server).",
            )
        known, _, done = (tx.fact(COPYING) or "").partition("\n")
        same = known.partition(" ")[0] == stamp.partition(" ")[0]
        if known and not same:
            tx.tables().clear()
        tx.put_fact(COPYING, f"{stamp}\n{done if same else '{}'}")
        return decode(done) if same else {}

    return target.write(work)


class Copy(Fields):
    """From where to where, what stands for the source as it is, and who is told how far it is."""

    source: Store
    view: View
    target: Store
    stamp: str
    tell: Tell
    total: int

    def table(self, table: str, done: dict[str, Any]) -> None:
        """All rows of a table; ``done``: of each how many there are, and the key of the last."""
        size = SOME_LARGE if table in ("value", "blob") else SOME
        count, last = done.get(table, (0, None))
        after: Row | None = _key_from(last) if last else None
        while rows := self.view.tables().rows(table, after, size):
            after = rows[-1][: TABLES[table][1]]
            if table == "blob":
                rows = [self._copy_blob(hash) for hash, *_ in rows]
            count += len(rows)
            done[table] = [count, _key_text(after)]
            self._load(table, rows, text(done))
            self.tell(table, sum(rows for rows, _ in done.values()), self.total)

    def _load(self, table: str, rows: list[Row], done: str) -> None:
        """Some rows, and how far the copy is with them, in one transaction."""

        def work(tx: Tx) -> None:
            _need_ours(tx, self.target, self.stamp)
            tx.tables().add(table, rows)
            tx.put_fact(COPYING, f"{self.stamp}\n{done}")

        self.target.write(work)

    def _copy_blob(self, hash: bytes) -> Row:
        row = self.target.save_blob(_awake(self.view, self.source.load_blob(hash)))
        return row.hash, row.size, row.stored, row.encoding


def _awake(view: View, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same, while a snapshot waits for what is done with them, however long that takes."""
    asked = -ASKED_S
    for chunk in chunks:
        if time.monotonic() - asked >= ASKED_S:
            view.fact(COPYING)
            asked = time.monotonic()
        yield chunk


def _copy_logs(source: Store, view: View, target: Store) -> None:
    """What attempts printed: of a shared store in its rows, of another in files beside it."""
    after: Row | None = None
    while rows := view.tables().rows("attempt", after, SOME):
        after = rows[-1][:1]
        for token, folder in [(row[0], row[7]) for row in rows if row[7]]:
            _copy_log(source, view, target, token, folder)


def _copy_log(source: Store, view: View, target: Store, token: str, folder: str) -> None:
    if not is_of_attempt(folder):
        raise misplaced(f"attempt {token}")
    here, there = (os.path.join(store.folder, folder, LOG) for store in (source, target))
    last, whole = view.kept_log(token)
    is_long = whole is not None
    content: Iterable[bytes] = source.load_blob(whole) if whole is not None else [last or b""]
    if _is_plain(here):
        last, is_long, content = end_of(here), os.path.getsize(here) > MOST_OUTPUT, _pieces(here)
    if target.shared and last:
        blob = target.save_blob(_awake(view, content)) if is_long else None
        target.write(lambda tx: tx.keep_log(token, last, blob))
    elif last:
        write_private(there, _awake(view, content), durable=False)


def _copy_python_logs(source: Store, view: View, target: Store) -> None:
    """What Python code logged on this machine: files beside either store, which no row tells of."""
    for name in _python_logs(source.folder):
        try:
            content = _awake(view, _pieces(os.path.join(source.folder, name)))
            write_private(os.path.join(target.folder, name), content, durable=False)
        except FileNotFoundError:  # its run is gone, and so is this copy of it
            pass


def _python_logs(folder: str) -> Iterator[str]:
    """Plain files alone: a link may have come along with a repository, and is not followed."""
    above = os.path.join(folder, ATTEMPTS)
    for run in os.listdir(above) if os.path.isdir(above) else ():
        for inside, _, names in os.walk(os.path.join(above, run, PYTHON_LOGS)):
            paths = (os.path.join(inside, name) for name in names)
            yield from (os.path.relpath(path, folder) for path in paths if _is_plain(path))


def _is_plain(path: str) -> bool:
    return os.path.isfile(path) and not is_led_away(path, ATTEMPTS)


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(PIECE), b"")


def _key_text(key: Row) -> list[Any]:
    return [{"hex": part.hex()} if isinstance(part, bytes) else part for part in key]


def _key_from(parts: list[Any]) -> Row:
    return tuple(bytes.fromhex(part["hex"]) if isinstance(part, dict) else part for part in parts)
