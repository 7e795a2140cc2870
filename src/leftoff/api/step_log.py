"""What Python code logs inside a step is the step's log: ``leftoff logs`` shows it, as it shows what a command prints.

Every record that a program's own loggers and levels let through passes here when it is made. That is no handler: a
program's handlers, ``basicConfig`` and what goes to stderr stay as they are. Which step a line belongs to is said by
the context (``contextvars``), so threads of ``map`` and tasks of asyncio are told apart. A thread that a step started
by itself is in none, and works for the innermost step that is open, if that is plain. A line is masked and written at
once: what was logged before a kill is there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from leftoff.engine.read.logs import python_log

if TYPE_CHECKING:
    from leftoff.api.run_buffer import RunBuffer

OURS = "leftoff"  # the logger of what leftoff itself does
_LEVEL = logging.INFO

#: The logger of steps: its lines from level INFO on are kept, whatever a program's own levels are.
logger = logging.getLogger("leftoff.step")
if logger.level == logging.NOTSET:
    logger.setLevel(_LEVEL)


class StepLog:
    """An attempt at a step that is under way here, and the file of its log once there is one."""

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
        """Whether its run goes on: one that was paused may have left its step open."""
        return self._buffer.driving

    def write(self, text: str) -> None:
        """Add lines. A log that cannot be written is no reason for the work to fail."""
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
_lock = threading.RLock()  # a handler of signals may log, too


def log_now() -> StepLog | None:
    """The step that whoever asks is part of."""
    return _current.get() or _innermost([log for log in list(_open.values()) if log.driven])


def _innermost(logs: list[StepLog]) -> StepLog | None:
    """The one that is inside all others; none where two stand beside each other."""
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


def _keep(record: logging.LogRecord) -> None:
    if record.name == OURS or not record.name or "_leftoff" in record.__dict__:
        return
    log = log_now()
    if log is None:
        return
    record.__dict__["_leftoff"] = True  # where somebody's factory calls ours, that is one line all the same
    shown = logging.makeLogRecord(record.__dict__)  # a formatter writes into what it is given
    if record.name == logger.name:
        shown.name = log.path
    try:
        text = _lines.format(shown)
    except Exception:  # arguments that do not fit: the program's own handlers complain
        text = f"{record.levelname} {record.name}: {record.msg!r} {record.args!r}"
    log.write(text)


class _Factory:
    """Makes records as they were made before, and keeps their lines."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, *args: Any, **named: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._before(*args, **named)
        _keep(record)
        return record


def listen() -> None:
    """Be told of every record from now on; again where somebody took our log."""
    factory = logging.getLogRecordFactory()
    if type(factory) is not _Factory:
        logging.setLogRecordFactory(_Factory(factory))
