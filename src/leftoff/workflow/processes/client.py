"""The driver's side: starting jobs through the launcher, and hearing of them.

A job is started, becomes ready (its shim waits, and is known by pid and start time), is told to go once that is
recorded, and ends. Each has a channel of its own to its shim: the launcher may die without anybody noticing but the
next job, for which it is started again.
"""

from __future__ import annotations

import marshal
import os
import selectors
import socket
import sys
from time import monotonic

from leftoff import log
from leftoff.errors import LeftoffError
from leftoff.host import Process, scope, started
from leftoff.model.fields import Fields
from leftoff.workflow.processes.groups import Watch, kill
from leftoff.workflow.processes.job import (
    ENDED,
    FAILED,
    FREE,
    GO,
    READY,
    UNWRITTEN,
    WRITTEN,
    Exit,
    framed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

    from leftoff.engine.config.settings import Redaction
    from leftoff.workflow.processes.job import Job

ROOM = 1 << 18  # so much of a job is sent without waiting for its shim; some systems have little by default
TRIES = 3  # a free shim and the launcher may have been killed at the same time
LOOK_S = 0.2  # how often attempts are looked after that lost their shim
# Isolated, and without site-packages: no module of the user's can take the place of one that the launcher needs.
_CODE = (
    "'leftoff: starts steps'; import sys; sys.path.append(sys.argv[1]); "
    "from leftoff.workflow.processes.launcher import main; main()"
)


class Event(Fields):
    token: str


class Ready(Event):
    """The shim of a job waits to be told to go."""

    process: Process


class Ended(Event):
    """A job ended: nothing of it runs any more."""

    exit: Exit


class Lost(Event):
    """The shim of a job is gone without a word: nothing of it runs any more. ``told``: it had been told to go."""

    why: str
    told: bool


class _Shim:
    """A shim as the driver knows it, with the job that it has."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.heard = b""
        self.process: Process | None = None
        self.take(None)

    def take(self, job: Job | None) -> None:
        self.job = job
        self.again = TRIES - 1  # if it dies before it is ready, another one takes the job
        self.ready = self.failed = self.ended = False
        self.unsent = False  # it is known, so its job is sent with the word to go
        self.told: float | None = None  # when it was told to go
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
        """Send it a job; if it is dead, its channel ends."""
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
        """Whether a free one is still there."""
        try:
            self.channel.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


class _Orphan:
    """A job that was told to go and lost its shim: nobody else ends it in time, or can say how it ended."""

    def __init__(self, job: Job, process: Process, told: float, why: str) -> None:
        self.watch = Watch(process, job.folder)
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
    """Starts jobs, and gives what happens to them. Make it before any thread; it is for one thread."""

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
        self._known: list[Ready] = []  # to be told: their shims were there already
        self._orphans: dict[str, _Orphan] = {}
        self._socket: socket.socket | None = None
        self._process: Popen[bytes] | None = None
        self._open()

    def start(self, job: Job) -> None:
        """Have a shim take a job: ``Ready`` follows, or ``Lost``."""
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
        """Let a ready job run. From here on it runs even if this process dies at once."""
        shim = self._shims.get(token)
        if shim is None:
            return
        job, shim.unsent = shim.job if shim.unsent else None, False
        if shim.send(GO if job is None else framed(job.pack()) + GO):  # else it is gone: `Lost` follows
            shim.told = monotonic()

    def drop(self, token: str) -> None:
        """Hear no more of a job. One that was not told to go never runs; one that was goes on."""
        shim = self._shims.pop(token, None)
        if shim is not None:
            self._hang_up(shim)
        orphan = self._orphans.pop(token, None)
        if orphan is not None:
            orphan.watch.close()

    def fileno(self) -> int:
        """Readable when there are events. Ask for events every second in any case: some come without notice."""
        return self._selector.fileno()

    def known(self) -> list[Ready]:
        """Those jobs that a shim took which was there already."""
        known, self._known = self._known, []
        return [event for event in known if event.token in self._shims]

    def events(self, timeout: float | None = 0.0) -> list[Ready | Ended | Lost]:
        """What happened, in order; waits up to ``timeout`` seconds (None: without end) for something."""
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
                elif key.fileobj is self._socket:  # else another one has taken its place already
                    self._shut()
            found += self._look_after()
            if found or (until is not None and monotonic() >= until):
                return found

    def close(self) -> None:
        """Hear no more. Jobs that were told to go run on, the others end by themselves."""
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
        from subprocess import DEVNULL, Popen

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
        except OSError:  # it is gone already: whoever needs it will see
            pass

    def _start_anew(self, job: Job, again: int = TRIES - 1) -> None:
        """Have a shim made for a job."""
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
        shim.give(job)  # if it cannot, the channel's end will be heard
        shim.again = again

    def _hand_over(self, channel: socket.socket) -> bool:
        """Whether the launcher took it, as far as that can be told: if it dies now, the channel ends."""
        if self._socket is None:
            return False
        try:
            socket.send_fds(self._socket, [b"f"], [channel.fileno()])
        except OSError:
            return False
        return True

    def _shut(self) -> None:
        """Close our side of it, upon which it ends, if it has not yet."""
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None
        if self._process is not None:
            from subprocess import TimeoutExpired

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
                # Asked here, not there: it waits meanwhile, and to a process that is used to asking it costs a tenth.
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
        """Its job is over. While the exit is not written, the shim tries to for as long as we are here."""
        if fate == UNWRITTEN:
            return
        self._shims.pop(shim.token, None)
        if fate == FREE:
            shim.take(None)
            self._free.append(shim)
        else:
            self._hang_up(shim)

    def _died(self, shim: _Shim) -> list[Ready | Ended | Lost]:
        """Its channel ended."""
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
        """Have another shim take a job that this one did not take up: it, or the launcher, was killed."""
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
