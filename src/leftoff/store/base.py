"""What every store owes, whoever implements it. ``tests/contract`` checks these obligations.

A store keeps runs; a run is a versioned map of records. The engine decides what a commit means; a store makes it
one atomic, durable change. Three classes: ``Store`` (transactions, blobs, upkeep), ``View`` (what can be read inside
one) and ``Tx`` (what can also be written).

Obligations:

1. ``write(fn)`` runs ``fn`` in one transaction. When it returns, everything ``fn`` wrote survives power loss. When
   it raises, nothing of it is there, and the next call can succeed. Several calls may share a transaction, but one
   that fails never takes another with it.
2. ``fn`` sees the newest committed state of the runs that it writes to, and no other writer changes it before ``fn`` is
   durable. Where what it has seen moves before it writes, it is called again from its beginning: so it may be called
   several times, and changes nothing but rows; or what is the same when it is done twice (a file that is moved away).
3. ``read(fn)`` gives ``fn`` one consistent snapshot; it never blocks a writer, nor a writer it. Where that is lost with
   its connection, ``fn`` is called again with another one: what it found before is none of its result.
4. Bytes that are read are checked against their recorded hash: ``Corrupt``, never a wrong value.
5. Inside ``fn`` nothing waits: no I/O but the store's own, no locks, under 50 ms.
6. Writers are served fairly, across threads and processes.
7. A schema that is newer than this code, also one that became so while we had the store open, is refused before
   anything is written.
"""

from __future__ import annotations

from leftoff.files import is_writable
from leftoff.store.rows import FREE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from leftoff.clock import Clock
    from leftoff.host import Process
    from leftoff.model.versions import Version
    from leftoff.store.follower import Follower
    from leftoff.store.rows import Attempt, BlobRow, Holder, Lease, Record, RunRow, Trashed
    from leftoff.store.tables import Tables, WritableTables
    from leftoff.store.watch import Watch

    T = TypeVar("T")
    Save = Callable[[Iterable[bytes]], BlobRow]

INLINE = 1024  # stored bytes up to this size are in the record's own row
VALUE_MAX = 1 << 20  # larger ones are blobs


