"""Loops (``run.each``) and parallel calls (``run.map``): a batch is a step, with a step below it for each item."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import Seal
from leftoff.errors import Invalid, LeftoffError
from leftoff.model.ids import check_step, quote_part
from leftoff.model.words import EACH
from leftoff.python.arguments import NO_CONTENT, Given, content, given_arguments
from leftoff.python.calls import (
    Attempts,
    code_digest,
    in_tasks,
    in_threads,
    is_coroutine_function,
    make_step,
    plainly,
)
from leftoff.python.run_steps import RunSteps, Step

T = TypeVar("T")
R = TypeVar("R")
Item = tuple[T, str, Given | None]  # an item, the path of its step, and its content

SHOWN = 5  # failed items that a summary names


def found_items(
    steps: RunSteps, path: str, items: Iterable[T], key: Any, again: bool, fn: Any = None
) -> Iterable[Item[T]]:
    """Return each item with the path of its step. A list of items is declared up front, to show the progress.

    ``fn``: the function that is called with the items.
    """
    buffer, code = steps.buffer, code_digest(fn) if fn is not None else None
    taken: set[str] = set()

    def name(item: T) -> str:
        below = free_path(path, _item_key(item, key), taken)
        taken.add(below)
        return below

    def given(item: T) -> Given | None:
        """Return the content of an item. An item without a key is known by its name alone."""
        if isinstance(fn, partial):
            return given_arguments(fn, (item,), {}, buffer.redactor).of(code)
        if key is not None:
            return content(item, buffer.redactor).of(code)
        return NO_CONTENT.of(code) if code is not None else None

    if not isinstance(items, (list, tuple, dict, set, frozenset, range)):
        return ((item, name(item), given(item)) for item in items)
    found = [(item, check_step(name(item)), given(item)) for item in items]
    if not again:
        for _, below, now in found:
            steps.finished(below, now, path)
    new = [below for _, below, _ in found if buffer.step(below) is None]
    if new and buffer.step(path) is None:
        buffer.declare_step(path, None, {EACH: True})
    buffer.declare_items([(below, None) for below in new], [path])
    return found


def free_path(batch: str, key: str, taken: Container[str]) -> str:
    """Return the path of an item's step. The second item of a name gets a number."""
    base = f"{batch}/{quote_part(key)}"
    path, number = base, 2
    while path in taken:
        path, number = f"{base}#{number}", number + 1
    return path


def _item_key(item: Any, key: Any) -> str:
    """Return the name of an item: the item itself, its field, or what ``key`` returns for it."""
    if callable(key):
        name = key(item)
    elif isinstance(key, str):
        name = item.get(key) if isinstance(item, Mapping) else getattr(item, key, None)
        if name is None:
            raise Invalid(f"An item of type {type(item).__name__} has no {key!r} to be named by.")
    elif isinstance(item, str):
        name = item
    elif isinstance(item, (int, float)) and not isinstance(item, bool):
        name = repr(item)
    elif hasattr(item, "__fspath__"):
        name = item.__fspath__()
    else:
        raise Invalid(
            f"An item of type {type(item).__name__} has no name.",
            hint='Say what names it: run.each(step, items, key="id"), or key=lambda item: …',
        )
    if not isinstance(name, (str, int)) or name == "":
        raise Invalid(f"{name!r} cannot name an item.", hint="key= must give text that is not empty.")
    return str(name)


# -- run.each
#
# Asking for the next item completes the one before. A loop that is left does not say why: `break` and an exception both
# only release the iterator. So the item stays open until the run is used again or ends. If an exception that leaves the
# run's `with` block passed the place at which the loop was left, it fails the item. Else the item is to be done again.


class Each(Iterator[T], Generic[T]):
    """The items of a batch that are not finished, each a step below the batch's own."""

    def __init__(self, steps: RunSteps, path: str, items: Iterator[Item[T]], again: bool) -> None:
        self._steps = steps
        self._path = path
        self._items = items
        self._again = again
        self._ran = False
        self._step: Step | None = None

    def __iter__(self) -> Each[T]:
        return self

    def __next__(self) -> T:
        buffer, batch = self._steps.buffer, self._path
        done, self._step = self._step, None
        if done is not None:
            self._steps.complete(done)
        for item, below, given in self._items:
            if self._again or not self._steps.finished(below, given, batch):
                record, self._ran = buffer.step_or_new(batch), True
                if record.get("status") != "running":
                    buffer.move_step(batch, lifecycle.enter({**record, EACH: True}, buffer.now()))
                # Whether the item is finished was asked already.
                self._step = Step(self._steps, below, batch=batch, again=True, given=given).__enter__()
                return item
        # All items are finished. Nothing is written if the batch was complete before.
        record = buffer.step_or_new(batch)
        if self._ran or record.get("status") != "completed":
            buffer.move_step(batch, lifecycle.complete(record, buffer.now()))
            buffer.commit(Seal("step_complete", batch))
        self._ran = False
        raise StopIteration

    def close(self) -> None:
        """Leave the loop. The next use of the run, or its end, settles the item."""
        step, self._step = getattr(self, "_step", None), None
        if step is not None:
            frame = sys._getframe(1)
            self._steps.left(step, (frame.f_code, frame.f_lasti))

    __del__ = close


