"""The steps of a driven run: contexts, loops (``each``) and parallel calls (``map``).

A finished step does not run again unless the program asks for it. Entering a step commits that it is running, so that a
reader sees after a crash what was in flight. Leaving it commits everything that was buffered meanwhile, and seals a
checkpoint.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from opcode import opname
from time import monotonic
from traceback import extract_tb, format_list
from types import CodeType, FrameType
from typing import Any, Generic, TypeVar

from leftoff.api.arguments import Given, content, other_arguments
from leftoff.api.arguments import given as arguments_of
from leftoff.api.run_buffer import Entry, Record, RunBuffer
from leftoff.api.step_log import StepLog, listen, logger
from leftoff.api.values import decode, encode
from leftoff.engine.steps import lifecycle
from leftoff.engine.write.commit import Seal
from leftoff.errors import Invalid, LeftoffError, StepDone
from leftoff.model.changes import NOTHING
from leftoff.model.frozen import freeze_holed, thaw
from leftoff.model.ids import check_step, quote_part, shown_step, step_readings
from leftoff.model.words import EACH, STEP_ENDED

T = TypeVar("T")
Item = tuple[T, str, Given | None]  # an item, the path of its step, and its content

DECLARED_AT_ONCE = 500  # items of a batch that are declared in one commit
MOST_FRAMES = 20  # of a traceback that is stored
MOST_LOST = 100_000  # characters of a result that cannot be recorded
REMEMBERED = 32  # errors that are known to have been sealed
SHOWN = 5  # failed items that a summary names
BROKE, RAISED, UNCLEAR = "broke", "raised", "unclear"  # how a loop was left
_PLAIN = (str, int, bool, type(None))  # results that are recorded as they are
_OURS = __file__.rpartition("api")[0]  # the folder of leftoff's own code


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
        self._log: StepLog | None = None

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
        self._buffer = buffer
        self._run_id = buffer.run_id
        self._open = threading.local()
        self._left_open: list[tuple[Step, str]] = []
        self._sealed: list[BaseException] = []
        self.left_undone: str | None = None  # the failures that `map` continued in spite of
        # The arguments of the steps that this process did, or took as they were recorded, by path.
        self._called: dict[str, str] = {}

    # -- reading

    def all(self) -> Mapping[str, Any]:
        """Return the steps by path in their declared order."""
        self.close_left_open(None)
        with self._buffer.lock:
            there = self._buffer.step_records()
            ranked = sorted(there, key=partial(_rank, there))
            return {path: freeze_holed(*there[path], f"step/{path}") for path in ranked}

    def done(self, path: str) -> bool:
        found = self._named(path)
        return found is not None and found[0]["status"] in STEP_ENDED

    def finished(self, path: str, given: Given | None, batch: str | None = None) -> bool:
        """Return whether a step is finished. Raise an error if it was done with other arguments than ``given``."""
        found = self._named(path)
        if found is None or found[0]["status"] not in STEP_ENDED:
            return False
        record, called = found[0], self._called.get(path)
        if given is not None and record["status"] == "completed" and "digest" in record:
            if record["digest"] != given.record["digest"] or called not in (None, given.exact):
                raise other_arguments(path, record, given, batch, self._run_id if called is None else None)
            self._called[path] = given.exact
        return True

    def _named(self, path: str) -> Entry | None:
        """Return the step of that path, or of that name as people read it."""
        with self._buffer.lock:
            known = self._buffer.step_records()
            found = known.get(path)
            if found is None and ("[" in path or "\\" in path):
                found = next(filter(None, map(known.get, step_readings(path))), None)
            return found

    def result(self, path: str) -> Any:
        """Return a copy of what a finished step returned."""
        found = self._named(path)
        if found is None or "result" not in found[0]:
            return None
        kept = found[0]["result"]
        if type(kept) in _PLAIN and not found[1]:
            return kept
        where = f"the result of step {path}"
        holes = [p[1:] for p in found[1] if p and p[0] == "result"]
        if holes:
            kept = freeze_holed(kept, holes, where)
        if not found[0].get("typed"):
            return kept if holes else thaw(kept)
        return decode(kept, where)

    def current(self) -> str | None:
        """Return the innermost open step of this thread."""
        stack = self._stack()
        return stack[-1].path if stack else None

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
        self.close_left_open(None)
        buffer, path = self._buffer, step.path
        record = buffer.step_or_new(path)
        if record.get("status") in STEP_ENDED and not step.again:
            raise self._already_finished(path)
        buffer.refuse_approval(path)
        record = lifecycle.start(record, buffer.now())
        if step.title:
            record["title"] = step.title
        step.began = monotonic()
        buffer.start_step(path, record, [step.batch] if step.batch else ())
        self._stack().append(step)
        listen()
        step._log = StepLog(buffer, path, record["attempt"])
        step._log.enter()

    def _leave_stack(self, step: Step) -> None:
        stack = self._stack()
        if step in stack:
            stack.remove(step)
        if step._log is not None:
            step._log.leave()
            step._log = None

    def complete(self, step: Step) -> None:
        buffer, path, result, typed = self._buffer, step.path, step.result, False
        if result is not NOTHING and type(result) not in _PLAIN:
            try:
                result = encode(step.result, f"step/{path}.result")
            except Invalid as error:
                self.fail(step, error, lost=step.result)
                raise
            typed = result is not step.result
        if step.given is not None:
            self._called[path] = step.given.exact
        try:
            # No other thread's commit may show the step as complete before its own checkpoint.
            with buffer.committing:
                with buffer.lock:
                    before = buffer.step_or_new(path)
                    record = lifecycle.complete(before, buffer.now(), result, typed=typed)
                    if step.given is not None:
                        record.update(step.given.record)
                    if step.outputs:
                        record["outputs"] = lifecycle.merged(before.get("outputs"), step.outputs)
                    change = buffer.move_step(path, record)
                buffer.commit_completed(path, record, change, monotonic() - step.began)
        except Invalid as error:
            self.fail(step, error)
            raise
        self._leave_stack(step)

    def fail(self, step: Step, error: BaseException, *, lost: Any = NOTHING) -> None:
        """End a step by an exception: Ctrl-C leaves it to be done again, any other is its failure."""
        self._leave_stack(step)
        self.mark_sealed(error)
        buffer, path, now = self._buffer, step.path, self._buffer.now()
        try:
            with buffer.committing:
                if isinstance(error, Exception):
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

    def _move_batch(self, step: Step, change: Callable[[Record], Record]) -> None:
        """Change the batch of an item whose loop was left: it is not running any more."""
        if step.batch is not None:
            self._buffer.move_step(step.batch, change(self._buffer.step_or_new(step.batch)))

    def add_output(self, step: str | None, path: str) -> None:
        """Add a file to the outputs of a step, which may be open."""
        found = [open_step for open_step in self._stack() if open_step.path == step]
        for open_step in found:
            if path not in open_step.outputs:
                open_step.outputs.append(path)
        if step is not None and not found:
            self._buffer.add_output(step, path)

    # -- errors

    def describe(self, error: BaseException, kind: str, lost: Any = NOTHING) -> dict[str, str]:
        """Return an error as a record has it. ``lost``: the result that cannot be recorded."""
        out = {"type": kind, "message": self.message(error), **self._trace(error)}
        if lost is not NOTHING:
            try:
                text = repr(lost)
            except Exception:  # of the program's own __repr__
                text = object.__repr__(lost)
            out["result"] = self._buffer.redactor.mask(text[:MOST_LOST])
        return out

    def message(self, error: BaseException) -> str:
        text = error.message if isinstance(error, LeftoffError) else str(error)
        return self._buffer.redactor.mask(text or type(error).__name__)[:2000]

    def _trace(self, error: BaseException) -> dict[str, str]:
        """Return where it was raised: the program's own lines, without leftoff's."""
        own = [f for f in extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
        text = "".join(format_list(own[-MOST_FRAMES:]))
        return {"traceback": self._buffer.redactor.mask(text)[:4000]} if text else {}

    def mark_sealed(self, error: BaseException) -> None:
        self._sealed = [*self._sealed[-REMEMBERED:], error]

    def is_sealed(self, error: BaseException) -> bool:
        """Return whether a checkpoint has this error already."""
        return any(error is sealed for sealed in self._sealed)

    # -- loops that were left in the middle of an item

    def left(self, step: Step, how: str) -> None:
        """Settle the open item of a loop that was left, or remember it until the error is known."""
        if not self._buffer.driving or (self._buffer.step(step.path) or {}).get("status") != "running":
            return
        self._leave_stack(step)
        if how == BROKE:
            self._put_back(step)
        else:
            with self._buffer.lock:
                self._left_open.append((step, how))

    def _put_back(self, step: Step) -> None:
        self._leave_stack(step)
        self._buffer.move_step(step.path, lifecycle.forget(self._buffer.step_or_new(step.path)))
        self._move_batch(step, lifecycle.put_back)

    def close_all(self, error: BaseException | None) -> None:
        """Leave every loop of this thread that still has an item open: the run is left."""
        self._left_open += [(step, UNCLEAR) for step in self._stack() if step.batch is not None]
        self.close_left_open(error)

    def close_left_open(self, error: BaseException | None) -> None:
        """Settle the items whose loop was left, now that the error is known or can no longer be."""
        if not self._left_open:
            return
        with self._buffer.lock:
            left, self._left_open = self._left_open, []
        for step, how in left:
            if error is not None:
                self.fail(step, error)
            elif how == RAISED:
                self.fail(step, sys.exc_info()[1] or Exception("An exception, caught outside the loop."))
            else:
                self._put_back(step)

    # -- items of a batch

    def items(
        self, path: str, items: Iterable[T], key: Any, again: bool, fn: Any = None
    ) -> Iterable[Item[T]]:
        """Return each item with the path of its step. A list of items is declared up front, to show the progress.

        ``fn``: the function that is called with the items.
        """
        redactor = self._buffer.redactor
        taken: set[str] = set()

        def name(item: T) -> str:
            below = free_path(path, _item_key(item, key), taken)
            taken.add(below)
            return below

        def given(item: T) -> Given | None:
            """Return the content of an item. An item without a key is known by its name alone."""
            if isinstance(fn, partial):
                return arguments_of(fn, (item,), {}, redactor)
            return content(item, redactor) if key is not None else None

        if not isinstance(items, (list, tuple, dict, set, frozenset, range)):
            return ((item, name(item), given(item)) for item in items)
        found = [(item, check_step(name(item)), given(item)) for item in items]
        if not again:
            for _, below, now in found:
                self.finished(below, now, path)
        new = [below for _, below, _ in found if self._buffer.step(below) is None]
        if new and self._buffer.step(path) is None:
            self._declare(path, {EACH: True})
        for start in range(0, len(new), DECLARED_AT_ONCE):
            some = new[start : start + DECLARED_AT_ONCE]
            for below in some:
                self._declare(below)
            self._buffer.commit(None, only=[path, *some])
        return found

    def _declare(self, path: str, known: Record | None = None) -> None:
        with self._buffer.lock:
            order = self._buffer.step_or_new(path)["order"]
            self._buffer.move_step(path, lifecycle.declare(order, known))

    def enter_item(self, path: str, batch: str, given: Given | None) -> Step:
        """Enter the step of an item, and its batch if that is not running yet."""
        record = self._buffer.step_or_new(batch)
        if record.get("status") != "running":
            self._buffer.move_step(batch, lifecycle.enter({**record, EACH: True}, self._buffer.now()))
        step = Step(self, path, batch=batch, again=True, given=given)  # the loop has asked already
        self.enter(step)
        return step

    def complete_batch(self, path: str, *, ran: bool) -> None:
        """Complete a batch whose items are all finished. Nothing is written if it was complete before."""
        record = self._buffer.step_or_new(path)
        if ran or record.get("status") != "completed":
            self._buffer.move_step(path, lifecycle.complete(record, self._buffer.now()))
            self._buffer.commit(Seal("step_complete", path))


def _rank(there: dict[str, Entry], path: str) -> list[tuple[int, str]]:
    """Return the sort key of a step: the order of each part of its path."""
    out, at = [], -1
    while True:
        at = path.find("/", at + 1)
        part = path if at < 0 else path[:at]
        order = there[part][0].get("order") if part in there else None
        out.append((order if isinstance(order, int) else 1 << 40, part))
        if at < 0:
            return out


def free_path(batch: str, key: str, taken: Container[str]) -> str:
    """Return the path of an item's step. The second item of a name gets a number."""
    base = f"{batch}/{quote_part(key)}"
    path, number = base, 2
    while path in taken:
        path, number = f"{base}#{number}", number + 1
    return path


