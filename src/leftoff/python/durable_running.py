"""Calls of durable functions being made: one, many (``map``), or in the background (``defer``).

A `Call` makes all decisions; the functions here call the user's function and wait, in a thread or in a coroutine
(`leftoff.python.calls`).
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from leftoff.errors import StepFailed, Usage
from leftoff.model.ids import ancestors
from leftoff.python.arguments import argument_key
from leftoff.python.calls import call_once, in_tasks, in_threads, pause, plainly, start_thread
from leftoff.python.durable_calls import LATER, MISSING, NEVER, Call, place_call
from leftoff.python.durable_runs import RUN_OPTIONS as RUN_OPTIONS
from leftoff.python.durable_runs import Finished, Request, open_durable_run
from leftoff.python.item_steps import free_path
from leftoff.python.replay import IN_STEP, Scope, current, leave, needs_key
from leftoff.python.run_steps import PythonLog
from leftoff.python.values import decode_value, encode_value

if TYPE_CHECKING:
    from leftoff.python.durable import Durable

R = TypeVar("R")


# -- one call


def make_call(call: Call) -> Any:
    """Make a call whose identity is known. Return its value, or a coroutine that gives it."""
    return _make(call) if call.function.is_async else plainly(_make(call))


async def _make(call: Call) -> Any:
    found = call.recorded()
    if found is not MISSING:
        return found
    body = _group(call) if call.function.is_group else _attempts(call)
    if not call.function.is_async or call.scope.own():
        return await body
    # Another task makes the call. The scope does not end before it.
    from asyncio import get_running_loop

    done, others = get_running_loop().create_future(), call.scope.others
    others.add(done)
    try:
        return await body
    finally:
        others.discard(done)
        if not done.done():
            done.set_result(None)


async def _attempts(call: Call) -> Any:
    """Call the function of a step until it succeeds or has no attempt left."""
    while True:
        call.begin()
        try:
            value = await _invoke(call)
        except BaseException as error:
            length = call.pause_after(error)
        else:
            return call.succeed(value)
        await pause(length, is_async=call.function.is_async)


async def _invoke(call: Call) -> Any:
    """Call the function. The calls that it makes in turn are part of the step."""
    flow, function = call.scope.flow, call.function
    blocks = not function.is_async and not flow.busy and flow.root.thread == get_ident()
    token, log = current.set(IN_STEP), PythonLog(flow.buffer, call.path, call.attempt)
    log.enter()
    flow.busy = flow.busy or blocks
    try:
        work = partial(function.plain, *call.args, **call.named)
        return await call_once(work, call.path, function.settings.timeout, is_async=function.is_async)
    finally:
        log.leave()
        leave(token)
        if blocks:
            flow.busy = False


# -- a workflow, with a run of its own or inside another


def execute_run(request: Request) -> Any:
    """Execute a workflow from its first line, or return a coroutine that does. Finished steps are replayed."""
    return _execute(request) if request.function.is_async else plainly(_execute(request))


async def _execute(request: Request) -> Any:
    flow = open_durable_run(request)
    if isinstance(flow, Finished):
        return flow.value
    with flow as root:
        value = await _call_in(root, request.function, flow.args, flow.named)
        result = encode_value(value, f"the result of {request.function.name}")
        return decode_value(flow.finish(result), f"The result of run {flow.run.id}")


async def _group(call: Call) -> Any:
    """Make the call of a workflow inside a workflow. Its calls are a sequence of their own, below it."""
    with _inside(call) as scope:
        value = await _call_in(scope, call.function, call.args, call.named)
    return call.succeed(value)


async def _call_in(
    scope: Scope, function: Durable[..., Any], args: Iterable[Any], named: dict[str, Any]
) -> Any:
    """Call a workflow's function, and wait for the calls that it deferred."""
    try:
        value = function.plain(*args, **named)
        if function.is_async:
            value = await value
        await scope.close(function.is_async)
        return value
    except BaseException as error:
        await scope.leave(error, function.is_async)
        raise


@contextmanager
def _inside(call: Call) -> Iterator[Scope]:
    """Begin a call of a workflow and enter its scope. Record it if the workflow raises."""
    call.begin()
    scope = Scope(call.scope.flow, f"{call.path}/")
    token = current.set(scope)
    try:
        yield scope
    except Exception as error:
        scope.flow.escaped(error)
        call.fail(error)
        raise
    except BaseException as error:
        call.cut_off(error)
        raise
    finally:
        leave(token)


