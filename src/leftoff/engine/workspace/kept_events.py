"""Events of sessions that found their store out of reach: kept on this machine, in order, until one reaches it again.

They lie in the store's own folder here, private, and no more than a bounded number of them. Who takes them in holds a
lock on the folder meanwhile; each goes when what it tells is in the store.
"""

from __future__ import annotations

import os
import time

from leftoff.engine.workspace.hook_order import KEPT, name_of
from leftoff.errors import StoreUnavailable
from leftoff.files import lock_within, make_folder, write_private
from leftoff.model.codec import decode, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST, LARGEST = 1000, 1 << 18  # events of a store; bytes of one
_LONGEST_S = 7 * 86_400.0  # then nobody comes for it any more


def keep(store: str, name: str, about: dict[str, Any]) -> bool:
    """Keep an event, by the name of it that sorts as they began; whether there was room."""
    folder = os.path.join(store, KEPT)
    content = text(about).encode()
    try:
        make_folder(store)
        os.makedirs(folder, 0o700, exist_ok=True)
        if len(content) > LARGEST or len(_swept(folder)) >= MOST:
            return False
        write_private(os.path.join(folder, name), [content])
    except (OSError, StoreUnavailable):  # a disk that takes nothing
        return False
    return True


def _swept(folder: str) -> list[str]:
    """The names of the events that are kept; those that are too old go."""
    found = []
    for entry in os.scandir(folder):
        if time.time() - entry.stat().st_mtime > _LONGEST_S:
            os.unlink(entry.path)
        else:
            found.append(entry.name)
    return sorted(found)


class Kept:
    """The events that are kept beside a store, for one who takes them in."""

    def __init__(self, store: str, patience: float) -> None:
        self._folder = os.path.join(store, KEPT)
        self._patience = patience
        self._fd = -1

    def __enter__(self) -> Kept:
        import fcntl

        try:
            self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return self
        if not lock_within(self._fd, fcntl.LOCK_EX, self._patience):
            self.__exit__()  # whoever has them takes them in; we may come before them
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def of(self, session: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The events of a session, and of those whose agent is gone, by name: nobody else will come for them. What was
        looked at goes when the next one is asked for."""
        own = name_of(session)
        names = sorted(os.listdir(self._folder)) if self._fd >= 0 else []
        for name in names:
            path = os.path.join(self._folder, name)
            try:
                with open(path, "rb") as file:
                    about = decode(file.read())
            except (OSError, ValueError):  # it was being written when its process died
                about = None
            if isinstance(about, dict) and (name.partition(".")[0] == own or _is_gone(about)):
                yield name, about
            elif isinstance(about, dict):
                continue
            os.unlink(path)
        if names:
            self._forget()

    def _forget(self) -> None:
        try:
            os.rmdir(self._folder)
        except OSError:  # others are kept there
            pass


def _is_gone(about: dict[str, Any]) -> bool:
    from leftoff.host import GONE, Process

    process = about.get("process")
    return isinstance(process, list) and Process(*process).state() == GONE
