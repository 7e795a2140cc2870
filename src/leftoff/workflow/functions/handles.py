"""``defer``: a call that is under way while the workflow goes on, in a thread or in a task.

Its identity is taken when it is deferred. A failure reaches the workflow when somebody asks for the result; a workflow
does not end before what it deferred, and an error that nobody has looked at is its own.
"""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from leftoff.errors import StepFailed, Usage
from leftoff.workflow.functions.call import LATER, MISSING, place
from leftoff.workflow.functions.crews import start

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from leftoff.workflow.functions.call import Call
    from leftoff.workflow.functions.callables import Durable
    from leftoff.workflow.functions.scope import Scope

R = TypeVar("R")


class Handle(Generic[R]):
    """What ``defer`` gives: a call that is under way. ``result()`` waits for it."""

    __slots__ = ("_call", "_done", "_error", "_seen", "_value")

    def __init__(self, call: Call | None) -> None:
        self._call = call
        self._done = Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self._seen = False

    def make(self, work: Callable[[], Any]) -> None:
        """Make the call, in the thread that this is called from."""
        try:
            value = work()
        except BaseException as error:
            self.settle(None, error)
        else:
            self.settle(value, None)

    def settle(self, value: Any, error: BaseException | None) -> None:
        self._value, self._error = value, error
        self._done.set()

    def drop(self) -> None:
        """It is not begun any more."""
        self._error, self._seen = Usage(f"{self!r} was not begun: the workflow failed before."), True
        self._done.set()

    def check(self) -> None:
        """Raise an error that nobody has looked at."""
        if self._error is not None and not self._seen:
            self.result()

    def done(self) -> bool:
        """Whether it has ended, either way."""
        return self._done.is_set()

    def cancel(self) -> None:
        """A thread cannot be stopped."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; whether it came in time."""
        return self._done.wait(timeout)

    def result(self, timeout: float | None = None) -> R:
        """What the call returned; raises what it raised. ``TimeoutError`` where that takes longer than ``timeout``."""
        if not self.wait(timeout):
            raise TimeoutError(f"{self!r} is not done yet")
        if self._error is not None:
            if self._call is not None and not self._seen:
                self._call.reached()
            self._seen = True
            raise self._error
        self._seen = True
        return cast(R, self._value)

    def __repr__(self) -> str:
        state = "under way" if not self.done() else "done" if self._error is None else "failed"
        return f"<deferred {self._call.path if self._call else 'call'}, {state}>"


def defer_to_thread(
    function: Durable, scope: Scope | None, args: tuple[Any, ...], named: dict[str, Any]
) -> Handle[Any]:
    """Outside a workflow: the plain function, in a thread."""
    if scope is None:
        handle: Handle[Any] = Handle(None)
        start(lambda: handle.make(lambda: function.plain(*args, **named)), f"leftoff {function.name}")
        return handle
    call = place(function, scope, args, named)
    call.reaches = LATER
    handle = Handle(call)
    if _settled(handle, call):
        scope.adopt(handle)
    else:
        scope.defer(handle, lambda: function.make(call))
    return handle


def _settled(handle: Handle[Any], call: Call) -> bool:
    """Whether it was recorded; that is looked at here, in the workflow's own thread."""
    try:
        found = call.recorded()
    except StepFailed as error:
        handle.settle(None, error)
        return True
    if found is MISSING:
        return False
    handle.settle(found, None)
    return True


class TaskHandle(Generic[R]):
    """What ``defer`` of a coroutine function gives: await it for the result."""

    __slots__ = ("_call", "_seen", "task")

    def __init__(self, call: Call | None, task: Any) -> None:
        self._call = call
        self._seen = False
        self.task = task

    def __await__(self) -> Generator[Any, None, R]:
        try:
            value = yield from self.task.__await__()
        except Exception:
            self._look()
            raise
        return cast(R, value)

    def result(self) -> R:
        """What the call returned, once it is done; raises what it raised."""
        try:
            return cast(R, self.task.result())
        except Exception:
            self._look()
            raise

    def _look(self) -> None:
        if self._call is not None and not self._seen and self.task.done() and self._call.scope.own():
            self._call.reached()
        self._seen = True

    def done(self) -> bool:
        """Whether it has ended, either way."""
        return bool(self.task.done())

    def cancel(self) -> bool:
        """Ask it to end."""
        return bool(self.task.cancel())

    def wait(self) -> None:
        """Nothing to wait for: whoever closes the scope has awaited the task."""

    def check(self) -> None:
        """Raise an error that nobody has looked at."""
        if not self._seen and self.task.done() and not self.task.cancelled():
            self.result()

    def __repr__(self) -> str:
        state = "done" if self.done() else "under way"
        return f"<deferred {self._call.path if self._call else 'call'}, {state}>"


def defer_to_task(
    function: Durable, scope: Scope | None, args: tuple[Any, ...], named: dict[str, Any]
) -> TaskHandle[Any]:
    """Outside a workflow: the plain function, in a task."""
    from asyncio import ensure_future

    if scope is None:
        return TaskHandle(None, ensure_future(function.plain(*args, **named)))
    call = place(function, scope, args, named)
    call.reaches = LATER
    handle: TaskHandle[Any] = TaskHandle(call, ensure_future(function.make(call)))
    scope.adopt(handle)
    return handle
