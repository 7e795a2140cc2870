"""One execution of a workflow on its run: where its calls are made, whether they follow the record, how it ends.

A `Scope` is one sequence of calls: the workflow itself, one item of a map over workflows, or a workflow called inside
another. It belongs to one thread, and in a thread that runs coroutines to one task: only there do calls come in the
same order the next time. A call from anywhere else needs a key.

The calls must follow what an earlier process recorded. If one does not, that is an error (``Diverged``), and it stays
one even if the workflow catches it. There are three exceptions. A ``version`` that changed says that the function was
changed on purpose: the run's ``revision`` goes up, and records of an older revision are replaced if they do not fit. A
failure that the workflow caught is raised again as it was recorded, so that the same course is taken. A failure that
ended the run is not: that step runs again, and the calls that came after it are dropped.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from leftoff.errors import BadData, Diverged, LeftoffError, Rewound, Usage
from leftoff.model.ids import quote_part
from leftoff.python.arguments import other_call

if TYPE_CHECKING:
    from leftoff.python.durable_calls import Call
    from leftoff.python.durable_running import Crew
    from leftoff.python.run_api import Run

FUNCTION, RETURNED = "function", "returned"  # keys of the records in `context`
_REMEMBERED = 32  # failures


class _InStep:
    """Marks the inside of a step's function: the calls made there are part of that step."""


IN_STEP: Any = _InStep()
current: ContextVar[Any] = ContextVar("leftoff-scope", default=None)
# The executions of this process, by store and run id. While one is being prepared, its request stands for it.
flows: dict[tuple[str, str], Any] = {}
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
        self.last = max(
            flow.index.get(prefix, ()), default=0
        )  # the number of the last call that an earlier process recorded
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

    def next_place(self, name: str) -> tuple[int, str, int]:
        """Return number, path and order of the next call."""
        self.count += 1
        return self.count, f"{self.prefix}{self.count}-{quote_part(name)}", self.count

    def keyed_path(self, name: str, key: str) -> str:
        return f"{self.prefix}{quote_part(name)}[{quote_part(key)}]"

    async def close(self, in_tasks: bool) -> None:
        """Wait for the deferred calls: the function returned. Raise an error that the function has not looked at."""
        await self._settle(in_tasks)
        for handle in self.handles:
            handle.check()
        self.flow.ended(self)

    async def leave(self, error: BaseException, in_tasks: bool) -> None:
        """Begin no more deferred calls: the function raised. Those that run end first, unless it was interrupted."""
        if self.crew is not None:
            self.crew.stop()
        if isinstance(error, Exception):
            await self._settle(in_tasks)
        else:
            for handle in self.handles:
                handle.cancel()

    async def _settle(self, in_tasks: bool) -> None:
        """Wait for deferred calls, and in a coroutine for those that other tasks make: ``gather`` leaves some when one
        of them fails."""
        if not in_tasks:
            for handle in self.handles:
                handle.wait()
            return
        import asyncio

        if self.crew is not None:
            for handle in self.handles:
                await asyncio.to_thread(handle.wait)
        while waited := [*self.others, *(handle.task for handle in self.handles if not handle.done())]:
            await asyncio.wait(waited)


def stray_scope() -> Scope | None:
    """Return the scope of a call from a thread that has none.

    If a workflow has the program's main thread, any other thread works for it. A workflow in another thread is one of
    several things that the process does, so a thread without a scope is outside of it.
    """
    from threading import main_thread

    main = main_thread().ident
    for flow in list(flows.values()):
        if not isinstance(flow, Flow):
            continue
        if flow.root.thread == main != get_ident() and flow.root._task is None and not flow.busy:
            return flow.root
    return None


