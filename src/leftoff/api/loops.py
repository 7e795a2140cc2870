"""``run.each``: a loop whose turns are steps, and how it is left.

Going on to the next item completes the one before. A loop that is left is not told why, and the two reasons must not
be confused: ``break`` leaves the item to be done, an exception fails it, also one that is caught outside the loop. So
when the iterator is let go of, the instruction that the loop's frame is at is looked at: ``break`` and ``return`` pop
the iterator, an exception strikes somewhere else. Where that cannot be told, the run's ``with`` block tells.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from leftoff.clock import iso
from leftoff.engine.steps import lifecycle
from leftoff.engine.write.commit import Seal
from leftoff.errors import LeftoffError
from leftoff.model.words import EACH

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from leftoff.api.arguments import Given
    from leftoff.api.steps import Item, Step, StepsMixin

T = TypeVar("T")

BROKE, RAISED, UNTOLD = "broke", "raised", "untold"

# What a frame is at while it lets go of an iterator in the ordinary course of things.
_ORDINARY = ("POP_TOP", "POP_ITER", "END_FOR", "FOR_ITER", "RETURN_VALUE", "RETURN_CONST", "SWAP")
_ORDINARY_STARTS = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "DELETE_")
_GENERATOR = 0x20  # among the flags of a code object


def loops_of(frame: FrameType | None) -> list[tuple[int, CodeType]]:
    """The frame that asks for an item and, where that is a generator, the one that asks it in turn, and so on.

    By identity: holding a frame would keep everything in it alive. An address may be used again, so the code too.
    """
    out = []
    while frame is not None:
        out.append((id(frame), frame.f_code))
        frame = frame.f_back if frame.f_code.co_flags & _GENERATOR else None
    return out


def how_left(frame: FrameType | None, loops: list[tuple[int, CodeType]]) -> str:
    """Whether an iterator that a frame lets go of right now was left by ``break`` or by an exception."""
    from opcode import opname

    if frame is None or frame.f_lasti < 0:
        return UNTOLD
    name = opname[frame.f_code.co_code[frame.f_lasti]]
    # An exception that was caught is forgotten, and with it the frames it went through.
    if name == "POP_EXCEPT":
        return RAISED
    if (id(frame), frame.f_code) not in loops:
        return UNTOLD
    return BROKE if name in _ORDINARY or name.startswith(_ORDINARY_STARTS) else RAISED


class Each(Iterator[T], Generic[T]):
    """The items of a batch that are not finished, each a step below the batch's own."""

    def __init__(self, run: StepsMixin, path: str, items: Iterator[Item[T]], again: bool) -> None:
        self._run = run
        self._path = path
        self._items = items
        self._again = again
        self._ran = False
        self._step: Step | None = None
        self._loops: list[tuple[int, CodeType]] = []

    def __iter__(self) -> Each[T]:
        return self

    def __next__(self) -> T:
        done, self._step = self._step, None
        if done is not None:
            self._run._complete(done)
        for item, below, content in self._items:
            if self._again or not self._run._finished(below, content, self._path):
                self._begin(below, content)
                self._loops = loops_of(sys._getframe(1))
                return item
        self._end()
        raise StopIteration

    def _begin(self, below: str, content: Given | None) -> None:
        record = self._run._buffer.steps.get(self._path)
        if record is None or record["status"] != "running":
            now = iso(self._run._buffer.clock.now())
            self._run._buffer.steps.change(
                self._path, lambda record: lifecycle.enter({**record, EACH: True}, now)
            )
        step = self._run._item(below, self._path, content)
        self._run._enter(step)
        self._step, self._ran = step, True

    def _end(self) -> None:
        """All items are finished, so the batch is; nothing to say where it was before."""
        record = self._run._buffer.steps.get(self._path)
        if self._ran or record is None or record["status"] != "completed":
            now = iso(self._run._buffer.clock.now())
            self._run._buffer.steps.change(self._path, lambda record: lifecycle.complete(record, now))
            self._run._buffer.commit(Seal("step_complete", self._path))
        self._ran = False

    def close(self) -> None:
        """Leave the loop as ``break`` does."""
        step, self._step = self._step, None
        if step is not None:
            self._run._left(step, BROKE)

    def __del__(self) -> None:
        step, self._step = getattr(self, "_step", None), None
        if step is None:
            return
        try:
            self._run._left(step, how_left(sys._getframe().f_back, self._loops))
        except LeftoffError:
            pass  # nobody can be told from here; the next commit says it
