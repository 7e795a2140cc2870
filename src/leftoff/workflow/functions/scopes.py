"""Where calls of durable functions are made: which run, which branch of it, and the number of the call in that branch.

A scope is one sequence of calls: the workflow itself, one item of a map over workflows, or a workflow called inside
another. It belongs to one thread, and in a thread that runs coroutines to one task: only there do calls come in the
same order the next time. A call from anywhere else needs a key.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from leftoff.errors import Usage
from leftoff.model.ids import quote_part

if TYPE_CHECKING:
    from leftoff.workflow.functions.replay import Flow
    from leftoff.workflow.functions.running import Crew


class _InStep:
    """Marks the inside of a step's function: the calls made there are part of that step."""


IN_STEP: Any = _InStep()
current: ContextVar[Any] = ContextVar("leftoff-scope", default=None)
flows: dict[tuple[str, str], Flow] = {}  # the executions of this process, by store and run id
_process = [os.getpid()]


def _forked() -> None:
    """Forget the runs of the parent process: a forked child drives none of them."""
    flows.clear()
    _process[0] = os.getpid()


os.register_at_fork(after_in_child=_forked)


def leave(token: Any) -> None:
    """Return to the scope from which a step or workflow was called.

    A coroutine that is thrown away may end in another context.
    """
    try:
        current.reset(token)
    except ValueError:
        pass


def running_task() -> Any:
    """Return the asyncio task that runs now, if any. A program that has not loaded asyncio has none."""
    events: Any = sys.modules.get("asyncio.events")
    if events is None or events._get_running_loop() is None:
        return None
    return sys.modules["asyncio.tasks"].current_task()


def needs_key(name: str, where: str) -> Usage:
    return Usage(
        f"{name} was called from {where}: such calls come in another order each time, so it needs a key.",
        hint=f'@leftoff.step(key="…") names the parameter that tells calls apart, {name}.keyed("…")(…) says it for one '
        f"call. Or let leftoff do it: {name}.map(items), {name}.defer(…), asyncio.gather({name}(a), {name}(b)). "
        f"{name}.plain(…) calls the function without recording it.",
    )


class Scope:
    """One sequence of calls."""

    __slots__ = ("_pid", "_task", "count", "crew", "flow", "handles", "last", "others", "prefix", "thread")

    def __init__(self, flow: Flow, prefix: str) -> None:
        self.flow = flow
        self.prefix = prefix  # of the paths of its steps: empty, or ends in a slash
        self.count = 0  # calls so far
        self.last = flow.last_recorded(prefix)  # the number of the last call that an earlier process recorded
        self.thread = get_ident()
        self.others: set[Any] = set()  # a future for each call that another task makes
        self.handles: list[Any] = []  # of deferred calls
        self.crew: Crew | None = None  # the threads that make deferred calls
        self._pid = _process[0]
        self._task = running_task()

    def own(self) -> bool:
        """Return whether this is the thread and task that the scope belongs to."""
        if self._pid != _process[0]:
            raise Usage(
                f"Run {self.flow.run.id} belongs to the process that was forked; this one cannot add steps to it.",
                hint="Fork inside a step: what is called there is part of that step.",
            )
        return self.thread == get_ident() and self._task is running_task()

    def number(self) -> int:
        """Return the next call's number."""
        self.count += 1
        return self.count

    def path(self, name: str, number: int) -> str:
        return f"{self.prefix}{number}-{quote_part(name)}"

    def keyed_path(self, name: str, key: str) -> str:
        return f"{self.prefix}{quote_part(name)}[{quote_part(key)}]"

    def close(self) -> None:
        """Wait for the deferred calls: the function returned. Raise an error that the function has not looked at."""
        for handle in self.handles:
            handle.wait()
        for handle in self.handles:
            handle.check()
        self.flow.ended(self)

    def leave(self, error: BaseException) -> None:
        """Begin no more deferred calls: the function raised. Those that run end first, unless it was interrupted."""
        if self.crew is not None:
            self.crew.stop()
            if isinstance(error, Exception):
                for handle in self.handles:
                    handle.wait()

    async def close_async(self) -> None:
        """Do what ``close`` does, for coroutines."""
        await self._settle()
        self.close()

    async def leave_async(self) -> None:
        """Do what ``leave`` does, for coroutines."""
        if self.crew is not None:
            self.crew.stop()
        await self._settle()

    async def _settle(self) -> None:
        """Wait for the calls that other tasks make, such as those that ``gather`` leaves when one of them fails."""
        import asyncio

        if self.crew is not None:
            for handle in self.handles:
                await asyncio.to_thread(handle.wait)
        while waited := [*self.others, *(handle.task for handle in self.handles if not handle.done())]:
            await asyncio.wait(waited)

    def cancel(self) -> None:
        for handle in self.handles:
            handle.cancel()


def stray_scope() -> Scope | None:
    """Return the scope of a call from a thread that has none.

    If a workflow has the program's main thread, any other thread works for it. A workflow in another thread is one of
    several things that the process does, so a thread without a scope is outside of it.
    """
    from threading import main_thread

    main = main_thread().ident
    for flow in list(flows.values()):
        if flow.root.thread == main != get_ident() and flow.root._task is None and not flow.busy:
            return flow.root
    return None
