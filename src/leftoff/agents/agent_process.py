"""One life of an agent's process: started, read line by line, ended when this process is told to end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from leftoff.agents.adapters import Adapter, AgentCall
from leftoff.agents.agent_outcome import Outcome
from leftoff.operations.agent_steps import Rest

NOT_FOUND = 127
BEAT = 20.0
_LOOK = 1.0
_GRACE = 10.0  # seconds that an agent has to end, once we told it to
_KEPT = 20_000  # characters of stderr: some print all their options below what was wrong
_LAST = 5  # lines of what an agent printed that has no lines of its own
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PATIENCE = 1.0  # seconds until we pass on what somebody told us alone


class AgentStopped(BaseException):
    """This process was told to end, and the agent has ended."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class SignalWatch:
    """Whether we were told to end.

    The agent is in our session, and whoever ends a step tells everybody in it: it is not told twice, as agents take a
    second SIGTERM for "now". Only where somebody else told us, and perhaps us alone, it is passed on, once.
    """

    def __init__(self) -> None:
        self.told: float | None = None
        self.alone = False
        # It tells who sent a signal; where the system has none, we were not told alone.
        self._waits = hasattr(signal, "sigtimedwait")
        for number in _ENDS:
            signal.signal(number, self._on)
        self.block(True)

    def _on(self, number: int, frame: Any) -> None:
        self.told = self.told or time.monotonic()

    def block(self, held: bool) -> None:
        """Block the signals until ``look`` asks for them; not while a process is started, which would inherit that."""
        if self._waits:
            signal.pthread_sigmask(signal.SIG_BLOCK if held else signal.SIG_UNBLOCK, _ENDS)

    def look(self, seconds: float = 0) -> bool:
        """Return whether this process was told to end, by now or within some seconds."""
        if not self._waits:
            time.sleep(seconds)
        elif self.told is None:
            found = signal.sigtimedwait(_ENDS, seconds)
            if found is not None:
                self.told, self.alone = time.monotonic(), found.si_pid != os.getppid()
        return self.told is not None

    def sleep(self, seconds: float, beat: Callable[[], None]) -> None:
        """Wait, with a sign of life now and then."""
        end, last = time.monotonic() + seconds, -BEAT
        while (left := end - time.monotonic()) > 0:
            if time.monotonic() - last >= BEAT:
                last = time.monotonic()
                beat()
            if self.look(min(left, _LOOK)):
                raise AgentStopped(128 + signal.SIGTERM)


class AgentLife:
    """An agent's process while it runs. ``limit`` says why it must not go on, if so."""

    def __init__(
        self,
        agent: Adapter,
        watch: SignalWatch,
        beat: Callable[[], None],
        begun: Callable[[str | None], None],
        limit: Callable[[Outcome], str],
    ) -> None:
        self.out = Outcome()
        self._agent = agent
        self._watch = watch
        self._beat = beat
        self._begun = begun
        self._limit = limit
        self._known: tuple[bool, str | None] = (False, None)
        self._why = ""

    def run(self, call: AgentCall) -> int:
        """Run it to its end; return its exit code, below 0 if a signal ended it."""
        try:
            process = self._start(call)
        except OSError as error:
            self.out.error = f"{call.words[0]} cannot be started: {error.strerror}"
            return NOT_FOUND
        rest = Rest(process.pid, _GRACE)  # it, and all that it starts
        for line in self._lines(process, rest):
            shown = self._agent.feed(line, self.out)
            if shown:
                print(shown, flush=True)
                self.out.shown = [*self.out.shown[-7:], shown]
            self._tell()
            if not self._why and not self.out.ok and (why := self._limit(self.out)):
                self._why = why
                rest.end()
        code = process.wait()
        if self._agent.is_template and code and not self.out.error:  # what it printed at last is why
            self.out.warned = "\n".join([*self.out.text.splitlines()[-_LAST:], self.out.warned])
        self.out.close(code)
        if self._why and not self.out.ok:
            self.out.fail(self._why)
        if not self.out.done(code):
            if self._watch.look():
                raise AgentStopped(code if code >= 0 else 128 - code)
            rest.wait()  # nobody works on beside the next agent
        return code

    def _start(self, call: AgentCall) -> subprocess.Popen[bytes]:
        source: IO[bytes] | int = subprocess.DEVNULL
        if call.stdin is not None:
            source = tempfile.TemporaryFile()  # noqa: SIM115  # closed below
            source.write(call.stdin.encode("utf-8", "surrogateescape"))
            source.seek(0)
        self._watch.block(False)
        try:
            return subprocess.Popen(call.words, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        finally:
            self._watch.block(True)
            if not isinstance(source, int):
                source.close()

    def _tell(self) -> None:
        """Report once that its session exists, and by which id."""
        now = (self.out.begun, self.out.session)
        if self.out.begun and now != self._known:
            self._known = now
            self._begun(self.out.session)

    def _keep_time(self, process: subprocess.Popen[bytes], rest: Rest) -> None:
        """Pass on a signal that only this process got; end what the agent left running; kill what does not end."""
        watch = self._watch
        told = watch.look() and watch.alone and watch.told is not None
        passed_on = told and time.monotonic() - (watch.told or 0.0) > _PATIENCE
        if passed_on or rest.told is not None or process.poll() is not None:
            rest.end()

    def _lines(self, process: subprocess.Popen[bytes], rest: Rest) -> Iterator[str]:
        """Yield its lines as they come, until it has ended; copy its stderr to ours."""
        assert process.stdout is not None and process.stderr is not None
        out, err = process.stdout.fileno(), process.stderr.fileno()
        open_ones, begun, last = [out, err], b"", time.monotonic()
        while open_ones or process.poll() is None:
            hurried = rest.told is not None or self._watch.told is not None
            wait = 0.1 if hurried else _LOOK
            ready = select.select(open_ones, [], [], wait if open_ones else 0.05)[0]
            self._keep_time(process, rest)
            if time.monotonic() - last > BEAT:
                last = time.monotonic()
                self._beat()
            if not ready and process.poll() is not None:
                break  # where something is open still, what it left behind holds it
            for fd in ready:
                data = os.read(fd, 1 << 16)
                if not data:
                    open_ones.remove(fd)
                elif fd == err:
                    self._pass_on(data)
                else:
                    *whole, begun = (begun + data).split(b"\n")
                    for line in whole:
                        yield line.decode("utf-8", "replace").rstrip("\r")
        if begun.strip():
            yield begun.decode("utf-8", "replace")
        process.stdout.close()
        process.stderr.close()

    def _pass_on(self, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        self.out.warned = (self.out.warned + text)[-_KEPT:]
        sys.stderr.write(text)
        sys.stderr.flush()


def complain(text: str) -> None:
    print(f"leftoff: {text}", file=sys.stderr, flush=True)
