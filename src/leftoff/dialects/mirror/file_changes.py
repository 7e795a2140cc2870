"""What others did to the files of a protocol: changed, displaced, moved and new files, taken into the store.

Of a file that cannot be read a copy is kept for good, and that is told: the file may be replaced.
"""

from __future__ import annotations

import os

from leftoff.dialects.document_edit import ChangedDocument, DocumentEdit
from leftoff.dialects.document_text import read_packed
from leftoff.dialects.draft import Source
from leftoff.dialects.import_documents import Importer
from leftoff.dialects.loose_values import Repairs
from leftoff.dialects.mirror.memory import digest
from leftoff.dialects.protocol import run_named
from leftoff.engine.lifecycle.finish import Ending, end_work
from leftoff.engine.write.commit import Terms
from leftoff.errors import LeftoffError, NotFound
from leftoff.model.times import millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from leftoff.dialects.import_documents import ImportedRun
    from leftoff.dialects.mirror.mirror import Mirror

    T = TypeVar("T")


class FileChanges:
    """The files of one mirror, as others may have changed them."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.store, self.project, self.dialect = mirror.store, mirror.project, mirror.dialect
        self.memory, self.scrubber = mirror.memory, mirror.scrubber
        self.clock, self.say = mirror.clock, mirror.say

    def take_in(self) -> bool:
        """Take in whatever changed; whether anything did."""
        taken = False
        for entry in list(self.memory.pool):
            taken |= self._safely(entry["path"], self.look_at_displaced, entry)
        for path in list(self.memory.files):
            taken |= self._safely(path, self._look_at, path)
        taken |= self._look_for_new()
        self.memory.tidy(self.clock())
        return taken

    def _safely(self, path: str, look: Callable[[T], bool], about: T) -> bool:
        """A file that cannot be followed is told of; the others are."""
        try:
            took = look(about)
            if path not in self.memory.refused:
                self.mirror.works(path)
            return took
        except Exception as error:
            self.mirror.tell(path, error)
            return False

    def _look_at(self, path: str) -> bool:
        about, stat = self.memory.files[path], self.memory.stat(path)
        if stat is None and about["stat"] is not None and not about.get("deleted"):
            self._tell_deleted(path, about)
        if stat is None or stat == about["stat"]:
            return False
        data = self.memory.read(path)
        if data is None or digest(data) == about["hash"]:
            about["stat"] = stat
            return False
        took = self._take(path, data, self.memory.base(path), about)
        if took is None:
            return False  # being written, or broken: looked at again
        if path in self.memory.files:
            self.memory.remember(path, data, about["run"], about["part"])
            self.memory.files[path] |= {"stat": stat, "edited": True}
        self.mirror.stale.add(about["run"])
        return True

    def _tell_deleted(self, path: str, about: dict[str, Any]) -> None:
        about["deleted"], run = True, about["run"]
        self.say(
            f"leftoff: {path} was deleted. {run} is kept, and its next commit writes the file again; "
            f"`leftoff finish --run {run} --status abandoned` gives it up."
        )

    def look_at_displaced(self, entry: dict[str, Any]) -> bool:
        stat = self.memory.displaced_stat(entry)
        if stat is None or stat == entry["stat"]:
            return False
        data = self.memory.displaced(entry)
        entry["secret"] = data is not None and self.mirror.keeper.keep(entry["path"], data) is not data
        if data is None or digest(data) == entry["hash"]:
            entry["stat"] = stat
            return False
        took = self._take(entry["path"], data, self.memory.displaced_base(entry), entry)
        if took is None:
            if entry.get("unreadable") == digest(data):  # it is set aside: looked at again only if it changes
                entry["stat"] = stat
            return False
        entry["stat"], entry["hash"], entry["at"] = stat, digest(data), self.clock()
        return took

    def _take(self, path: str, data: bytes, base: bytes | None, about: dict[str, Any]) -> bool | None:
        """Take a changed file in; whether anything changed, ``None`` where it cannot be read."""
        repairs = Repairs()
        try:
            document = self._document(path, data, about["part"], repairs)
        except LeftoffError as error:
            about["unreadable"], kept = digest(data), self.memory.set_aside(path, data)
            if kept is not None:
                self.say(
                    f"leftoff: {error.message} Nothing of it is taken in. {deletes(path)} it, and the next "
                    f"commit of its run writes it anew; a copy is kept: {kept}"
                )
            return None
        source = Source(path, self.clock(), **self.dialect.hints(self.memory.full(path)))
        repairs.hide(document, self.scrubber)
        before = self._base_document(path, base, about["part"])
        before = self.mirror.keeper.restored(before, document) if before is not None else None
        changed = ChangedDocument(self.dialect, document, source, repairs, before, run_id=about["run"])
        changed.edited = bool(about.get("edited"))
        edit = DocumentEdit(self.store, self.project, self.scrubber, changed)
        took = self._report(edit, path, about["run"])
        for line in repairs.lines if took else ():
            self.say(f"leftoff: {path}: {line}")
        return took

    def _report(self, edit: DocumentEdit, path: str, run_id: str) -> bool | None:
        try:
            done = edit.report(run_named(run_id), self.clock())
        except NotFound:
            return self._import([path])
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
        new = []
        for path in self.dialect.present(self.project):
            stat = self.memory.stat(path)
            if stat is not None and path not in self.memory.files and self.memory.seen.get(path) != stat:
                self.memory.seen[path] = stat
                if not self._is_ours(path):
                    new.append(path)
        took = False
        groups = self.dialect.group([self.memory.full(path) for path in new])
        for group in sorted(groups, key=self._written_at) if self.dialect.by_time else groups:
            paths = [os.path.relpath(path, self.project) for path in group]
            took |= self._safely(paths[0], self._import, paths)
        return took

    def _written_at(self, paths: list[str]) -> int:
        """When a document that came with others was written, as it says: the latest one is what is gone on with."""
        path = os.path.relpath(paths[-1], self.project)
        data = self.memory.read(path)
        try:
            document = read_packed(data, path, Repairs()) if data is not None else {}
        except LeftoffError:  # told when it is taken in
            return 0
        said = (document.get(stamp) for stamp in self.dialect.stamps)
        return max((millis(stamp) or 0 for stamp in said if isinstance(stamp, str)), default=0)

    def _is_ours(self, path: str) -> bool:
        """Whether we wrote what a file holds, for a run that is here and has its own file: it is nobody's run."""
        data = self.memory.read(path)
        run_id = self.memory.ours.get(digest(data)) if data is not None else None
        if run_id is None:
            return False
        here = self.store.read(lambda view: view.find_run(run_id))
        own = [other for other, about in self.memory.files.items() if about["run"] == run_id]
        if here is None or any(self.mirror.files.stat(other) is None for other in own):
            return False
        self._is_copy(path, run_id)
        return True

    def _import(self, paths: list[str]) -> bool:
        """Files that are none of ours become a run, or checkpoints of one; where one is a copy, it is left alone."""
        rejected: list[str] = []
        contents = {path: self.memory.read(path) for path in paths}
        importer = Importer(
            self.store,
            self.project,
            self.scrubber,
            self.clock(),
            lambda at, error: rejected.append(
                f"{error.message} It is left as it is; {deletes(self._name(at))} it."
            ),
        )
        found = importer.read_unit([self.memory.full(path) for path in paths], self.dialect)
        moved = self._moved(paths[0], found[0].run_id) if found else None
        if moved is None:
            found = importer.write([each for each in found if not self._is_copy(paths[0], each.run_id)])
        repairs = (f"{self._name(each.path)}: {line}" for each in found for line in each.repairs.lines)
        for line in [*rejected, *repairs]:
            self.say(f"leftoff: {line}")
        if moved is not None:
            return moved
        for path in paths if found else ():
            self._keep(path, contents[path], self._run_of(path, found))
        return any(each.new or each.changed for each in found)

    def _run_of(self, path: str, found: list[ImportedRun]) -> str:
        full = self.memory.full(path)
        named = (e.run_id for e in found for loaded in e.loaded if loaded.source.path == full)
        return next(named, found[0].run_id)

    def _keep(self, path: str, data: bytes | None, run_id: str) -> None:
        """A file that was taken in is followed from now on, where it is the one that its run is written to."""
        if data is not None and self._belongs(path, run_id):
            self.memory.remember(path, data, run_id, self.dialect.part_of(path))

    def _others(self, path: str, run_id: str) -> list[str]:
        """Further files of a run, that hold the same part of it."""
        part = self.dialect.part_of(path)
        files = self.memory.files.items()
        return [other for other, about in files if about["run"] == run_id and about["part"] == part]

    def _moved(self, path: str, run_id: str) -> bool | None:
        """Somebody moved the file of a run: it is the same file. Whether it was changed; ``None``: it is not so."""
        others = self._others(path, run_id)
        if len(others) != 1 or self.mirror.files.stat(others[0]) is not None:
            return None
        about, base = self.memory.files[others[0]], self.memory.base(others[0])
        self.memory.forget(others[0])
        self.memory.remember(path, base or b"", about["run"], about["part"])
        self.memory.files[path]["hash"] = about["hash"]
        took = self._look_at(path)
        if self.dialect.given_up(path) and not self.dialect.given_up(others[0]):
            find = run_named(run_id)
            end_work(self.store, find, Ending("abandoned", self.project), Terms(self.clock()), self.scrubber)
            took = True
        self.mirror.stale.add(run_id)
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
        state = self.dialect.shown(self.mirror, row) if row is not None else None
        return row is not None and state is not None and path in self.dialect.places(self.mirror, row, state)

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self.project)


def deletes(path: str) -> str:
    """The offer to delete a file that nobody can read."""
    from shlex import quote

    return f"`rm {quote(path)}` deletes"
