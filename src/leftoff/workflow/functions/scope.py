"""Where a call is made: which run it belongs to, which branch of it, and the number of the call in that branch.

A scope is one sequence of calls: the workflow itself, or one item of a map over workflows, or a workflow called inside
another. It belongs to one thread, and where that runs coroutines to one task: only there do calls come in an order that
is the same the next time. Whoever calls a step from anywhere else must say by a key which call it is.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from contextvars import ContextVar

from leftoff.errors import Usage
from leftoff.model.ids import quote_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.workflow.functions.crews import Crew
    from leftoff.workflow.functions.flow import Flow
    from leftoff.workflow.functions.handles import Handle


class _InStep:
    """Inside a step's function: whatever is called there is part of that step."""


IN_STEP: Any = _InStep()
OUTSIDE: Any = None
current: ContextVar[Any] = ContextVar("leftoff-scope", default=None)
flows: dict[tuple[str, str], Flow] = {}  # what this process executes, by store and run id
_process = [os.getpid()]


def _forked() -> None:
    """A child has the parent's runs in its memory, and drives none of them."""
    flows.clear()
    _process[0] = os.getpid()


os.register_at_fork(after_in_child=_forked)


def running_task() -> Any:
    """The asyncio task that runs now, if any; a program that has not loaded asyncio has none."""
    events: Any = sys.modules.get("asyncio.events")
    if events is None or events._get_running_loop() is None:
        return None
    return sys.modules["asyncio.tasks"].current_task()


class Scope:
    """One sequence of calls."""

    __slots__ = ("_crew", "_handles", "_pid", "_task", "count", "flow", "last", "others", "prefix", "thread")

    def __init__(self, flow: Flow, prefix: str) -> None:
        self.flow = flow
        self.prefix = prefix  # of the paths of its steps: empty, or ends in a slash
        self.count = 0  # calls so far
        self.last = flow.last_recorded(prefix)  # the number of the last call that an earlier process recorded
        self.thread = get_ident()
        self.others: set[Any] = set()  # a future for each call that another task makes
        self._handles: list[Any] = []  # of deferred calls
        self._crew: Crew | None = None
        self._pid = _process[0]
        self._task = running_task()

    def own(self) -> bool:
        """Whether this is the thread and task that the scope belongs to."""
        if self._pid != _process[0]:
            raise Usage(
                f"Run {self.flow.run.id} belongs to the process that was forked; this one cannot add steps to it.",
                hint="Fork inside a step: what is called there is part of that step.",
            )
        return self.thread == get_ident() and self._task is running_task()

    def number(self) -> int:
        """The next call's number."""
        self.count += 1
        return self.count

    def path(self, name: str, number: int) -> str:
        return f"{self.prefix}{number}-{quote_part(name)}"

    def keyed_path(self, name: str, key: str) -> str:
        return f"{self.prefix}{quote_part(name)}[{quote_part(key)}]"

    # -- deferred calls

    def defer(self, handle: Handle[Any], work: Callable[[], Any]) -> None:
        """Have a call made by another thread; the scope does not end before it does."""
        if self._crew is None:
            from leftoff.workflow.functions.crews import Crew

            self._crew = Crew(self.flow.max_parallel)
        self._handles.append(handle)
        self._crew.submit(handle, work)

    def adopt(self, handle: Any) -> None:
        """The same for a call that is a task."""
        self._handles.append(handle)

    def close(self) -> None:
        """The function returned: whatever it deferred is waited for; an error that nobody has looked at is its own."""
        for handle in self._handles:
            handle.wait()
        for handle in self._handles:
            handle.check()
        self.flow.ended(self)

    def leave(self, error: BaseException) -> None:
        """The function raised: nothing new is begun; what runs goes on to its end, unless somebody wants out."""
        if self._crew is not None:
            self._crew.stop()
            if isinstance(error, Exception):
                for handle in self._handles:
                    handle.wait()

    async def close_async(self) -> None:
        """The same for coroutines."""
        await self._settle()
        self.close()

    async def leave_async(self) -> None:
        """The same for coroutines."""
        if self._crew is not None:
            self._crew.stop()
        await self._settle()

    async def _settle(self) -> None:
        """Calls that others make go on to their end: what ``gather`` leaves behind when one of several fails."""
        import asyncio

        if self._crew is not None:
            for handle in self._handles:
                await asyncio.to_thread(handle.wait)
        while waited := [*self.others, *(handle.task for handle in self._handles if not handle.done())]:
            await asyncio.wait(waited)

    def cancel(self) -> None:
        """Somebody wants out."""
        for handle in self._handles:
            handle.cancel()


def leave(token: Any) -> None:
    """Back to where a step or workflow was called from; a coroutine that is thrown away may be elsewhere by then."""
    try:
        current.reset(token)
    except ValueError:
        pass


def needs_key(name: str, where: str) -> Usage:
    return Usage(
        f"{name} was called from {where}: such calls come in another order each time, so it needs a key.",
        hint=f'@leftoff.step(key="…") names the parameter that tells calls apart, {name}.keyed("…")(…) says it for one '
        f"call. Or let leftoff do it: {name}.map(items), {name}.defer(…), asyncio.gather({name}(a), {name}(b)). "
        f"{name}.plain(…) calls the function without recording it.",
    )


def stray() -> Scope | None:
    """The scope of a call from a thread that nobody told about a workflow.

    Where a workflow has the program's main thread, any other thread works for it. A workflow in another thread is one
    of several things that the process does: whoever is not in it is outside.
    """
    from threading import main_thread

    main = main_thread().ident
    for flow in list(flows.values()):
        if flow.root.thread == main != get_ident() and flow.root._task is None and not flow.busy:
            return flow.root
    return None
