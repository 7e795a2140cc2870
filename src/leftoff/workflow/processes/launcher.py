"""The process that forks the shims: small, so that a fork is cheap, and without threads, so that it is safe.

The driver sends it one end of a channel at a time, and it forks a shim for that. It ends with the driver. The shims do
not need it.
"""

from __future__ import annotations

import gc
import marshal
import os
import socket
import sys
import time

from leftoff.engine.redaction.redactor import Redactor
from leftoff.workflow.processes.job import FAILED, receive
from leftoff.workflow.processes.redacting_stream import ByLine
from leftoff.workflow.processes.shim import Bell, live, reap, say

LAST_WORDS_S = 0.2  # how long it waits at the end for idle shims


def main() -> None:
    bell = Bell()
    driver = socket.socket(fileno=int(sys.argv[2]))
    driver.set_inheritable(False)
    packed = receive(driver.fileno())
    redactor = make_redactor(marshal.loads(packed)) if packed else None
    gc.collect()
    gc.freeze()  # so that a collection does not write to shared pages
    while True:
        try:
            asked, fds, _, _ = socket.recv_fds(driver, 1, 1)
        except OSError:
            asked, fds = b"", []
        if not asked:
            leave()
        for channel in fds:
            launch(channel, driver.fileno(), bell, redactor)


def make_redactor(settings: dict[str, object]) -> Redactor | ByLine | None:
    if not settings["enabled"]:
        return None
    redactor = Redactor(**settings)  # type: ignore[arg-type]
    redactor.mask("password: passed")  # loads its patterns once for all shims
    return ByLine(redactor) if settings["patterns"] else redactor


def leave() -> None:
    """Exit, after reaping the idle shims, which end now too."""
    deadline = time.monotonic() + LAST_WORDS_S
    while reap() and time.monotonic() < deadline:
        time.sleep(0.002)
    os._exit(0)


def launch(channel: int, driver: int, bell: Bell, redactor: Redactor | ByLine | None) -> None:
    os.set_inheritable(channel, False)
    try:
        if os.fork() == 0:
            shim(channel, driver, bell, redactor)
    except OSError as error:
        say(channel, b"%s %s\n" % (FAILED, os.strerror(error.errno or 0).encode()))
    os.close(channel)


def shim(channel: int, driver: int, bell: Bell, redactor: Redactor | ByLine | None) -> None:
    """Be a shim, in the forked process. Never returns."""
    try:
        os.close(driver)  # so that the driver notices the launcher's end
        live(channel, bell, redactor)
    except BaseException as error:
        say(channel, b"%s %s\n" % (FAILED, repr(error).encode("utf-8", "replace").replace(b"\n", b" ")[:500]))
    finally:
        os._exit(0)
