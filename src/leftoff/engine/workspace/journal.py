"""The journal of a rollback: durable before the first file is touched, gone after the last.

It lies in the store's folder, not in the records: what is being done to the files of this folder on this machine is
nobody else's business, and no bundle can bring one along. A folder that somebody else made may have one all the same,
so what it says is checked like any record. Whoever finds one completes it. One at a time: an flock.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from leftoff.engine.workspace.content import ABSENT, FILE, LINK, PERMISSIONS, Content
from leftoff.engine.workspace.paths import check_path
from leftoff.engine.workspace.project_files import ProjectFiles
from leftoff.errors import Conflict, Corrupt, LeftoffError
from leftoff.files import sync, sync_folder
from leftoff.model.codec import decode, encode
from leftoff.model.fields import Fields
from leftoff.model.hashing import sha256
from leftoff.model.ids import as_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from leftoff.engine.workspace.plan import Entry
    from leftoff.store.base import Store

FOLDER = "restore"
SUFFIX = ".json"
ROLLBACK, SINGLE = "rollback", "restore"
SUM = "sum"  # journals of old have none, and nothing else
_KEYS = {"kind", "run", "run_id", "project", "ref", "seq", "token", "todo", "saved", "placed"}


class Todo(Fields):
    """One path of a journal: what it was, what it shall be, and where the content is."""

    path: str
    was: Content
    want: Content
    commit: str
    folders: list[int]

    @classmethod
    def of(cls, entry: Entry, folders: list[int]) -> Todo:
        return cls(entry.path, entry.now, entry.want, entry.commit, folders)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "was": self.was.to_json(),
            "want": self.want.to_json(),
            "commit": self.commit,
            "folders": self.folders,
        }

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Todo:
        was, want = Content.from_json(given["was"]), Content.from_json(given["want"])
        folders, commit = [int(mode) & PERMISSIONS for mode in given["folders"]], given["commit"]
        if want.kind not in (FILE, LINK, ABSENT) or not _is_hex(commit):
            raise ValueError("no such thing is ever to be done")
        return cls(check_path(given["path"], "The journal"), was, want, commit, folders)


class Journal(Fields):
    """What is to be done: a rollback of a run to a version, or single files as a version has them."""

    kind: str
    run: int  # its number, which no later run of this name has
    run_id: str
    ref: str  # as it was given: after the present was saved, `@~1` names something else
    seq: int
    token: str
    todo: list[Todo]
    saved: int = 0  # the version that has the present; 0: nothing was changed yet
    placed: bool = False  # all files are in their place, and only the records are to follow

    def to_json(self, project: str) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "run": self.run,
            "run_id": self.run_id,
            "project": project,
            "ref": self.ref,
            "seq": self.seq,
            "token": self.token,
            "todo": [one.to_json() for one in self.todo],
            "saved": self.saved,
            "placed": self.placed,
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Journal:
        todo = [Todo.from_json(one) for one in found["todo"] or ()]
        words = {name: found[name] for name in ("kind", "run", "run_id", "ref", "seq", "token", "saved")}
        if not _is_hex(words["token"]):
            raise ValueError("the token is part of names")
        if words["kind"] not in (ROLLBACK, SINGLE) or not isinstance(words["seq"], int):
            raise ValueError("nothing else is ever done")
        return cls(**words, todo=todo, placed=found.get("placed") is True)


class Journals:
    """The journals of one project in one store, while nobody else works on them. Use it in a `with`."""

    def __init__(self, store: Store, project: str) -> None:
        self.project = os.path.realpath(project)
        self._folder = os.path.join(store.folder, FOLDER)
        self._lock = -1

    def __enter__(self) -> Journals:
        if not os.path.isdir(self._folder):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            sync_folder(os.path.dirname(self._folder))
        self._lock = os.open(os.path.join(self._folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Conflict(
                "Somebody else is restoring files here.", hint="Wait for it, then try again."
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    def path(self, run_id: str) -> str:
        return os.path.join(self._folder, run_id + SUFFIX)

    def load(self, run: int, run_id: str) -> Journal | None:
        """The journal of a run that was cut short here; ``None``: there is none."""
        path = self.path(run_id)
        try:
            found = _found(path)
            if found is None or found["run"] != run:
                return None  # or of one that was removed
            journal, project = Journal.from_json(found), str(found["project"])
        except (OSError, ValueError, KeyError, TypeError):
            raise Corrupt(
                f"The journal {path} cannot be read.",
                where=path,
                hint="What was there before is in the checkpoint `before a rollback`. Move the journal away.",
            ) from None
        if project != self.project:
            there = f"--project {as_word(project)} rollback {as_word(str(journal.ref))}"
            raise Conflict(
                f"A rollback of run {run_id} was cut short in {project}.",
                hint=f"Complete it there: leftoff {there} --files",
            )
        return journal

    def write(self, journal: Journal) -> None:
        """Durable when it returns."""
        path = self.path(journal.run_id)
        temp = f"{path}.new"
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            said = journal.to_json(self.project)
            file.write(encode({**said, SUM: _sum(said)}, "journal"))
            file.flush()
            sync(file.fileno())
        os.rename(temp, path)
        sync_folder(self._folder)

    def remove(self, run_id: str) -> None:
        try:
            os.unlink(self.path(run_id))
        except FileNotFoundError:
            return
        sync_folder(self._folder)


def _found(path: str) -> dict[str, Any] | None:
    """What a journal says, if there is one; an error, where it is no plain file, or not what was written for it."""
    folder, name = os.path.split(path)
    data = ProjectFiles(folder).read(name)
    if data is None:
        if os.path.lexists(path):
            raise ValueError("not a plain file")
        return None
    found = dict(decode(data))
    said = found.pop(SUM, None)
    if found["run_id"] != name.removesuffix(SUFFIX):
        raise ValueError("the journal of another run")
    if said != _sum(found) if said is not None else found.keys() != _KEYS:
        raise ValueError("not what was written")
    return found


def _sum(said: dict[str, Any]) -> str:
    return sha256(encode(said, "journal")).hexdigest()[:16]


def _is_hex(text: object) -> bool:
    return isinstance(text, str) and all(char in "0123456789abcdef" for char in text)


class CutShort(Fields):
    """A rollback, or a restoring of single files, whose journal is there: it was cut short, or goes on just now."""

    what: str
    command: str  # that completes it
    busy: bool

    def told(self) -> str:
        """In a sentence."""
        if self.busy:
            return f"{self.what} is under way: not all files are in place yet."
        return f"{self.what} was cut short: some files are in place, others may not be."


def cut_short(store: Store, project: str, run: int, run_id: str) -> CutShort | None:
    """What was begun with the files of a run and is not complete; for whoever wants to go on."""
    folder = os.path.join(store.folder, FOLDER)
    try:
        found = _found(os.path.join(folder, run_id + SUFFIX))
        if found is None or found["run"] != run:
            return None  # or of one that was removed
        journal, ref = Journal.from_json(found), f"{run_id}@{found['seq']}"
        same = found["project"] == os.path.realpath(project)
        there = "" if same else f"--project {as_word(str(found['project']))} "
        if journal.kind == ROLLBACK:
            what, command = f"A rollback to {ref} with its files", f"leftoff {there}rollback {ref} --files"
        else:
            paths = " ".join(as_word(one.path) for one in journal.todo) or "PATH…"
            what, command = f"Restoring files as {ref} has them", f"leftoff {there}restore {ref} {paths}"
    except (OSError, ValueError, KeyError, TypeError):
        what, command = "A rollback with files", f"leftoff rollback {run_id}@SEQ --files"
    return CutShort(what, command, busy=_is_locked(folder))


def _is_locked(folder: str) -> bool:
    try:
        fd = os.open(os.path.join(folder, "lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def forget(store: Store, project: str, run: int, run_id: str) -> None:
    """Remove the journal of a run that continues with its files as they are, and new files that were not renamed."""
    from leftoff.engine.workspace.put import Putter

    with Journals(store, project) as journals:
        with suppress(LeftoffError):  # it may be unreadable
            if (left := journals.load(run, run_id)) is not None:
                Putter(store, project, None, left.token).discard(left.todo)
        journals.remove(run_id)