# -- run.map


class Results(list[R]):
    """What a function returned for each item, in the order of the items; ``None`` where it failed.

    ``failures``: by the item's key, the exception.
    """

    def __init__(self, number: int) -> None:
        nothing: Any = [None] * number
        super().__init__(nothing)
        self.failures: dict[str, Exception] = {}


class _ItemsFailed(Exception):
    """Ends the step of a map some of whose items failed."""


class ItemMap:
    """One call of ``run.map``: a function over many items, a step each, several in parallel."""

    def __init__(
        self,
        steps: RunSteps,
        path: str,
        fn: Callable[[Any], Any],
        items: list[Item[Any]],
        attempts: Attempts,
        *,
        keep_going: bool,
        again: bool,
    ) -> None:
        self.name = path
        self.results: Results[Any] = Results(len(items))
        self.stopped = False  # an item has failed
        self._steps, self._items = steps, items
        self._fn, self._is_async = fn, is_coroutine_function(fn)
        self._attempts = attempts
        self._keep_going = keep_going
        self._again = again
        self._live: dict[str, Step] = {}  # items that are under way

    def run(self, max_parallel: int) -> Any:
        """Return the results of all items, or a coroutine that does. Raise the first failure, unless the map keeps
        going."""
        return self._course(max_parallel) if self._is_async else plainly(self._course(max_parallel))

    async def _course(self, max_parallel: int) -> Results[Any]:
        steps, change = self._steps, self._attempts.on_code_change
        todo = [
            number
            for number, (_, below, given) in enumerate(self._items)
            if self._again or not steps.finished(below, given, self.name, change)
        ]
        with self._whole(todo):
            if self._is_async:
                await in_tasks(self, todo, max_parallel)
            elif max_parallel <= 1:
                for number in todo:
                    self.make(number)
            else:
                try:
                    in_threads(self, todo, max_parallel)
                except BaseException:
                    self.stopped = True
                    steps.drop(list(self._live.values()))
                    raise
        for number, (_, below, _) in enumerate(self._items):
            if steps.done(below):
                self.results[number] = steps.result(below)
        if self.results.failures and not self._keep_going:
            raise next(iter(self.results.failures.values()))
        return self.results

    def make(self, index: int) -> Any:
        """Call the function for one item, or return a coroutine that does."""
        return self._make(index) if self._is_async else plainly(self._make(index))

    async def _make(self, index: int) -> None:
        """Make the step of an item, unless another item has failed. Note its failure."""
        item, below, given = self._items[index]

        def enter() -> Step:
            step = self._live[below] = Step(self._steps, below, again=True, given=given)
            return step

        if self.stopped:
            return
        try:
            await make_step(enter, partial(self._fn, item), self._attempts, is_async=self._is_async)
        except Exception as error:
            if isinstance(error, LeftoffError) and not self._steps.buffer.driving:
                raise  # this process lost the run
            self.results.failures[below.removeprefix(f"{self.name}/")] = error
            self.stopped = not self._keep_going
        finally:
            self._live.pop(below, None)

    @contextmanager
    def _whole(self, todo: list[int]) -> Iterator[None]:
        """Enter the step that the items belong to, if any is left to do. It fails if one of them does."""
        if not todo:
            yield
            return
        failures = self.results.failures
        try:
            with Step(self._steps, self.name, again=True):
                yield
                if failures:
                    raise _ItemsFailed(f"{len(failures)} of {len(self._items)} items failed")
        except _ItemsFailed:
            names = ", ".join([*failures][:SHOWN])
            more = f" and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
            text = f"{len(failures)} of {len(self._items)} items of {self.name} failed: {names}{more}."
            self._steps.left_undone = text
            print(f"leftoff: {text} Start it again to retry those.", file=sys.stderr)
