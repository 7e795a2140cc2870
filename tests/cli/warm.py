"""Processes of the command without the cost of a start: forks of one that has every module of it loaded.

Each has a pid, a parent, signals, streams, a folder and an environment of its own, and ends as a process ends; only
what Python does before `leftoff.cli.main` is saved. The one that forks them is started with the first, for each
process of tests; it ends with that.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from tests.syncs import syncs

ROOM = 1 << 16
LEFT_OUT = ("leftoff.testing", "leftoff.__main__")


class Process:
    """One call of the command, to be used as a ``subprocess.Popen``."""

    def __init__(
        self, words: list[str], cwd: str, env: dict[str, str], fds: Sequence[int], **more: Any
    ) -> None:
        self.returncode: int | None = None
        self._status, theirs = os.pipe()
        try:
            _source().ask({"words": words, "cwd": cwd, "env": env, **more}, [*fds, theirs])
        finally:
            os.close(theirs)
        self.pid = int(self._line())

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            more = os.read(self._status, 1)
            if not more:
                raise RuntimeError("the process that forks the others is gone")
            line += more
        return line

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("leftoff", timeout or 0)
        return code

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(self._line())
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __del__(self) -> None:
        if self.returncode is None:
            os.close(self._status)


class _Source:
    """The process that forks, as the tests know it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.warm", str(theirs.fileno())],
                cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def ask(self, request: dict[str, Any], fds: list[int]) -> None:
        data = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._channel, [len(data).to_bytes(4, "big")], fds)
            self._channel.sendall(data)

    def close(self) -> None:
        self._channel.close()
        self._process.wait()


_sources: dict[int, _Source] = {}
_starting = threading.Lock()


def _source() -> _Source:
    with _starting:
        if os.getpid() not in _sources:
            _sources[os.getpid()] = _Source()
        return _sources[os.getpid()]


# -- the process that forks


def _load() -> None:
    import importlib
    import pkgutil

    import leftoff

    for module in pkgutil.walk_packages(leftoff.__path__, "leftoff."):
        if not module.name.startswith(LEFT_OUT):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


class _Forks:
    """Forks for whoever asks, and tells how each of them ended."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._status: dict[int, int] = {}
        self._bell, ringer = os.pipe()
        os.set_blocking(ringer, False)
        signal.set_wakeup_fd(ringer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # Ctrl-C is for whoever runs the tests, who ends this one

    def serve(self) -> None:
        while True:
            ready = select.select([self._channel.fileno(), self._bell], [], [])[0]
            if self._bell in ready:
                os.read(self._bell, ROOM)
                self._reap()
            if self._channel.fileno() in ready and not self._fork():
                return

    def _fork(self) -> bool:
        head, fds, _, _ = socket.recv_fds(self._channel, 4, 4)
        if not head:
            return False
        size, data = int.from_bytes(head, "big"), b""
        while len(data) < size:
            data += self._channel.recv(size - len(data))
        pid = os.fork()
        if not pid:
            _become(json.loads(data), fds)
        for fd in fds[:3]:
            os.close(fd)
        os.write(fds[3], b"%d\n" % pid)
        self._status[pid] = fds[3]
        return True

    def _reap(self) -> None:
        while self._status:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            fd = self._status.pop(pid)
            try:
                os.write(fd, b"%d\n" % os.waitstatus_to_exitcode(status))
            except BrokenPipeError:  # nobody waits for it
                pass
            os.close(fd)


def _become(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """From here on this is the command."""
    code = 1
    try:
        _settle(request, fds)
        from leftoff.cli import as_process, main

        as_process(request["words"])
        code = main(request["words"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(_last(code))


def _settle(request: dict[str, Any], fds: list[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for fd, own in enumerate(fds[:3]):
        os.dup2(own, fd)
    os.closerange(3, max(fds) + ROOM)
    if request.get("terminal"):
        _take_terminal()
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = [os.path.join(os.path.dirname(sys.executable), "leftoff"), *request["words"]]
    sys.stdin, sys.stdout, sys.stderr = (stream(fd) for fd in range(3))
    gc.set_threshold(50_000)  # as the command does
    if request.get("user"):
        _become_user(request["user"])


def _take_terminal() -> None:
    """A session of its own, whose terminal is the one on stdin: Ctrl-C goes to whoever is in front there."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _become_user(user: int) -> None:
    """Without rights, Python's own files may not be readable: what is loaded late is loaded before."""
    import difflib  # noqa: F401
    import tempfile
    import urllib.parse  # noqa: F401

    import leftoff

    with tempfile.TemporaryDirectory() as folder, leftoff.open(folder + "/.leftoff") as store:
        store.start("rehearsal").finish()
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def stream(fd: int) -> Any:
    """A standard stream as Python makes it at its start."""
    like = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[fd]
    assert like is not None
    mode, buffering = ("w", 1 if fd == 2 else -1) if fd else ("r", -1)
    return open(fd, mode, buffering, encoding=like.encoding, errors=like.errors, closefd=False)


def _last(code: int) -> int:
    """What Python does at the end of a process; its exit code."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        return 120
    return code


if __name__ == "__main__":
    _load()
    sys.path[0] = os.path.dirname(sys.executable)  # as the command has it
    with syncs(False):
        _Forks(socket.socket(fileno=int(sys.argv[1]))).serve()