# -- threads


class Crew:
    """The threads that make the deferred calls of one scope, at most ``size`` at a time. None waits for work."""

    __slots__ = ("_lock", "_queue", "_size", "_threads")

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = allocate_lock()
        self._queue: deque[tuple[Handle[Any], Callable[[], Any]]] = deque()
        self._threads = 0

    def submit(self, handle: Handle[Any], work: Callable[[], Any]) -> None:
        with self._lock:
            self._queue.append((handle, work))
            if self._threads >= self._size:
                return
            self._threads += 1
        start_thread(self._loop, "leftoff deferred")

    def _loop(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                handle, work = self._queue.popleft()
            handle.make(work)

    def stop(self) -> None:
        """Begin nothing new."""
        with self._lock:
            dropped, self._queue = self._queue, deque()
        for handle, _ in dropped:
            handle.drop()


# -- defer: the identity of a call is taken when it is deferred. A failure reaches the workflow when it asks for the
#    result. A workflow does not end before its deferred calls, and an error that it has not looked at is its own.


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
        """Make the call in this thread."""
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
        """End a call that is not begun any more."""
        self._error, self._seen = Usage(f"{self!r} was not begun: the workflow failed before."), True
        self._done.set()

    def check(self) -> None:
        """Raise an error that the workflow has not looked at."""
        if self._error is not None and not self._seen:
            self.result()

    def done(self) -> bool:
        """Whether it has ended, either way."""
        return self._done.is_set()

    def cancel(self) -> None:
        """Do nothing: a thread cannot be stopped."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; whether it came in time."""
        return self._done.wait(timeout)

    def result(self, timeout: float | None = None) -> R:
        """What the call returned; raises what it raised. ``TimeoutError`` if that takes longer than ``timeout``."""
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
    function: Durable[..., Any], scope: Scope | None, args: tuple[Any, ...], named: dict[str, Any]
) -> Handle[Any]:
    """Begin a call in a thread. Outside of a workflow it is the plain function."""
    if scope is None:
        handle: Handle[Any] = Handle(None)
        work = partial(function.plain, *args, **named)
        start_thread(partial(handle.make, work), f"leftoff {function.name}")
        return handle
    call = place_call(function, scope, args, named)
    call.reaches = LATER
    handle = Handle(call)
    try:  # the record is looked at here, in the workflow's own thread
        found = call.recorded()
    except StepFailed as error:
        handle.settle(None, error)
    else:
        if found is not MISSING:
            handle.settle(found, None)
    scope.handles.append(handle)
    if not handle.done():
        if scope.crew is None:
            scope.crew = Crew(scope.flow.max_parallel)
        scope.crew.submit(handle, partial(make_call, call))
    return handle


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
        """Do nothing: the scope awaits its tasks before it closes."""

    def check(self) -> None:
        """Raise an error that the workflow has not looked at."""
        if not self._seen and self.task.done() and not self.task.cancelled():
            self.result()

    def __repr__(self) -> str:
        state = "done" if self.done() else "under way"
        return f"<deferred {self._call.path if self._call else 'call'}, {state}>"


def defer_to_task(
    function: Durable[..., Any], scope: Scope | None, args: tuple[Any, ...], named: dict[str, Any]
) -> TaskHandle[Any]:
    """Begin a call in a task. Outside of a workflow it is the plain function."""
    from asyncio import ensure_future

    if scope is None:
        return TaskHandle(None, ensure_future(function.plain(*args, **named)))
    call = place_call(function, scope, args, named)
    call.reaches = LATER
    handle: TaskHandle[Any] = TaskHandle(call, ensure_future(make_call(call)))
    scope.handles.append(handle)
    return handle


# -- map: a step with a step below it for each item. An item is known by its place or by a key; finished items are not
#    called again. The results come in the order of the items.


class PlainMap:
    """A map outside of every workflow: the plain function is called for each item."""

    def __init__(self, function: Durable[..., Any], items: list[tuple[Any, ...]]) -> None:
        self.name = function.name
        self.results: list[Any] = [None] * len(items)
        self.stopped = False  # an item has failed for good: nothing new is begun
        self._function = function
        self._items = items

    def left(self) -> list[int]:
        """Return the items that are to be called."""
        return list(range(len(self._items)))

    def make(self, index: int) -> Any:
        """Call the function for one item. Return its value, or a coroutine that gives it."""
        return self._function.plain(*self._items[index])

    def __enter__(self) -> PlainMap:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        pass


