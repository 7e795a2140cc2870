"""The process that forks the shims: small, so that a fork is cheap, and without threads, so that it is safe.

It is given one side of a channel at a time, and makes a shim for it. When the driver is gone it ends; the shims do not
need it.
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
from leftoff.workflow.processes.shim import live, say
from leftoff.workflow.processes.signals import Bell, reap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from leftoff.workflow.processes.redacting_stream import Masks

LAST_WORDS_S = 0.2  # so long it waits, at the end, for shims that end with it


def main() -> NoReturn:
    bell = Bell()
    driver = socket.socket(fileno=int(sys.argv[2]))
    driver.set_inheritable(False)
    packed = receive(driver.fileno())
    redactor = make_redactor(marshal.loads(packed)) if packed else None
    gc.collect()
    gc.freeze()  # what is there stays, and is not looked at again: pages that nobody writes to are shared
    while True:
        try:
            asked, fds, _, _ = socket.recv_fds(driver, 1, 1)
        except OSError:
            asked, fds = b"", []
        if not asked:
            leave()
        for channel in fds:
            launch(channel, driver.fileno(), bell, redactor)


def make_redactor(settings: dict[str, Any]) -> Masks | None:
    if not settings["enabled"]:
        return None
    redactor = Redactor(**settings)
    redactor.mask("password: passed")  # loads what it needs for most texts, once for all shims
    return ByLine(redactor) if settings["patterns"] else redactor


def leave() -> NoReturn:
    """Shims that have nothing to do end now, too: none of them should be a zombie that another must reap."""
    deadline = time.monotonic() + LAST_WORDS_S
    while reap() and time.monotonic() < deadline:
        time.sleep(0.002)
    os._exit(0)


def launch(channel: int, driver: int, bell: Bell, redactor: Masks | None) -> None:
    os.set_inheritable(channel, False)
    try:
        if os.fork() == 0:
            shim(channel, driver, bell, redactor)
    except OSError as error:
        say(channel, b"%s %s\n" % (FAILED, os.strerror(error.errno or 0).encode()))
    os.close(channel)


def shim(channel: int, driver: int, bell: Bell, redactor: Masks | None) -> NoReturn:
    """The other side of the fork, which never returns."""
    try:
        os.close(driver)  # so that the driver sees the end of the launcher, and not of the last shim
        live(channel, bell, redactor)
    except BaseException as error:
        say(channel, b"%s %s\n" % (FAILED, repr(error).encode("utf-8", "replace").replace(b"\n", b" ")[:500]))
    finally:
        os._exit(0)
