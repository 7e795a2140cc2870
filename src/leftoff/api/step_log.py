"""The log of a step: the lines that Python code logs inside it. ``leftoff logs`` shows them.

A factory of log records sees every record that the program's loggers and levels let through. It is not a handler: the
program's handlers, ``basicConfig`` and stderr stay as they are. A context variable says which step a line belongs to,
so that threads of ``map`` and tasks of asyncio have their own. A thread that a step's code started has no context; its
lines belong to the innermost open step, if there is exactly one. A line is masked and written at once, so that it
survives a kill.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from leftoff.engine.read.attempt_logs import python_log

if TYPE_CHECKING:
    from leftoff.api.run_buffer import RunBuffer

OURS = "leftoff"  # the logger of leftoff itself
_LEVEL = logging.INFO

#: The logger of steps: its lines from level INFO on are stored, whatever levels the program sets.
logger = logging.getLogger("leftoff.step")
if logger.level == logging.NOTSET:
    logger.setLevel(_LEVEL)


class StepLog:
    """The log of an attempt at a step. The file is made with the first line."""

    __slots__ = ("_before", "_buffer", "_file", "number", "path")

    def __init__(self, buffer: RunBuffer, path: str, number: int) -> None:
        self._buffer = buffer
        self.path = buffer.redactor.name(path)
        self.number = number
        self._before: StepLog | None = None
        self._file: int | None = None

    def enter(self) -> None:
        self._before = _current.get()
        _current.set(self)
        _open[id(self)] = self

    def leave(self) -> None:
        if _current.get() is self:
            _current.set(self._before)
        _open.pop(id(self), None)
        if self._file is None:
            return
        with _lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    @property
    def driven(self) -> bool:
        """Return whether its run is still driven: a paused run may have left its step open."""
        return self._buffer.driving

    def write(self, text: str) -> None:
        """Add lines. The work does not fail if they cannot be written."""
        line = self._buffer.redactor.mask(text) + "\n"
        with _lock:
            try:
                if self._file is None:
                    self._file = self._make()
                os.write(self._file, line.encode("utf-8", "backslashreplace"))
            except OSError:
                pass

    def _make(self) -> int:
        file = python_log(self._buffer.store, self._buffer.run_id, self.path, self.number)
        folder = os.path.dirname(file)
        steps = os.path.dirname(folder)
        if any(map(os.path.islink, (folder, steps, os.path.dirname(steps)))):
            raise OSError(f"{folder} is behind a link, which may have come along with a repository.")
        os.makedirs(folder, 0o700, exist_ok=True)
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


_current: ContextVar[StepLog | None] = ContextVar("leftoff_step", default=None)
_open: dict[int, StepLog] = {}
_lock = threading.RLock()  # reentrant: a signal handler may log, too


def log_now() -> StepLog | None:
    """Return the log of the step that the caller is part of."""
    return _current.get() or _innermost([log for log in list(_open.values()) if log.driven])


def _innermost(logs: list[StepLog]) -> StepLog | None:
    """Return the one that is inside all others, or ``None`` if two are parallel."""
    if len(logs) < 2:
        return logs[0] if logs else None
    logs.sort(key=lambda log: len(log.path))
    nested = all(inner.path.startswith(f"{outer.path}/") for outer, inner in pairwise(logs))
    return logs[-1] if nested else None


class _Lines(logging.Formatter):
    """``2026-01-02T03:04:05Z INFO name: message``, then the traceback, if there is one."""

    converter = time.gmtime  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%SZ")


_lines = _Lines()


def _write(record: logging.LogRecord) -> None:
    if record.name == OURS or not record.name or "_leftoff" in record.__dict__:
        return
    log = log_now()
    if log is None:
        return
    record.__dict__["_leftoff"] = True  # once, even if another factory calls ours again
    shown = logging.makeLogRecord(record.__dict__)  # a formatter changes its record
    if record.name == logger.name:
        shown.name = log.path
    try:
        text = _lines.format(shown)
    except Exception:  # wrong arguments: the program's own handlers report them
        text = f"{record.levelname} {record.name}: {record.msg!r} {record.args!r}"
    log.write(text)


class _Factory:
    """Makes log records with the factory before, and writes their lines to the step's log."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, *args: Any, **named: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._before(*args, **named)
        _write(record)
        return record


def listen() -> None:
    """Install the factory, again if the program has replaced it."""
    factory = logging.getLogRecordFactory()
    if type(factory) is not _Factory:
        logging.setLogRecordFactory(_Factory(factory))
