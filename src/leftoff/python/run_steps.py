"""The steps of a driven run, as contexts, and the log of each attempt.

A finished step does not run again unless the program asks for it. Entering a step commits that it is running, so that a
reader sees after a crash what was in flight. Leaving it commits everything that was buffered meanwhile, and seals a
checkpoint.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import partial
from itertools import pairwise
from time import monotonic
from traceback import extract_tb, format_list
from types import CodeType
from typing import Any, TypeVar

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import Seal
from leftoff.engine.show import in_order
from leftoff.errors import Invalid, LeftoffError, StepDone, Usage
from leftoff.model.changes import NOTHING
from leftoff.model.codec import BLOB, Checked, freeze_holed, thaw
from leftoff.model.ids import check_step, parent_of, shown_step, step_readings
from leftoff.model.words import STEP_ENDED
from leftoff.python.arguments import Given, call_facts, other_arguments
from leftoff.python.calls import IGNORE, ONCE, RERUN, WARN, code_changed
from leftoff.python.run_buffer import Entry, LargeRecord, Record, RunBuffer
from leftoff.python.values import Result, decode_value

T = TypeVar("T")
NO_ARGUMENTS = call_facts({}, None)
Place = tuple[CodeType, int]  # an instruction
MOST_FRAMES = 20  # of a traceback that is stored
MOST_LOST = 100_000  # characters of a result that cannot be recorded
REMEMBERED = 32  # errors that are known to have been sealed
_PLAIN = (str, int, bool, type(None))  # results that are recorded as they are
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep  # the folder of leftoff's own code

OURS = "leftoff"  # the logger of leftoff itself
#: The logger of steps: its lines from level INFO on are stored, whatever levels the program sets.
logger = logging.getLogger("leftoff.step")
if logger.level == logging.NOTSET:
    logger.setLevel(logging.INFO)


class Step:
    """One step, as a context: ``with run.step("publish") as step: …; step.result = {…}``."""

    def __init__(
        self,
        steps: RunSteps,
        path: str,
        title: str | None = None,
        batch: str | None = None,
        *,
        again: bool = False,
        given: Given | None = None,
    ) -> None:
        self._steps = steps
        self.path = path
        self.title = title
        self.again = again
        self.batch = batch  # the step of which this is an item
        self.given = given  # its arguments, or the item's content
        self.result: Any = NOTHING
        self.outputs: list[str] = []
        self.began = 0.0
        self.left_at: Place | None = None  # where the loop over items was when it was left
        self.attempts = ONCE
        self.failed = 0  # attempts before this one
        self.pause: float | None = None  # seconds until the next attempt, if there is one
        self.dropped = False  # the thread that makes it was left behind: how it ends is not recorded
        self._log: PythonLog | None = None

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines are this step's log."""
        return logger

    def step(self, name: str, **options: Any) -> Step:
        """A step below this one."""
        return self._steps.step(f"{self.path}/{name}", **options)

    def __enter__(self) -> Step:
        self._steps.enter(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._steps.complete(self)
        else:
            self._steps.fail(self, error)

    async def __aenter__(self) -> Step:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<step {self.path}>"


class RunSteps:
    """The steps of one run, as `Run` and durable functions read, enter and end them."""

    def __init__(self, buffer: RunBuffer) -> None:
        self.buffer = buffer
        self._run_id = buffer.run_id
        self._open = threading.local()
        self._left_open: list[Step] = []  # items whose loop was left
        self._sealed: list[BaseException] = []
        self.left_undone: str | None = None  # the failures that `map` continued in spite of
        # The arguments of the steps that this process did, or took as they were recorded, by path.
        self._called: dict[str, str] = {}
        self._noticed: set[str] = set()  # steps and batches whose code has changed

    # -- reading

    def all(self) -> Mapping[str, Any]:
        """Return the steps by path in their declared order."""
        self.close_left_open()
        with self.buffer.lock:
            there = self.buffer.step_records()
            ordered = in_order({path: record for path, (record, _) in there.items()})
            return {path: freeze_holed(*there[path], f"step/{path}") for path in ordered}

    def unfinished(self) -> list[str]:
        """Return the steps that are not finished, without those that contain others."""
        self.close_left_open()
        with self.buffer.lock:
            records = {path: record for path, (record, _) in self.buffer.step_records().items()}
        inner = {parent_of(path) for path in records}
        return [p for p in in_order(records) if p not in inner and records[p]["status"] not in STEP_ENDED]

    def done(self, path: str) -> bool:
        found = self._named(path)
        return found is not None and found[0]["status"] in STEP_ENDED

    def finished(
        self, path: str, given: Given | None, batch: str | None = None, on_code_change: str = IGNORE
    ) -> bool:
        """Return whether a step is finished. Raise an error if it was done with other arguments than ``given``."""
        found = self._named(path)
        if found is None or found[0]["status"] not in STEP_ENDED:
            return False
        record, called = found[0], self._called.get(path)
        if given is None or record["status"] != "completed":
            return True
        if "digest" in record and "digest" in given.record:
            if record["digest"] != given.record["digest"] or called not in (None, given.exact):
                raise other_arguments(path, record, given, batch, self._run_id if called is None else None)
            self._called[path] = given.exact
        return not self.reruns(batch or path, record, given.record, on_code_change)

    def reruns(self, name: str, record: Record, now: Record, on_code_change: str) -> bool:
        """Return whether a finished step runs again because its code changed. Print a notice if it does not.

        ``name``: of the step, or of the batch that it is an item of.
        """
        if on_code_change == IGNORE or not code_changed(record.get("code"), now.get("code")):
            return False
        if on_code_change == WARN and name not in self._noticed:
            self._noticed.add(name)
            told = f"the code of step {shown_step(name)} has changed since it was done; its recorded result is used."
            print(
                f'leftoff: {told} on_code_change="rerun" runs it again, on_code_change="ignore" says nothing.',
                file=sys.stderr,
            )
        return on_code_change == RERUN

    def _named(self, path: str) -> Entry | None:
        """Return the step of that path, or of that name as people read it."""
        known = self.buffer.step_records()
        found = known.get(path)
        if found is None and ("[" in path or "\\" in path):
            found = next(filter(None, map(known.get, step_readings(path))), None)
        return found

    def result(self, path: str) -> Any:
        """Return a copy of what a finished step returned."""
        found = self._named(path)
        if found is None or "result" not in found[0]:
            return None
        if isinstance(found[0], LargeRecord):
            first = vars(found[0]).pop("first", None)  # only one thread gets it
            if first is not None:
                return first
        kept = found[0]["result"]
        if type(kept) in _PLAIN and not found[1]:
            return kept
        where = f"the result of step {path}"
        holes = [p[1:] for p in found[1] if p and p[0] == "result"]
        if holes:
            kept = freeze_holed(kept, holes, where)
        if not found[0].get("typed"):
            return kept if holes or isinstance(found[0], LargeRecord) else thaw(kept)
        return decode_value(kept, where)

    def current(self) -> str | None:
        """Return the innermost open step of this thread or task."""
        log = _current.get()
        return log.path if log is not None and log.buffer is self.buffer else None

    # -- the life of one step

    def step(self, path: str, *, again: bool = False, title: str | None = None) -> Step:
        check_step(path)
        if not again and self.done(path):
            raise self._already_finished(path)
        return Step(self, path, title, again=again)

    def _already_finished(self, path: str) -> StepDone:
        return StepDone(f"Step {shown_step(path)} of run {self._run_id} is already finished.")

    def _stack(self) -> list[Step]:
        stack: list[Step] | None = getattr(self._open, "stack", None)
        if stack is None:
            stack = self._open.stack = []
        return stack

    def enter(self, step: Step) -> None:
        self.close_left_open()
        buffer, path = self.buffer, step.path
        record = buffer.step_or_new(path)
        if record.get("status") in STEP_ENDED and not step.again:
            raise self._already_finished(path)
        if buffer.over:
            raise Usage(
                f"Run {self._run_id} is completed, and step {shown_step(path)} is not done in it.",
                hint="Start the new work with another run_id.",
            )
        buffer.refuse_approval(path)
        known, record = record, lifecycle.start(record, buffer.now())
        if step.given is not None and code_changed(known.get("code"), step.given.record.get("code")):
            record["why"] = "its code changed"
        if step.title:
            record["title"] = step.title
        step.began = monotonic()
        buffer.start_step(path, record, [step.batch] if step.batch else ())
        self._stack().append(step)
        step._log = PythonLog(buffer, path, record["attempt"])
        step._log.enter()

    def _leave_stack(self, step: Step) -> None:
        stack = self._stack()
        if step in stack:
            stack.remove(step)
        if step._log is not None:
            step._log.leave()
            step._log = None

    def complete(self, step: Step) -> None:
        buffer, path, result, made, typed = self.buffer, step.path, step.result, None, False
        if result is not NOTHING and type(result) not in _PLAIN:
            try:
                made = Result(step.result, f"step/{path}.result")
                result, typed = made.json, made.typed
            except Invalid as error:
                if hasattr(step.result, "cr_code"):
                    step.result.close()
                    error.hint = (
                        "Pass the coroutine function itself and await it: `await run.do(name, fetch, url)`."
                    )
                self.fail(step, error, lost=step.result)
                raise
        if step.given is not None:
            self._called[path] = step.given.exact
        try:
            # No other thread's commit may show the step as complete before its own checkpoint.
            with buffer.committing:
                if step.dropped:
                    self._leave_stack(step)
                    return
                with buffer.lock:
                    before = buffer.step_or_new(path)
                    record = lifecycle.complete(before, buffer.now(), result, typed=typed)
                    if step.given is not None:
                        record.update(step.given.record)
                    if step.outputs:
                        record["outputs"] = lifecycle.merged(before.get("outputs"), step.outputs)
                    if made is not None and made.names is not None:
                        record = Checked(record, made.names, made.typed)
                    change = buffer.move_step(path, record)
                    large = buffer.step(path)
                    # In a record that was not saved piece by piece, a text may have been masked.
                    if isinstance(large, LargeRecord) and made is not None and change.stored[:1] == BLOB:
                        large.first = made.own
                buffer.commit_completed(path, record, change, monotonic() - step.began)
        except Invalid as error:
            self.fail(step, error)
            raise
        self._leave_stack(step)

    def fail(self, step: Step, error: BaseException, *, lost: Any = NOTHING) -> None:
        """End a step by an exception: Ctrl-C leaves it to be done again, any other is its failure."""
        self._leave_stack(step)
        buffer, path, now = self.buffer, step.path, self.buffer.now()
        seal: Seal | None
        if isinstance(error, Exception):
            step.pause = step.attempts.pause_after(error, step.failed + 1)
        if step.pause is None:
            self.mark_sealed(error)
        try:
            with buffer.committing:
                if step.dropped:
                    return
                if step.pause is not None:
                    about = self.describe(error, type(error).__name__)
                    record = lifecycle.retry(buffer.step_or_new(path), about)
                    seal = None
                elif isinstance(error, Exception):
                    about = self.describe(error, type(error).__name__, lost)
                    record = lifecycle.fail(buffer.step_or_new(path), now, about)
                    self._move_batch(step, partial(lifecycle.fail, now=now))
                    seal = Seal("error", path, about["message"])
                else:
                    record = lifecycle.put_back(buffer.step_or_new(path), now)
                    self._move_batch(step, lifecycle.put_back)
                    interrupted = isinstance(error, KeyboardInterrupt)
                    seal = Seal("user_interrupt" if interrupted else "session_end", path)
                buffer.fail_step(path, record, seal)
        except LeftoffError:
            if isinstance(error, LeftoffError):
                return  # the store is the reason, and the first error is raised
            raise

    def drop(self, steps: Iterable[Step]) -> None:
        """Leave behind steps that other threads still make, after Ctrl-C: they are to be done again."""
        with self.buffer.committing, self.buffer.lock:
            for step in steps:
                record = self.buffer.step(step.path)
                step.dropped = True
                if record is not None and record["status"] == "running":
                    self.buffer.move_step(step.path, lifecycle.put_back(record, self.buffer.now()))

    def _move_batch(self, step: Step, change: Callable[[Record], Record]) -> None:
        """Change the batch of an item whose loop was left: it is not running any more."""
        if step.batch is not None:
            self.buffer.move_step(step.batch, change(self.buffer.step_or_new(step.batch)))

    def add_output(self, step: str | None, path: str) -> None:
        """Add a file to the outputs of a step, which may be open."""
        found = [open_step for open_step in self._stack() if open_step.path == step]
        for open_step in found:
            if path not in open_step.outputs:
                open_step.outputs.append(path)
        if step is not None and not found:
            self.buffer.add_output(step, path)

    # -- errors

    def describe(self, error: BaseException, kind: str, lost: Any = NOTHING) -> dict[str, str]:
        """Return an error as a record has it. ``lost``: the result that cannot be recorded."""
        out = {"type": kind, "message": self.message(error)}
        # Where it was raised: the program's own lines, without leftoff's.
        own = [f for f in extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
        if own:
            out["traceback"] = self.buffer.redactor.mask("".join(format_list(own[-MOST_FRAMES:])))[:4000]
        if lost is not NOTHING:
            try:
                text = repr(lost)
            except Exception:  # of the program's own __repr__
                text = object.__repr__(lost)
            out["result"] = self.buffer.redactor.mask(text[:MOST_LOST])
        return out

    def message(self, error: BaseException) -> str:
        text = error.message if isinstance(error, LeftoffError) else str(error)
        return self.buffer.redactor.mask(text or type(error).__name__)[:2000]

    def mark_sealed(self, error: BaseException) -> None:
        self._sealed = [*self._sealed[-REMEMBERED:], error]

    def is_sealed(self, error: BaseException) -> bool:
        """Return whether a checkpoint has this error already."""
        return any(error is sealed for sealed in self._sealed)

    # -- loops that were left in the middle of an item

    def left(self, step: Step, place: Place) -> None:
        """Remember the open item of a loop that was left, until it is known whether an exception did that."""
        step.left_at = place
        self._leave_stack(step)
        with self.buffer.lock:
            self._left_open.append(step)

    def close_all(self, error: BaseException | None) -> None:
        """Leave every loop of this thread that still has an item open: the run is left."""
        self._left_open += [step for step in self._stack() if step.batch is not None]
        self.close_left_open(error)

    def close_left_open(self, error: BaseException | None = None) -> None:
        """Settle the items whose loop was left. An exception fails an item if it left the loop: the one that leaves the
        run (``error``), or the one that is being handled."""
        if not self._left_open:
            return
        with self.buffer.lock:
            left, self._left_open = self._left_open, []
        for step in left if self.buffer.driving else ():
            record = self.buffer.step(step.path)
            if record is None or record["status"] != "running":
                continue
            why = error if step.left_at is None else error or sys.exc_info()[1]
            if why is not None and (step.left_at is None or _passed(why, step.left_at)):
                self.fail(step, why)
                continue
            self._leave_stack(step)
            self.buffer.move_step(step.path, lifecycle.forget(record))
            self._move_batch(step, lifecycle.put_back)


def _passed(error: BaseException, place: Place) -> bool:
    """Return whether an exception passed a place: then it was raised or called there."""
    trace = error.__traceback__
    while trace is not None:
        if (trace.tb_frame.f_code, trace.tb_lasti) == place:
            return True
        trace = trace.tb_next
    return False


# -- the log of a step: the lines that Python code logs inside it. ``leftoff logs`` shows them.
#
# A factory of log records sees every record that the program's loggers and levels let through. It is not a handler: the
# program's handlers, ``basicConfig`` and stderr stay as they are. A context variable says which step a line belongs to,
# so that threads of ``map`` and tasks of asyncio have their own. A thread that a step's code started has no context;
# its lines belong to the innermost open step, if there is exactly one. A line is masked and written at once, so that it
# survives a kill.


class PythonLog:
    """The log of an attempt at a step. The file is made with the first line."""

    __slots__ = ("_before", "_file", "buffer", "number", "path")

    def __init__(self, buffer: RunBuffer, path: str, number: int) -> None:
        self.buffer = buffer
        self.path = path
        self.number = number
        self._before: PythonLog | None = None
        self._file: int | None = None

    def enter(self) -> None:
        """Take the lines that are logged from now on."""
        factory = logging.getLogRecordFactory()
        if type(factory) is not _Factory:  # the first time, or the program has replaced it
            logging.setLogRecordFactory(_Factory(factory))
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

    def write(self, text: str) -> None:
        """Add lines. The work does not fail if they cannot be written."""
        line = self.buffer.redactor.mask(text) + "\n"
        with _lock:
            try:
                if self._file is None:
                    self._file = self._make()
                os.write(self._file, line.encode("utf-8", "backslashreplace"))
            except OSError:
                pass

    def _make(self) -> int:
        from leftoff.engine.attempt_logs import python_log

        file = python_log(self.buffer.store, self.buffer.run_id, self.path, self.number)
        os.makedirs(os.path.dirname(file), 0o700, exist_ok=True)
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


_current: ContextVar[PythonLog | None] = ContextVar("leftoff_step", default=None)
_open: dict[int, PythonLog] = {}
_lock = threading.RLock()  # reentrant: a signal handler may log, too


def log_now() -> PythonLog | None:
    """Return the log of the step that the caller is part of. In an unknown thread that is the innermost open step, if
    no two of them are parallel."""
    known = _current.get()
    if known is not None:
        return known
    # A run that was paused may have left its step open.
    logs = sorted((log for log in list(_open.values()) if log.buffer.driving), key=lambda log: len(log.path))
    nested = all(inner.path.startswith(f"{outer.path}/") for outer, inner in pairwise(logs))
    return logs[-1] if logs and nested else None


# `2026-01-02T03:04:05Z INFO name: message`, then the traceback, if there is one.
_lines = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%SZ")
_lines.converter = time.gmtime


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
