"""What is written of a step, and when.

Starts and ends of steps are committed by the buffer (`leftoff.api.run_buffer`): starts may wait in a burst of quick
steps, ends are durable before the workflow continues, and threads that end steps at the same time share a commit.
"""

from __future__ import annotations

from leftoff.model.changes import NOTHING
from leftoff.model.ids import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.api.run import Run
    from leftoff.engine.write.commit import Seal

Record = dict[str, "Any"]


class Records:
    """The step records of one run that this process drives."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run

    def now(self) -> str:
        return self.run._buffer.now()

    def get(self, path: str) -> tuple[Record, list[list[Any]]] | None:
        """A step's record and its redacted paths."""
        run = self.run
        with run._buffer.lock:
            return run._buffer.step_records().get(path)

    def begin(self, path: str, record: Record, *, sure: bool = False) -> None:
        """A step starts. ``sure``: that is durable before it does."""
        self.run._buffer.start_step(path, record, ancestors(path), durable=sure)

    def put(self, path: str, record: Record) -> None:
        """Durable with the next commit."""
        self.run._buffer.move_step(path, record)

    def declare(self, above_all: str, paths: list[tuple[str, Record]]) -> None:
        """Steps that will come, so that progress can be seen."""
        for path, record in paths:
            self.run._buffer.move_step(path, record)
        self.run._buffer.commit(None, only=[*ancestors(above_all), above_all, *(path for path, _ in paths)])

    def end(self, path: str, record: Record, took: float) -> Any:
        """A step is complete, durably; its result as it will be read from now on."""
        return self.run._buffer.complete_step(path, record, took)

    def fail(self, path: str, record: Record, seal: Seal | None) -> None:
        """A step failed, or was cut off."""
        self.run._buffer.fail_step(path, record, seal)

    def drop(self, paths: list[str]) -> None:
        """Steps of a course of events that is not taken any more; they stay in the history."""
        run = self.run
        with run._buffer.lock:
            for path in paths:
                run._buffer.remove_step(path)

    def told(self, error: BaseException) -> bool:
        """Whether a failure was sealed already."""
        return self.run._steps.is_sealed(error)

    def remember(self, error: BaseException) -> None:
        self.run._steps.mark_sealed(error)

    def about(self, error: BaseException, lost: Any = NOTHING) -> dict[str, str]:
        """An error as a record has it. ``lost``: what the step returned, and cannot be recorded."""
        kind = type(error)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}:{kind.__qualname__}"
        )
        return self.run._steps.describe(error, name, lost)
