"""The driver's side: it starts jobs through the launcher and receives their events.

A job is started and becomes ready: its shim waits and is known by pid and start time. When that is recorded, the driver
sends the word to go. Each job has its own channel to its shim, so the launcher may die: the next job starts it again.
"""

from __future__ import annotations

import marshal
import os
import selectors
import socket
import sys
from subprocess import DEVNULL, Popen, TimeoutExpired
from time import monotonic

from leftoff import log
from leftoff.engine.config.settings import Redaction
from leftoff.errors import LeftoffError
from leftoff.host import Process, scope, started
from leftoff.model.fields import Fields
from leftoff.workflow.processes.attempt_folder import (
    ENDED,
    FAILED,
    FREE,
    GO,
    READY,
    UNWRITTEN,
    WRITTEN,
    AttemptFolder,
    Exit,
    Job,
    framed,
)
from leftoff.workflow.processes.groups import Watch, kill

ROOM = 1 << 18  # bytes of a job that can be sent before its shim reads; some systems have little by default
TRIES = 3  # a free shim and the launcher may have been killed at the same time
LOOK_S = 0.2  # how often to look at attempts that lost their shim
# Isolated and without site-packages, so that no module of the user shadows one that the launcher needs.
_CODE = (
    "'leftoff: starts steps'; import sys; sys.path.append(sys.argv[1]); "
    "from leftoff.workflow.processes.shim import main; main()"
)


class Event(Fields):
    token: str


class Ready(Event):
    """The shim of a job waits for the word to go."""

    process: Process


class Ended(Event):
    """A job ended, and nothing of it runs any more."""

    exit: Exit


class Lost(Event):
    """The shim of a job died, and nothing of the job runs any more. ``told``: it had been sent the word to go."""

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
        self.again = TRIES - 1  # other shims that may take the job if it dies before it is ready
        self.ready = self.failed = self.ended = False
        self.unsent = False  # it was there already: its job is sent with the word to go
        self.told: float | None = None  # when it was sent the word to go
        self.why = "its shim was never started, or was killed"

    @property
    def token(self) -> str:
        assert self.job is not None
        return self.job.token

    @property
    def folder(self) -> str:
        assert self.job is not None
        return self.job.folder

    def give(self, job: Job) -> None:
        """Send it a job. If it is dead, its channel ends."""
        self.take(job)
        self.send(framed(job.pack()))

    def send(self, message: bytes) -> bool:
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


class _Orphan:
    """A job that runs without its shim: the driver must end it in time."""

    def __init__(self, job: Job, process: Process, told: float, why: str) -> None:
        self.watch = Watch(process, AttemptFolder(job.folder))
        self.why = why
        self._until = None if job.timeout is None else told + job.timeout + job.grace

    def keep_time(self) -> None:
        if self._until is not None and monotonic() > self._until:
            kill(self.watch.process)


def _no_launcher(why: str) -> LeftoffError:
    return LeftoffError(
        f"The process that starts steps cannot be kept running: {why}.",
        hint="Look for limits on processes and memory (`ulimit -a`), then resume the run.",
    )