class View:
    """What can be read inside a transaction. Runs are named by their number in this store (``RunRow.run``)."""

    def find_run(self, run_id: str, *, hidden: bool = False) -> RunRow | None:
        """Return the run of that id, active or archived. ``hidden``: also one in the trash, or not complete."""
        raise NotImplementedError

    def run_row(self, run: int) -> RunRow | None:
        raise NotImplementedError

    def prove(self, row: RunRow, most: int = 128) -> None:
        """``Corrupt`` where the live records of a run do not add up to its digest; once, and if it has no more of them.

        A record that a damaged store does not find reads as if it were not there, and no hash of its own tells. So
        whoever is about to answer for a run, or to write to it, asks first. Those who judge damage do not.
        """
        raise NotImplementedError

    def list_runs(
        self, where: dict[str, Any], limit: int | None = None, *, ahead: bool = False
    ) -> list[RunRow]:
        """Runs, latest commit first. ``where``: status (a list), workflow, branch, title, issue, session, prefix;
        name (the workflow or the title, without regard to case); before (a commit's number: only older ones);
        forked_from (a run's id); archived (true: only archived runs, otherwise only active ones).

        ``ahead``: the first leaves and the lease of each will be asked for, so they may be fetched with them.
        """
        raise NotImplementedError

    def leaf(self, run: int, status: str) -> str | None:
        """The first leaf step of that status in declared order, without looking at the others."""
        raise NotImplementedError

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        """seq, digest, counts, epoch and run id: what a commit must know first."""
        raise NotImplementedError

    def row(
        self, run: int, collection: str, key: str
    ) -> tuple[bytes, str | None, str | None, int | None] | None:
        """hash, status, ord, leaf of a live record; its bytes are not read."""
        raise NotImplementedError

    def record(self, run: int, collection: str, key: str) -> Record | None:
        """One live record."""
        raise NotImplementedError

    def records(self, run: int, collection: str, low: str = "", high: str | None = None) -> Iterator[Record]:
        """The live records of a collection with ``low <= key < high``, in key order."""
        raise NotImplementedError

    def bulk(self, run: int, collection: str) -> tuple[list[tuple[str, bytes, bytes]], int]:
        """All live records of a collection at once: key, hash and bytes in key order; and their part of the digest.
        The bytes are checked against their hashes, as `records` does it."""
        raise NotImplementedError

    def part(self, run: int, collection: str) -> int:
        """What the live records of a collection add to the digest, checked as by ``bulk``; few are held at once."""
        raise NotImplementedError

    def records_at(self, run: int, seq: int, collection: str) -> Iterator[Record]:
        """The records of a collection that version ``seq`` saw, in no particular order."""
        raise NotImplementedError

    def collections(self, run: int, *, past: bool = False) -> list[str]:
        """The collections that have records (with ``past``: or had)."""
        raise NotImplementedError

    def hashes(self, run: int, collection: str, low: str = "", high: str | None = None) -> dict[str, bytes]:
        """Hashes of the live records with ``low <= key < high``."""
        raise NotImplementedError

    def last_key(self, run: int, collection: str, low: str, high: str) -> str | None:
        raise NotImplementedError

    def has_below(self, run: int, step: str) -> bool:
        """Whether any step is below this one."""
        raise NotImplementedError

    def leaves(self, run: int, status: str, limit: int) -> list[str]:
        """The first leaf steps of that status in declared order."""
        raise NotImplementedError

    def leaf_page(
        self, run: int, status: str, after: tuple[str, str], words: tuple[str, str], limit: int
    ) -> list[tuple[str, str]]:
        """Order and path of the first leaf steps of that status behind a place (order and path), in declared order;
        of those only whose path has one of two words in it (empty: all), capitals of ASCII being as good as small."""
        raise NotImplementedError

    def leaf_counts(self, run: int, step: str) -> dict[str, int]:
        """How many leaf steps below a step there are of each status."""
        raise NotImplementedError

    def last_order(self, run: int, prefix: str) -> str | None:
        """The greatest ``ord`` of the leaf steps whose ``ord`` starts so, without looking at the others."""
        raise NotImplementedError

    def version(self, run: int, seq: int) -> Version | None:
        raise NotImplementedError

    def versions(
        self, run: int, *, sealed: bool, before: int | None = None, limit: int | None = None
    ) -> list[Version]:
        """Newest first."""
        raise NotImplementedError

    def lives(self, run: int) -> list[tuple[int, int, int, int]]:
        """Of each epoch, oldest first: its number, when its first and its last commit was made, and how many."""
        raise NotImplementedError

    def checkpoints(self, prefix: str, run: int | None = None, limit: int = 10) -> list[tuple[int, Version]]:
        """Run number and version of the checkpoints whose id starts so; of one run, also where that is hidden."""
        raise NotImplementedError

    def aliased(
        self, name: str, run: int | None = None, *, but: int | None = None
    ) -> tuple[int, Version] | None:
        """The newest checkpoint that carries this other name: of a run, or of any ``but`` one."""
        raise NotImplementedError

    def other_names(self, prefix: str, run: int | None = None, limit: int = 20) -> list[str]:
        """The other names of checkpoints that start so, each once, in order."""
        raise NotImplementedError

    def bounds(self, run: int) -> tuple[int, int] | None:
        """The oldest and the newest version that can be read."""
        raise NotImplementedError

    def need_all_checkpoints(self, run: int) -> None:
        """``Corrupt`` where a checkpoint of a run is known and cannot be read: before one that is not found is said to
        be gone, and before all of them are listed. Costs a look at each."""

    def around(self, run: int, seq: int) -> tuple[int | None, int | None]:
        """The nearest versions before and after ``seq`` that can be read."""
        raise NotImplementedError

    def applied(self, run: int, since: int, token: bytes) -> Version | None:
        """The commit with this token after ``since``: a retry must not apply it again, pruned or not."""
        raise NotImplementedError

    def lease(self, run: int) -> Lease | None:
        raise NotImplementedError

    def leases(self) -> list[tuple[str, Lease]]:
        """Every held lease, with its run's id."""
        raise NotImplementedError

    def attempt(self, token: str) -> Attempt | None:
        raise NotImplementedError

    def attempts(self, run: int) -> list[Attempt]:
        raise NotImplementedError

    def latest_attempts(self, run: int, since: int, until: int, limit: int) -> list[Attempt]:
        """The last attempts that began between two moments (the second one excluded), oldest first."""
        raise NotImplementedError

    def kept_log(self, token: str) -> tuple[bytes | None, bytes | None]:
        """The last of what an attempt printed, and where that was more, the hash of the blob with all of it: if the
        store keeps that itself, as its machine may be another one."""
        return None, None

    def blob(self, hash: bytes) -> BlobRow | None:
        raise NotImplementedError

    def trashed(self) -> list[Trashed]:
        """The runs in the trash, the one that came last first."""
        raise NotImplementedError

    def archived(self) -> list[RunRow]:
        """Return the archived runs, latest commit first."""
        return self.list_runs({"archived": True}, ahead=True)

    def stamps(self) -> list[tuple[int, int]]:
        """When commits were made, by the clocks of then: of each hour the last time, oldest first; and the greatest
        number of a commit in that hour."""
        raise NotImplementedError

    def size(self, *runs: int, alone: bool = False) -> int:
        """About how many bytes some runs take together; what they share with others counts in full, or not at all if
        they are counted ``alone``: so much their removal gives back."""
        raise NotImplementedError

    def fact(self, name: str) -> str | None:
        """What was noted of the store, or of a run in it, under this name: no part of any run, and in no bundle."""
        raise NotImplementedError

    def notes(self, start: str = "") -> Iterable[tuple[str, str]]:
        """What the store says of itself: its id, its schema, who made it, what was noted; by names that start so."""
        raise NotImplementedError

    def tables(self) -> Tables:
        """The tables as they are, for who copies a whole store."""
        raise NotImplementedError