class Map(PlainMap):
    """A map in a workflow, recorded. Its identity is taken when it is made."""

    def __init__(
        self, function: Durable[..., Any], scope: Scope, items: list[tuple[Any, ...]], key: Any = None
    ) -> None:
        super().__init__(function, items)
        self._scope = scope
        scope.flow.check()
        if not scope.own():
            raise needs_key(f"{function.name}.map", "another thread or task than the workflow's own")
        place = scope.next_place(function.name)
        self.name = place[1]
        self.group = Call(function, scope, (), {}, {"items": len(items)}, place, is_map=True)
        self._paths = self._keyed(function.settings.key if key is None else key)

    def _keyed(self, key: Any) -> list[str] | None:
        """Return the paths of items that are known by a key. The second item of a name gets a number."""
        function, taken = self._function, dict[str, None]()
        if key is None and not function.settings.keyed:
            return None
        for item in self._items:
            bound = function.signature.bind(item, {})
            if key is not None:
                name = function.named_by(key, bound, item, {})
            else:
                name = argument_key(function.counted(bound), self._scope.flow.buffer.redactor)
            taken[free_path(self.name, name, taken)] = None
        return list(taken)

    def _path(self, index: int) -> str:
        return self._paths[index] if self._paths is not None else f"{self.name}/{index + 1}"

    def make(self, index: int) -> Any:
        return make_call(self._call(index))

    def _call(self, index: int) -> Call:
        """Return the call for one item."""
        function, args = self._function, self._items[index]
        arguments = function.counted(function.signature.bind(args, {}))
        call = Call(function, self._scope, args, {}, arguments, (0, self._path(index), index))
        call.reaches, call.map = NEVER, self  # the failure of the map reaches the workflow instead
        return call

    def left(self) -> list[int]:
        """Return the items that are to be called. The results of all others are in ``results``."""
        flow, found = self._scope.flow, self.group.recorded()
        todo = super().left()
        if self.group.replaces:
            self._drop_others()
        if flow.run.resumed:
            todo = [index for index in todo if not self._take(index)]
        if found is MISSING or todo:
            self.group.begin()
            # Declare the new items, so that progress can be seen.
            places: list[tuple[str, int | None]] = [(self._path(index), index) for index in todo]
            new = [(path, order) for path, order in places if flow.buffer.step(path) is None]
            with flow.recording():
                flow.buffer.declare_items(new, [*ancestors(self.name), self.name])
        return todo

    def _drop_others(self) -> None:
        """Remove the items that are no longer in a map that differs on purpose."""
        flow, start = self._scope.flow, f"{self.name}/"
        now = {self._path(index) for index in range(len(self._items))}
        known = [path for path in flow.known_steps() if path.startswith(start)]
        flow.drop([path for path in known if path not in now and "/" not in path[len(start) :]])

    def _take(self, index: int) -> bool:
        found = self._call(index).recorded()
        if found is MISSING:
            return False
        self.results[index] = found
        return True

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not self.group.begun:
            return
        if error is None:
            self.group.succeed(None)
        elif isinstance(error, Exception):
            self.group.fail(error)
        else:
            self.group.cut_off(error)


def make_map(
    function: Durable[..., Any],
    scope: Scope | None,
    iterables: tuple[Iterable[Any], ...],
    size: int,
    key: Any,
) -> Any:
    """Call a function for each item, in ``size`` threads. Return the results in the order of the items.

    One item of each iterable is passed per call. After an error nothing new is begun. What runs continues to its end,
    then the error of the first item is raised. For a coroutine function there are tasks, and a coroutine is returned.
    The identity of the map is taken now, not when the result is awaited.
    """
    try:
        items = list(zip(*iterables, strict=True))
    except ValueError as error:
        raise Usage(
            f"map was given iterables of different lengths ({error}).",
            hint="One item of each is passed per call.",
        ) from None
    work = PlainMap(function, items) if scope is None else Map(function, scope, items, key)
    course = _mapped(work, size, is_async=function.is_async)
    return course if function.is_async else plainly(course)


async def _mapped(work: PlainMap, size: int, *, is_async: bool) -> list[Any]:
    with work:
        todo = work.left()
        if is_async:
            await in_tasks(work, todo, size)
        else:
            in_threads(work, todo, size)
    return work.results
