"""How a step's function is called: the attempts it has, time limits, several calls at a time, and its code.

A plain function with a timeout runs in a thread of its own. Python cannot stop a thread: when time is up the step has
failed, and the function continues in the background until it returns. Its return value is ignored then.

The threads are daemons, so that a function that hangs does not keep a program from ending. Ctrl-C leaves them behind,
and what they return is not recorded any more.
"""

from __future__ import annotations

import sys
import time
from _thread import allocate_lock
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from threading import Event, Thread
from types import CodeType
from typing import TYPE_CHECKING, Any

from leftoff.errors import LeftoffError, StepTimeout, Usage
from leftoff.model.codec import sha256
from leftoff.workflow.durations import Retries, duration_text, seconds

if TYPE_CHECKING:
    from leftoff.python.run_steps import Step

_COROUTINE = 0x80  # among the flags of a code object
_RETRIES = "retries=3, or retries={'max': 3, 'backoff': '2s', 'factor': 2, 'jitter': True}"
WARN, RERUN, IGNORE = "warn", "rerun", "ignore"
ATTEMPTS = ("retries", "retry_on", "timeout", "on_code_change")


# -- the options


def duration(value: Any, what: str) -> float:
    """Return the seconds that a number or a text like ``10m`` means."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    problem = f"{what}={value!r} is not a duration"
    if isinstance(value, str):
        try:
            return seconds(value)
        except ValueError as error:
            problem = f"{what}: {error}"
    raise Usage(f"{problem}.", hint=f"{what}='10m', '1h30m', '500ms', or seconds.")


def retry_policy(value: Any) -> Retries:
    if isinstance(value, Retries):
        return value
    given = value if isinstance(value, dict) else {"max": value}
    unknown = [word for word in given if word not in Retries._fields]
    if unknown:
        raise Usage(f"retries has no {unknown[0]!r}.", hint=_RETRIES)
    most, factor = given.get("max", 0), given.get("factor", 2.0)
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        raise Usage(f"retries={most!r} is not a number of retries.", hint=_RETRIES)
    if not isinstance(factor, (int, float)) or isinstance(factor, bool) or factor < 1:
        raise Usage(f"retries: the factor {factor!r} must be a number of 1 or more.", hint=_RETRIES)
    backoff = duration(given.get("backoff", 1.0), "backoff")
    return Retries(most, backoff, float(factor), bool(given.get("jitter", True)))


class Attempts:
    """The options of a step that say how its function is attempted, checked."""

    __slots__ = ATTEMPTS

    def __init__(
        self,
        name: str,
        *,
        retries: Any = 0,
        retry_on: Any = Exception,
        timeout: Any = None,
        on_code_change: str = WARN,
    ) -> None:
        self.retries = retry_policy(retries)
        self.retry_on: type[Exception] | tuple[type[Exception], ...] = retry_on
        self.timeout = None if timeout is None else duration(timeout, "timeout")
        self.on_code_change = on_code_change
        if self.timeout == 0:
            raise Usage(f"{name}: a timeout of nothing leaves no time at all.", hint="timeout='10m'")
        classes = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        if not all(isinstance(cls, type) and issubclass(cls, Exception) for cls in classes):
            raise Usage(
                f"retry_on={retry_on!r} is not an exception class, or a tuple of them.",
                hint="retry_on=(ConnectionError, TimeoutError)",
            )
        if on_code_change not in (WARN, RERUN, IGNORE):
            raise Usage(f"on_code_change={on_code_change!r} is unknown.", hint='"warn", "rerun" or "ignore"')

    def pause_after(self, error: Exception, failed: int) -> float | None:
        """Return the seconds until the next attempt after so many failures, or ``None`` if there is none."""
        # Another attempt would change nothing after most of leftoff's own errors.
        final = isinstance(error, LeftoffError) and not (error.retry or isinstance(error, StepTimeout))
        if failed > self.retries.max or final or not isinstance(error, self.retry_on):
            return None
        return self.retries.pause(failed)


ONCE = Attempts("")


def check_size(size: object) -> int:
    """Return a number of parallel calls, or raise ``Usage``."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise Usage(f"max_parallel={size!r} must be a number of 1 or more.", hint="max_parallel=8")
    return size


# -- the code of a function

_codes: dict[CodeType, str] = {}
_MOST_CODES = 4096


