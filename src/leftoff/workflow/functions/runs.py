"""Executing a workflow on its run, from its first line: what is finished is replayed on the way."""

from __future__ import annotations

from leftoff.workflow.functions.opening import Finished, open_run
from leftoff.workflow.functions.scope import current, leave
from leftoff.workflow.functions.values import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.workflow.functions.flow import Flow
    from leftoff.workflow.functions.opening import Request


def execute(request: Request) -> Any:
    """A workflow that is a plain function."""
    opened = open_run(request)
    if isinstance(opened, Finished):
        return opened.value
    flow, name = opened.flow, opened.function.name
    with opened:
        token = current.set(flow.root)
        try:
            value = opened.function.plain(*opened.args, **opened.named)
            flow.root.close()
            return _returned(flow, encode(value, f"the result of {name}"))
        except BaseException as error:
            flow.root.leave(error)
            flow.leave(error)
            raise
        finally:
            leave(token)


async def execute_async(request: Request) -> Any:
    """A workflow that is a coroutine function."""
    opened = open_run(request)
    if isinstance(opened, Finished):
        return opened.value
    flow, name = opened.flow, opened.function.name
    with opened:
        token = current.set(flow.root)
        try:
            value = await opened.function.plain(*opened.args, **opened.named)
            await flow.root.close_async()
            return _returned(flow, encode(value, f"the result of {name}"))
        except BaseException as error:
            if isinstance(error, Exception):
                await flow.root.leave_async()
            else:
                flow.root.cancel()
            flow.leave(error)
            raise
        finally:
            leave(token)


def _returned(flow: Flow, result: Any) -> Any:
    return decode(flow.finish(result), f"The result of run {flow.run.id}")
