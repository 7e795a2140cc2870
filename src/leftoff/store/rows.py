"""The rows that a store returns: plain tuples with names."""

from __future__ import annotations

import os
from _operator import itemgetter
from time import monotonic
from typing import Any, NamedTuple

from leftoff.clock import Clock, iso
from leftoff.errors import Corrupt
from leftoff.host import ALIVE, GONE, UNKNOWN, Process, scope, uptime
from leftoff.model.changes import Version
from leftoff.model.codec import decode

ATTEMPTS = "attempts"  # in the store's folder, by run: logs and exit codes of step processes
PYTHON_LOGS = "steps"  # in the folder of a run's attempts: logs of Python code, by step and attempt
MOST_OUTPUT = 1 << 20  # bytes of the end of a log that a shared store keeps in the attempt's row
# The state of a run, in the column `hidden`. A partial run is being removed, under its own name.
ACTIVE, PARTIAL, TRASHED, ARCHIVED = 0, 1, 2, 3
TRASH = "trash:"  # in `meta`, before the number of a run: since when it is there
FACT = "fact "  # starts the name of a fact, in `meta`
_NO_NAMES = frozenset(("", ".", ".."))  # of a file or a folder, which runs and attempts have


def identity(process: Process | None) -> tuple[str | None, int | None, str | None]:
    """A process as columns."""
    return (process.scope, process.pid, process.started) if process else (None, None, None)


def parent_in_card(run_id: str) -> str:
    """Return the entry in the card of a run that was forked from this one."""
    return f'"parent":"{run_id}@'


def _column(index: int) -> Any:
    return property(itemgetter(index))


class RunRow(tuple):  # type: ignore[type-arg]
    """A run as a listing shows it. Ten thousand are listed at once, so a row is parsed only when it is read."""

    __slots__ = ()

    run = _column(0)
    run_id = _column(1)
    n = _column(2)
    seq = _column(3)
    digest = _column(4)
    counts = _column(5)
    updated_at = _column(6)
    created_at = _column(7)
    workflow = _column(8)
    branch = _column(9)
    status = _column(10)
    title = _column(11)
    issue = _column(12)
    session = _column(13)
    hidden = _column(15)
    checkpoint = _column(16)

    @property
    def card(self) -> dict[str, Any]:
        """The other `run` records."""
        text = self[14]
        return decode(text) if text != "{}" else {}

    @property
    def is_archived(self) -> bool:
        return bool(self.hidden == ARCHIVED)

    @property
    def is_gone(self) -> bool:
        """Whether the run is in the trash, or not complete."""
        return self.hidden in (PARTIAL, TRASHED)

    def __repr__(self) -> str:
        return f"<run {self.run_id} {self.status} @{self.seq}>"


def run_from(columns: tuple[Any, ...]) -> RunRow:
    """Return a run's row. Tables are typed and pages have checksums, so only the id is checked: it names files."""
    if not is_name(columns[1]):
        raise misplaced(f"run {columns[1]}")
    return RunRow(columns)


def is_name(run_id: str) -> bool:
    """Return whether files and folders can be called by the id of a run."""
    return "/" not in run_id and run_id not in _NO_NAMES


class Record(NamedTuple):
    """One record at one version, its bytes checked against their hash."""

    collection: str
    key: str
    seq: int
    hash: bytes
    stored: bytes


class Holder(NamedTuple):
    """Who takes a lease: a process or a session (``kind``; None: free), and since when."""

    kind: str | None = None
    process: Process | None = None
    session: str | None = None
    who: str | None = None
    since: int | None = None


FREE = Holder()  # a free lease
LIMIT_MS = 600_000  # a driver that cannot be seen from here is replaced after this time without a beat


_WHEN = frozenset((int, type(None)))


