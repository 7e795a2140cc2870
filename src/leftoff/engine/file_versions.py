"""Files as a version of a run has them: its manifest, their content, and how that differs from other versions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from leftoff.clock import by_time
from leftoff.engine.file_state import (
    ABSENT,
    FILE,
    LINK,
    NOTHING_THERE,
    OTHER,
    FileState,
    hashed,
    newest_by_path,
    present,
    recorded,
    shown_mode,
)
from leftoff.engine.find import Target
from leftoff.engine.git import repository
from leftoff.engine.project_files import check_path, place, read_at
from leftoff.engine.redactor import Redactor
from leftoff.engine.run_reader import Reader
from leftoff.engine.tracking import MARK
from leftoff.errors import Corrupt, NotFound, UnsafePath
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import BlobRow

WHY_NOT_KEPT = (
    "Only a hash is stored of secret files, of files over [files] max_file, and of outputs with `keep: hash`."
)
MOST_BYTES = 1 << 20  # of a file that is shown as a diff
MOST_LINES = 400


def blob_hash(tagged: object) -> bytes:
    """Return the bytes of a hash as records write it; empty if it is not one."""
    algorithm, _, digits = str(tagged).partition(":")
    try:
        return bytes.fromhex(digits) if algorithm == "sha256" else b""
    except ValueError:
        return b""


def copy_of(store: SqlStore, about: Mapping[str, Any]) -> BlobRow | None:
    """Return the copy of a file that a record names; ``None`` if none was kept. Raise ``Corrupt`` if it is lost."""
    digest = blob_hash(about.get("hash"))
    row = store.read(lambda view: view.blob(digest))
    if row is None and about.get("captured") is True:
        message = f"The store does not know the copy of {about.get('path')} any more."
        raise Corrupt(message, where=f"blob {digest.hex()}")
    return row


def has_copy(store: SqlStore, about: Mapping[str, Any], *, whole: bool) -> bool:
    """Return whether the store still has the copy that a record names: it may be damaged, or set aside.

    ``whole``: read every byte of it, else only the beginning.
    """
    if not about.get("captured"):
        return False
    content = recorded(about)
    if content.kind == LINK:
        return True
    try:
        for _ in store.load_blob(blob_hash(content.hash)):
            if not whole:
                break
    except (Corrupt, NotFound):
        return False
    return True


def manifest(reader: Reader, *collections: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the newest record of each path, and the paths of artifacts that are outside the project.

    Raise ``Invalid`` if a record has a path that cannot be a file of this project.
    """
    found: list[dict[str, Any]] = []
    outside: list[str] = []
    for collection in collections or ("artifact", "file"):
        for key, about in reader.plain(collection).items():
            if isinstance(about, dict):
                path = about.get("path", key)
                if collection == "artifact" and isinstance(path, str) and os.path.isabs(path):
                    outside.append(path)
                else:
                    found.append({**about, "path": check_path(path, f"{collection}/{key}")})
    out = newest_by_path(found)
    # No file is below another. If both were recorded, the newer one counts, and a link never leads anywhere.
    for path in sorted(path for path, about in out.items() if recorded(about).kind != ABSENT):
        above = path
        while path in out and (above := above.rpartition("/")[0]):
            if above in out and recorded(out[above]).kind != ABSENT:
                older = by_time(out[path].get("captured_at")) < by_time(out[above].get("captured_at"))
                del out[path if older else above]
    return out, outside


def complete_at(reader: Reader, seq: int) -> str | None:
    """Return the commit of a version that has all dirty files; empty before the first commit, ``None`` if it has not.

    The mark names the version that it was made for. Later versions inherit it, and there it means nothing, except in a
    rollback to that version: it has the same records.
    """
    mark = reader.record("context", MARK)
    if mark.get("complete") is not True:
        return None
    if mark.get("seq") != seq:
        now, marked = (reader.view.version(reader.run, n) for n in (seq, mark["seq"]))
        if now is None or marked is None or now.trigger != "rollback" or now.digest != marked.digest:
            return None
    head = mark.get("head")
    return head if isinstance(head, str) and head.isalnum() else ""


class FileThen:
    """A file by its path, or an artifact by its name, at a version of a run."""

    def __init__(self, store: SqlStore, project: str, target: Target, path: str) -> None:
        self.store = store
        self.path = path
        self.where = f"{target.row.run_id}@{target.seq}"
        self._data: bytes | None = None
        run, run_id, seq = target.row.run, target.row.run_id, target.seq

        def find(view: View) -> tuple[dict[str, Any] | None, str | None]:
            reader = Reader(store, view, run, run_id, seq)
            found = manifest(reader)[0].get(path) or reader.plain("artifact").get(path)
            return (found if isinstance(found, dict) else None), complete_at(reader, seq)

        about, commit = store.read(find)
        if about is None:  # a file that was not dirty then is in the commit that was checked out
            repo = repository(project) if commit else None
            base = repo.bases(commit, [path]).get(path) if repo is not None and commit else None
            if repo is None or base is None or not commit:
                hint = f"`leftoff show {self.where} --files` lists them."
                raise NotFound(f"{self.where} has no file {path}.", hint=hint)
            self._data = repo.content(commit, base)
            digest, size = hashed([self._data])
            mode = "0755" if base.executable else "0644"
            about = {"path": path, "hash": f"sha256:{digest.hex()}", "size": size, "mode": mode}
        self.about = about

    def chunks(self) -> Iterable[bytes]:
        """Return its content; raise ``NotFound`` if it was deleted, or only hashed."""
        if self._data is not None:
            return [self._data]
        content = recorded(self.about)
        if content.kind == ABSENT:
            raise NotFound(f"{self.path} was deleted at {self.where}.", hint="Look at an older version.")
        if content.kind == LINK:
            return [(content.target or "").encode()]
        row = copy_of(self.store, self.about)
        if row is not None:
            return self.store.load_blob(row.hash, row)
        message = f"The content of {self.path} was not kept at {self.where}, only its hash."
        raise NotFound(message, hint=WHY_NOT_KEPT)

    def to_json(self) -> dict[str, Any]:
        """Return its record, and its content as text or in base64."""
        data = b"".join(self.chunks())
        try:
            content = {"text": data.decode()}
        except UnicodeDecodeError:
            from base64 import b64encode

            content = {"base64": b64encode(data).decode()}
        return {**self.about, **content}


