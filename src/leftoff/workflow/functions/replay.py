"""One execution of a workflow on its run: whether its calls follow the record, and how it ends.

The calls must follow what an earlier process recorded. If one does not, that is an error (``Diverged``), and it stays
one even if the workflow catches it. There are three exceptions. A ``version`` that changed says that the function was
changed on purpose: the run's ``revision`` goes up, and records of an older revision are replaced if they do not fit. A
failure that the workflow caught is raised again as it was recorded, so that the same course is taken. A failure that
ended the run is not: that step runs again, and the calls that came after it are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.api.run import Run
from leftoff.engine.steps import lifecycle
from leftoff.errors import BadData, Diverged, LeftoffError, Rewound
from leftoff.workflow.functions.scopes import Scope

if TYPE_CHECKING:
    from leftoff.workflow.functions.calls import Call

FUNCTION, RETURNED = "function", "returned"  # keys of the records in `context`
_REMEMBERED = 32  # failures


class _Recording:
    """A context that breaks the workflow if a record cannot be written, even if the workflow catches the error."""

    __slots__ = ("_flow",)

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # A value that cannot be stored is only the step's own failure.
        if isinstance(error, LeftoffError) and (not isinstance(error, BadData) or isinstance(error, Rewound)):
            self._flow.breaks(error)


class Flow:
    """A run of a workflow, as this process executes it."""

    def __init__(
        self, run: Run, about: dict[str, Any], max_parallel: int, again: frozenset[str] = frozenset()
    ) -> None:
        self.run, self.buffer, self.steps = run, run._buffer, run._steps
        self.recording = _Recording(self)
        self.max_parallel = max_parallel
        self.again = again  # interrupted steps that may be repeated, though they are not idempotent
        self.busy = False  # the workflow's own thread is inside a step
        self.closed = False  # calls that other threads still make are not recorded any more
        self.revision = int(about.get("revision", 0))
        self._about = about
        self._broken: LeftoffError | None = None
        self._failures: list[tuple[BaseException, Call]] = []
        self._parents: set[str] = set()  # recorded steps that have others below them
        self._index: dict[str, dict[int, str]] = {}  # the paths of recorded calls, by prefix and number
        if run.resumed:
            self._index_records()
        self.live: dict[str, Call] = {}  # calls that are being made, by path
        self.root = Scope(self, "")

    # -- what was recorded

    def record(self, path: str) -> tuple[dict[str, Any], list[list[Any]]] | None:
        """Return a step's record and its redacted places."""
        return self.buffer.step_records().get(path)

    def _index_records(self) -> None:
        with self.buffer.lock:
            for path in self.buffer.step_records():
                at = path.rfind("/") + 1
                if at:
                    self._parents.add(path[: at - 1])
                number, dash, _ = path[at:].partition("-")
                if dash and number.isascii() and number.isdigit():
                    self._index.setdefault(path[:at], {})[int(number)] = path

    def last_recorded(self, prefix: str) -> int:
        return max(self._index.get(prefix, ()), default=0)

    def check(self) -> None:
        """Raise the error that broke the workflow, if there was one."""
        if self._broken is not None:
            raise self._broken

    def breaks(self, error: LeftoffError) -> LeftoffError:
        """Remember an error that the workflow cannot make good by catching it: the record is not what happened."""
        if self._broken is None:
            self._broken = error
        return error

    # -- whether the calls follow it

    def follow(self, call: Call) -> None:
        """Check that a call is the one that was recorded under its number, if any was."""
        there = self._index.get(call.scope.prefix, {}).get(call.number)
        if there is None or there == call.path:
            return
        found = self.record(there)
        if found is not None and not self.allows(found[0]):
            raise self.breaks(
                Diverged(
                    f"Run {self.run.id} has {there} as call {call.number}"
                    f"{' of ' + call.scope.prefix[:-1] if call.scope.prefix else ''}; now {call.name} is called there."
                )
            )
        self._drop_calls(call.scope.prefix, [call.number])

    def fits(self, call: Call, record: dict[str, Any]) -> bool:
        """Return whether a record is of this very call. ``False``: it differs on purpose, and is to be replaced."""
        if "digest" not in record or (
            record["digest"] == call.facts["digest"] and record.get("version") == call.version
        ):
            return True
        if record.get("version") != call.version:
            self.revise(int(record.get("revision", 0)))
            return False
        if self.allows(record):
            return False
        raise self.breaks(
            Diverged(
                f"Step {call.path} of run {self.run.id} was recorded with other arguments: {call.differs(record)}."
            )
        )

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
            path = self._index.get(scope.prefix, {}).get(number)
            found = self.record(path) if path is not None else None
            if found is None:
                continue
            if not self.allows(found[0]):
                raise self.breaks(
                    Diverged(
                        f"Run {self.run.id} has {path} as its next call; now the workflow ends without it."
                    )
                )
            self._drop_calls(scope.prefix, [number])

    def _drop_calls(self, prefix: str, numbers: list[int]) -> None:
        """Remove calls that are not made any more, with all steps below them."""
        index = self._index.get(prefix, {})
        self.drop([path for number in numbers if (path := index.pop(number, None)) is not None])

    def drop(self, gone: list[str]) -> None:
        """Remove steps with all below them. At once, so that what takes their place comes after."""
        paths = [path for top in gone for path in self._below(top)]
        if paths:
            with self.buffer.lock:
                for path in paths:
                    self.buffer.remove_step(path)
            self.buffer.commit(None)

    def _below(self, top: str) -> list[str]:
        """Return a recorded step and all steps below it."""
        if top not in self._parents:
            return [top]
        with self.buffer.lock:
            return [p for p in self.buffer.step_records() if p == top or p.startswith(top + "/")]

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
        index = self._index.get(prefix, {})
        self._drop_calls(prefix, [n for n in index if n >= number])
        call.scope.last = min(call.scope.last, number - 1)

    def failed_again(self, path: str) -> None:
        """Fail a step and those below it again as they were recorded: resuming had made them pending."""
        for step in self._below(path):
            found = self.record(step)
            if found is not None and "error" in found[0]:
                record = lifecycle.fail(found[0], self.buffer.now(), found[0]["error"])
                self.buffer.move_step(step, record)

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

    def leave(self, error: BaseException) -> None:
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
        cause = KeyboardInterrupt() if _by_ctrl_c(error) else error
        self.run.__exit__(type(cause), cause, error.__traceback__)


def _by_ctrl_c(error: BaseException) -> bool:
    """Return whether a task was cancelled by Ctrl-C, which ``asyncio.run`` reports only afterwards."""
    if type(error).__name__ != "CancelledError":
        return False
    from signal import SIGINT, getsignal

    runner = getattr(getattr(getsignal(SIGINT), "func", None), "__self__", None)
    return bool(getattr(runner, "_interrupt_count", 0))
