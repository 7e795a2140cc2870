"""Making a call: run the function, sleep between attempts, record. Once for threads, once for coroutines.

All decisions are the ``Call``'s; what is here only waits. A plain function with a timeout runs in a thread of its own.
Python cannot stop a thread: when time is up the step has failed, and the function goes on in the background until it
returns. Nobody listens to what it returns: it is always the caller who records.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, get_ident
from contextlib import contextmanager
from contextvars import copy_context

from leftoff.api.values import decode, encode
from leftoff.errors import Invalid, StepTimeout
from leftoff.workflow.functions.call import MISSING
from leftoff.workflow.functions.opening import Finished, open_run
from leftoff.workflow.functions.scope import IN_STEP, Scope, current, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any

    from leftoff.workflow.functions.call import Call
    from leftoff.workflow.functions.opening import Opened, Request


def run_step(call: Call) -> Any:
    """A step that is a plain function."""
    found = call.recorded()
    if found is not MISSING:
        return found
    while True:
        call.begin()
        try:
            value = _invoke(call)
        except Exception as error:
            pause = call.fail(error)
            if pause is None:
                raise
        except BaseException as error:
            call.cut_off(error)
            raise
        else:
            return _succeed(call, value)
        time.sleep(pause)


async def run_step_async(call: Call) -> Any:
    """A step that is a coroutine function."""
    found = call.recorded()
    if found is not MISSING:
        return found
    return await _followed(call, _attempts(call))


async def _attempts(call: Call) -> Any:
    from asyncio import sleep

    while True:
        call.begin()
        try:
            value = await _invoke_async(call)
        except Exception as error:
            pause = call.fail(error)
            if pause is None:
                raise
        except BaseException as error:
            call.cut_off(error)
            raise
        else:
            return _succeed(call, value)
        await sleep(pause)


async def _followed(call: Call, body: Coroutine[Any, Any, Any]) -> Any:
    """A call that another task makes is known to its scope, which does not end before it."""
    if call.scope.own():
        return await body
    from asyncio import get_running_loop

    done, others = get_running_loop().create_future(), call.scope.others
    others.add(done)
    try:
        return await body
    finally:
        others.discard(done)
        if not done.done():
            done.set_result(None)


def _succeed(call: Call, value: Any) -> Any:
    try:
        return call.succeed(value)
    except Invalid as error:  # it returned what cannot be recorded
        call.fail(error, lost=value)
        raise


def run_group(call: Call) -> Any:
    """A workflow inside a workflow: its calls are a sequence of their own, below it."""
    found = call.recorded()
    if found is not MISSING:
        return found
    call.begin()
    scope = Scope(call.scope.flow, f"{call.path}/")
    token = current.set(scope)
    try:
        value = call.function.plain(*call.args, **call.named)
        scope.close()
    except Exception as error:
        scope.leave(error)
        scope.flow.escaped(error)
        call.fail(error)
        raise
    except BaseException as error:
        scope.leave(error)
        call.cut_off(error)
        raise
    finally:
        leave(token)
    return _succeed(call, value)


async def run_group_async(call: Call) -> Any:
    """The same for coroutines."""
    found = call.recorded()
    if found is not MISSING:
        return found
    return await _followed(call, _inside(call))


async def _inside(call: Call) -> Any:
    call.begin()
    scope = Scope(call.scope.flow, f"{call.path}/")
    token = current.set(scope)
    try:
        value = await call.function.plain(*call.args, **call.named)
        await scope.close_async()
    except Exception as error:
        await scope.leave_async()
        scope.flow.escaped(error)
        call.fail(error)
        raise
    except BaseException as error:
        scope.cancel()
        call.cut_off(error)
        raise
    finally:
        leave(token)
    return _succeed(call, value)


def _invoke(call: Call) -> Any:
    """Call the function; what it calls in turn is part of the step."""
    flow, timeout = call.scope.flow, call.function.settings.timeout
    busy = flow.busy
    if flow.root.thread == get_ident():
        flow.busy = True
    token, log = current.set(IN_STEP), call.open_log()
    try:
        if timeout is None:
            return call.function.plain(*call.args, **call.named)
        return _timed(call, timeout)
    finally:
        log.leave()
        leave(token)
        flow.busy = busy


async def _invoke_async(call: Call) -> Any:
    timeout = call.function.settings.timeout
    token, log = current.set(IN_STEP), call.open_log()
    try:
        if timeout is None:
            return await call.function.plain(*call.args, **call.named)
        return await _timed_async(call, timeout)
    finally:
        log.leave()
        leave(token)


def _out_of_time(call: Call, timeout: float, more: str = "") -> StepTimeout:
    from leftoff.workflow.definition.durations import text

    return StepTimeout(f"Step {call.path} was not done within {text(timeout)}.{more}")


def _timed(call: Call, timeout: float) -> Any:
    """In a thread of its own, which is left alone once the time is up."""
    from threading import Thread

    outcome: list[tuple[Any, BaseException | None]] = []
    done = allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            outcome.append((call.function.plain(*call.args, **call.named), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            done.release()

    Thread(target=copy_context().run, args=(work,), name=f"leftoff {call.path}", daemon=True).start()
    if not done.acquire(timeout=timeout):
        raise _out_of_time(call, timeout, " Its function may still be running in the background.")
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


async def _timed_async(call: Call, timeout: float) -> Any:
    import asyncio

    try:
        async with asyncio.timeout(timeout) as limit:
            return await call.function.plain(*call.args, **call.named)
    except TimeoutError:
        if limit.expired():
            raise _out_of_time(call, timeout) from None
        raise


# -- executing a workflow on its run, from its first line: what is finished is replayed on the way


def execute(request: Request) -> Any:
    """A workflow that is a plain function."""
    opened = open_run(request)
    if isinstance(opened, Finished):
        return opened.value
    with _driving(opened) as root:
        try:
            value = opened.function.plain(*opened.args, **opened.named)
            root.close()
            return _returned(opened, value)
        except BaseException as error:
            root.leave(error)
            raise


async def execute_async(request: Request) -> Any:
    """A workflow that is a coroutine function."""
    opened = open_run(request)
    if isinstance(opened, Finished):
        return opened.value
    with _driving(opened) as root:
        try:
            value = await opened.function.plain(*opened.args, **opened.named)
            await root.close_async()
            return _returned(opened, value)
        except Exception:
            await root.leave_async()
            raise
        except BaseException:
            root.cancel()
            raise


@contextmanager
def _driving(opened: Opened) -> Iterator[Scope]:
    """The run is driven, and calls are the workflow's own; what ends it, ends the run."""
    with opened:
        token = current.set(opened.flow.root)
        try:
            yield opened.flow.root
        except BaseException as error:
            opened.flow.leave(error)
            raise
        finally:
            leave(token)


def _returned(opened: Opened, value: Any) -> Any:
    flow, result = opened.flow, encode(value, f"the result of {opened.function.name}")
    return decode(flow.finish(result), f"The result of run {flow.run.id}")
