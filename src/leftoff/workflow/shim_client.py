"""The driver's side of the processes: start jobs through the launcher and receive their events.

A job is started and becomes ready: its shim waits and is known by pid and start time. When that is recorded, the driver
sends the word to go. Each job has its own channel to its shim, so the launcher may die: the next job starts it again.
An attempt without a channel, of an earlier driver or with a dead shim, is watched from outside until it ends.
"""

from __future__ import annotations

import marshal
import os
import selectors
import socket
import sys
from subprocess import DEVNULL, Popen, TimeoutExpired
from time import monotonic
from typing import NamedTuple

import leftoff
from leftoff.engine.settings import Redaction
from leftoff.errors import LeftoffError
from leftoff.host import GONE, Process, debug, scope, started
from leftoff.workflow.attempt_folder import (
    ENDED,
    FAILED,
    FREE,
    GO,
    READY,
    AttemptFolder,
    Exit,
    Job,
    framed,
)
from leftoff.workflow.process_groups import alive, kill

ROOM = 1 << 18  # bytes of a job that can be sent before its shim reads; some systems have little by default
LOOK_S = 0.2  # how often to look at attempts without a channel
# Isolated and without site-packages, so that no module of the user shadows one that the launcher needs.
_CODE = (
    "'leftoff: starts steps'; import sys; sys.path.append(sys.argv[1]); "
    "from leftoff.workflow.shim import main; main()"
)


class Ready(NamedTuple):
    """The shim of a job waits for the word to go."""

    token: str
    process: Process


class Ended(NamedTuple):
    """A job ended, and nothing of it runs any more."""

    token: str
    exit: Exit


class LostJob(NamedTuple):
    """Nothing of a job runs any more, and it left no exit. ``told``: its shim had been sent the word to go."""

    token: str
    why: str
    told: bool