def _item_key(item: Any, key: Any) -> str:
    """Return the name of an item: the item itself, its field, or what ``key`` returns for it."""
    if callable(key):
        name = key(item)
    elif isinstance(key, str):
        name = item.get(key) if isinstance(item, Mapping) else getattr(item, key, None)
        if name is None:
            raise Invalid(f"An item of type {type(item).__name__} has no {key!r} to be named by.")
    elif isinstance(item, str):
        name = item
    elif isinstance(item, (int, float)) and not isinstance(item, bool):
        name = repr(item)
    elif hasattr(item, "__fspath__"):
        name = item.__fspath__()
    else:
        raise Invalid(
            f"An item of type {type(item).__name__} has no name of its own.",
            hint='Say what names it: run.each(step, items, key="id"), or key=lambda item: …',
        )
    if not isinstance(name, (str, int)) or name == "":
        raise Invalid(f"{name!r} cannot name an item.", hint="key= must give text that is not empty.")
    return str(name)


# -- run.each
#
# Asking for the next item completes the one before. A loop that is left does not say why, and the two reasons must not
# be confused: `break` leaves the item to be done, an exception fails it, also if it is caught outside of the loop. So
# when the iterator is released, `how_left` looks at the instruction that the loop's frame is at: `break` and `return`
# pop the iterator, an exception strikes somewhere else. If that is unclear, the end of the run's `with` block decides.