class Tx(View):
    """What can also be written. Nothing is seen by others before the transaction is durable."""

    #: see ``Store.follower``
    follower: Follower | None = None
    #: whether it is worth telling ``fetch`` what will be asked for
    fetches = False

    def fetch(
        self,
        run: int,
        addresses: Iterable[tuple[str, str]],
        attempt: str | None = None,
        again: Iterable[tuple[str, str]] = (),
        since: int = 0,
    ) -> None:
        """A hint: these records of a run (by collection and key; no key: the whole collection), what is below those
        that are steps, and this attempt will be asked for; where the run is not at version ``since`` any more, that
        version and the records ``again``, too. A store that is far away fetches them with the head.

        Where nothing was asked yet, the run is only the likely one: it may be taken with the first question, whatever
        run that finds."""

    def add_run(self, run_id: str, at: int, *, workflow: str, branch: str, status: str, hidden: bool) -> int:
        """A run without versions; its number, which no other run ever gets. The id must be free."""
        raise NotImplementedError

    def set_card(
        self, run: int, columns: dict[str, Any], card: dict[str, Any], *, hidden: bool = False
    ) -> None:
        """The listing's copy of the run's own records."""
        raise NotImplementedError

    def reveal(self, run: int, run_id: str) -> None:
        """A hidden run is complete: it is seen from now on, under this id, which must be free."""
        raise NotImplementedError

    def trash(self, run: int, at: int) -> None:
        """Move a run to the trash. It takes no commit and is not listed until ``activate``. Its id stays taken."""
        raise NotImplementedError

    def archive(self, run: int) -> None:
        """Mark a run as archived: not listed, but found by its names. A commit or a driver makes it active again."""
        raise NotImplementedError

    def activate(self, run: int) -> None:
        """Bring a run back from the trash or the archive."""
        raise NotImplementedError

    def put(self, run: int, record: Record, existed: bool, step: tuple[str, str, int] | None = None) -> None:
        """Make this the live record; what was there (``existed``) stays readable at older versions. ``step``: status,
        ord and leaf of a step. A blob that the record refers to must be known and present."""
        raise NotImplementedError

    def drop(self, run: int, seq: int, collection: str, key: str) -> None:
        """End a live record; it stays readable at older versions."""
        raise NotImplementedError

    def set_leaf(self, run: int, step: str, leaf: bool) -> None:
        raise NotImplementedError

    def add_version(self, run: int, version: Version, token: bytes) -> None:
        """The run's next version: the head moves to it. Its number in the store (``n``) is given here."""
        raise NotImplementedError

    def add_alias(self, run: int, seq: int, name: str) -> None:
        raise NotImplementedError

    def put_lease(self, run: int, epoch: int, holder: Holder = FREE) -> None:
        """Take or free a lease. The epoch is kept when it is freed."""
        raise NotImplementedError

    def beat(self, run: int, epoch: int, at: int) -> bool:
        """Whether the lease is still held under this epoch; if so, it is alive at ``at``."""
        raise NotImplementedError

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
        """The next try at a step; it is the current one from now on. Its number."""
        raise NotImplementedError

    def set_attempt_process(self, token: str, process: Process) -> None:
        raise NotImplementedError

    def drop_attempt(self, token: str) -> None:
        """Forget a try that never began, as if it had not been made; its number is free again."""
        raise NotImplementedError

    def end_attempt(self, token: str, at: int, exit_code: int | None) -> None:
        """A try is over. A store that several machines share takes its log in, if that lies on this one."""
        raise NotImplementedError

    def keep_log(self, token: str, last: bytes | None, whole: BlobRow | None) -> None:
        """What an attempt printed, for ``kept_log``. One whose logs are files beside it has them already."""

    def put_fact(self, name: str, value: str | None) -> None:
        """Note something; ``None``: it is forgotten."""
        raise NotImplementedError

    def put_blob(self, row: BlobRow) -> None:
        """A blob whose file is durable (or is in this store's trash, from where it comes back)."""
        raise NotImplementedError

    def tables(self) -> WritableTables:
        raise NotImplementedError