class Launcher:
    """Starts jobs and returns their events. Create it before any thread, and use it in one thread."""

    def __init__(self, redaction: Redaction) -> None:
        self._settings = marshal.dumps(
            {
                "enabled": redaction.enabled,
                "allow": list(redaction.allow),
                "names": list(redaction.names),
                "patterns": list(redaction.patterns),
            }
        )
        self._selector = selectors.DefaultSelector()
        self._shims: dict[str, _Shim] = {}  # by the token of their job
        self._free: list[_Shim] = []
        self._known: list[Ready] = []  # events of jobs whose shims were there already
        self._orphans: dict[str, _Orphan] = {}
        self._socket: socket.socket | None = None
        self._process: Popen[bytes] | None = None
        self._open()

    def start(self, job: Job) -> None:
        """Give a job to a shim. ``Ready`` or ``Lost`` follows."""
        log.debug("starts attempt %s", job.token)
        while self._free:
            shim = self._free.pop()
            if shim.waits and shim.process is not None:
                shim.take(job)
                shim.ready = shim.unsent = True
                self._shims[job.token] = shim
                self._known.append(Ready(job.token, shim.process))
                return
            self._hang_up(shim)
        self._start_anew(job)

    def go(self, token: str) -> None:
        """Let a ready job run. From now on it runs even if this process dies."""
        shim = self._shims.get(token)
        if shim is None:
            return
        job, shim.unsent = shim.job if shim.unsent else None, False
        if shim.send(GO if job is None else framed(job.pack()) + GO):  # else `Lost` follows
            shim.told = monotonic()

    def drop(self, token: str) -> None:
        """Forget a job. It never runs if it was not sent the word to go, else it continues."""
        shim = self._shims.pop(token, None)
        if shim is not None:
            self._hang_up(shim)
        orphan = self._orphans.pop(token, None)
        if orphan is not None:
            orphan.watch.close()

    def fileno(self) -> int:
        """Return what is readable if there are events. Ask every second all the same: some come without notice."""
        return self._selector.fileno()

    def known(self) -> list[Ready]:
        """Return the jobs that a free shim has taken."""
        known, self._known = self._known, []
        return [event for event in known if event.token in self._shims]

    def events(self, timeout: float | None = 0.0) -> list[Ready | Ended | Lost]:
        """Return the events in order. Wait up to ``timeout`` seconds for one (None: without limit)."""
        until = None if timeout is None else monotonic() + timeout
        known = self.known()
        if known:
            return [*known]
        while True:
            left = None if until is None else max(0.0, until - monotonic())
            if self._orphans:
                left = LOOK_S if left is None else min(left, LOOK_S)
            found: list[Ready | Ended | Lost] = []
            for key, _ in self._selector.select(left):
                if key.data is not None:
                    found += self._hear(key.data)
                elif key.fileobj is self._socket:  # else it was replaced already
                    self._shut()
            found += self._look_after()
            if found or (until is not None and monotonic() >= until):
                return found

    def close(self) -> None:
        """Forget all jobs. Those that were sent the word to go continue, the others end."""
        for token in [*self._shims, *self._orphans]:
            self.drop(token)
        for shim in self._free:
            self._hang_up(shim)
        self._free.clear()
        self._shut()
        self._selector.close()

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------ the launcher itself

    def _open(self) -> None:
        import leftoff

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

    def _start_anew(self, job: Job, again: int = TRIES - 1) -> None:
        """Have the launcher fork a shim for a job."""
        ours, theirs = socket.socketpair()
        try:
            if not self._hand_over(theirs):
                self._shut()
                self._open()
                if not self._hand_over(theirs):
                    raise _no_launcher(self._fate())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        shim = self._shims[job.token] = _Shim(ours)
        self._selector.register(ours, selectors.EVENT_READ, shim)
        shim.give(job)  # if that fails, the end of the channel is noticed
        shim.again = again

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

    def _fate(self) -> str:
        code = self._process.poll() if self._process is not None else None
        return "it does not answer" if code is None else f"it ended with {code}"

    # -------------------------------------------------------------------------------------------------- shims

    def _hang_up(self, shim: _Shim) -> None:
        self._selector.unregister(shim.channel)
        shim.channel.close()

    def _hear(self, shim: _Shim) -> list[Ready | Ended | Lost]:
        try:
            data = shim.channel.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        found: list[Ready | Ended | Lost] = []
        *lines, shim.heard = (shim.heard + data).split(b"\n")
        for line in lines:
            found += self._understand(shim, line)
        if not data and shim.channel.fileno() >= 0:
            found += self._died(shim)
        return found

    def _understand(self, shim: _Shim, line: bytes) -> list[Ready | Ended | Lost]:
        word, _, rest = line.partition(b" ")
        kind, fate = word[:1], word[1:]
        if kind == READY and shim.ready:
            return []
        if kind == READY:
            if shim.process is None:
                # Looked up here, not in the shim: it costs a tenth in a process that has done it before.
                shim.process = Process(scope(), int(rest), started(int(rest)))
            shim.ready = True
            return [Ready(shim.token, shim.process)]
        if kind == FAILED:
            shim.failed, shim.why = True, rest.decode("utf-8", "replace")
        elif kind == WRITTEN:
            self._release(shim, fate)
        elif kind == ENDED:
            exit = Exit.read(rest + b"\n", os.path.basename(shim.folder))
            if exit is not None:
                log.debug("attempt %s ended: %s", shim.token, rest.decode("utf-8", "replace"))
                shim.ended = True
                token = shim.token
                self._release(shim, fate)
                return [Ended(token, exit)]
        return []

    def _release(self, shim: _Shim, fate: bytes) -> None:
        """The job is over. While its exit is unwritten, the shim tries again as long as we are here."""
        if fate == UNWRITTEN:
            return
        self._shims.pop(shim.token, None)
        if fate == FREE:
            shim.take(None)
            self._free.append(shim)
        else:
            self._hang_up(shim)

    def _died(self, shim: _Shim) -> list[Ready | Ended | Lost]:
        """The channel ended, so the shim is dead."""
        self._hang_up(shim)
        job = shim.job
        if job is None:
            self._free.remove(shim)
            return []
        self._shims.pop(job.token, None)
        if shim.ended:
            return []
        if shim.told is not None:
            assert shim.process is not None
            self._orphans[job.token] = _Orphan(job, shim.process, shim.told, shim.why)
            return []
        return [] if self._try_again(shim, job) else [Lost(job.token, shim.why, False)]

    def _try_again(self, shim: _Shim, job: Job) -> bool:
        """Give a job to another shim if this one was killed before it was ready. Return whether."""
        if shim.ready or shim.failed or not shim.again:
            return False
        try:
            self._start_anew(job, shim.again - 1)
        except LeftoffError as error:
            shim.why = error.message
            return False
        return True

    def _look_after(self) -> list[Ready | Ended | Lost]:
        found: list[Ready | Ended | Lost] = []
        for token, orphan in list(self._orphans.items()):
            if not orphan.watch.ended():
                orphan.keep_time()
                continue
            exit = orphan.watch.exit()
            self.drop(token)
            found.append(Ended(token, exit) if exit else Lost(token, orphan.why, True))
        return found