class Lease:
    """The driver of a run, since when, under which epoch.

    ``silent``: for how many milliseconds nothing was heard of it when it was read, where the store has a clock that
    all who use it share.
    """

    __slots__ = ("_read", "beat", "epoch", "kind", "process", "session", "silent", "since", "who")

    def __init__(self, columns: tuple[Any, ...], silent: int | None = None) -> None:
        self.silent, self._read = silent, monotonic()
        self.epoch, self.kind, scope, pid, started, self.session, self.who, self.since, self.beat = columns
        if type(self.epoch) is not int or not _WHEN.issuperset(
            (type(self.since), type(self.beat), type(pid))
        ):
            raise misplaced("a lease")
        self.process = Process(scope, pid, started or "") if scope and pid else None

    def __str__(self) -> str:
        """Return who drives the run, where, and since when."""
        where = f" ({self.process})" if self.process is not None else ""
        since = f", since {iso(self.since)}" if self.since is not None else ""
        return f"{self.who or 'a process'}{where}{since}"

    @property
    def held(self) -> bool:
        return self.kind is not None

    def seen(self, now: int) -> str:
        """Whether its holder is ``alive``, ``gone`` or ``unknown``: not visible from here."""
        found = self.process.state() if self.process is not None else UNKNOWN
        if found == GONE and self.process is not None and self.process.scope != scope():
            # Of an earlier boot. One that was heard of since this one is of another machine that is called like this.
            return GONE if self.silence(now) >= uptime() else UNKNOWN
        return found

    def state(self, now: int) -> str:
        """``free``, ``alive``, ``gone``, ``unknown`` (not to be seen, beating), ``silent`` (not to be seen, quiet)."""
        found = self.seen(now) if self.held else "free"
        return "silent" if found == UNKNOWN and self.silence(now) > LIMIT_MS else found

    def is_at_work(self, now: int) -> bool:
        """Whether its holder is alive, or may be."""
        return self.state(now) in (ALIVE, UNKNOWN)

    def silence(self, now: int) -> int:
        """Milliseconds since its last sign of life. A time far ahead comes from a wrong clock."""
        if self.silent is None:
            return abs(now - (self.beat or self.since or 0))
        return self.silent + int((monotonic() - self._read) * 1000)

    def idle(self, now: int, committed: int) -> int:
        """For how many milliseconds there was no sign of life of a run, whose last commit says that it was made then.

        Where all share a clock, it goes by that one. A process beats while it lives. Who else reports may not: so a
        commit counts by how much later than their last beat it was, by the clock that both were stamped with.
        """
        if self.silent is None or self.beat is None:
            return abs(now - max(committed, self.beat or 0))
        late = max(0, committed - self.beat) if self.kind != "process" else 0
        return max(0, self.silence(now) - late)


class Attempt(NamedTuple):
    """One try at a step, and the number of the current one."""

    run: int
    step: str
    number: int
    process: Process | None
    log: str | None
    started_at: int
    ended_at: int | None
    exit_code: int | None
    current: int
    token: str


def attempt_from(columns: tuple[Any, ...]) -> Attempt:
    scope, pid, started = columns[3:6]
    process = Process(scope, pid, started or "") if scope and pid else None
    run, step, number = columns[:3]
    found = Attempt(run, step, number, process, *columns[6:12])
    typed = (type(found.step), type(found.number), type(found.started_at)) == (str, int, int)
    if not typed or (found.log is not None and not is_of_attempt(found.log)):
        raise misplaced("an attempt")
    return found


def is_of_attempt(path: str) -> bool:
    """Whether a folder, by its path in the store's, is one that attempts have. What is in it is deleted one day, and
    the row that names it may have come along with a repository, or from another machine."""
    first, *rest = path.split("/")
    return first == ATTEMPTS and bool(rest) and _NO_NAMES.isdisjoint(rest)


class Trashed(NamedTuple):
    """A run in the trash: since when, and how many commits the store had made at that time."""

    row: RunRow
    at: int
    n: int


class BlobRow(NamedTuple):
    """A file in the store's blob folder."""

    hash: bytes
    size: int
    stored: int
    encoding: str


_VERSION = (str, int, bytes, int, int, int, str)


def version_from(columns: tuple[Any, ...]) -> Version:
    if tuple(map(type, columns[:7])) != _VERSION:
        raise misplaced(f"run {columns[0]}")
    *own, _run, aliases = columns
    version = Version(*own)
    return version._replace(aliases=tuple(aliases.split("\n"))) if aliases else version


def missing_bytes(run: object, collection: str, key: str) -> Corrupt:
    where = f"{collection}/{key} of run {run}"
    return Corrupt(f"The bytes of {where} are gone.", where=where)


def wrong_bytes(run: object, collection: str, key: str) -> Corrupt:
    where = f"{collection}/{key} of run {run}"
    return Corrupt(f"The bytes of {where} do not have the hash that was recorded.", where=where)


def misplaced(where: str) -> Corrupt:
    return Corrupt(
        f"The records of {where} are not all there, or not those that were committed.",
        where=where,
    )


def end_of(path: str) -> bytes:
    """The last of a log."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - MOST_OUTPUT))
        return file.read(MOST_OUTPUT)


# -- facts about a store: recorded when it is created, returned by ``Store.about``


def first_facts(clock: Clock) -> dict[str, str]:
    """Return the facts to record in a new store."""
    from leftoff._version import __version__

    return {
        "store_id": os.urandom(16).hex(),
        "created_at": str(clock.now()),
        "created_by": __version__,
        "written_by": __version__,
    }


def about(kind: str, meta: dict[str, str], runs: int, size: int) -> dict[str, Any]:
    """Return the facts that every store has, from those that were recorded."""
    named = {name: meta.get(name) for name in ("store_id", "created_by", "written_by")}
    numbers = {name: int(meta[name]) if name in meta else None for name in ("schema", "created_at")}
    return {"kind": kind, **numbers, **named, "runs": runs, "bytes": size}
