"""The files of a session that has no run yet: what git calls dirty at its prompts.

What a writing tool changes is told beforehand, file by file. What a shell command changes nobody tells; so in a git
repository every file that git calls dirty is captured when a turn begins and when it ends. A session's run begins with
what was there at its last prompt: until there is a run, that is remembered in a file beside the store.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.steps.artifacts import Captured
    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.workspace.workspace import Workspace

PENDING = "pending"
_NONE: dict[str, Any] = {"commit": None, "captured": [], "open": False}
_FRESH_MS = 1_800_000


class Pending:
    """What git called dirty at the last prompt of a session that has no run yet.

    Its content is in the store already, in blobs that nothing refers to. Such a blob is swept after an hour, so one
    that is older than half of that is written anew.
    """

    def __init__(self, workspace: Workspace, session: str, until: int | None = None) -> None:
        from leftoff.model.hashing import sha256

        self.workspace = workspace
        self.until = until
        folder = getattr(workspace.store, "folder", None) or os.path.join(workspace.folder, ".leftoff")
        name = sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
        self.folder = os.path.join(folder, PENDING)
        self.path = os.path.join(self.folder, f"{name}.json")

    def look(self, kept: dict[str, Any] | None = None) -> Found | None:
        """What is dirty now; ``None`` outside of a repository. ``kept``: what was, to be read only where it changed."""
        from leftoff.engine.workspace.capturing import Limits, Tracked
        from leftoff.engine.workspace.git import repository
        from leftoff.engine.workspace.tracking import dirty_state

        workspace = self.workspace
        repo = repository(workspace.folder)
        if repo is None:
            return None
        fresh = [one for one in (kept or _NONE)["captured"] if one["at"] > workspace.at - _FRESH_MS]
        known = {one["about"]["path"]: one["about"] for one in fresh}
        rows = {one["about"]["hash"]: _unpacked(one).blob for one in fresh if one["blob"]}
        blobs = {tagged: row for tagged, row in rows.items() if row is not None}
        tracked = Tracked(workspace, known=known, kept=blobs, limits=Limits.of(workspace))
        tracked.until = self.until
        return dirty_state(tracked, repo)

    def turn(self, *, begins: bool) -> str | None:
        """A turn begins or ends, and what is dirty now is remembered.

        Unless the turn before changed something, by a shell for one: then a file that it changed, and nothing is done.
        """
        kept = self._read()
        found = self.look(kept) if begins or kept is not _NONE else None
        if found is None:
            return None
        first = _moved(kept, found) if kept["open"] else None
        if first is None:
            since = {_key(one["about"]): one["at"] for one in kept["captured"]}
            captured = [
                {
                    "about": got.about,
                    "blob": _packed(got),
                    "at": since.get(_key(got.about), self.workspace.at),
                }
                for got in found.captured
            ]
            now = {"commit": found.commit, "captured": captured, "open": begins}
            if now != kept:
                self._write(now)
        return first

    def _read(self) -> dict[str, Any]:
        from leftoff.model.codec import decode

        try:
            with open(self.path, "rb") as file:
                kept = decode(file.read())
            fit = all(isinstance(one["at"], int) and _unpacked(one) for one in kept["captured"])
            fit = fit and isinstance(kept["commit"], str) and isinstance(kept["open"], bool)
            return kept if fit else _NONE
        except (OSError, ValueError, KeyError, TypeError):
            return _NONE

    def _write(self, now: dict[str, Any]) -> None:
        from leftoff.model.codec import encode
        from leftoff.store.sqlite.location import make_folder

        make_folder(os.path.dirname(self.folder))
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        part = f"{self.path}.{os.getpid()}"
        with open(part, "wb") as file:
            file.write(encode(now))
        os.replace(part, self.path)

    def take(self) -> Found | None:
        """What was dirty at the last prompt; where that is not known, what is dirty now."""
        from leftoff.engine.workspace.tracking import Found

        kept = self._read()
        if kept is _NONE:
            return self.look()
        return Found([_unpacked(one) for one in kept["captured"]], [], kept["commit"])

    @property
    def lock(self) -> str:
        """The file that hooks of the session queue on."""
        return self.path.removesuffix(".json") + ".lock"

    def forget(self) -> None:
        _unlink(self.path)

    def end(self) -> None:
        """Leave nothing behind, not even the store's folder where nothing else is in there."""
        from leftoff.store.sqlite.location import forget_folder

        _unlink(self.path)
        _unlink(self.lock)
        try:
            os.rmdir(self.folder)
            forget_folder(os.path.dirname(self.folder))
        except OSError:
            pass


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _moved(kept: dict[str, Any], found: Found) -> str | None:
    """A file that is not as it was kept; one that was only committed since is."""
    from leftoff.engine.workspace.content import recorded

    before = {one["about"]["path"]: recorded(one["about"]) for one in kept["captured"]}
    now = {got.key: recorded(got.about) for got in found.captured}
    for path, content in now.items():
        if path not in before or not content.same(before[path]):
            return path
    gone = [path for path in before if path not in now]
    return gone[0] if gone and kept["commit"] == found.commit else None


def _key(about: dict[str, Any]) -> tuple[Any, ...]:
    """What a captured file is known by: one that was read again has another time."""
    return about["path"], about.get("hash"), about.get("captured_at")


def _packed(got: Captured) -> list[Any] | None:
    row = got.blob
    return None if row is None else [row.hash.hex(), row.size, row.stored, row.encoding]


def _unpacked(one: dict[str, Any]) -> Captured:
    from leftoff.engine.steps.artifacts import Captured
    from leftoff.store.rows import BlobRow

    blob = one["blob"]
    row = BlobRow(bytes.fromhex(blob[0]), *blob[1:]) if blob else None
    return Captured(one["about"]["path"], one["about"], row)


class Turn:
    """Hooks of one session that come one after another stay so, however long one of them takes.

    Where a turn begins or ends, all others are waited for; the others wait only for these. Sessions do not wait for
    each other. ``make``: where there is no store's folder yet, it is made; else there is nothing to wait for.
    """

    def __init__(
        self, workspace: Workspace, session: str, *, alone: bool = False, make: bool = False
    ) -> None:
        self._path = Pending(workspace, session).lock
        self._alone = alone
        self._make = make
        self._fd = -1

    def __enter__(self) -> None:
        import fcntl

        from leftoff.store.sqlite.location import make_folder

        folder = os.path.dirname(self._path)
        try:
            if self._make:
                make_folder(os.path.dirname(folder))
            elif not os.path.isdir(os.path.dirname(folder)):
                return
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX if self._alone else fcntl.LOCK_SH)
        except OSError:  # a folder that takes no files: what follows says so
            pass

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
