"""Keep the files of a protocol in sync with the store, in both directions.

Before a commit is written out, and when a command opens a run, files that others changed are merged into the store
(`DocumentEdit`, a three-way merge of records). After a commit the files of each changed run are written again. If both
sides changed the same field, the store's value stays and the edited file is saved next to it. `SyncBase` has the base
of the merge. A problem with a file never stops a command: it is reported once, and `leftoff status` lists it until it
is gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from shlex import quote
from typing import Any, TypeVar

from leftoff.clock import millis
from leftoff.engine.commit import Seal, Terms
from leftoff.engine.continue_run import Ending, end_work
from leftoff.engine.find import SESSION
from leftoff.engine.opening import Opening
from leftoff.engine.settings import Settings
from leftoff.errors import Invalid, LeftoffError, NotFound, StoreUnavailable, UnsafePath
from leftoff.files import make_folder
from leftoff.host import debug
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import same_json
from leftoff.protocols.document_draft import Source, State
from leftoff.protocols.document_edit import DocumentEdit
from leftoff.protocols.document_text import pack, read_document
from leftoff.protocols.import_documents import Importer
from leftoff.protocols.loose_values import Repairs
from leftoff.protocols.protocol import Protocol, run_named, state_at, write
from leftoff.protocols.registry import followed_protocol
from leftoff.protocols.sync_base import Problem, SecretFilter, SyncBase, SyncedFile, digest
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.follower import Follower
from leftoff.store.rows import RunRow

FEW = 50  # runs that are looked at first
ALL, CONFIG = "*", "settings"  # problems with all files, and with the protocol's own settings
ROUNDS = 4  # of writing, and merging edits that came meanwhile

T = TypeVar("T")


class Sync(Follower):
    """The files of one project. ``store`` is the plain store: writing to it does not sync."""

    def __init__(
        self,
        store: SqlStore,
        project: str,
        protocol: Protocol,
        settings: Settings,
        clock: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self.store = store
        self.project = project
        self.protocol = protocol
        self.settings = settings
        self.redactor = settings.redactor()
        self.clock = clock
        self._say = say
        self._secrets = SecretFilter(self.redactor)
        self.base = SyncBase(project, store.folder, self._secrets)
        self.files = self.base.project_files
        self.config: Any = None  # the protocol's own settings, as they were last read
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._run = ""  # whose files are being written
        self._stale: set[str] = set()  # runs whose files must be written
        self._writes = False  # else edited files stay, if they say what is stored

    # -- what the engine calls

    def look(self) -> None:
        self._sync(write=False)

    def sync(self, *, look: bool = True) -> None:
        self._sync(write=True, look=look)

    def write_again(self, run: int) -> None:
        row = self.store.read(lambda view: view.run_row(run))
        if row is not None:
            self._stale.add(row.run_id)
        self.sync()

    def withdraw(self, *, dry: bool = False) -> list[str]:
        self.look()
        with self.base.open(self.store.patience):
            known = self.base.files
            folders = tuple({f"{os.path.dirname(path)}/" for path in known})
            nearby = [path for path in self.base.written if folders and path.startswith(folders)]
            paths = sorted(path for path in {*known, *nearby} if self.files.stat(path) is not None)
            for path in paths if not dry else ():
                self.base.forget(path)
                self.remove(path)
        return paths

    def deleted(self, run_id: str) -> str | None:
        files = self.base.saved().files.items()
        return next((path for path, file in files if file.run == run_id and file.deleted), None)

    def problems(self) -> list[str]:
        by_why: dict[str, list[str]] = {}
        for about, problem in sorted({**self.base.saved().problems, **self.base.problems}.items()):
            by_why.setdefault(problem.why, []).append(about)
        lines = []
        for why, names in by_why.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            lines.append(why if {ALL, CONFIG} & {*names} else f"{names[0]}{more}: {why}")
        return lines

    def outside(self, row: RunRow) -> str | None:
        if row.workflow == SESSION or self.protocol.includes(row):
            return None
        name, starts = self.protocol.name, self.protocol.starts
        return f"{row.run_id} is in none of the files of {name}; `{starts}` begins a run that is."

    def own_files(self) -> frozenset[str]:
        saved = self.base.saved()
        return frozenset((*saved.files, *saved.written))

    def run_of_file(self, path: str) -> str | None:
        saved = self.base.saved()
        file = saved.files.get(path)
        return file.run if file is not None else saved.written.get(path)

    def run_id(self, opening: Opening, at: int, *, again: bool = False) -> str | None:
        return None if again and not self.protocol.fixed_ids else self._opening(opening, at)[0]

    def steps(self, opening: Opening, at: int) -> list[str]:
        return self._opening(opening, at)[1]

    def _opening(self, opening: Opening, at: int) -> tuple[str | None, list[str]]:
        title = self.redactor.mask(opening.title) if opening.title else None
        given = {"workflow": opening.workflow, "title": title}
        return self.protocol.opening(given | {key: opening.facts.get(key) for key in ("issue", "task")}, at)

    def read_config(self) -> Any:
        """Read the protocol's settings, for `seal` before a transaction; ``None`` if they cannot be read."""
        try:
            self.config = self.protocol.config(self.project)
            self._works(CONFIG)
        except Exception as error:
            self.config = None
            self._report(CONFIG, error)
        return self.config

    def seal(self, tx: Tx, run: int, changes: ChangeSet, seal: Seal | None) -> Seal | None:
        row = tx.run_row(run)
        own = self.config is not None and row is not None and self.protocol.includes(row)
        return self.protocol.sealed(tx, run, changes, seal, self.config) if own else seal

    # -- one sync at a time

    def _sync(self, *, write: bool, look: bool = True) -> None:
        """Sync. A problem is reported, and does not stop the command, which does its work on the store."""
        if self._pid != os.getpid():  # forked: the thread that had the lock is not here
            self._pid, self._mutex = os.getpid(), threading.Lock()
        with self._mutex:
            try:
                if not self.store.exists():  # the files may have come without it, for example by `git clone`
                    if not self.protocol.present(self.project):
                        return
                    make_folder(self.store.folder)
                self._writes = write
                with self.base.open(self.store.patience):
                    if self.read_config() is not None:
                        if (look and self._take_in()) or write or self._is_behind():
                            self._write()
                        self._works(ALL)
            except Exception as error:
                self._report(ALL, error)

    def _is_behind(self) -> bool:
        """Return whether a commit is not in the files: its process was killed, or a file could not be written."""
        newest = self.store.read(lambda view: view.list_runs({}, 1))
        return bool(self.base.problems.keys() - {CONFIG} or (newest and newest[0].n > self.base.n))

    # -- reporting

    def say(self, text: str) -> None:
        self._say(self.redactor.mask(text))

    def _report(self, about: str, error: Exception, run: str | None = None) -> None:
        """Report once that a run or a file could not be synced. ``run``: whose files are to be written again."""
        if isinstance(error, LeftoffError):
            why = error.message + (f" {error.hint}" if isinstance(error, UnsafePath) else "")
        elif isinstance(error, OSError) and error.strerror:
            why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        else:
            why = f"{type(error).__name__}: {error}"
        why = self.redactor.mask(why)
        debug("the files of %s, %s: %r", self.protocol.name, about, error)
        known = [problem.why for problem in self.base.problems.values()]
        self.base.problems[about] = Problem(why, run)
        if why not in known:  # it may affect several files
            of = "" if about in (ALL, CONFIG) else f" ({about})"
            self.say(f"leftoff: the files of {self.protocol.name} are not up to date{of}: {why}")

    def _works(self, about: str) -> None:
        self.base.problems.pop(about, None)

    # -- changed files

    def _take_in(self) -> bool:
        """Merge what others changed. Return whether there was anything."""
        took = False
        for path in list(self.base.files):
            took |= self._safely(path, self._look_at, path)
        return took | self._look_for_new()

    def _safely(self, path: str, look: Callable[[T], bool], about: T) -> bool:
        try:
            took = look(about)
            problem = self.base.problems.get(path)
            if problem is not None and problem.run is None:  # else it could not be written
                self._works(path)
            return took
        except Exception as error:
            self._report(path, error)
            return False

    def _look_at(self, path: str) -> bool:
        file, stat = self.base.files[path], self.base.stat(path)
        if stat is None and file.stat is not None and not file.deleted:
            file.deleted = True
            self.say(
                f"leftoff: {path} was deleted. {file.run} is kept, and its next commit writes the file again; "
                f"`leftoff finish --run {file.run} --status abandoned` gives it up."
            )
        if stat is None or stat == file.stat:
            return False
        data = self.base.read(path)
        if data is None or digest(data) == file.hash:
            file.stat = stat
            return False
        if digest(data) == file.coming:
            self.base.remember(path, data, file.run, file.part)
            self._stale.add(file.run)
            return False
        took = self._merge(path, data, file)
        if took is not None and path in self.base.files:
            now = self.base.remember(path, data, file.run, file.part)
            now.stat, now.edited = stat, True
        else:
            file.stat = stat
        self._stale.add(file.run)
        return took is not None

    def _merge(self, path: str, data: bytes, file: SyncedFile) -> bool | None:
        """Merge a changed file into its run. Return whether the run changed; ``None`` if the file is refused."""
        repairs, base = Repairs(), self.base.base(path)
        before = self._whole(path, base, file) if base is not None else None
        source = Source(path, self.clock(), **self.protocol.hints(os.path.join(self.project, path)))
        try:
            document = self._whole(path, read_document(data, path, repairs), file)
            edit = DocumentEdit(
                self.store, self.project, self.redactor, self.protocol, document, source, repairs, before
            )
            edit.run_id, edit.edited = file.run, file.edited
            took = edit.report(run_named(file.run), self.clock()).version is not None
        except NotFound:  # now it is a file of another run
            return self._import([path])
        except StoreUnavailable:
            raise
        except LeftoffError as error:
            copy = self.base.save_edited(path, data)
            if copy is not None:
                self.say(
                    f"leftoff: {error.message} Nothing of it is taken in. {deletes(path)} it, and the next "
                    f"commit of its run writes it again; a copy is saved as {copy}"
                )
            return None
        conflicts = edit.edits.contradictions
        for both in conflicts:
            self.say(f"leftoff: {path} and the store both changed {both.name}; the store's value stays.")
        if conflicts and (copy := self.base.save_edited(path, data)) is not None:
            self.say(f"leftoff: the edited file is saved as {copy}")
        for line in repairs.lines if took else ():
            self.say(f"leftoff: {path}: {line}")
        return took

    def _whole(self, path: str, document: dict[str, Any], file: SyncedFile) -> dict[str, Any]:
        """Return the document of a file; if it is a part, with the other parts as they are known."""
        if file.part is None:
            return document
        whole: dict[str, Any] = {}
        for other, about in self.base.files.items():
            known = self.base.base(other) if other != path and about.run == file.run and about.part else None
            if known is not None and about.part is not None:
                whole[about.part] = known
        return {**whole, file.part: document}

    # -- new files

    def _look_for_new(self) -> bool:
        """Import files that are not synced yet."""
        new = []
        for path in self.protocol.present(self.project):
            stat = self.base.stat(path)
            if stat is not None and path not in self.base.files and self.base.seen.get(path) != stat:
                self.base.seen[path] = stat
                new.append(path)
        groups = self.protocol.group([os.path.join(self.project, path) for path in new])
        took = False
        for group in sorted(groups, key=self._written_at) if self.protocol.by_time else groups:
            paths = [os.path.relpath(path, self.project) for path in group]
            took |= self._safely(paths[0], self._import, paths)
        return took

    def _written_at(self, paths: list[str]) -> int:
        """Return when a document was written, as it says itself."""
        path = os.path.relpath(paths[-1], self.project)
        data = self.base.read(path)
        try:
            document = read_document(data, path, Repairs()) if data is not None else {}
        except LeftoffError:  # reported when it is imported
            return 0
        said = (document.get(stamp) for stamp in self.protocol.stamps)
        return max((millis(stamp) or 0 for stamp in said if isinstance(stamp, str)), default=0)

    def _import(self, paths: list[str]) -> bool:
        """Import files as a run, or as checkpoints of one. A second file of a synced run is left alone."""
        rejected: list[str] = []

        def reject(path: str, error: LeftoffError) -> None:
            name = os.path.relpath(path, self.project)
            rejected.append(f"{error.message} It is left as it is; {deletes(name)} it.")

        contents = {path: self.base.read(path) for path in paths}
        importer = Importer(self.store, self.project, self.redactor, self.clock(), reject)
        found = importer.read_unit([os.path.join(self.project, path) for path in paths], self.protocol)
        moved = self._moved(paths[0], found[0].run_id) if found else None
        if moved is not None:
            return moved
        runs = {loaded.source.path: each.run_id for each in found for loaded in each.loaded}
        own = []
        for each in found:  # a run may have its file elsewhere
            others = [other for other in self._others(paths[0], each.run_id) if other != paths[0]]
            if others and not self.protocol.id_names_version:
                told = f"{paths[0]} is a second file of {each.run_id}, which has {others[0]}"
                self.say(f"leftoff: {told}; it is left alone.")
            else:
                own.append(each)
        found = importer.write(own)
        for line in rejected:
            self.say(f"leftoff: {line}")
        for each in found:
            for line in each.repairs.lines:
                self.say(f"leftoff: {os.path.relpath(each.path, self.project)}: {line}")
        for path, data in contents.items() if found else ():
            run_id = runs.get(os.path.join(self.project, path), found[0].run_id)
            if data is None or all(each.run_id != run_id for each in found):
                continue
            row = self.store.read(run_named(run_id))
            state = self.protocol.shown(self, row)
            if state is not None and path in self.protocol.places(self, row, state):  # it is the run's own
                self.base.remember(path, data, run_id, self.protocol.part_of(path))
        return any(each.new or each.changed for each in found)

    def _others(self, path: str, run_id: str) -> list[str]:
        """Return the synced files of a run that hold the same part of it."""
        part = self.protocol.part_of(path)
        return [other for other, file in self.base.files.items() if (file.run, file.part) == (run_id, part)]

    def _moved(self, path: str, run_id: str) -> bool | None:
        """Follow a file that the user moved. Return whether the run changed; ``None`` if it was not moved."""
        others = self._others(path, run_id)
        if len(others) != 1 or self.files.stat(others[0]) is not None:
            return None
        self.base.follow(others[0], path)
        took = self._look_at(path)
        if self.protocol.given_up(path) and not self.protocol.given_up(others[0]):
            ending, terms = Ending("abandoned", self.project), Terms(self.clock())
            end_work(self.store, run_named(run_id), ending, terms, self.redactor)
            took = True
        self._stale.add(run_id)
        return took

    # -- writing

    def _write(self) -> None:
        for _ in range(ROUNDS):
            again = False
            rows = self.store.read(self._changed)
            newest = max([row.n for row in rows], default=self.base.n)
            for row in reversed(rows):
                try:
                    again |= self._write_run(row)
                    self._works(row.run_id)
                except Exception as error:  # the files of the other runs are written all the same
                    self._report(row.run_id, error, row.run_id)
            self.base.n = max(self.base.n, newest)
            self._drop_removed()
            if not again:
                break

    def _changed(self, view: View) -> list[RunRow]:
        """Return the runs with a commit, or a heartbeat, that is not in the files yet; latest first."""
        rows = view.list_runs({}, FEW)
        if len(rows) == FEW and rows[-1].n > self.base.n:
            rows = view.list_runs({})
        out = [row for row in rows if row.n > self.base.n]
        behind = self._stale | {problem.run for problem in self.base.problems.values() if problem.run}
        if self._writes:
            behind |= {file.run for file in self.base.files.values() if file.edited}
        self._stale.clear()
        for run_id in sorted(behind):
            row = view.find_run(run_id)
            if row is not None and not row.is_archived and row.n <= self.base.n:
                out.append(row)
        for row in rows if self.protocol.beats else ():
            lease = view.lease(row.run) if row.status == "running" else None
            known = self.base.runs.setdefault(row.run_id, {})
            if lease is not None and lease.beat is not None and lease.beat != known.get("beat"):
                known["beat"] = lease.beat
                out += [row] if row.n <= self.base.n else []
        return out

    def _write_run(self, row: RunRow) -> bool:
        """Write the files of a run. Return whether an edit that came meanwhile was merged."""
        self._run, state, again = row.run_id, None, False
        if self.protocol.includes(row):
            self.protocol.before(self, row)
            state = self.protocol.shown(self, row)
        wanted = self.protocol.places(self, row, state) if state is not None else {}
        for path in [path for path, file in self.base.files.items() if file.run == row.run_id]:
            if path not in wanted:
                self.protocol.leave(self, path, row.run_id)
        if state is None:
            return False
        document = write(self.protocol, state)
        says, changed = {}, False
        for path, part in wanted.items():
            if part is None or part in document:
                own = self.protocol.complete(document if part is None else document[part], part)
                there = self.base.read(path)
                says[path] = self._secrets.with_secrets(own, path, there)
                changed = changed or not self._says(there, path, says[path])
        if changed:
            for path, said in says.items():
                underway = self.protocol.underway(said, wanted[path])
                if underway is not None:
                    again |= self.put(path, underway, row, wanted[path], whole=False)
        for path, said in reversed(says.items()):
            again |= self.put(path, said, row, wanted[path])
        self._add_names(row, state)
        self.protocol.after(self, row, state)
        return again

    def _add_names(self, row: RunRow, state: State) -> None:
        """Let a checkpoint be found by the protocol's own id too."""
        names = self.protocol.names(state)
        there = self.store.read(lambda view: view.version(row.run, row.seq)) if names else None
        if there is None or there.checkpoint is None or {*names} <= {*there.aliases}:
            return

        def add(tx: Tx) -> None:
            for name in names:
                if name not in there.aliases and tx.version(row.run, row.seq) is not None:
                    tx.add_alias(row.run, row.seq, name)

        self.store.write(add, durable=False)

    def _drop_removed(self) -> None:
        """Remove the files of runs in the trash, and put those of archived runs where the protocol keeps them."""
        refused = [(about, problem.run) for about, problem in self.base.problems.items() if problem.run]
        runs = {*(file.run for file in self.base.files.values()), *(run for _, run in refused)}
        rows = self.store.read(lambda view: {run: view.find_run(run) for run in runs})
        gone = {run for run, row in rows.items() if row is None or row.is_archived}
        for about in [about for about, run in refused if run in gone]:
            self._works(about)
        for path, file in list(self.base.files.items()):
            if file.run in gone:
                self._run = file.run
                leave = self.protocol.leave if rows[file.run] is None else self.protocol.archive
                leave(self, path, file.run)
                self.base.seen[path] = self.base.stat(path)

    def put(
        self,
        path: str,
        document: dict[str, Any],
        row: RunRow,
        part: str | None = None,
        *,
        whole: bool = True,
    ) -> bool:
        """Write a document, unless the file says the same. Return whether an edit was merged that came since the last
        look: then the run has to be written again. ``whole``: else the complete document follows."""
        there, file = self.base.read(path), self.base.files.get(path)
        if there is not None and self._says(there, path, document):
            self.base.remember(path, there, row.run_id, part)
            return False
        edited = file is not None and file.edited and not self._writes
        if edited and there is not None and self._says(there, path, document, self.protocol.stamps):
            return False
        data, took = pack(self.protocol.dump(document).encode(), path), False
        known = file or SyncedFile(row.run_id, part, "")
        if not whole:
            known.coming = digest(data)
            self.base.files[path] = known
            self.base.save()
        replaced = self._try(path, lambda: (self.base.replace(path, data),))
        if replaced is None:
            return False
        if replaced[0] is not None and digest(replaced[0]) != known.hash:
            took = bool(self._merge(path, replaced[0], known))
        self.base.remember(path, data, row.run_id, part).stat = self.base.stat(path)
        return took

    @staticmethod
    def _says(data: bytes | None, path: str, document: dict[str, Any], but: tuple[str, ...] = ()) -> bool:
        """Return whether a file has this document, apart from the fields ``but``."""
        try:
            there = read_document(data, path, Repairs()) if data is not None else None
        except LeftoffError:
            return False
        return there is not None and same_json(_without(there, but), _without(document, but))

    def state(self, row: RunRow, seq: int | None = None) -> State:
        return self.store.read(lambda view: state_at(self.store, view, row, self.protocol, seq))

    # -- files that are only written; a file that cannot be written is reported, and does not stop the others

    def put_bytes(self, path: str, data: bytes) -> None:
        """Write a file that only leftoff writes, if it has changed."""
        if self.base.read(path) != data:
            self._try(path, lambda: self.files.replace(path, data))
            self.base.seen[path] = self.base.stat(path)

    def append(self, path: str, text: str) -> None:
        self._try(path, lambda: self.files.append(path, text.encode()))

    def link(self, path: str, target: str) -> None:
        self._try(path, lambda: self.files.link(path, target))

    def remove(self, path: str) -> None:
        self._try(path, lambda: self.files.remove(path))
        self.base.written.pop(path, None)

    def remove_folder(self, path: str) -> None:
        self._try(path, lambda: self.files.remove_folder(path))
        for other in [other for other in self.base.written if f"{other}/".startswith(f"{path}/")]:
            del self.base.written[other]

    def move(self, path: str, to: str) -> None:
        self._try(to, lambda: self.files.move(path, to))
        self.base.written.pop(path, None)

    def _try(self, path: str, work: Callable[[], T]) -> T | None:
        try:
            done = work()
        except (Invalid, UnsafePath, OSError) as error:
            self._report(path, error, self._run)
            return None
        problem = self.base.problems.get(path)
        if problem is not None and problem.run is not None:
            self._works(path)
        self.base.written[path] = self._run
        return done


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    """Return a document without the fields of these names."""
    if not keys:
        return value
    if isinstance(value, dict):
        return {key: _without(item, keys) for key, item in value.items() if key not in keys}
    return [_without(item, keys) for item in value] if isinstance(value, list) else value


