"""Events of sessions that found their store out of reach: kept on this machine, in order, until one reaches it again.

They lie in the store's own folder here, private, and no more than a bounded number of them; none goes because a clock
says so. Each is signed: a folder that came along with a repository tells nothing in this user's name. Who takes them in
holds a lock on the folder meanwhile; each goes when what it tells is in the store, and one that is not as it was kept
is set aside.
"""

from __future__ import annotations

import os
import time

from leftoff.engine.config.trust import signer
from leftoff.engine.workspace.hook_order import KEPT, is_of_session, name_of, settled
from leftoff.engine.workspace.project_files import ProjectFiles
from leftoff.errors import LeftoffError, StoreUnavailable
from leftoff.files import lock_within, make_folder, write_private
from leftoff.model.codec import decode, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MOST, LARGEST = 1000, 1 << 18  # events of a store; bytes of one
QUIET_S = 600.0  # after which a session whose process nobody sees is not expected to come for them
_TRIES = 10  # to make a folder that others may remove
_ASIDE = os.path.join("quarantine", "events")


def keep(store: str, name: str, about: dict[str, Any]) -> bool:
    """Keep an event, by a name of it that sorts as they began; whether that was possible."""
    folder, sign = os.path.join(store, KEPT), signer(make=True)
    said = text(about)
    if sign is None or len(said) > LARGEST:
        return False
    for _ in range(_TRIES):
        try:
            make_folder(store)
            os.makedirs(folder, 0o700, exist_ok=True)
            if len(os.listdir(folder)) >= MOST:
                return False
            write_private(os.path.join(folder, name), [f"{sign(f'{name} {said}')} {said}".encode()])
            return True
        except FileNotFoundError:  # whoever took in all the others took the folder away
            continue
        except (OSError, StoreUnavailable):  # a disk that takes nothing
            return False
    return False


def count(store: str) -> int:
    """How many events are kept beside a store."""
    try:
        return len(list(filter(is_of_session, os.listdir(os.path.join(store, KEPT)))))
    except OSError:  # there are none, or the last one was taken in just now
        return 0


class Kept:
    """The events that are kept beside a store, for one who takes them in."""

    def __init__(self, store: str, patience: float, say: Callable[[str], None]) -> None:
        self._folder = os.path.join(store, KEPT)
        self._files = ProjectFiles(store)
        self._patience = patience
        self._say = say
        self._fd = -1

    def __enter__(self) -> Kept:
        import fcntl

        try:
            self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # somebody took them all in just now; or it is none of ours
            return self
        if not lock_within(self._fd, fcntl.LOCK_EX, self._patience):
            self.__exit__()  # whoever has it takes them in
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def of(self, session: str, project: str, before: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """The events of a session in a project, and of those there whose agent is gone or was not heard of for long,
        each with its name: nobody else will come for them. ``forget`` those that were told. ``before``: the event of
        this session that the others come before; those behind it are left."""
        own = name_of(session)
        there = os.listdir(self._folder) if self._fd >= 0 else []
        names = sorted(filter(is_of_session, there))[:MOST]  # the others are being written, or somebody's own
        for name in names:
            path = os.path.join(self._folder, name)
            about = _read(path, name)
            if about is None:
                self._set_aside(path, name)
                continue
            same = name.partition(".")[0] == own
            ours = not (before and name > before) if same else self._is_over(path, about)
            if not ours or about.get("project") != project:  # a store may be of several folders
                continue
            yield name, about
        try:
            if names:
                os.rmdir(self._folder)
        except OSError:  # others are kept there
            pass

    def _is_over(self, path: str, about: dict[str, Any]) -> bool:
        """Whether the agent of an event is gone; or, where nobody can tell, was not heard of for long. Nothing is
        dropped for that: what is kept is told, by somebody else."""
        from leftoff.host import GONE, UNKNOWN, Process

        process = about.get("process")
        state = Process(*process).state() if isinstance(process, list) else UNKNOWN
        quiet = state == UNKNOWN and time.time() - os.stat(path).st_mtime > QUIET_S
        return state == GONE or (quiet and settled(self._files.root, str(about.get("session")), 0))

    def forget(self, name: str) -> None:
        """What it tells is in the store, or never will be."""
        try:
            os.unlink(os.path.join(self._folder, name))
        except FileNotFoundError:  # somebody took it away: what is told now comes all the same
            pass

    def _set_aside(self, path: str, name: str) -> None:
        """One that is damaged, or that somebody else made: it tells nothing, and is not lost."""
        where = os.path.join(self._files.root, _ASIDE, name)
        try:
            self._files.move(os.path.join(KEPT, name), os.path.join(_ASIDE, name))
        except (OSError, LeftoffError) as error:  # a link is there: where we write is not for a folder to say
            self._say(f"{path} is not as it was kept, and cannot be set aside: {error}")
        else:
            self._say(f"An event that waited for the store is not as it was kept. It is set aside: {where}")


def _read(path: str, name: str) -> dict[str, Any] | None:
    """An event as it was kept; ``None`` where this user did not keep it so."""
    sign = signer()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mark, _, said = file.read(5 * LARGEST).decode().partition(" ")
    except (OSError, ValueError):
        return None
    found = decode(said) if sign is not None and sign(f"{name} {said}") == mark else None
    return found if isinstance(found, dict) else None