# The instructions at which a frame releases an iterator in the ordinary course of a program.
_ORDINARY = ("POP_TOP", "POP_ITER", "END_FOR", "FOR_ITER", "RETURN_VALUE", "RETURN_CONST", "SWAP")
_ORDINARY_STARTS = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "DELETE_")
_GENERATOR = 0x20  # among the flags of a code object


def loops_of(frame: FrameType | None) -> list[tuple[int, CodeType]]:
    """Return the frame that asks for an item and, if that is a generator, the frame that asks it, and so on.

    By identity: a reference to a frame would keep everything in it alive. An address may be reused, so the code too.
    """
    out = []
    while frame is not None:
        out.append((id(frame), frame.f_code))
        frame = frame.f_back if frame.f_code.co_flags & _GENERATOR else None
    return out


def how_left(frame: FrameType | None, loops: list[tuple[int, CodeType]]) -> str:
    """Return whether an iterator that a frame releases right now was left by ``break`` or by an exception."""
    if frame is None or frame.f_lasti < 0:
        return UNCLEAR
    name = opname[frame.f_code.co_code[frame.f_lasti]]
    # An exception that was caught is released, and with it the frames it went through.
    if name == "POP_EXCEPT":
        return RAISED
    if (id(frame), frame.f_code) not in loops:
        return UNCLEAR
    return BROKE if name in _ORDINARY or name.startswith(_ORDINARY_STARTS) else RAISED


