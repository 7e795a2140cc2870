"""The mirror: a protocol's files kept in step with the store, in both directions.

After a commit the files of each run that changed are written anew (here). Before, and at every verb that opens a run,
files that somebody else changed are taken in (`file_changes`), each merged against the version it was written from
(`importing.document_edit`). What was written is remembered (`memory`), files are replaced without losing what others
write (`swap`), and a store whose commits do all that is made by `follow`.
"""

from __future__ import annotations

import os
from _thread import allocate_lock as Lock

from leftoff import log
from leftoff.dialects.document_text import pack, read_packed
from leftoff.dialects.loose_values import Repairs
from leftoff.dialects.mirror.file_changes import FileChanges
from leftoff.dialects.mirror.kept import Keeper
from leftoff.dialects.mirror.memory import Memory, digest
from leftoff.dialects.protocol import same, state_at, write
from leftoff.engine.redaction.credentials import MASK
from leftoff.errors import Invalid, LeftoffError, UnsafePath
from leftoff.files import make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from leftoff.dialects.draft import State
    from leftoff.dialects.protocol import Dialect
    from leftoff.engine.config.settings import Settings
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

    T = TypeVar("T")

FOLDER = "mirror"
FEW = 50  # runs that are looked at first
ALL, CONFIG = "*", "settings"  # what is told of all files, and of the protocol's own settings
ROUNDS = 4  # of writing and looking again at what was displaced; what is left is looked at by the next verb