# -- differences


class FileDiff(NamedTuple):
    """What changed in a file: a unified diff, or why that cannot be shown; and how many lines came and went. ``old``
    and ``new``: what was there, and what is: kind, hash, size."""

    text: str
    added: int = 0
    removed: int = 0
    old: dict[str, Any] | None = None
    new: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"diff": self.text, "added": self.added, "removed": self.removed}


class FileSide(NamedTuple):
    """One side of a comparison: the records of a version by path or, if ``now``, what is there."""

    store: SqlStore
    project: str
    name: str
    files: Mapping[str, Any]
    now: bool

    def content(self, path: str) -> FileState:
        about = self.files.get(path)
        if self.now and not os.path.isabs(path):  # files outside the project are not looked at
            try:
                return present(self.project, path, about)
            except UnsafePath:  # reached through a link now
                return FileState(OTHER)
        return recorded(about) if about is not None else NOTHING_THERE

    def text(self, path: str, content: FileState) -> str | None:
        known = self.files.get(path)
        if self.now and (known is None or recorded(known).hash != content.hash):
            return _present_text(self.project, path, content)
        return recorded_text(self.store, known) if known is not None else ""


def file_diffs(old: FileSide, new: FileSide, redactor: Redactor) -> dict[str, FileDiff]:
    """Return by path what differs between two sides, of each file that one of them has a record of."""
    out = {}
    for path in sorted({*old.files, *new.files}):
        before, after = old.content(path), new.content(path)
        if before.same(after) or (before.kind == after.kind == FILE and before.hash == after.hash):
            continue
        sides = ((old, before), (new, after))
        secret = redactor.secret_file(path)
        texts = [None if secret else side.text(path, content) for side, content in sides]
        if secret:
            diff = FileDiff(f"{path} differs; it is a secret file, and is not shown.")
        elif texts[0] is None or texts[1] is None:
            sizes = [
                f"{content.size} bytes" if content.kind == FILE else content.kind for _, content in sides
            ]
            why = "it is no text, too long, or its content was not kept"
            diff = FileDiff(f"{path} differs ({sizes[0]}, {sizes[1]}); {why}.")
        else:
            names = [
                "/dev/null" if content.kind == ABSENT else f"{path}\t({side.name})" for side, content in sides
            ]
            text = unified(texts[0], texts[1], *names)
            marks = [line[:1] for line in text.splitlines()[2:]]
            diff = FileDiff(redactor.mask(text), marks.count("+"), marks.count("-"))
        shown = [
            {**content.to_json(), **({"mode": shown_mode(content.mode)} if content.mode is not None else {})}
            for _, content in sides
        ]
        out[path] = diff._replace(old=shown[0], new=shown[1])
    return out


def unified(old: str, new: str, before: str, after: str) -> str:
    """Return a unified diff of at most ``MOST_LINES`` lines. Equal texts differ in their mode."""
    from difflib import unified_diff

    lines = list(unified_diff(old.splitlines(), new.splitlines(), before, after, lineterm=""))
    if not lines:
        return f"--- {before}\n+++ {after}\n(the same text: its permissions or the ends of its lines differ)"
    more = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], *([f"… {more} more lines"] if more > 0 else [])])


def recorded_text(store: SqlStore, about: Mapping[str, Any]) -> str | None:
    """Return what a file held by its record; ``None`` if that is not text, too long or not kept."""
    content = recorded(about)
    if content.kind == LINK:
        return f"-> {content.target}"
    if content.kind != FILE:
        return ""
    row = copy_of(store, about) if content.size <= MOST_BYTES else None
    return as_text(b"".join(store.load_blob(row.hash, row))) if row is not None else None


def _present_text(project: str, path: str, content: FileState) -> str | None:
    """Return what a file holds now; ``None`` if that is not text, or too long."""
    if content.kind == LINK:
        return f"-> {content.target}"
    if content.kind == OTHER or content.size > MOST_BYTES:
        return None
    at = place(project, path) if content.kind == FILE else None
    if at is None:
        return ""
    with at:
        return as_text(read_at(at) or b"")


def present_diff(project: str, path: str, old: str | None, what: str) -> str | None:
    """Return a diff from an older text of a file to what is there; ``None`` if one of both is not known."""
    new = _present_text(project, path, present(project, path))
    if old is None or new is None:
        return None
    return unified(old, new, f"{path} ({what})", f"{path} (now)")


def as_text(data: bytes) -> str | None:
    """Return bytes as text; ``None`` if they are not UTF-8."""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None
