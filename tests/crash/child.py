"""The program that crashes: `python -m tests.crash.child FD JSON` works and talks over the socket FD."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import traceback
from typing import NoReturn

import leftoff
from leftoff.errors import LeftoffError
from tests.crash.channel import Channel
from tests.crash.settings import Settings
from tests.crash.worker import Worker

PR_SET_PTRACER = 0x59616D61


def foreign(channel: Channel) -> NoReturn:
    """An error that is none of ours reached the caller: the worst there is, short of losing data."""
    channel.say(foreign=traceback.format_exc())
    os._exit(3)


def drive(settings: Settings, channel: Channel, store: leftoff.Store, thread: int) -> None:
    """One thread's work, from opening its run to the last operation."""
    try:
        Worker(settings, channel, store, f"run-{thread}").work(settings.count)
    except Exception:
        foreign(channel)


def session(settings: Settings, channel: Channel) -> None:
    """Open the store, let the threads work, close it."""
    store = leftoff.open(settings.store)
    others = [
        threading.Thread(target=drive, args=(settings, channel, store, number))
        for number in range(1, settings.threads)
    ]
    for thread in others:
        thread.start()
    drive(settings, channel, store, 0)
    for thread in others:
        thread.join()
    close(store, channel)


def close(store: leftoff.Store, channel: Channel) -> None:
    """Closing may meet the fault too; a typed error is an answer, and everything was acknowledged before."""
    try:
        store.close()
    except LeftoffError as error:
        channel.say(failed=-1, error=type(error).__name__, text=str(error))
    except Exception:
        foreign(channel)


def allow_tracing() -> None:
    """Let strace attach to us where otherwise only ancestors may."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)


def main(argv: list[str]) -> int:
    """Rehearse if asked to, wait for the parent, work."""
    channel = Channel(int(argv[0]))
    settings = Settings.parse(argv[1])
    allow_tracing()
    faulthandler.register(signal.SIGUSR1)  # a program that hangs is asked where
    if settings.warm:
        session(settings.rehearsal(), Channel(None))
    channel.say(ready=os.getpid())
    channel.wait()
    session(settings, channel)
    channel.say(done=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
