"""``run.map``: a function over many items, a step each, several at once; what fails does not stop the others."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from leftoff.api.steps import Step
from leftoff.errors import LeftoffError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from leftoff.api.run import Run
    from leftoff.api.steps import Item

SHOWN = 5  # items that failed, in the summary


class Results(list[Any]):
    """What a function returned for each item, in the order of the items; ``None`` where it failed.

    ``failures``: by the item's key, the exception.
    """

    def __init__(self, number: int) -> None:
        super().__init__([None] * number)
        self.failures: dict[str, Exception] = {}


class ItemMap:
    """One call of ``run.map``."""

    def __init__(self, run: Run, path: str, items: list[Item[Any]], *, keep_going: bool, again: bool) -> None:
        self.run, self.path, self.items = run, path, items
        self.keep_going, self.again = keep_going, again
        self.results = Results(len(items))
        self.stopped = False

    @property
    def todo(self) -> list[int]:
        return [n for n, (_, below, _) in enumerate(self.items) if self.again or not self.run.done(below)]

    def failed(self, number: int, error: Exception) -> None:
        """One item failed: the others go on, or nothing new begins."""
        if isinstance(error, LeftoffError) and not self.run._buffer.driving:
            raise error  # the run is not ours any more
        self.results.failures[self.items[number][1].removeprefix(f"{self.path}/")] = error
        if not self.keep_going:
            self.stopped = True

    def close(self) -> Results:
        """All that could be done is done. The first failure is raised, or they are summed up."""
        for number, (_, below, _) in enumerate(self.items):
            if self.run.done(below):
                self.results[number] = self.run.result(below)
        if self.results.failures and not self.keep_going:
            raise next(iter(self.results.failures.values()))
        return self.results

    def tell(self) -> None:
        names, number = list(self.results.failures), len(self.items)
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            text = f"{len(names)} of {number} items of {self.path} failed: {', '.join(names[:SHOWN])}{more}."
            self.run._left_undone = text
            print(f"leftoff: {text} Start it again to retry those.", file=sys.stderr)

    # -- one after the other, or several at once

    def go(self, fn: Callable[[Any], Any], at_once: int) -> Results:
        if not self.todo:
            return self.close()
        with self._whole():
            self._all(fn, at_once)
        self.tell()
        return self.close()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """The step that the items belong to: it fails where one of them did, and that is told otherwise."""
        try:
            with Step(self.run, self.path, again=True):
                yield
                if self.results.failures:
                    raise ItemsFailed(f"{len(self.results.failures)} of {len(self.items)} items failed")
        except ItemsFailed:
            pass

    def _all(self, fn: Callable[[Any], Any], at_once: int) -> None:
        if at_once <= 1:
            for number in self.todo:
                self._one(fn, number)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(at_once, thread_name_prefix="leftoff-map") as pool:
            waiting = [pool.submit(self._one, fn, number) for number in self.todo]
            try:
                for each in waiting:
                    each.result()
            except BaseException:
                self.stopped = True
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _one(self, fn: Callable[[Any], Any], number: int) -> None:
        item, below, content = self.items[number]
        if self.stopped:
            return
        try:
            with Step(self.run, below, again=True, given=content) as step:
                step.result = fn(item)
        except Exception as error:
            self.failed(number, error)

    async def go_async(self, fn: Callable[[Any], Coroutine[Any, Any, Any]], at_once: int) -> Results:
        if not self.todo:
            return self.close()
        import asyncio

        free = asyncio.Semaphore(max(1, at_once))

        async def one(number: int) -> None:
            async with free:
                if self.stopped:
                    return
                item, below, content = self.items[number]
                try:
                    with Step(self.run, below, again=True, given=content) as step:
                        step.result = await fn(item)
                except Exception as error:
                    self.failed(number, error)

        with self._whole():
            await asyncio.gather(*(one(number) for number in self.todo))
        self.tell()
        return self.close()


class ItemsFailed(Exception):
    """Items failed, so what they are items of did."""
