"""What is at a path, or was, or shall be: a file, a symbolic link, nothing. Two that are equal need no restoring."""

from __future__ import annotations

import os
import stat as bits

from leftoff.engine.workspace.paths import place
from leftoff.engine.workspace.stat import hashed, open_file, take, unchanged
from leftoff.model.fields import Fields
from leftoff.model.hashing import long_sha256 as sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from leftoff.engine.workspace.paths import Place

FILE, LINK, ABSENT, FOLDER, OTHER = "file", "link", "absent", "folder", "other"
PERMISSIONS = 0o777  # what is restored of a mode: a record must not make a program run as somebody else


class Content(Fields):
    """Its kind; of a file its hash, size and permissions, of a link where it points to."""

    kind: str
    hash: str | None = None
    size: int = 0
    mode: int | None = None
    target: str | None = None

    def same(self, other: Content) -> bool:
        """Equal, as far as both know: an old record has no mode."""
        if (self.kind, self.hash, self.target) != (other.kind, other.hash, other.target):
            return False
        return self.mode is None or other.mode is None or self.mode == other.mode

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return {name: value for name in self._fields if (value := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Content:
        return cls(**given)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.hash or self.target or ''}>"


NOTHING_THERE = Content(ABSENT)


def link_to(target: str) -> Content:
    """A symbolic link; its hash is that of its target."""
    raw = os.fsencode(target)
    return Content(LINK, f"sha256:{sha256(raw).hexdigest()}", len(raw), target=target)


def recorded(about: Mapping[str, Any]) -> Content:
    """What a record says was there."""
    if about.get("status") == "deleted":
        return NOTHING_THERE
    target = about.get("target")
    if isinstance(target, str):
        return link_to(target)
    return Content(FILE, about.get("hash"), about.get("size") or 0, mode_of(about.get("mode")))


def mode_of(text: object) -> int | None:
    """The permissions that a record has as octal digits."""
    fits = isinstance(text, str) and 1 <= len(text) <= 5 and all(c in "01234567" for c in text)
    return int(str(text), 8) & PERMISSIONS if fits else None


def shown_mode(st_mode: int) -> str:
    return f"{st_mode & PERMISSIONS:04o}"


def present(project: str, path: str, about: Mapping[str, Any] | None = None) -> Content:
    """What is there now. ``about``: a record of it, by which one that was not changed since need not be read."""
    try:
        at = place(project, path)
    except NotADirectoryError:
        return NOTHING_THERE
    if at is None:
        return NOTHING_THERE
    with at:
        return present_at(at, about)


def cut_off(project: str, path: str, among: Collection[str]) -> bool:
    """Whether one of these paths, which is no folder now, is above a path: then nothing of ours is there.

    A link that was, or will be, put in a folder's place must not be followed to what lay in that folder.
    """
    parts = path.split("/")
    for number in range(1, len(parts)):
        above = "/".join(parts[:number])
        try:
            mode = os.lstat(os.path.join(project, above)).st_mode
        except OSError:
            return False
        if not bits.S_ISDIR(mode):
            return above in among
    return False


def present_at(at: Place, about: Mapping[str, Any] | None = None) -> Content:
    st = at.lstat()
    if st is None:
        return NOTHING_THERE
    if bits.S_ISLNK(st.st_mode):
        return link_to(os.readlink(at.name, dir_fd=at.folder))
    if not bits.S_ISREG(st.st_mode):
        return Content(FOLDER if bits.S_ISDIR(st.st_mode) else OTHER)
    mode = st.st_mode & PERMISSIONS
    if about is not None and "target" not in about and unchanged(about, st):
        return Content(FILE, about["hash"], st.st_size, mode)
    fd = open_file(at.name, folder=at.folder, follow=False)
    (digest, size), st, _ = take(at.path, hashed, fd=fd)
    return Content(FILE, f"sha256:{digest.hex()}", size, st.st_mode & PERMISSIONS)
