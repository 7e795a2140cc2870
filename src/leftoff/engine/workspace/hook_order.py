"""The order of a session's hooks: each is a process of its own, and one that waits for the store may be overtaken."""

from __future__ import annotations

import os

from leftoff.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.workspace.workspace import Workspace

FOLDER = "pending"
_EVENTS = 32  # of a session, that are remembered until other hooks tell of them, too


def name_of(session: str) -> str:
    """What a session's files are called."""
    from leftoff.model.hashing import sha256

    return sha256(session.encode("utf-8", "replace")).hexdigest()[:32]


def _path(store: str, session: str, kind: str) -> str:
    return os.path.join(store, FOLDER, f"{name_of(session)}.{kind}")


class OnItsWay:
    """While an event of a session is at work, from before its process is made: see ``InOrder.settled``.

    The process that is made meanwhile shares the lock, and keeps it to its own end.
    """

    def __init__(self, store: str, session: str) -> None:
        self._path = _path(store, session, "way")
        self._fd = -1

    def __enter__(self) -> OnItsWay:
        import fcntl

        from leftoff.store.sqlite.writer import lock_within

        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            lock_within(self._fd, fcntl.LOCK_SH, 0.5)  # whoever looks has it for a moment
        except OSError:  # no event of any session was at work here yet
            pass
        return self

    def wait_for_others(self, patience: float) -> bool:
        """Until no other event of the session is at work: its end comes last, and locks know no order."""
        import fcntl

        from leftoff.store.sqlite.writer import lock_within

        return self._fd < 0 or lock_within(self._fd, fcntl.LOCK_EX, patience)

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def on_their_way(store: str) -> set[str]:
    """The sessions that have an event at work, by ``name_of``. What such an event tells may not be in the store yet."""
    import fcntl

    out, folder = set(), os.path.join(store, FOLDER)
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
        if not file.endswith(".way"):
            continue
        try:
            fd = os.open(os.path.join(folder, file), os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # the session is over
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            out.add(file.removesuffix(".way"))
        finally:
            os.close(fd)
    return out


def told_before(store: str, session: str, event: bytes, hooks: str) -> bool:
    """Whether other hooks of leftoff's have told of this very event: of two that hear of it, the first keeps it.

    ``hooks``: whose these are, the project's or the user's. An agent with both calls both, at the same time.
    """
    import fcntl

    from leftoff.model.hashing import sha256
    from leftoff.store.sqlite.writer import lock_within

    digest = sha256(event).hexdigest()[:16]
    try:
        fd = os.open(_path(store, session, "told"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # no store yet: there is nothing to tell of, or to keep twice
        return False
    try:
        lock_within(fd, fcntl.LOCK_EX, 0.1)
        known = os.read(fd, 1 << 16).decode("ascii", "replace").split()
        others = [one for one in known if one.endswith(digest) and not one.startswith(hooks)]
        if others:
            known.remove(others[0])
        else:
            known = [*known[1 - _EVENTS :], f"{hooks}:{digest}"]
        os.ftruncate(fd, 0)
        os.pwrite(fd, " ".join(known).encode(), 0)
        return bool(others)
    finally:
        os.close(fd)


class InOrder:
    """Hooks of one session that come one after another stay so, however long one of them takes.

    Where a turn begins or ends, all others are waited for; the others wait only for these. Sessions do not wait for
    each other. ``make``: where there is no store's folder yet, it is made; else there is nothing to wait for.
    """

    def __init__(
        self, workspace: Workspace, session: str, *, alone: bool = False, make: bool = False
    ) -> None:
        folder = workspace.store.folder
        self._path, self._way, self._told = (_path(folder, session, kind) for kind in ("lock", "way", "told"))
        self._folder = os.path.dirname(self._path)
        self._patience = workspace.store.patience
        self._alone = alone
        self._make = make
        self._fd = -1

    def __enter__(self) -> None:
        import fcntl

        from leftoff.store.sqlite.location import make_folder
        from leftoff.store.sqlite.writer import lock_within

        try:
            if self._make:
                make_folder(os.path.dirname(self._folder))
            elif not os.path.isdir(os.path.dirname(self._folder)):
                return
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            kind = fcntl.LOCK_EX if self._alone else fcntl.LOCK_SH
            if not lock_within(self._fd, kind, self._patience):
                self.__exit__()
                raise StoreUnavailable(
                    f"Another event of this session has not ended in {self._patience:g} s."
                )
        except OSError:  # a folder that takes no files: what follows says so
            pass

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def settled(self, patience: float) -> bool:
        """Whether no event of the session is on its way any more, after so many seconds at most."""
        import fcntl

        from leftoff.store.sqlite.writer import lock_within

        try:
            fd = os.open(self._way, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            return lock_within(fd, fcntl.LOCK_EX, patience)
        finally:
            os.close(fd)

    def forget(self) -> None:
        """The session is over: leave nothing behind, not even the store's folder where nothing else is in there."""
        from leftoff.store.sqlite.location import forget_folder

        try:
            for path in (self._path, self._way, self._told):
                if os.path.exists(path):
                    os.unlink(path)
            os.rmdir(self._folder)
            forget_folder(os.path.dirname(self._folder))
        except OSError:
            pass