class Mirror:
    """The files of one project."""

    def __init__(
        self,
        store: Store,
        project: str,
        dialect: Dialect,
        settings: Settings,
        clock: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self.store = store
        self.project = project
        self.dialect = dialect
        self.settings = settings
        self.scrubber = settings.redactor()
        self.clock = clock
        self._say = say
        self.keeper = Keeper(self.scrubber, dialect)
        self.memory = Memory(project, _own_folder(store.folder, project), self.keeper)
        self.files = self.memory.project_files
        self.file_changes = FileChanges(self)
        self._pid = os.getpid()
        self._mutex = Lock()
        self._busy = False
        self._wanted = False
        self._run = ""  # whose files are being written
        self.stale: set[str] = set()  # runs whose files say something else than the store
        self._writes = False  # else files that somebody changed stay, if they say what is known

    def say(self, text: str) -> None:
        """Tell the caller something, whatever a document has in it."""
        self._say(self.scrubber.mask(text))

    def look(self) -> None:
        """Take in what others changed."""
        self._locked(write=False)

    def sync(self, *, look: bool = True) -> None:
        """Take in what others changed, and bring the files up to date."""
        self._locked(write=True, look=look)

    def write_again(self, run: int) -> None:
        """Bring the files of a run up to date that has less than it had."""
        row = self.store.read(lambda view: view.run_row(run))
        if row is not None:
            self.stale.add(row.run_id)
        self.sync()

    def withdraw(self, *, dry: bool) -> list[str]:
        """Remove its documents and what lies beside them, what others changed is taken in first;
        what cannot be removed is reported."""
        self.look()
        with self.memory.open(self.store.patience):
            known = self.memory.files
            folders = tuple({f"{os.path.dirname(path)}/" for path in known})
            beside = [path for path in self.memory.written if path.startswith(folders)] if folders else []
            paths = sorted(path for path in {*known, *beside} if self.files.stat(path) is not None)
            for path in paths if not dry else ():
                self.memory.forget(path)
                self.remove(path)
        return paths

    def _locked(self, *, write: bool, look: bool = True) -> None:
        """One thread at a time; what another wants meanwhile is done by the one that is at it."""
        if not self.store.exists():
            if not self._is_a_clone():
                return
            make_folder(self.store.folder)
        if self._pid != os.getpid():  # a fork: whoever was at it is not here
            self._pid, self._mutex, self._busy = os.getpid(), Lock(), False
        with self._mutex:
            self._wanted = self._wanted or write
            if self._busy:
                return
            self._busy = True
        try:
            self._while_wanted(look)
        except Exception as error:  # whatever it is: the verb does its work on the store
            self.tell(ALL, error)
        finally:
            self._busy = False

    def _is_a_clone(self) -> bool:
        """Whether the protocol's files came without a store, with git for example: then they are what is known."""
        try:
            return bool(self.dialect.present(self.project))
        except Exception as error:
            self.tell(ALL, error)
            return False

    def config(self) -> Any:
        """What the protocol's own settings say; ``None`` where they cannot be read, which is told."""
        try:
            found = self.dialect.config(self.project)
            doubts = self.dialect.doubts(found)
            if doubts is None:
                self.works(CONFIG)
            elif self.memory.problems.get(CONFIG) != doubts:
                self.memory.problems[CONFIG] = doubts
                self.say(f"leftoff: {doubts}")
            return found
        except Exception as error:
            self.tell(CONFIG, error)
            return None

    def deleted(self, run_id: str) -> str | None:
        """A file of a run that somebody deleted since it was written."""
        files = self.memory.remembered("files").items()
        return next((path for path, about in files if about["run"] == run_id and about.get("deleted")), None)

    # -- what went wrong

    def problems(self) -> list[str]:
        """What could not be followed, and why."""
        known = {**self.memory.remembered("problems"), **self.memory.problems}
        by_why: dict[str, list[str]] = {}
        for about, why in sorted(known.items()):
            by_why.setdefault(why, []).append(about)
        return [f"{_named(about)}{why}" for why, about in by_why.items()]

    def tell(self, about: str, error: Exception) -> None:
        """Files could not be followed: said once, and kept for `leftoff status` until it works again. ``about``: the
        run, or the file."""
        why = error.message if isinstance(error, LeftoffError) else _plain(error)
        why = self.scrubber.mask(why + (f" {error.hint}" if isinstance(error, UnsafePath) else ""))
        log.debug("the mirror of %s, %s: %r", self.dialect.name, about, error)
        known, self.memory.problems[about] = [*self.memory.problems.values()], why
        if why not in known:  # it may be in the way of several
            of = "" if about in (ALL, CONFIG) else f" ({about})"
            self.say(f"leftoff: the files of {self.dialect.name} are not up to date{of}: {why}")

    def works(self, about: str) -> None:
        self.memory.problems.pop(about, None)

    def _while_wanted(self, look: bool) -> None:
        with self.memory.open(self.store.patience):
            if self.config() is None:
                return
            while True:
                with self._mutex:
                    write, self._wanted = self._wanted, False
                    self._writes = write
                if (look and self.file_changes.take_in()) or write or self._is_behind():
                    self._write()
                self.works(ALL)
                with self._mutex:
                    if not self._wanted:
                        self._busy = False
                        return

    def _is_behind(self) -> bool:
        """Whether there is a commit that is not in the files: whoever made it died before it came to that, or something
        was in the way."""
        if self.memory.problems.keys() - {CONFIG}:
            return True
        newest = self.store.read(lambda view: view.list_runs({}, 1))
        return bool(newest and newest[0].n > self.memory.n)

    # -- writing

    def _write(self) -> None:
        for _ in range(ROUNDS):
            if not self._write_once():
                break
        self.memory.tidy(self.clock())

    def _write_once(self) -> bool:
        """Bring every run that changed up to date; whether something was displaced that had to be taken in."""
        again = False
        rows = self.store.read(lambda view: self._changed(view))
        newest = max([row.n for row in rows], default=self.memory.n)
        for row in reversed(rows):
            try:
                again |= self._write_run(row)
                self.works(row.run_id)
            except Exception as error:  # the files of the other runs are written all the same
                self.tell(row.run_id, error)
        self.memory.n = max(self.memory.n, newest)
        self._drop_removed()
        return again

    def _drop_removed(self) -> None:
        """Remove the files of runs in the trash, and put those of archived runs where the protocol keeps them."""
        runs = {*(about["run"] for about in self.memory.files.values()), *self.memory.refused.values()}
        rows = self.store.read(lambda view: {run: view.find_run(run) for run in runs})
        gone = {run for run, row in rows.items() if row is None or row.is_archived}
        for path in [path for path, run_id in self.memory.refused.items() if run_id in gone]:
            del self.memory.refused[path]
            self.works(path)
        for path in [path for path, about in self.memory.files.items() if about["run"] in gone]:
            run_id = self._run = self.memory.files[path]["run"]
            leave = self.dialect.leave if rows[run_id] is None else self.dialect.archive
            leave(self, path, run_id)
            self.memory.seen[path] = self.memory.stat(path)  # what stays is no new run

    def _changed(self, view: View) -> list[RunRow]:
        """Runs with a commit, or a beat, that is not in the files yet; latest first."""
        rows = view.list_runs({}, FEW)
        if len(rows) == FEW and rows[-1].n > self.memory.n:
            rows = view.list_runs({})
        out = [row for row in rows if row.n > self.memory.n]
        edited = {
            about["run"] for about in self.memory.files.values() if about.get("edited") and self._writes
        }
        behind = {*self.stale, *self.memory.problems, *self.memory.refused.values(), *edited}
        stale = [view.find_run(run_id) for run_id in sorted(behind)]
        out += [row for row in stale if row is not None and not row.is_archived and row.n <= self.memory.n]
        self.stale.clear()
        for row in rows if self.dialect.beats else ():
            beat, known = self._beat(view, row), self.memory.runs.setdefault(row.run_id, {})
            if beat is not None and beat != known.get("beat"):
                known["beat"] = beat
                out += [row] if row.n <= self.memory.n else []
        return out

    def _beat(self, view: View, row: RunRow) -> int | None:
        lease = view.lease(row.run) if row.status == "running" else None
        return lease.beat if lease is not None else None

    def _write_run(self, row: RunRow) -> bool:
        self._run, own = row.run_id, self.dialect.includes(row)
        again = self.dialect.before(self, row) if own else False
        state = self.dialect.shown(self, row) if own else None
        wanted = self.dialect.places(self, row, state) if state is not None else {}
        for path in [path for path, about in self.memory.files.items() if about["run"] == row.run_id]:
            if path not in wanted:
                self.dialect.leave(self, path, row.run_id)
        if state is not None:
            again |= self._write_documents(row, write(self.dialect, state), wanted)
            self._name(row, state)
            self.dialect.after(self, row, state)
        return again

    def _write_documents(self, row: RunRow, document: dict[str, Any], wanted: dict[str, str | None]) -> bool:
        """Each file that does not say it yet; what a protocol says while it is being written comes first."""
        again = False
        says = {
            path: self._with_secrets(
                path, self.dialect.complete(document if part is None else document[part], part)
            )
            for path, part in wanted.items()
            if part is None or part in document
        }
        if any(not self._file_says(path, said) for path, said in says.items()):
            for path, said in says.items():
                underway = self.dialect.underway(said, wanted[path])
                if underway is not None:
                    again |= self.put(path, underway, row, wanted[path])
        for path, said in reversed(says.items()):
            again |= self.put(path, said, row, wanted[path])
        return again

    def _file_says(self, path: str, document: dict[str, Any]) -> bool:
        there = self.memory.read(path)
        return there is not None and self._says(there, path, document)

    def _name(self, row: RunRow, state: State) -> None:
        """A checkpoint is found by the protocol's own id too."""

        def work(tx: Tx) -> None:
            version = tx.version(row.run, row.seq)
            if version is not None and version.checkpoint is not None:
                for name in missing:
                    tx.add_alias(row.run, row.seq, name)

        there = self.store.read(lambda view: view.version(row.run, row.seq))
        if there is not None and there.checkpoint is not None:
            missing = [name for name in self.dialect.names(state) if name not in there.aliases]
            if missing:
                self.store.write(work, durable=False)

    def put(self, path: str, document: dict[str, Any], row: RunRow, part: str | None = None) -> bool:
        """Write a document, unless the file says the same; whether what it displaced was taken in."""
        there = self.memory.read(path)
        if there is not None and self._says(there, path, document):
            self.memory.remember(path, there, row.run_id, part)
            return False
        edited = self.memory.files.get(path, {}).get("edited") and not self._writes
        if edited and there is not None and self._says(there, path, document, self.dialect.stamps):
            return False
        data = pack(self.dialect.dump(document).encode(), path)
        entry = self._try(path, lambda: self.memory.put(path, data, row.run_id, part, self.clock()))
        return entry is not None and self.file_changes.look_at_displaced(entry)

    @staticmethod
    def _says(data: bytes, path: str, document: dict[str, Any], but: tuple[str, ...] = ()) -> bool:
        try:
            there = read_packed(data, path, Repairs())
        except LeftoffError:
            return False
        return same(_without(there, but), _without(document, but)) if but else same(there, document)

    def _with_secrets(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Secrets are not stored; what the file has in their place stays there."""
        mask = getattr(self.scrubber, "mask", None)
        data = self.memory.read(path) if mask and needs_secrets(document) else None
        try:
            there = read_packed(data, path, Repairs()) if data is not None else None
        except LeftoffError:
            return document
        filled: dict[str, Any] = with_secrets(document, there, mask) if there and mask else document
        return filled

    def put_text(self, path: str, text: str) -> None:
        """Write a file that nobody else writes, if it has changed."""
        self.put_bytes(path, pack(text.encode(), path))

    def put_bytes(self, path: str, data: bytes) -> None:
        if self.memory.read(path) != data:
            self._try(path, lambda: self.memory.put_alone(path, data))

    # -- the files beside the documents; what must not be written is told, and stops nothing else

    def append(self, path: str, text: str) -> None:
        self._try(path, lambda: self.files.append(path, text.encode()))

    def link(self, path: str, target: str) -> None:
        self._try(path, lambda: self.files.link(path, target))

    def remove(self, path: str) -> None:
        self._try(path, lambda: self.files.remove(path))
        self.memory.written.pop(path, None)

    def remove_folder(self, path: str) -> None:
        self._try(path, lambda: self.files.remove_folder(path))
        gone = [other for other in self.memory.written if other == path or other.startswith(f"{path}/")]
        for other in gone:
            del self.memory.written[other]

    def remove_empty_folder(self, path: str) -> None:
        if self.files.is_folder(path) and not self.files.list(path):
            self.remove_folder(path)

    def move(self, path: str, to: str) -> None:
        self._try(to, lambda: self.files.move(path, to))
        self.memory.written.pop(path, None)

    def _try(self, path: str, work: Callable[[], T]) -> T | None:
        """Do something to a file. What is in the way is told once, kept, and tried again when the run is written."""
        try:
            done = work()
        except (Invalid, UnsafePath, OSError) as error:
            self.memory.refused[path] = self._run
            self.tell(path, error)
            return None
        if self.memory.refused.pop(path, None) is not None:
            self.works(path)
        self.memory.written[path] = self._run
        return done

    def state(self, row: RunRow, seq: int | None = None) -> State:
        return self.store.read(lambda view: state_at(self.store, view, row, self.dialect, seq))


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    """A document without the entries of these names."""
    if isinstance(value, dict):
        return {key: _without(item, keys) for key, item in dict.items(value) if key not in keys}
    return [_without(item, keys) for item in value] if isinstance(value, list) else value


def _named(about: list[str]) -> str:
    """Of which runs or files something is said."""
    if {ALL, CONFIG} & {*about}:
        return ""
    return f"{about[0]}{f' and {len(about) - 1} more' if len(about) > 1 else ''}: "


def _plain(error: Exception) -> str:
    """What the system says, or what kind of error of ours it is."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


def _own_folder(store: str, project: str) -> str:
    """What is remembered is of one work tree: others that share the store have files of their own."""
    own = os.path.realpath(project)
    if os.path.dirname(os.path.realpath(store)) == own:
        return os.path.join(store, FOLDER)
    return os.path.join(store, f"{FOLDER}-{digest(own.encode())[:12]}")


_MARK = {"redacted": True}


def needs_secrets(document: dict[str, Any]) -> bool:
    """Whether anything was left out of a document."""
    return _has_marks(document) or MASK in str(document)


def _has_marks(value: Any) -> bool:
    if isinstance(value, dict):
        return value == _MARK or any(map(_has_marks, dict.values(value)))
    return isinstance(value, list) and any(map(_has_marks, list.__iter__(value)))


def with_secrets(value: Any, there: Any, mask: Callable[[str], str]) -> Any:
    """A document with what is there where something was left out."""
    if isinstance(value, dict):
        if value == _MARK:
            return value if there is None else there
        known = there if isinstance(there, dict) else {}
        return {key: with_secrets(item, known.get(key), mask) for key, item in dict.items(value)}
    if isinstance(value, list):
        known_list = there if isinstance(there, list) and len(there) == len(value) else [None] * len(value)
        return [with_secrets(*pair, mask) for pair in zip(list.__iter__(value), known_list, strict=True)]
    if isinstance(value, str) and isinstance(there, str) and MASK in value:
        masked = mask(there)  # what was added behind it is added there, too
        return there + value[len(masked) :] if value.startswith(masked) else value
    return value