class Each(Iterator[T], Generic[T]):
    """The items of a batch that are not finished, each a step below the batch's own."""

    def __init__(self, steps: RunSteps, path: str, items: Iterator[Item[T]], again: bool) -> None:
        self._steps = steps
        self._path = path
        self._items = items
        self._again = again
        self._ran = False
        self._step: Step | None = None
        self._loops: list[tuple[int, CodeType]] = []

    def __iter__(self) -> Each[T]:
        return self

    def __next__(self) -> T:
        done, self._step = self._step, None
        if done is not None:
            self._steps.complete(done)
        for item, below, given in self._items:
            if self._again or not self._steps.finished(below, given, self._path):
                self._step, self._ran = self._steps.enter_item(below, self._path, given), True
                self._loops = loops_of(sys._getframe(1))
                return item
        self._steps.complete_batch(self._path, ran=self._ran)
        self._ran = False
        raise StopIteration

    def close(self) -> None:
        """Leave the loop as ``break`` does."""
        step, self._step = self._step, None
        if step is not None:
            self._steps.left(step, BROKE)

    def __del__(self) -> None:
        step, self._step = getattr(self, "_step", None), None
        if step is None:
            return
        try:
            self._steps.left(step, how_left(sys._getframe().f_back, self._loops))
        except LeftoffError:
            pass  # an error here reaches no caller; the next commit raises it


