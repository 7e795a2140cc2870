"""The events of a session at work: which there are, and in which order they began.

Each hook is a process of its own, which may be overtaken by the next. So each event has a file here, from before its
agent goes on until what it tells is in the store: whoever wants to know whether everything is told looks for these. One
whose process was killed before that stays, and is told by the next hook: nothing is lost without a word.
"""

from __future__ import annotations

import os
import time

from leftoff.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.workspace.workspace import Workspace

FOLDER = "pending"
KEPT = "waiting"  # a folder of events whose store was out of reach
_TURN, _OTHER, _NEW = ".turn", ".event", ".new"  # how the files of events end
_DIED = ".died"  # how those end whose process was killed
_OF_SESSION = (".lock", ".told")  # and those of a session
_OLD_S = 60.0  # after which a file that has no name yet never will
_GONE_S = 7 * 86400.0  # after which a session without an event is over, whoever was to tell of it
_MOMENT = 2.0  # seconds that hooks wait for each other to look whether one has told of an event
_LONGEST = 60.0  # seconds that an event waits, whatever the settings say: one that waits for ever is killed, and lost
_LEAST = 1.0  # seconds that are left for the store, however long others were waited for
MOST = 16  # events of a session that wait for the store or each other; further ones are kept
_TRIES = 100  # to make a folder that others may remove
_NEVER = "9"  # a number that begins so is of no event of ours: it counts nanoseconds
_NAME, _HEX = 32, frozenset("0123456789abcdef")  # characters of what a session's files are called
_EVENTS = 32  # of a session, that are remembered until other hooks tell of them, too


def name_of(session: str) -> str:
    """What a session's files are called."""
    from leftoff.model.hashing import sha256

    return sha256(session.encode("utf-8", "replace")).hexdigest()[:_NAME]


def _path(store: str, session: str, kind: str) -> str:
    return os.path.join(store, FOLDER, f"{name_of(session)}.{kind}")


class OnItsWay:
    """An event of a session is at work, from before the process is made that keeps it, to the end of that.

    Its file is locked before it has its name: so one that is not locked is of a process that died, and whoever looks is
    in nobody's way. The process that is made shares the lock. Names are in the order in which events began.

    ``turn``: a turn begins or ends with it, or the session does. ``make``: a store's folder that is not there is made.
    """

    def __init__(self, store: str, session: str, *, turn: bool = False, make: bool = False) -> None:
        began = f"{_number(store, name_of(session)):020d}.{os.getpid()}"
        self._path = _path(store, session, began + (_TURN if turn else _OTHER))
        self.session = session
        self.name = f"{name_of(session)}.{began}"  # no other event has it
        self._turn, self._make = turn, make
        self._fd = -1

    def __enter__(self) -> OnItsWay:
        import fcntl

        try:
            self._fd = self._opened()
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            os.rename(self._path + _NEW, self._path)
        except (
            OSError,
            StoreUnavailable,
        ):  # there is no store; or none that takes files, and what follows says so
            pass
        return self

    def _opened(self) -> int:
        folder, left = os.path.dirname(self._path), _TRIES
        while True:
            if self._make or os.path.isdir(os.path.dirname(folder)):
                _make(folder)
            try:
                return os.open(self._path + _NEW, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:  # a session that was over took the folder along
                left -= 1
                if not left:
                    raise

    def wait(self, patience: float) -> bool:
        """Until events that began earlier are over: all, before a turn begins or ends; else those of turns. Whether
        they are, after so many seconds at most."""
        folder, own = os.path.split(self._path)
        known = [name for name in _of(folder, own.partition(".")[0]) if name < own]
        return _over(folder, [name for name in known if self._turn or name.endswith(_TURN)], patience)

    def is_one_too_many(self) -> bool:
        """Whether as many events of the session as may are at work, each a process, and began before it."""
        folder, own = os.path.split(self._path)
        names = [name for name in _of(folder, own.partition(".")[0]) if name < own]
        return len(names) >= MOST and sum(not _over(folder, [name], 0) for name in names) >= MOST

    def is_last(self) -> bool:
        """Whether no other event of the session is at work."""
        folder, own = os.path.split(self._path)
        return all(name == own or _over(folder, [name], 0) for name in _of(folder, own.partition(".")[0]))

    def done(self) -> None:
        """What it tells is in the store, or never will be."""
        for path in (self._path, self._path + _NEW):
            if os.path.exists(path):
                os.unlink(path)

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _number(store: str, session: str) -> int:
    """What an event that begins now sorts by: behind every other of its session that is at work or kept, whatever was
    done to the clock, and whether the machine was started anew."""
    names = [name for folder in (FOLDER, KEPT) for name in _names(os.path.join(store, folder))]
    numbers = [name.split(".")[1] for name in names if name.startswith(f"{session}.")]
    known = [int(number) for number in numbers if number.isdigit() and number < _NEVER]
    return max(time.time_ns(), 1 + max(known, default=0))


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if is_of_session(name)]
    except OSError:
        return []


def is_of_session(name: str) -> bool:
    """Whether a file has a name that hooks give: the store may be in a folder that others use, too."""
    session = name.partition(".")[0]
    return len(session) == _NAME and not set(session) - _HEX


