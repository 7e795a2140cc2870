"""The mirror: a protocol's files kept in step with the store, in both directions.

After a commit the files of each run that changed are written anew. Before, and at every verb that opens a run, files
that somebody else changed are taken in, merged against the version they were written from. A file that cannot be read
is told of and left alone; when it is replaced, it is kept aside and looked at again.
"""

from __future__ import annotations

import os
from _thread import allocate_lock as Lock

from leftoff.dialects.core.base import write
from leftoff.dialects.core.draft import Source
from leftoff.dialects.core.files import stat_of
from leftoff.dialects.core.reading import pack, read_packed
from leftoff.dialects.core.residue import same
from leftoff.dialects.core.versions import state_at
from leftoff.dialects.importing.documents import Importer
from leftoff.dialects.importing.report import Repairs
from leftoff.dialects.mirror.document_edit import ChangedDocument, DocumentEdit
from leftoff.dialects.mirror.memory import Memory, digest
from leftoff.engine.lifecycle.finish import settle
from leftoff.engine.lifecycle.opening import find as find_run
from leftoff.engine.redaction.credentials import MASK
from leftoff.engine.retention.archive import bundle_of
from leftoff.errors import LeftoffError, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.draft import State
    from leftoff.model.changes import Scrubber
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

FOLDER = "mirror"
FEW = 50  # runs that are looked at first
ROUNDS = 4  # of writing and looking again at what was displaced; what is left is looked at by the next verb


