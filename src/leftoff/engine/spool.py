"""The spool: hook events on their way to the store, one file per event, in `spool/` of the store's folder.

A hook writes its event here and then tries to take the lock. The holder of the lock drains the spool: it records the
events in the order of their names and deletes each file after its commit. The commit's idempotency token follows from
the file's name. So if a holder is killed, the next one continues: no event is lost, and none is recorded twice.

A name begins with the time in nanoseconds. If the clock was set back, it is the newest name plus one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from typing import Any

from leftoff.files import forget_folder, lock_within, make_folder, write_private
from leftoff.model.codec import decode, text

FOLDER = "spool"
_LOCK, _RECORDED = "lock", "recorded"
_ABANDONED_S = 60.0  # age after which a temporary file is the rest of a hook that was killed
_REMEMBERED = 64  # events whose second delivery is recognised


class Spool:
    """The spool of one store. ``store_folder``: the store's folder on this machine."""

    def __init__(self, store_folder: str) -> None:
        self._store_folder = store_folder
        self.folder = os.path.join(store_folder, FOLDER)

    def names(self) -> list[str]:
        """Return the names of the waiting events, oldest first."""
        try:
            return sorted(name for name in os.listdir(self.folder) if name[0].isdigit())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def tidy(self) -> None:
        """Delete the temporary files of hooks that were killed while they wrote; the holder of the lock calls it."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            try:
                if name.startswith(".") and time.time() - os.stat(path).st_mtime > _ABANDONED_S:
                    os.unlink(path)
            except FileNotFoundError:
                continue

    def new_name(self) -> str:
        """Return a name that sorts after every waiting event."""
        newest = [int(name[:20]) for name in self.names()[-1:]]
        number = max(time.time_ns(), *(one + 1 for one in newest), 0)
        return f"{number:020d}-{os.urandom(4).hex()}"

    def put(self, about: dict[str, Any], contents: Sequence[bytes | None] = ()) -> str:
        """Write an event and return its name. ``contents``: bytes that are stored with it."""
        if not os.path.isdir(self._store_folder):
            make_folder(self._store_folder)
        name = self.new_name()
        sizes = [len(data) if data is not None else None for data in contents]
        head = text({**about, "sizes": sizes}).encode()
        pieces = [head, b"\n", *(data for data in contents if data)]
        write_private(os.path.join(self.folder, name), pieces, durable=False)
        return name

    def read(self, name: str) -> tuple[dict[str, Any], list[bytes | None]] | None:
        """Return an event and its contents; ``None`` if its file is gone. Raise ``ValueError`` if it is damaged."""
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                head, _, rest = file.read().partition(b"\n")
        except FileNotFoundError:
            return None
        about = decode(head)
        if not isinstance(about, dict):
            raise ValueError("not an event")
        contents, at = list[bytes | None](), 0
        for size in about.pop("sizes"):
            contents.append(None if size is None else rest[at : at + size])
            at += size or 0
        if at != len(rest):
            raise ValueError("not all of it was written")
        return about, contents

    def remove(self, name: str) -> None:
        """Delete an event, which is in the store now or never will be."""
        try:
            os.unlink(os.path.join(self.folder, name))
        except FileNotFoundError:
            pass

    def set_aside(self, name: str) -> str:
        """Rename an event that cannot be read, so that it is not tried again. Return its new path."""
        path = os.path.join(self.folder, f"damaged-{name}")
        os.replace(os.path.join(self.folder, name), path)
        return path

    def lock(self, patience: float) -> int | None:
        """Take the lock for draining. Return the descriptor that holds it; ``None`` if it was not free in time."""
        if not os.path.isdir(self._store_folder):
            return None
        os.makedirs(self.folder, 0o700, exist_ok=True)
        fd = os.open(os.path.join(self.folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if lock_within(fd, fcntl.LOCK_EX, patience):
            return fd
        os.close(fd)
        return None

    def is_repeat(self, name: str, about: dict[str, Any]) -> bool:
        """Return whether the other hook file has delivered this very event already; the holder of the lock asks.

        An agent that has leftoff in the project's and in the user's hook file delivers each event twice. The list on
        disk pairs them: an event of one hook file cancels at most one equal event of the other. It is written before
        the event's file goes, with the names of both. So if a holder is killed in between, the next decides the same.
        """
        path = os.path.join(self.folder, _RECORDED)
        try:
            with open(path, "rb") as file:
                known = decode(file.read())
        except (FileNotFoundError, ValueError):
            known = []
        for first, hooks, digest, second in known:
            if name in (first, second):
                return bool(name == second)
            if digest == about["digest"] and hooks != about["hooks"] and not second:
                known = [[*one[:3], name] if one[0] == first else one for one in known]
                break
        else:
            known = [*known[1 - _REMEMBERED :], [name, about["hooks"], about["digest"], ""]]
        write_private(path, [text(known).encode()], durable=False)
        return any(name == one[3] for one in known)

    def forget(self) -> None:
        """Delete an empty spool and the store's folder around it, if no store was made there."""
        if self.names():
            return
        for name in (_LOCK, _RECORDED):
            self.remove(name)
        try:
            os.rmdir(self.folder)
            forget_folder(self._store_folder)
        except OSError:  # another hook uses it
            pass