# -- run.map


class Results(list[Any]):
    """What a function returned for each item, in the order of the items; ``None`` where it failed.

    ``failures``: by the item's key, the exception.
    """

    def __init__(self, number: int) -> None:
        super().__init__([None] * number)
        self.failures: dict[str, Exception] = {}


class _ItemsFailed(Exception):
    """Ends the step of a map some of whose items failed."""


class ItemMap:
    """One call of ``run.map``: a function over many items, a step each, several in parallel."""

    def __init__(
        self, steps: RunSteps, path: str, items: list[Item[Any]], *, keep_going: bool, again: bool
    ) -> None:
        self._steps, self._path, self._items = steps, path, items
        self._keep_going = keep_going
        self._again = again
        self._todo: list[int] = []
        self._results = Results(len(items))
        self._stopped = False

    def run(self, fn: Callable[[Any], Any], max_parallel: int) -> Results:
        with self._whole():
            if max_parallel <= 1:
                for number in self._todo:
                    self._one(fn, number)
            elif self._todo:
                from concurrent.futures import ThreadPoolExecutor

                with ThreadPoolExecutor(max_parallel, thread_name_prefix="leftoff-map") as pool:
                    waiting = [pool.submit(self._one, fn, number) for number in self._todo]
                    try:
                        for each in waiting:
                            each.result()
                    except BaseException:
                        self._stopped = True
                        pool.shutdown(wait=True, cancel_futures=True)
                        raise
        return self._close()

    async def run_async(self, fn: Callable[[Any], Coroutine[Any, Any, Any]], max_parallel: int) -> Results:
        import asyncio

        free = asyncio.Semaphore(max(1, max_parallel))
        with self._whole():
            await asyncio.gather(*(self._one_async(fn, number, free) for number in self._todo))
        return self._close()

    def _one(self, fn: Callable[[Any], Any], number: int) -> None:
        with self._item(number) as step:
            if step is not None:
                step.result = fn(self._items[number][0])

    async def _one_async(self, fn: Callable[[Any], Any], number: int, free: Any) -> None:
        async with free:
            with self._item(number) as step:
                if step is not None:
                    step.result = await fn(self._items[number][0])

    @contextmanager
    def _item(self, number: int) -> Iterator[Step | None]:
        """Enter the step of an item, unless another item has failed. Note its failure."""
        if self._stopped:
            yield None
            return
        _, below, given = self._items[number]
        try:
            with Step(self._steps, below, again=True, given=given) as step:
                yield step
        except Exception as error:
            if isinstance(error, LeftoffError) and not self._steps._buffer.driving:
                raise  # this process lost the run
            self._results.failures[below.removeprefix(f"{self._path}/")] = error
            self._stopped = not self._keep_going

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Enter the step that the items belong to, if any is left to do. It fails if one of them does."""
        self._todo = [
            n for n, (_, below, _) in enumerate(self._items) if self._again or not self._steps.done(below)
        ]
        if not self._todo:
            yield
            return
        failures = self._results.failures
        try:
            with Step(self._steps, self._path, again=True):
                yield
                if failures:
                    raise _ItemsFailed(f"{len(failures)} of {len(self._items)} items failed")
        except _ItemsFailed:
            names = ", ".join([*failures][:SHOWN])
            more = f" and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
            text = f"{len(failures)} of {len(self._items)} items of {self._path} failed: {names}{more}."
            self._steps.left_undone = text
            print(f"leftoff: {text} Start it again to retry those.", file=sys.stderr)

    def _close(self) -> Results:
        """Return the results of all items. Raise the first failure, unless the map keeps going."""
        for number, (_, below, _) in enumerate(self._items):
            if self._steps.done(below):
                self._results[number] = self._steps.result(below)
        if self._results.failures and not self._keep_going:
            raise next(iter(self._results.failures.values()))
        return self._results