class Flow:
    """A run of a workflow, as this process executes it."""

    def __init__(
        self, run: Run, about: dict[str, Any], key: tuple[str, str], max_parallel: int, again: Iterable[str]
    ) -> None:
        self.run, self.buffer, self.steps = run, run._buffer, run._steps
        self._key = key
        self.max_parallel = max_parallel
        self.again = frozenset(
            again
        )  # interrupted steps that may be repeated, though they are not idempotent
        self.busy = False  # the workflow's own thread is inside a step
        self.closed = False  # calls that other threads still make are not recorded any more
        self.revision = int(about.get("revision", 0))
        self._about = about
        self._broken: LeftoffError | None = None
        self._failures: list[tuple[BaseException, Call]] = []
        self._parents: set[str] = set()  # recorded steps that have others below them
        self.index: dict[str, dict[int, str]] = {}  # the paths of recorded calls, by prefix and number
        for path in self.known_steps() if run.resumed else ():
            at = path.rfind("/") + 1
            if at:
                self._parents.add(path[: at - 1])
            number, dash, _ = path[at:].partition("-")
            if dash and number.isascii() and number.isdigit():
                self.index.setdefault(path[:at], {})[int(number)] = path
        self.live: dict[str, Call] = {}  # calls that are being made, by path
        self.args: list[Any] = []  # of the workflow's function
        self.named: dict[str, Any] = {}
        self.root = Scope(self, "")

    def __enter__(self) -> Scope:
        """Enter the workflow's own scope, and let all threads know of it."""
        flows[self._key] = self
        self._token = current.set(self.root)
        return self.root

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Stop executing the run in this process. An error ends the run."""
        try:
            if error is not None:
                self._leave(error)
        finally:
            leave(self._token)
            self.closed = True
            flows.pop(self._key, None)
            if self.buffer.driving:  # its end could not be recorded
                self.run._let_go()

    # -- what was recorded

    def known_steps(self) -> list[str]:
        """Return the paths of all recorded steps."""
        with self.buffer.lock:
            return list(self.buffer.step_records())

    def check(self) -> None:
        """Raise the error that broke the workflow, if there was one."""
        if self._broken is not None:
            raise self._broken

    def breaks(self, error: LeftoffError) -> LeftoffError:
        """Remember an error that the workflow cannot make good by catching it: the record is not what happened."""
        if self._broken is None:
            self._broken = error
        return error

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Break the workflow if a record cannot be written, even if the workflow catches the error."""
        try:
            yield
        except LeftoffError as error:
            # A value that cannot be stored is only the step's own failure.
            if not isinstance(error, BadData) or isinstance(error, Rewound):
                self.breaks(error)
            raise

    # -- whether the calls follow it

    def follow(self, call: Call) -> None:
        """Check that a call is the one that was recorded under its number, if any was."""
        there = self.index.get(call.scope.prefix, {}).get(call.number)
        if there is None or there == call.path:
            return
        found = self.buffer.step(there)
        if found is not None and not self.allows(found):
            raise self.breaks(
                Diverged(
                    f"Run {self.run.id} has {there} as call {call.number}"
                    f"{' of ' + call.scope.prefix[:-1] if call.scope.prefix else ''}; "
                    f"now {call.function.name} is called there."
                )
            )
        self._drop_calls(call.scope.prefix, [call.number])

    def fits(self, call: Call, record: dict[str, Any]) -> bool:
        """Return whether a record is of this very call. ``False``: it differs on purpose, and is to be replaced."""
        settings = call.function.settings
        if "digest" not in record:
            return True
        if record.get("version") != settings.version:
            self.revise(int(record.get("revision", 0)))
            return False
        if record["digest"] != call.facts["digest"]:
            if call.path in self.again:
                self.revise(int(record.get("revision", 0)))
            elif not self.allows(record):
                hint = (
                    "A workflow must make the same calls each time. Changed on purpose? "
                    f"again=[{call.path!r}] runs this step again, a new version= everything that no longer fits. "
                    "keyed=True on the step makes a step for each argument."
                )
                raise self.breaks(other_call(call.path, record, call.given, self.run.id, hint))
            return False
        name, change = call.map.name if call.map else call.path, settings.on_code_change
        if record["status"] != "completed" or not self.steps.reruns(name, record, call.facts, change):
            return True
        self.revise(int(record.get("revision", 0)))
        return False

    def allows(self, record: dict[str, Any]) -> bool:
        """Return whether a record may be replaced by another call: it is older than the last change on purpose."""
        return int(record.get("revision", 0)) < self.revision

    def revise(self, seen: int) -> None:
        """Allow for records from before this moment that do not fit. Once per change."""
        if seen >= self.revision:
            self.revision += 1
            self.note(revision=self.revision)

    def note(self, **facts: Any) -> None:
        """Change what the run knows of its function. At once: the start of a step is committed alone, after it."""
        self._about = {**self._about, **facts}
        self.buffer.put("context", FUNCTION, self._about)
        self.buffer.commit(None)

    def ended(self, scope: Scope) -> None:
        """Check that a sequence of calls that ended is not shorter than the one that was recorded."""
        for number in range(scope.count + 1, scope.last + 1):
            path = self.index.get(scope.prefix, {}).get(number)
            found = self.buffer.step(path) if path is not None else None
            if found is None:
                continue
            if not self.allows(found):
                raise self.breaks(
                    Diverged(
                        f"Run {self.run.id} has {path} as its next call; now the workflow ends without it."
                    )
                )
            self._drop_calls(scope.prefix, [number])

    def _drop_calls(self, prefix: str, numbers: list[int]) -> None:
        """Remove calls that are not made any more, with all steps below them."""
        index = self.index.get(prefix, {})
        self.drop([path for number in numbers if (path := index.pop(number, None)) is not None])

    def drop(self, gone: list[str]) -> None:
        """Remove steps with all below them. At once, so that what takes their place comes after."""
        paths = [path for top in gone for path in self.below(top)]
        if paths:
            with self.buffer.lock:
                for path in paths:
                    self.buffer.remove_step(path)
            self.buffer.commit(None)

    def below(self, top: str) -> list[str]:
        """Return a recorded step and all steps below it."""
        if top not in self._parents:
            return [top]
        return [path for path in self.known_steps() if path == top or path.startswith(top + "/")]

    # -- failures

    def failed(self, error: BaseException, call: Call) -> None:
        self._failures = [*self._failures[-_REMEMBERED:], (error, call)]

    def give_way(self, call: Call, raised: dict[str, Any]) -> None:
        """Drop the calls after a step whose failure ended the run: it runs again.

        Calls that were made in parallel may stay if they fit, because it is unknown what the workflow had seen.
        """
        prefix, number = call.scope.prefix, raised.get("next")
        if number is None:
            return
        if raised.get("apart"):
            self.revise(self.revision)
            return
        index = self.index.get(prefix, {})
        self._drop_calls(prefix, [n for n in index if n >= number])
        call.scope.last = min(call.scope.last, number - 1)

    def escaped(self, error: BaseException) -> None:
        """Mark the failures that this error is, comes from or consists of: the workflow did not handle them."""
        seen: list[BaseException] = [error]
        for one in seen:
            for known, call in self._failures:
                if known is one:
                    call.mark_escaped()
            more = [one.__cause__, *getattr(one, "exceptions", ())]
            seen += [other for other in more if other is not None and len(seen) < _REMEMBERED]

    # -- the end

    def finish(self, result: Any) -> Any:
        """Commit the workflow's result and the end of the run together. Return the result as it was recorded."""
        self.check()
        with self.buffer.committing:
            with self.buffer.lock:
                change = self.buffer.pending.put("context", RETURNED, {"value": result})
            stored = change.entry("value")
            self.run._settle("completed")
        return stored

    def _leave(self, error: BaseException) -> None:
        """End the run after the workflow raised: it failed, or it is paused if it was interrupted."""
        self.closed = True
        if not self.buffer.driving:
            return
        try:
            if isinstance(error, Exception):
                self.escaped(error)
            for call in list(self.live.values()):  # of threads that are left behind
                call.put_back()
        except LeftoffError:
            pass  # the next commit raises it
        self.run.__exit__(type(error), error, error.__traceback__)