class _Shim:
    """A shim as the driver knows it, with its job."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.heard = b""
        self.process: Process | None = None
        self.take(None)

    def take(self, job: Job | None) -> None:
        self.job = job
        self.ready = False
        self.unsent = False  # it was there already: its job is sent with the word to go
        self.told: float | None = None  # when it was sent the word to go
        self.why = "its shim was never started, or was killed"

    @property
    def token(self) -> str:
        assert self.job is not None
        return self.job.token

    def send(self, message: bytes) -> bool:
        """Send a message. If the shim is dead, its channel ends."""
        try:
            self.channel.sendall(message)
        except OSError:
            return False
        return True

    @property
    def waits(self) -> bool:
        """Return whether a free shim is still alive."""
        try:
            self.channel.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


class _Watched:
    """An attempt without a channel. Its processes are looked at; nobody else ends it in time if its shim is dead."""

    def __init__(self, process: Process, folder: AttemptFolder, until: float | None, why: str) -> None:
        self.process = process
        self.folder = folder
        self.until = until  # when to kill it
        self.why = why

    def is_over(self) -> bool:
        if not alive(self.process, self.folder):
            return True
        if self.until is not None and monotonic() > self.until and self.process.state() == GONE:
            kill(self.process)
        return False


def _no_launcher(why: str) -> LeftoffError:
    return LeftoffError(
        f"The process that starts steps cannot be kept running: {why}.",
        hint="Look for limits on processes and memory (`ulimit -a`), then resume the run.",
    )


class Launcher:
    """Starts jobs and returns their events. Create it before any thread, and use it in one thread."""

    def __init__(self, redaction: Redaction) -> None:
        self._settings = marshal.dumps(redaction._asdict())
        self._selector = selectors.DefaultSelector()
        self._shims: dict[str, _Shim] = {}  # by the token of their job
        self._free: list[_Shim] = []
        self._known: list[Ready] = []  # events of jobs whose shims were there already
        self._watched: dict[str, _Watched] = {}
        self._socket: socket.socket | None = None
        self._process: Popen[bytes] | None = None
        self._open()

    def start(self, job: Job) -> None:
        """Give a job to a shim. ``Ready`` or ``LostJob`` follows."""
        debug("starts attempt %s", job.token)
        while self._free:
            shim = self._free.pop()
            if shim.waits and shim.process is not None:
                shim.take(job)
                shim.ready = shim.unsent = True
                self._shims[job.token] = shim
                self._known.append(Ready(job.token, shim.process))
                return
            self._hang_up(shim)
        self._fork(job)

    def go(self, token: str) -> None:
        """Let a ready job run. From now on it runs even if this process dies."""
        shim = self._shims.get(token)
        if shim is None:
            return
        job, shim.unsent = shim.job if shim.unsent else None, False
        if shim.send(GO if job is None else framed(job.pack()) + GO):  # else `LostJob` follows
            shim.told = monotonic()

    def watch(
        self,
        token: str,
        process: Process,
        folder: AttemptFolder,
        until: float | None = None,
        why: str = "its shim was killed",
    ) -> None:
        """Follow an attempt from outside until its end. Kill it after ``until`` if its shim is dead."""
        self._watched[token] = _Watched(process, folder, until, why)

    def drop(self, token: str) -> None:
        """Forget a job. It never runs if it was not sent the word to go, else it continues."""
        shim = self._shims.pop(token, None)
        if shim is not None:
            self._hang_up(shim)
        self._watched.pop(token, None)

    def fileno(self) -> int:
        """Return what is readable if there are events. Ask twice a second all the same: some come without notice."""
        return self._selector.fileno()

    def known(self) -> list[Ready]:
        """Return the jobs that a free shim has taken."""
        known, self._known = self._known, []
        return [event for event in known if event.token in self._shims]

    def events(self, timeout: float | None = 0.0) -> list[Ready | Ended | LostJob]:
        """Return the events in order. Wait up to ``timeout`` seconds for one (None: without limit)."""
        until = None if timeout is None else monotonic() + timeout
        known = self.known()
        if known:
            return [*known]
        while True:
            left = None if until is None else max(0.0, until - monotonic())
            if self._watched:
                left = LOOK_S if left is None else min(left, LOOK_S)
            found: list[Ready | Ended | LostJob] = []
            for key, _ in self._selector.select(left):
                if key.data is not None:
                    found += self._hear(key.data)
                elif key.fileobj is self._socket:  # else it was replaced already
                    self._shut()
            for token, watched in [*self._watched.items()]:
                if watched.is_over():
                    self.drop(token)
                    exit = watched.folder.exit()
                    found.append(Ended(token, exit) if exit else LostJob(token, watched.why, True))
            if found or (until is not None and monotonic() >= until):
                return found

    def close(self) -> None:
        """Forget all jobs. Those that were sent the word to go continue, the others end."""
        for token in [*self._shims, *self._watched]:
            self.drop(token)
        for shim in self._free:
            self._hang_up(shim)
        self._free.clear()
        self._shut()
        self._selector.close()

    # -- the launcher process

    def _open(self) -> None:
        root = os.path.dirname(os.path.dirname(os.path.abspath(leftoff.__file__)))
        self._socket, theirs = socket.socketpair()
        try:
            self._process = Popen(
                [sys.executable, "-I", "-S", "-c", _CODE, root, str(theirs.fileno())],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            self._socket.close()
            self._socket = None
            raise _no_launcher(": ".join(filter(None, (error.strerror, error.filename)))) from error
        finally:
            theirs.close()
        self._selector.register(self._socket, selectors.EVENT_READ, None)
        try:
            self._socket.sendall(framed(self._settings))
        except OSError:  # it is gone already; the next job notices
            pass

    def _fork(self, job: Job) -> None:
        """Have the launcher fork a shim for a job."""
        ours, theirs = socket.socketpair()
        try:
            if not self._hand_over(theirs):
                self._shut()
                self._open()
                if not self._hand_over(theirs):
                    code = self._process.poll() if self._process is not None else None
                    raise _no_launcher("it does not answer" if code is None else f"it ended with {code}")
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        shim = self._shims[job.token] = _Shim(ours)
        self._selector.register(ours, selectors.EVENT_READ, shim)
        shim.take(job)
        shim.send(framed(job.pack()))

    def _hand_over(self, channel: socket.socket) -> bool:
        """Send a channel to the launcher. Return False if it is gone. If it dies now, the channel ends."""
        if self._socket is None:
            return False
        try:
            socket.send_fds(self._socket, [b"f"], [channel.fileno()])
        except OSError:
            return False
        return True

    def _shut(self) -> None:
        """End the launcher by closing our side of its socket."""
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(5)
            except TimeoutExpired:
                self._process.kill()
                self._process.wait()

    # -- shims

    def _hang_up(self, shim: _Shim) -> None:
        self._selector.unregister(shim.channel)
        shim.channel.close()

    def _hear(self, shim: _Shim) -> list[Ready | Ended | LostJob]:
        try:
            data = shim.channel.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        found: list[Ready | Ended | LostJob] = []
        *lines, shim.heard = (shim.heard + data).split(b"\n")
        for line in lines:
            event = self._understand(shim, line)
            if event is not None:
                found.append(event)
        if not data and shim.channel.fileno() >= 0:
            lost = self._died(shim)
            if lost is not None:
                found.append(lost)
        return found

    def _understand(self, shim: _Shim, line: bytes) -> Ready | Ended | None:
        word, _, rest = line.partition(b" ")
        kind, fate = word[:1], word[1:]
        if kind == READY and not shim.ready:
            if shim.process is None:
                # Looked up here, not in the shim: it costs a tenth in a process that has done it before.
                shim.process = Process(scope(), int(rest), started(int(rest)))
            shim.ready = True
            return Ready(shim.token, shim.process)
        if kind == FAILED:
            shim.why = rest.decode("utf-8", "replace")
        elif kind == ENDED:
            assert shim.job is not None
            token = shim.token
            exit = Exit.read(rest + b"\n", os.path.basename(shim.job.folder))
            if exit is not None:
                debug("attempt %s ended: %s", token, rest.decode("utf-8", "replace"))
                self._release(shim, fate)
                return Ended(token, exit)
        return None

    def _release(self, shim: _Shim, fate: bytes) -> None:
        """Let go of a shim whose job is over."""
        self._shims.pop(shim.token, None)
        if fate == FREE:
            shim.take(None)
            self._free.append(shim)
        else:
            self._hang_up(shim)

    def _died(self, shim: _Shim) -> LostJob | None:
        """Handle the end of a channel: its shim is dead. The command may still run."""
        self._hang_up(shim)
        job = shim.job
        if job is None:
            self._free.remove(shim)
            return None
        self._shims.pop(job.token, None)
        if shim.told is None:
            return LostJob(job.token, shim.why, False)
        assert shim.process is not None
        until = None if job.timeout is None else shim.told + job.timeout + job.grace
        self.watch(job.token, shim.process, AttemptFolder(job.folder), until, shim.why)
        return None