def _plain(function: Any) -> Any:
    """Return the function that a partial object, a method or an object with ``__call__`` calls."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    return function if hasattr(function, "__code__") else type(function).__call__


def is_coroutine_function(function: Any) -> bool:
    """Return whether calling a function gives a coroutine."""
    return bool(getattr(getattr(_plain(function), "__code__", None), "co_flags", 0) & _COROUTINE)


def code_digest(function: Any) -> str | None:
    """Return a digest of a function's code. ``None`` for functions written in C.

    It is taken from the code that this process executes, not from its file, which may have been edited since. So
    comments and formatting do not count. Another version of Python compiles to other code: its name is in the digest,
    and such digests are not compared.
    """
    plain = _plain(function)
    code = getattr(getattr(plain, "__wrapped__", plain), "__code__", None)
    if code is None:
        return None
    found = _codes.get(code)
    if found is None:
        if len(_codes) >= _MOST_CODES:
            _codes.clear()
        digest = sha256(repr(_constant(code)).encode("utf-8", "backslashreplace")).hexdigest()
        found = _codes[code] = f"{sys.implementation.cache_tag}-{sys.flags.optimize}:{digest[:16]}"
    return found


def _constant(value: Any) -> Any:
    """Return what the representation of a constant of a code object is made of: the same in each process."""
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, [_constant(each) for each in value.co_consts]
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    return [_constant(each) for each in value] if isinstance(value, tuple) else value


def code_changed(before: object, now: str | None) -> bool:
    """Return whether two digests of the same version of Python differ."""
    if not isinstance(before, str) or now is None:
        return False
    return before != now and before.partition(":")[0] == now.partition(":")[0]


# -- one call
#
# A call of a plain function and one of a coroutine function take the same course, which is written as a coroutine. For
# a plain function it never waits, so that `plainly` runs it to its end.


def plainly(course: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that awaits nothing that waits."""
    try:
        course.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a plain function cannot wait")


async def call_once(work: Callable[[], Any], path: str, timeout: float | None, *, is_async: bool) -> Any:
    """Call a function, or await the coroutine that it gives, within the time that it has."""
    if timeout is None:
        return await work() if is_async else work()
    if not is_async:
        return _timed(work, path, timeout)
    import asyncio

    try:
        async with asyncio.timeout(timeout) as limit:
            return await work()
    except TimeoutError:
        if limit.expired():
            raise _out_of_time(path, timeout) from None
        raise


def _timed(work: Callable[[], Any], path: str, timeout: float) -> Any:
    """Call a function in a thread of its own, which is left alone once the time is up."""
    done = Event()
    ended: list[tuple[Any, BaseException | None]] = []

    def make() -> None:
        try:
            ended.append((work(), None))
        except BaseException as error:
            ended.append((None, error))
        done.set()

    start_thread(make, f"leftoff {path}")
    if not done.wait(timeout):
        raise _out_of_time(path, timeout, " Its function may still be running in the background.")
    value, error = ended[0]
    if error is not None:
        raise error
    return value


def _out_of_time(path: str, timeout: float, more: str = "") -> StepTimeout:
    return StepTimeout(f"Step {path} was not done within {duration_text(timeout)}.{more}")


async def pause(length: float, *, is_async: bool) -> None:
    """Wait between two attempts."""
    if not is_async:
        time.sleep(length)
        return
    from asyncio import sleep

    await sleep(length)


async def make_step(
    enter: Callable[[], Step], work: Callable[[], Any], attempts: Attempts, *, is_async: bool
) -> None:
    """Call a function as a step until it succeeds or has no attempt left. ``enter`` makes the step of an attempt."""
    failed = 0
    while True:
        step = enter()
        step.attempts, step.failed = attempts, failed
        try:
            with step:
                step.result = await call_once(work, step.path, attempts.timeout, is_async=is_async)
            return
        except Exception:
            if step.pause is None:
                raise
            await pause(step.pause, is_async=is_async)
            if step.dropped:
                raise
        failed += 1


# -- many calls


def start_thread(work: Callable[[], None], name: str) -> Thread:
    """Start a thread that sees the context variables of its maker."""
    thread = Thread(target=copy_context().run, args=(work,), name=name, daemon=True)
    thread.start()
    return thread


def in_threads(work: Any, todo: list[int], size: int) -> None:
    """Make calls in ``size`` threads: the ``results`` of ``work.make(index)``, until the work is ``stopped``.

    After an error nothing new is begun. What runs continues to its end, then the error of the first call is raised.
    """
    wanted, errors, lock = iter(todo), dict[int, BaseException](), allocate_lock()

    def one_after_another() -> None:
        while True:
            with lock:
                index = None if errors or work.stopped else next(wanted, None)
            if index is None:
                return
            try:
                work.results[index] = work.make(index)
            except BaseException as error:
                errors[index] = error

    threads = [start_thread(one_after_another, f"leftoff {work.name}") for _ in range(min(size, len(todo)))]
    try:
        for thread in threads:
            thread.join()
    finally:
        wanted = iter(())  # after Ctrl-C nothing new is begun
    if errors:
        raise errors[min(errors)]


async def in_tasks(work: Any, todo: list[int], size: int) -> None:
    """Do with tasks what `in_threads` does with threads."""
    import asyncio

    wanted, errors = iter(todo), dict[int, Exception]()

    async def one_after_another() -> None:
        while not errors and not work.stopped and (index := next(wanted, None)) is not None:
            try:
                work.results[index] = await work.make(index)
            except Exception as error:
                errors[index] = error

    await asyncio.gather(*(one_after_another() for _ in range(min(size, len(todo)))))
    if errors:
        raise errors[min(errors)]