class Store:
    """Transactions, blobs and upkeep."""

    #: called with the id of a store that is created in a folder, before anyone can see it
    created: Callable[[str], None] | None = None

    #: where it is, for people; never with a password in it
    name: str
    #: what opens it again, for processes that we start: no password is in it
    location: str
    #: where facts of this machine lie that belong to it (attempts and their logs, journals, locks): private, and made
    #: by the first write. An embedded store is in there itself
    folder: str
    #: the time, as this process sees it
    clock: Clock
    #: whether several machines may use it: then nothing of a run may be kept in ``folder`` alone
    shared = False
    #: whether asking twice costs more than asking at once for more than is needed
    far = False
    #: commits that it may show later than others that are newer
    late = 0
    #: whether anything was written through this object
    wrote = False
    #: seconds that a write may wait for other processes, before it is ``StoreUnavailable``
    patience = 30.0
    #: who keeps a protocol's files in step with it; ``None``: nobody
    follower: Follower | None = None
    #: who hears how much a check has looked at so far
    counted: Callable[[dict[str, int]], None] | None = None
    #: what to do where no run is there, if the project knows better than the errors
    advice = ""

    def exists(self) -> bool:
        """Whether there is anything to read. Reading never creates a store; the first write does."""
        raise NotImplementedError

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        """See obligations 1, 2 and 5.

        ``durable=False``: seen by everyone when it returns, and safe from the death of any process; power loss may
        take it until the next durable write has returned. For marks that say only that something began.
        """
        raise NotImplementedError

    def read(self, fn: Callable[[View], T]) -> T:
        raise NotImplementedError

    def save_blob(self, chunks: Iterable[bytes]) -> BlobRow:
        """Write a blob durably, once. Refer to it with ``Tx.put_blob`` in the commit that uses it."""
        raise NotImplementedError

    def save_together(self, work: Callable[[Save], T]) -> T:
        """``work`` with a way to save blobs that are durable when this returns, together. Others see them then, too."""
        return work(self.save_blob)

    def load_blob(self, hash: bytes, known: BlobRow | None = None) -> Iterator[bytes]:
        """The content of a blob in pieces; ``Corrupt`` before the last one where it is not what was saved.

        ``known``: its row, as the caller's snapshot has it. What was pruned since can still be had for a while;
        afterwards it is ``StoreUnavailable``, for a newer snapshot will not ask for it.
        """
        raise NotImplementedError

    def prune(self, run: int, drop: Iterable[int]) -> int:
        """Forget every unsealed version below the head, oldest first, then these checkpoints, then all that nothing
        kept can see: so one that is missing behind an unsealed one was not pruned.

        In batches, each under 50 ms; bytes given back. Cut short, it leaves nothing wrong, only less done.
        """
        raise NotImplementedError

    def remove(self, run: int, allowed: Callable[[View], None] | None = None) -> int:
        """Forget a whole run; bytes given back. ``allowed`` is asked first, in the very transaction that takes the run
        out of sight: where it raises, nothing is changed."""
        raise NotImplementedError

    def sweep(self, *, thorough: bool = True, at_once: bool = False) -> int:
        """Drop what a crash left behind: values, blobs, temporary files, hidden runs, removed blobs past their grace.

        ``thorough=False``: without looking at every value and blob. ``at_once``: the caller, who has only one thread,
        reads nothing that was removed; so where nobody else has the store open, no grace is needed.
        """
        raise NotImplementedError

    def watch(self) -> Watch:
        """Who hears of what is committed from now on, by whomever; costs no query while nothing is."""
        raise NotImplementedError

    def backup(self, folder: str) -> None:
        """A consistent copy into an empty folder while others write."""
        raise NotImplementedError

    def writable(self) -> bool:
        """Whether we may change one that is there, as far as that is known without doing so."""
        return is_writable(self.folder)

    def siblings(self) -> dict[str, str]:
        """All projects that are kept in the same place, where its location names none of them: what opens each."""
        return {}

    def about(self) -> dict[str, Any]:
        """What it is: ``kind``, and where it is there ``schema`` (its number), ``store_id``, ``created_at``,
        ``created_by``, ``written_by``, ``runs`` and ``bytes``; and what only its kind has."""
        raise NotImplementedError

    def migrate(self) -> None:
        """Make the store, or bring its schema up to date; not while somebody drives a run with older code."""
        self.write(lambda tx: None)

    def check(self, *, repair: bool = False) -> dict[str, Any]:
        """Check bytes and rows: return ``checked`` (counts), ``problems`` and ``quarantined``. With ``repair`` also
        ``repaired``, and ``salvaged``: by run what could not be proved. Such a run asks before it resumes."""
        raise NotImplementedError

    def close(self, *, soon: bool = False) -> None:
        """Release everything; the store may be used again afterwards. ``soon``: another process will use it at once,
        so what only tidies up may wait."""
        raise NotImplementedError
