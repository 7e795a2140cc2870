"""How a program that is about to die tells what it has done."""

from __future__ import annotations

import json
import os
import socket
import threading


class Channel:
    """One JSON line per message, by send() only: faults injected into write() must not hit it.

    What was sent is with the parent, even if the sender dies in the next instant.
    """

    def __init__(self, fd: int | None) -> None:
        """Without an FD nothing is said: a rehearsal."""
        self._socket = None if fd is None else socket.socket(fileno=fd)
        self._lock = threading.Lock()

    def say(self, **message: object) -> None:
        """Tell the parent, from any thread, never half a line."""
        if self._socket is not None:
            with self._lock:
                self._socket.sendall(json.dumps(message).encode() + b"\n")

    def wait(self) -> None:
        """Until the parent says go on; an end of file means that it is gone."""
        if self._socket is not None and not self._socket.recv(1):
            os._exit(0)