class Mirror:
    """The files of one project."""

    def __init__(
        self,
        store: Store,
        project: str,
        dialect: Dialect,
        scrubber: Scrubber | None,
        clock: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self.store = store
        self.project = project
        self.dialect = dialect
        self.scrubber = scrubber
        self.clock = clock
        self.say = say
        self.memory = Memory(project, _own_folder(str(getattr(store, "folder", "")), project))
        self._pid = os.getpid()
        self._mutex = Lock()
        self._busy = False
        self._wanted = False
        self._stale: set[str] = set()  # runs whose files say something else than the store

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
            self._stale.add(row.run_id)
        self.sync()

    def _locked(self, *, write: bool, look: bool = True) -> None:
        """One thread at a time; what another wants meanwhile is done by the one that is at it."""
        if not self.store.exists():
            return
        if self._pid != os.getpid():  # a fork: whoever was at it is not here
            self._pid, self._mutex, self._busy = os.getpid(), Lock(), False
        with self._mutex:
            self._wanted = self._wanted or write
            if self._busy:
                return
            self._busy = True
        try:
            self._while_wanted(look)
        except (LeftoffError, OSError) as error:
            why = getattr(error, "message", error)
            self.say(f"leftoff: the files of {self.dialect.name} are not up to date: {why}")
        finally:
            self._busy = False

    def _while_wanted(self, look: bool) -> None:
        with self.memory.open():
            while True:
                with self._mutex:
                    write, self._wanted = self._wanted, False
                if (look and self._look()) or write or self._is_behind():
                    self._write()
                with self._mutex:
                    if not self._wanted:
                        self._busy = False
                        return

    def _is_behind(self) -> bool:
        """Whether there is a commit that is not in the files: whoever made it died before it came to that."""
        newest = self.store.read(lambda view: view.list_runs({}, 1))
        return bool(newest and newest[0].n > self.memory.n)

    # -- in

    def _look(self) -> bool:
        """Whether anything was taken in."""
        taken = False
        for entry in list(self.memory.pool):
            taken |= self._look_at_displaced(entry)
        for path in list(self.memory.files):
            taken |= self._look_at(path)
        taken |= self._look_for_new()
        self.memory.tidy(self.clock())
        return taken

    def _look_at(self, path: str) -> bool:
        about, full = self.memory.files[path], self.memory.full(path)
        stat = stat_of(full)
        if stat is None or stat == about["stat"]:
            return False
        data = self.memory.read(full)
        if data is None or digest(data) == about["hash"]:
            about["stat"] = stat
            return False
        took = self._take(path, data, self.memory.base(path), about, full)
        if took is None:
            return False  # being written, or broken: looked at again
        if path in self.memory.files:
            self.memory.know(path, data, about["run"], about["part"])
            self.memory.files[path]["stat"] = stat
        self._stale.add(about["run"])
        return True

    def _look_at_displaced(self, entry: dict[str, Any]) -> bool:
        stat = stat_of(entry["place"])
        if stat is None or stat == entry["stat"]:
            return False
        data = self.memory.read(entry["place"])
        if data is None or digest(data) == entry["hash"]:
            entry["stat"] = stat
            return False
        took = self._take(entry["path"], data, self.memory.read(entry["base"]), entry, None)
        if took is None:
            return False
        entry["stat"], entry["hash"], entry["at"] = stat, digest(data), self.clock()
        return took

    def _take(
        self, path: str, data: bytes, base: bytes | None, about: dict[str, Any], full: str | None
    ) -> bool | None:
        """Take a changed file in; whether anything changed, ``None`` where it cannot be read."""
        repairs = Repairs()
        try:
            document = self._document(path, data, about["part"], repairs)
        except LeftoffError as error:
            if full is not None and about.get("told") != digest(data):
                about["told"] = digest(data)
                self.say(f"leftoff: {error.message} It is left as it is, and kept when it is replaced.")
            return None
        source = Source(path, self.clock(), **self.dialect.hints(self.memory.full(path)))
        before = self._base_document(path, base, about["part"])
        changed = ChangedDocument(self.dialect, document, source, repairs, before, run_id=about["run"])
        edit = DocumentEdit(self.store, self.project, self.scrubber, changed)
        took = self._report(edit, path, about["run"])
        for line in repairs.lines if took else ():
            self.say(f"leftoff: {path}: {line}")
        return took

    def _report(self, edit: DocumentEdit, path: str, run_id: str) -> bool | None:
        try:
            done = edit.report(self._finding(run_id), self.clock())
        except NotFound:
            return self._import(path)
        except LeftoffError as error:
            about = self.memory.files.get(path, {})
            if about.get("refused") != error.message:
                about["refused"] = error.message
                self.say(f"leftoff: {path} is not taken in: {error.message}")
            return None
        for both in edit.edits.contradictions if edit.edits is not None else ():
            self.say(f"leftoff: {path} and the store both changed {both.name}; the store's value stays.")
        return done.version is not None

    def _document(self, path: str, data: bytes, part: str | None, repairs: Repairs) -> dict[str, Any]:
        """What a file says, with the parts that other files hold as they are known."""
        document = read_packed(data, path, repairs)
        return document if part is None else {**self._other_parts(path), part: document}

    def _base_document(self, path: str, base: bytes | None, part: str | None) -> dict[str, Any] | None:
        if base is None:
            return None
        try:
            return self._document(path, base, part, Repairs())
        except LeftoffError:
            return None

    def _other_parts(self, path: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        run = self.memory.files.get(path, {}).get("run")
        for other, about in self.memory.files.items():
            data = (
                self.memory.base(other) if other != path and about["run"] == run and about["part"] else None
            )
            if data is not None:
                try:
                    out[about["part"]] = read_packed(data, other, Repairs())
                except LeftoffError:
                    pass
        return out

    def _look_for_new(self) -> bool:
        """Files that somebody else began: runs of their own."""
        took = False
        for path in self.dialect.present(self.project):
            stat = stat_of(self.memory.full(path))
            if path not in self.memory.files and self.memory.seen.get(path) != stat:
                self.memory.seen[path] = stat
                took |= self._import(path)
        return took

    def _import(self, path: str) -> bool:
        """A file that is none of ours becomes a run, or a checkpoint of one; where it is a copy, it is left alone."""
        told: list[str] = []
        data = self.memory.read(self.memory.full(path))
        importer = Importer(
            self.store,
            self.project,
            self.scrubber,
            self.clock(),
            lambda at, error: told.append(error.message),
        )
        found = importer.read([self.memory.full(path)], self.dialect)
        moved = self._moved(path, found[0].run_id) if found else None
        if moved is None:
            found = importer.take([each for each in found if not self._is_copy(path, each.run_id)])
        for line in [*told, *(f"{path}: {line}" for each in found for line in each.repairs.lines)]:
            self.say(f"leftoff: {line}")
        if moved is not None:
            return moved
        if found and data is not None and self._belongs(path, found[0].run_id):
            self.memory.know(path, data, found[0].run_id, self.dialect.part_of(path))
        elif found:
            self.dialect.reclaim(self, path, found[0].run_id)
        return any(each.new or each.changed for each in found)

    def _others(self, path: str, run_id: str) -> list[str]:
        """Further files of a run, that hold the same part of it."""
        part = self.dialect.part_of(path)
        files = self.memory.files.items()
        return [other for other, about in files if about["run"] == run_id and about["part"] == part]

    def _moved(self, path: str, run_id: str) -> bool | None:
        """Somebody moved the file of a run: it is the same file. Whether it was changed; ``None``: it is not so."""
        others = self._others(path, run_id)
        if len(others) != 1 or os.path.exists(self.memory.full(others[0])):
            return None
        about, base = self.memory.files[others[0]], self.memory.base(others[0])
        self.memory.forget(others[0])
        self.memory.know(path, base or b"", about["run"], about["part"])
        took = self._look_at(path)
        if self.dialect.given_up(path) and not self.dialect.given_up(others[0]):
            find = self._finding(run_id)
            settle(self.store, find, "abandoned", self.clock(), project=self.project, scrubber=self.scrubber)
            took = True
        self._stale.add(run_id)
        return took

    def _is_copy(self, path: str, run_id: str) -> bool:
        """Whether a run has its file elsewhere; that is told, once."""
        others = self._others(path, run_id)
        if not others or self.dialect.id_names_version:
            return False
        self.say(f"leftoff: {path} is a second file of {run_id}, which has {others[0]}; it is left alone.")
        return True

    def _belongs(self, path: str, run_id: str) -> bool:
        """Whether a file is where the run's own is."""
        row = self.store.read(lambda view: view.find_run(run_id))
        state = self.dialect.shown(self, row) if row is not None else None
        return row is not None and state is not None and path in self.dialect.places(self, row, state)

    @staticmethod
    def _finding(run_id: str) -> Callable[[View], RunRow]:
        return lambda view: find_run(view, run_id)

    # -- out

    def _write(self) -> None:
        for _ in range(ROUNDS):
            if not self._write_once():
                return

    def _write_once(self) -> bool:
        """Bring every run that changed up to date; whether something was displaced that had to be taken in."""
        again = False
        rows = self.store.read(lambda view: self._changed(view))
        newest = max([row.n for row in rows], default=self.memory.n)
        for row in reversed(rows):
            again |= self._write_run(row)
        self.memory.n = max(self.memory.n, newest)
        self._let_go()
        return again

    def _let_go(self) -> None:
        """Files of runs that were removed go too; those of archived ones are where the protocol keeps them."""
        runs = {about["run"] for about in self.memory.files.values()}
        gone = self.store.read(lambda view: [run for run in runs if view.find_run(run) is None])
        for path in [path for path, about in self.memory.files.items() if about["run"] in gone]:
            run_id = self.memory.files[path]["run"]
            if bundle_of(self.store, run_id) is not None:
                self.memory.forget(path)
            else:
                self.dialect.leave(self, path, run_id)
            self.memory.seen[path] = stat_of(self.memory.full(path))  # what stays is no new run

    def _changed(self, view: View) -> list[RunRow]:
        """Runs with a commit, or a beat, that is not in the files yet; latest first."""
        rows = view.list_runs({}, FEW)
        if len(rows) == FEW and rows[-1].n > self.memory.n:
            rows = view.list_runs({})
        out = [row for row in rows if row.n > self.memory.n]
        stale = [view.find_run(run_id) for run_id in sorted(self._stale)]
        out += [row for row in stale if row is not None and row.n <= self.memory.n]
        self._stale.clear()
        for row in rows if self.dialect.beats else ():
            beat, known = self._beat(view, row), self.memory.runs.setdefault(row.run_id, {})
            if beat is not None and beat != known.get("beat"):
                known["beat"] = beat
                out += [row] if row.n <= self.memory.n else []
        return out

    def _beat(self, view: View, row: RunRow) -> int | None:
        if row.status != "running":
            return None
        lease = view.lease(row.run)
        return lease.beat if lease is not None else None

    def _write_run(self, row: RunRow) -> bool:
        again = self.dialect.before(self, row)
        state = self.dialect.shown(self, row)
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
            path: self._filled(
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
        there = self.memory.read(self.memory.full(path))
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
        there = self.memory.read(self.memory.full(path))
        if there is not None and self._says(there, path, document):
            self.memory.know(path, there, row.run_id, part)
            return False
        data = pack(self.dialect.dump(document).encode(), path)
        entry = self.memory.put(path, data, row.run_id, part, self.clock())
        return entry is not None and self._look_at_displaced(entry)

    @staticmethod
    def _says(data: bytes, path: str, document: dict[str, Any]) -> bool:
        try:
            return same(read_packed(data, path, Repairs()), document)
        except LeftoffError:
            return False

    def _filled(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Secrets are not stored; what the file has in their place stays there."""
        data = self.memory.read(self.memory.full(path))
        mask = getattr(self.scrubber, "mask", None)
        if data is None or mask is None or not (_has_marks(document) or MASK in str(document)):
            return document
        try:
            there = read_packed(data, path, Repairs())
        except LeftoffError:
            return document
        filled: dict[str, Any] = _fill(document, there, mask)
        return filled

    def put_text(self, path: str, text: str) -> None:
        """Write a file that nobody else writes, if it has changed."""
        self.put_bytes(path, pack(text.encode(), path))

    def put_bytes(self, path: str, data: bytes) -> None:
        if self.memory.read(self.memory.full(path)) != data:
            self.memory.put_alone(path, data)

    def state(self, row: RunRow, seq: int | None = None) -> State:
        return self.store.read(lambda view: state_at(self.store, view, row, self.dialect, seq))


def _own_folder(store: str, project: str) -> str:
    """What is remembered is of one work tree: others that share the store have files of their own."""
    own = os.path.realpath(project)
    if os.path.dirname(os.path.realpath(store)) == own:
        return os.path.join(store, FOLDER)
    return os.path.join(store, f"{FOLDER}-{digest(own.encode())[:12]}")


_MARK = {"redacted": True}


def _has_marks(value: Any) -> bool:
    if isinstance(value, dict):
        return value == _MARK or any(map(_has_marks, dict.values(value)))
    return isinstance(value, list) and any(map(_has_marks, list.__iter__(value)))


def _fill(value: Any, there: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        if value == _MARK:
            return value if there is None else there
        known = there if isinstance(there, dict) else {}
        return {key: _fill(item, known.get(key), mask) for key, item in dict.items(value)}
    if isinstance(value, list):
        known_list = there if isinstance(there, list) and len(there) == len(value) else [None] * len(value)
        return [_fill(*pair, mask) for pair in zip(list.__iter__(value), known_list, strict=True)]
    if isinstance(value, str) and isinstance(there, str) and MASK in value:
        masked = mask(there)  # what was added behind it is added there, too
        return there + value[len(masked) :] if value.startswith(masked) else value
    return value
