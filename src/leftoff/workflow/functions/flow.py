"""One execution of a workflow on its run: what was recorded, whether the calls still follow it, and how it ends.

The workflow's calls must follow what an earlier process recorded. Where one does not, that is an error (``Diverged``)
and stays one, whoever catches it. Three things are allowed for. A ``version`` that changed says that it was on purpose:
the run's ``revision`` goes up, and records of an older one are replaced where they do not fit. A failure that was
caught and left behind is raised again as it was recorded, so that the same course is taken. A failure that ended the
run is not: that step runs again, and what had been called after it gives way.
"""

from __future__ import annotations

from leftoff.engine.steps import lifecycle
from leftoff.errors import Diverged, LeftoffError
from leftoff.workflow.functions.records import Records
from leftoff.workflow.functions.scope import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.api.run import Run
    from leftoff.workflow.functions.call import Call

FUNCTION, RETURNED = "function", "returned"  # keys of the records in `context`
_REMEMBERED = 32  # failures


class Flow:
    """A run of a workflow, as this process executes it."""

    def __init__(
        self, run: Run, about: dict[str, Any], max_parallel: int, again: frozenset[str] = frozenset()
    ) -> None:
        self.run = run
        self.records = Records(run)
        self.scrubber = run._buffer.redactor
        self.max_parallel = max_parallel
        self.again = again  # steps that were cut off and may be repeated, though they are not idempotent
        self.busy = False  # the workflow's own thread is inside a step
        self.closed = False  # whatever still runs in other threads is not recorded any more
        self.revision = int(about.get("revision", 0))
        self._about = about
        self._broken: LeftoffError | None = None
        self._failures: list[tuple[BaseException, Call]] = []
        self._parents: set[str] = set()  # recorded steps that have others below them
        self._index = self._numbered() if run.resumed else {}
        self._live: dict[str, Call] = {}  # calls that are being made
        self.root = Scope(self, "")

    # -- what was recorded

    def _numbered(self) -> dict[str, dict[int, str]]:
        """For each scope's prefix, the paths of its calls by number."""
        out: dict[str, dict[int, str]] = {}
        with self.run._buffer.lock:
            for path in self.run._buffer.step_records():
                at = path.rfind("/") + 1
                if at:
                    self._parents.add(path[: at - 1])
                number, dash, _ = path[at:].partition("-")
                if dash and number.isascii() and number.isdigit():
                    out.setdefault(path[:at], {})[int(number)] = path
        return out

    def last_recorded(self, prefix: str) -> int:
        return max(self._index.get(prefix, ()), default=0)

    def check(self) -> None:
        """Whether the workflow may go on."""
        if self._broken is not None:
            raise self._broken

    def breaks(self, error: LeftoffError) -> LeftoffError:
        """An error that no ``except`` of the workflow makes good: what was recorded is not what happened."""
        if self._broken is None:
            self._broken = error
        return error

    def claim(self, call: Call) -> bool:
        """A call is being made; whether it is the only one of its identity."""
        return self._live.setdefault(call.path, call) is call

    def unclaim(self, call: Call) -> None:
        self._live.pop(call.path, None)

    # -- whether the calls follow it

    def follow(self, call: Call) -> None:
        """The call of this number must be the one that was recorded under it, if any was."""
        there = self._index.get(call.scope.prefix, {}).get(call.number)
        if there is None or there == call.path:
            return
        found = self.records.get(there)
        if found is not None and not self.allows(found[0]):
            raise self.breaks(
                Diverged(
                    f"Run {self.run.id} has {there} as call {call.number}"
                    f"{' of ' + call.scope.prefix[:-1] if call.scope.prefix else ''}; now {call.name} is called there."
                )
            )
        self.drop(call.scope.prefix, [call.number])

    def fits(self, call: Call, record: dict[str, Any]) -> bool:
        """Whether a record is of this very call; ``False`` where it differs on purpose, and is to be replaced."""
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
        """Whether a record may be replaced where the call is another: one of before the last change on purpose."""
        return int(record.get("revision", 0)) < self.revision

    def revise(self, seen: int) -> None:
        """Something changed: what was recorded before this moment need not fit any more. Once per change."""
        if seen >= self.revision:
            self.revision += 1
            self.note(revision=self.revision)

    def note(self, **facts: Any) -> None:
        """Change what the run knows of its function. At once: the start of a step is told alone, and comes after."""
        self._about = {**self._about, **facts}
        self.run._buffer.put("context", FUNCTION, self._about)
        self.run._buffer.commit(None)

    def ended(self, scope: Scope) -> None:
        """A sequence of calls is over: an earlier one that was longer was another one."""
        for number in range(scope.count + 1, scope.last + 1):
            path = self._index.get(scope.prefix, {}).get(number)
            found = self.records.get(path) if path is not None else None
            if found is None:
                continue
            if not self.allows(found[0]):
                raise self.breaks(
                    Diverged(
                        f"Run {self.run.id} has {path} as its next call; now the workflow ends without it."
                    )
                )
            self.drop(scope.prefix, [number])

    def drop(self, prefix: str, numbers: list[int]) -> None:
        """Calls that are not made any more, with all that is below them."""
        index = self._index.get(prefix, {})
        self.drop_below([path for number in numbers if (path := index.pop(number, None)) is not None])

    def drop_below(self, gone: list[str]) -> None:
        """Steps, with all that is below them; at once, so that what takes their place comes after."""
        paths = [path for top in gone for path in self._below(top)]
        if paths:
            self.records.drop(paths)
            self.run._buffer.commit(None)

    def _below(self, top: str) -> list[str]:
        """A recorded step and all that is below it."""
        if top not in self._parents:
            return [top]
        with self.run._buffer.lock:
            return [
                path for path in self.run._buffer.step_records() if path == top or path.startswith(top + "/")
            ]

    # -- failures

    def failed(self, error: BaseException, call: Call) -> None:
        self._failures = [*self._failures[-_REMEMBERED:], (error, call)]

    def give_way(self, call: Call, raised: dict[str, Any]) -> None:
        """A step whose failure ended the run runs again: what was called after it had failed gives way.

        Calls that were made beside it may stay where they fit; nobody knows what the workflow had seen by then.
        """
        prefix, number = call.scope.prefix, raised.get("next")
        if number is None:
            return
        if raised.get("apart"):
            self.revise(self.revision)
            return
        index = self._index.get(prefix, {})
        self.drop(prefix, [n for n in index if n >= number])
        call.scope.last = min(call.scope.last, number - 1)

    def failed_again(self, path: str) -> None:
        """A recorded failure stands: what resuming had put back, to be done again, is failed as it was."""
        for step in self._below(path):
            found = self.records.get(step)
            if found is not None and "error" in found[0]:
                self.records.put(step, lifecycle.fail(found[0], self.records.now(), found[0]["error"]))

    def escaped(self, error: BaseException) -> None:
        """An error ends a workflow: the failures that it is, or comes from, or consists of, were not dealt with."""
        seen: list[BaseException] = [error]
        for one in seen:
            for known, call in self._failures:
                if known is one:
                    call.mark_escaped()
            more = [one.__cause__, *getattr(one, "exceptions", ())]
            seen += [other for other in more if other is not None and len(seen) < _REMEMBERED]

    # -- the end

    def finish(self, result: Any) -> Any:
        """The workflow returned: its result and the run's end are one commit. The result as it was recorded."""
        self.check()
        run = self.run
        with run._buffer.committing:
            with run._buffer.lock:
                change = run._buffer.pending.put("context", RETURNED, {"value": result})
            stored = change.entry("value")
            run._settle("completed", None, None)
        return stored

    def leave(self, error: BaseException) -> None:
        """The workflow raised: the run failed, or is paused where somebody interrupted it."""
        self.closed = True
        if not self.run._buffer.driving:
            return
        try:
            if isinstance(error, Exception):
                self.escaped(error)
            for call in list(self._live.values()):  # threads that are left behind
                call.put_back()
        except LeftoffError:
            pass  # told by whoever commits next
        told = KeyboardInterrupt() if _by_ctrl_c(error) else error
        self.run.__exit__(type(told), told, error.__traceback__)


def _by_ctrl_c(error: BaseException) -> bool:
    """Whether a task was cancelled because somebody pressed Ctrl-C, which ``asyncio.run`` tells only afterwards."""
    if type(error).__name__ != "CancelledError":
        return False
    from signal import SIGINT, getsignal

    runner = getattr(getattr(getsignal(SIGINT), "func", None), "__self__", None)
    return bool(getattr(runner, "_interrupt_count", 0))