def _make(folder: str) -> None:
    from leftoff.files import make_folder

    if not os.path.isdir(folder):
        if not os.path.isdir(os.path.dirname(folder)):
            make_folder(os.path.dirname(folder))
        os.makedirs(folder, mode=0o700, exist_ok=True)


def _of(folder: str, session: str = "") -> list[str]:
    """The files of events, of all sessions or of the one that is called so; the earliest first."""
    names = _names(folder)
    return sorted(name for name in names if name.startswith(session) and name.endswith((_TURN, _OTHER)))


def _over(folder: str, names: list[str], patience: float) -> bool:
    """Whether the events of these files are over, after so many seconds at most."""
    import fcntl

    from leftoff.files import lock_within

    end = time.monotonic() + patience
    for name in names:
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if not lock_within(fd, fcntl.LOCK_SH, max(end - time.monotonic(), 0)):
                return False
            os.rename(path, path + _DIED)  # who comes to an end takes it away first
        except FileNotFoundError:
            pass
        finally:
            os.close(fd)
    return True


def settled(store: str, session: str, patience: float) -> bool:
    """Whether no event of a session is at work any more, after so many seconds at most."""
    folder = os.path.join(store, FOLDER)
    return _over(folder, _of(folder, name_of(session)), patience)


def on_their_way(store: str) -> set[str]:
    """The sessions that have an event at work, by ``name_of``. What such an event tells may not be in the store yet."""
    folder = os.path.join(store, FOLDER)
    return {name.partition(".")[0] for name in _of(folder) if not _over(folder, [name], 0)}


def lost(store: str) -> list[str]:
    """The events whose process was killed, each told once: their sessions, by ``name_of``. What hooks that were killed
    left behind is taken away."""
    folder = os.path.join(store, FOLDER)
    names = sorted(_names(folder))
    busy = {name.partition(".")[0] for name in names if name.endswith((_TURN, _OTHER))}
    found = []
    for name in names:
        session, limit = name.partition(".")[0], 0.0
        if name.endswith(_NEW):
            limit = _OLD_S
        elif name.endswith(_OF_SESSION) and session not in busy:
            limit = _GONE_S
        elif not name.endswith(_DIED):
            continue
        if _taken_away(os.path.join(folder, name), limit) and name.endswith(_DIED):
            found.append(session)
    return found


def _taken_away(path: str, limit: float) -> bool:
    """Whether a file was removed, by us: one that is so many seconds old, and that nobody has locked."""
    import fcntl

    try:
        if time.time() - os.stat(path).st_mtime < limit:
            return False
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def told_before(store: str, session: str, event: bytes, hooks: str) -> bool:
    """Whether other hooks of leftoff's have told of this very event: of two that hear of it, the first keeps it.

    ``hooks``: whose these are, the project's or the user's. An agent with both calls both, at the same time.
    """
    import fcntl

    from leftoff.files import lock_within
    from leftoff.model.hashing import sha256

    digest = sha256(event).hexdigest()[:16]
    try:
        fd = os.open(_path(store, session, "told"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # no store yet: there is nothing to tell of, or to keep twice
        return False
    try:
        if not lock_within(fd, fcntl.LOCK_EX, _MOMENT):
            return False  # rather twice than never
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
    each other. ``way``: the event itself, which waits for those that began before it.
    """

    def __init__(self, workspace: Workspace, session: str, way: OnItsWay, *, alone: bool = False) -> None:
        folder = workspace.store.folder
        self._path, self._told = (_path(folder, session, kind) for kind in ("lock", "told"))
        self._folder = os.path.dirname(self._path)
        self._store = workspace.store
        self._way, self._alone = way, alone
        self._fd = -1

    def __enter__(self) -> None:
        import fcntl

        from leftoff.files import lock_within

        if not os.path.isdir(self._folder):
            return
        patience = min(self._store.patience, _LONGEST)
        end = time.monotonic() + patience
        try:
            kind = fcntl.LOCK_EX if self._alone else fcntl.LOCK_SH
            self._way.wait(patience)  # one that is stuck is left behind: nothing is lost for it
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not lock_within(self._fd, kind, max(end - time.monotonic(), 0)):
                self.__exit__()
                raise StoreUnavailable(f"Another event of this session has not ended in {patience:g} s.")
        except OSError:  # a folder that takes no files: what follows says so
            pass
        left = end - time.monotonic()
        # All that an event waits for, it waits for once: others wait for it.
        if left < self._store.patience - _LEAST:
            self._store.patience = max(left, _LEAST)

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def forget(self) -> None:
        """The session is over: leave nothing behind, not even the store's folder where nothing else is in there."""
        from leftoff.files import forget_folder

        try:
            self._way.done()
            if _of(self._folder, os.path.basename(self._path).partition(".")[0]):
                return  # it goes on
            for path in (self._path, self._told):
                if os.path.exists(path):
                    os.unlink(path)
            os.rmdir(self._folder)
            forget_folder(os.path.dirname(self._folder))
        except OSError:
            pass
