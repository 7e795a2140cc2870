"""One file as a version has it: its content, without touching what is there."""

from __future__ import annotations

from leftoff.engine.read.state import Reader
from leftoff.engine.workspace.content import ABSENT, LINK, recorded
from leftoff.engine.workspace.copies import Copies, digest_of
from leftoff.engine.workspace.git import repository
from leftoff.engine.workspace.plan import WHY_NOT_KEPT, complete_at, records
from leftoff.engine.workspace.stat import hashed
from leftoff.errors import Corrupt, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.store.base import Store, View
    from leftoff.store.rows import BlobRow


def has_copy(store: Store, about: Mapping[str, Any], *, whole: bool) -> bool:
    """Whether the store still has the copy that a record tells of: it may have been damaged, or set aside, since.

    ``whole``: every byte of it is read; else of a large one only the beginning.
    """
    if not about.get("captured"):
        return False
    content = recorded(about)
    if content.kind == LINK:
        return True
    try:
        for _ in store.load_blob(digest_of(content.hash or "")):
            if not whole:
                break
    except (Corrupt, NotFound):
        return False
    return True


class FileThen:
    """A file by its path, or an artifact by its name, at a version of a run."""

    def __init__(self, store: Store, project: str, target: Target, path: str) -> None:
        self.store = store
        self.path = path
        self.where = f"{target.row.run_id}@{target.seq}"
        self._copy: BlobRow | None = None
        self.about, self.committed = store.read(lambda view: self._find(view, target))
        self._data: bytes | None = None
        if self.about is None:
            self._from_git(project)

    def _find(self, view: View, target: Target) -> tuple[dict[str, Any] | None, str | None]:
        reader = Reader(self.store, view, target.row.run, target.row.run_id, target.seq)
        found = records(reader)[0].get(self.path)
        if found is None:
            named = reader.plain("artifact").get(self.path)
            found = named if isinstance(named, dict) else None
        self._copy = Copies(reader).of(found) if found is not None else None
        return found, complete_at(view, reader, target.row.run, target.seq)

    def _from_git(self, project: str) -> None:
        """A file that was not dirty then is in the commit that was checked out."""
        repo = repository(project) if self.committed else None
        base = (
            repo.bases(self.committed, [self.path]).get(self.path)
            if repo is not None and self.committed
            else None
        )
        if repo is None or base is None or not self.committed:
            raise NotFound(
                f"{self.where} has no file {self.path}.",
                hint=f"`leftoff show {self.where} --files` lists them.",
            )
        self._data = repo.content(self.committed, base)
        digest, size = hashed([self._data])
        mode = "0755" if base.mode == 0o755 else "0644"
        self.about = {"path": self.path, "hash": f"sha256:{digest.hex()}", "size": size, "mode": mode}

    def chunks(self) -> Iterable[bytes]:
        """Its content; ``NotFound`` where it was deleted, or only hashed."""
        assert self.about is not None
        if self._data is not None:
            return [self._data]
        content = recorded(self.about)
        if content.kind == ABSENT:
            raise NotFound(f"{self.path} was deleted at {self.where}.", hint="Look at an older version.")
        if content.kind == LINK:
            return [(content.target or "").encode()]
        if self._copy is None:
            raise NotFound(
                f"The content of {self.path} was not kept at {self.where}, only its hash.",
                hint=WHY_NOT_KEPT,
            )
        return self.store.load_blob(self._copy.hash, self._copy)

    def to_json(self) -> dict[str, Any]:
        """What is recorded of it, and its content: as text, or in base64."""
        data = b"".join(self.chunks())
        try:
            content = {"text": data.decode()}
        except UnicodeDecodeError:
            from base64 import b64encode

            content = {"base64": b64encode(data).decode()}
        return {**(self.about or {}), **content}
