"""Capturing files: what a `file` record says of one, and a copy of its content in the store."""

from __future__ import annotations

import os
import stat as bits

from leftoff.clock import iso
from leftoff.engine.steps.artifacts import WITHHELD, Captured
from leftoff.engine.workspace.content import link_to, shown_mode
from leftoff.engine.workspace.paths import place
from leftoff.engine.workspace.stat import hashed, open_file, take, unchanged
from leftoff.errors import Invalid, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from leftoff.engine.workspace.paths import Place
    from leftoff.engine.workspace.workspace import Workspace
    from leftoff.store.base import Save
    from leftoff.store.rows import BlobRow

DELETED = "deleted"
WAS = "was"  # what a deleted file's status was before
_STEADY = ("hash", "size", "mode", "target", "status", "staged", "by", "captured", "seen")
# Fields that say what was found.
_OWN = frozenset(("path", "captured_at", "folders", WAS, WITHHELD, *_STEADY))


class Limits:
    """How much content is kept: of one file, and of all files of a run together. ``None``: as much as there is."""

    def __init__(self, one: int | None, all: int | None, kept: Iterable[Mapping[str, Any]] = ()) -> None:
        self.one = one
        used = sum(about.get("size") or 0 for about in kept if about.get("captured"))
        self.left = None if all is None else max(0, all - used)

    @classmethod
    def of(cls, workspace: Workspace, kept: Iterable[Mapping[str, Any]] = ()) -> Limits:
        capture = workspace.capture
        return cls(capture.max_file, capture.max_total, kept) if capture is not None else NO_LIMITS

    def allow(self, size: int) -> bool:
        """Whether a file of this size is kept; if so, it counts."""
        if (self.one is not None and size > self.one) or (self.left is not None and size > self.left):
            return False
        if self.left is not None:
            self.left -= size
        return True


NO_LIMITS = Limits(None, None)


class Tracked:
    """The project that files are captured in, what is already known of them, and how much may be kept."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        known: Mapping[str, Mapping[str, Any]] | None = None,
        kept: Mapping[str, BlobRow] | None = None,
        limits: Limits = NO_LIMITS,
        withheld: Collection[str] = (),
    ) -> None:
        self.store = workspace.store
        self.save: Save = workspace.store.save_blob
        self.project = workspace.folder
        self.redactor = workspace.redactor
        self.at = workspace.at
        self.known = known or {}
        self.kept = kept or {}  # blobs of what is known that have no row yet, by their tagged hash
        self.limits = limits
        self.withheld = withheld  # paths that are known to hold a secret, whose value may not be known here
        self.until: int | None = None  # nanoseconds: what was changed later is not what was to be captured

    def capture(self, path: str, **facts: Any) -> Captured:
        """What is at a path, which must be a file or a link. ``facts``: status, staged, by, as far as known."""
        try:
            at = place(self.project, path)
        except NotADirectoryError:
            at = None
        if at is None:
            raise _no_file(path)
        with at:
            return self._capture(at, facts)

    def deleted(self, path: str, **facts: Any) -> Captured:
        """That a file is not there any more; of one that the run created, that too."""
        known = self.known.get(path, {})
        before = known.get(WAS if known.get("status") == DELETED else "status")
        return self._made(
            path, {"status": DELETED, WAS: before if before == "created" else None, **facts}, None
        )

    def unread(self, path: str, **facts: Any) -> Captured:
        """That a file is there which may not be read."""
        return self._made(path, {**facts, "captured": False}, None)

    def _capture(self, at: Place, facts: dict[str, Any]) -> Captured:
        st = at.lstat()
        if st is None:
            raise _no_file(at.path)
        if bits.S_ISDIR(st.st_mode):
            raise NotFound(
                f"{at.path} is a folder, not a file.", hint="Nothing was recorded. Name the files in it."
            )
        if bits.S_ISLNK(st.st_mode):
            link = link_to(_text(os.readlink(at.name, dir_fd=at.folder), at.path))
            about = {"target": link.target, "hash": link.hash, "size": link.size, "captured": True}
            return self._made(at.path, {**facts, **about}, None)
        known = self.known.get(at.path)
        if known is not None and known.get("captured") and unchanged(known, st):
            row = self._blob(known["hash"])
            if row is not None and self.limits.allow(row.size):  # not changed since: it is kept already
                same = {name: known[name] for name in ("hash", "size", "captured", "seen")}
                return self._made(at.path, {**facts, **same, "mode": shown_mode(st.st_mode)}, row)
        return self._read(at, st, facts)

    def _read(self, at: Place, st: os.stat_result, facts: dict[str, Any]) -> Captured:
        fd = open_file(at.name, folder=at.folder, follow=False)
        secret = self._holds_secret(at.path, fd)
        keep = not (secret or self.redactor.secret_file(at.path)) and self.limits.allow(st.st_size)
        row: BlobRow | None = None
        if keep:
            saved, st, seen = take(at.path, self.save, fd=fd)
            row, digest, size = saved, saved.hash, saved.size
        else:
            (digest, size), st, seen = take(at.path, hashed, fd=fd)
        if self.until is not None and st.st_ctime_ns > self.until:
            return self.unread(at.path, **facts)
        about = {
            "hash": f"sha256:{digest.hex()}",
            "size": size,
            "mode": shown_mode(st.st_mode),
            "captured": keep,
        }
        if secret:
            about[WITHHELD] = True
        if seen is not None:
            about["seen"] = seen
        return self._made(at.path, {**facts, **about}, row)

    def _holds_secret(self, path: str, fd: int) -> bool:
        """Whether a file holds a secret itself, or did when that could be seen."""
        known = path in self.withheld or self.known.get(path, {}).get(WITHHELD) is True
        return known or self.redactor.in_file(fd)

    def _made(self, path: str, about: dict[str, Any], row: BlobRow | None) -> Captured:
        about = {name: value for name, value in about.items() if value is not None}
        known = self.known.get(path)
        if known is not None and all(known.get(name) == about.get(name) for name in _STEADY):
            about["captured_at"] = known.get("captured_at")
        said = {name: value for name, value in (known or {}).items() if name not in _OWN}  # by somebody else
        return Captured(path, {"path": path, "captured_at": iso(self.at), **said, **about}, row)

    def _blob(self, tagged: str) -> BlobRow | None:
        if tagged in self.kept:
            return self.kept[tagged]
        hash = bytes.fromhex(tagged.partition(":")[2])
        return self.store.read(lambda view: view.blob(hash))


def _no_file(path: str) -> NotFound:
    return NotFound(
        f"There is no file {path}.", hint="Nothing was recorded. Write the file before you record it."
    )


def _text(text: str, path: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{path} points to a name that is not UTF-8.", hint="Nothing was recorded.") from None
    return text


def next_status(about: Mapping[str, Any] | None, changed: bool, fresh: bool) -> str | None:
    """What became of a tracked file where git cannot tell: made since the run began, or changed since."""
    if about is None:
        return "created" if fresh else None
    before = about.get("status")
    if before == DELETED:
        return "created"
    return before if before is not None else "modified" if changed else None