def deletes(path: str) -> str:
    """Return the offer to delete a file that cannot be read."""
    return f"`rm {quote(path)}` deletes"


# -- the store


class SyncedStore:
    """A store whose writes are followed by a sync. Everything else goes to the plain store."""

    follower: Sync

    def __init__(self, follower: Sync) -> None:
        self.__dict__["follower"] = follower

    def __getattr__(self, name: str) -> Any:
        return getattr(self.follower.store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.follower.store, name, value)

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        def work(tx: Tx) -> T:
            tx.follower = self.follower
            try:
                return fn(tx)
            finally:
                tx.follower = None

        self.follower.read_config()
        done = self.follower.store.write(work, durable=durable)
        self.follower.sync()
        return done

    def commit(self, fn: Callable[[Tx], T], stood: Any, *, durable: bool = True) -> T:
        return self.write(fn, durable=durable)

    def prune(self, run: int, drop: Any) -> int:
        freed = self.follower.store.prune(run, drop)
        self.follower.write_again(run)
        return freed

    def remove(self, run: int, *more: Any) -> int:
        freed = self.follower.store.remove(run, *more)
        self.follower.sync()
        return int(freed)


def follow(
    store: SqlStore, project: str, settings: Settings, clock: Callable[[], int], say: Callable[[str], None]
) -> SqlStore:
    """Return the project's store, in sync with the files of the protocol in `[protocol]`, if there is one."""
    own = followed_protocol(project, settings)
    if own is None:
        return store
    synced: Any = SyncedStore(Sync(store, project, own, settings, clock, say))
    return synced  # type: ignore[no-any-return]
