"""``map``: one call per item, a few at a time, the results in the order of the items.

The map is a step, its items are steps below it. An item is known by its place, or by a key; those that are finished are
not called again. Whoever runs the items, threads or tasks, asks here what is left to do and tells how it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.api.arguments import encoded
from leftoff.engine.steps import lifecycle
from leftoff.errors import Usage
from leftoff.model.ids import quote_part
from leftoff.workflow.functions.call import MISSING, NEVER, Call, Group
from leftoff.workflow.functions.crews import Team, check_size
from leftoff.workflow.functions.scope import needs_key

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from leftoff.workflow.functions.callables import Durable
    from leftoff.workflow.functions.scope import Scope

AT_ONCE = 500  # items that are declared in one commit


class Map:
    """One map, its identity taken when it is made."""

    def __init__(
        self, function: Durable, scope: Scope, items: list[tuple[Any, ...]], key: Any = None
    ) -> None:
        self._function = function
        self._scope = scope
        self._items = items
        scope.flow.check()
        if not scope.own():
            raise needs_key(f"{function.name}.map", "another thread or task than the workflow's own")
        number = scope.number()
        path = scope.path(function.name, number)
        about = {"items": len(items)}
        self.group = Group(function, scope, (), {}, about, (number, path, number))
        self._paths = self._keyed(function.keying(key))
        self.results: list[Any] = [None] * len(items)
        self.stopped = False  # an item has failed: nothing new is begun

    def _keyed(self, key: Any) -> list[str] | None:
        """The paths of items that are known by a key; the second of a name gets a number."""
        if key is None:
            return None
        taken: dict[str, None] = {}
        for item in self._items:
            base = f"{self.group.path}/{quote_part(self._function.key_by(key, item))}"
            path, number = base, 2
            while path in taken:
                path, number = f"{base}#{number}", number + 1
            taken[path] = None
        return list(taken)

    def _path(self, index: int) -> str:
        return self._paths[index] if self._paths is not None else f"{self.group.path}/{index + 1}"

    def call(self, index: int) -> Call:
        """The call for one item."""
        function, args = self._function, self._items[index]
        bound = function.signature.bind(args, {})
        arguments = encoded(function.counted(bound), function.name)
        make = Group if function.is_group else Call
        call = make(function, self._scope, args, {}, arguments, (0, self._path(index), index))
        call.reaches, call.map = NEVER, self  # what reaches the workflow is the failure of the map
        return call

    def left(self) -> list[int]:
        """The items that are to be called; of all others the results are there."""
        found = self.group.recorded()
        todo: Iterable[int] = range(len(self._items))
        if self.group.replaces:
            self._drop_others()
        if self._scope.flow.run.resumed:
            todo = [index for index in todo if not self._take(index)]
        if found is MISSING or todo:
            self.group.begin()
            self._declare(todo)
        return list(todo)

    def _drop_others(self) -> None:
        """Items that there are no more, of a map that differs on purpose."""
        flow, start = self._scope.flow, f"{self.group.path}/"
        now = {self._path(index) for index in range(len(self._items))}
        with flow.run._buffer.lock:
            known = [path for path in flow.run._buffer.step_records() if path.startswith(start)]
        flow.drop_below([path for path in known if path not in now and "/" not in path[len(start) :]])

    def _take(self, index: int) -> bool:
        found = self.call(index).recorded()
        if found is MISSING:
            return False
        self.results[index] = found
        return True

    def _declare(self, todo: Iterable[int]) -> None:
        """So that progress can be seen. What an earlier process has declared or begun is there."""
        records = self._scope.flow.records
        new = [index for index in todo if records.get(self._path(index)) is None]
        for start in range(0, len(new), AT_ONCE):
            some = [(self._path(i), lifecycle.declare(i)) for i in new[start : start + AT_ONCE]]
            self.group.careful(lambda some=some: records.declare(self.group.path, some))

    def __enter__(self) -> Map:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """All items are done, or one has failed, or somebody wants out."""
        if not self.group.begun:
            return
        if error is None:
            self.group.succeed(None)
        elif isinstance(error, Exception):
            self.group.fail(error)
        else:
            self.group.cut_off(error)


def _arguments(iterables: tuple[Iterable[Any], ...]) -> list[tuple[Any, ...]]:
    """The arguments of each call, from one iterable or several."""
    try:
        return list(zip(*iterables, strict=True))
    except ValueError as error:
        raise Usage(
            f"map was given iterables of different lengths ({error}).",
            hint="One item of each is passed per call.",
        ) from None


def map_in_threads(
    function: Durable, scope: Scope | None, iterables: tuple[Iterable[Any], ...], size: int, key: Any
) -> list[Any]:
    """Outside a workflow: the plain function, in threads."""
    items, size = _arguments(iterables), check_size(size)
    if scope is None:
        results: list[Any] = [None] * len(items)

        def plain(index: int) -> None:
            results[index] = function.plain(*items[index])

        Team(plain, lambda: False).do(list(range(len(items))), size, f"leftoff {function.name}")
        return results
    work = Map(function, scope, items, key)

    def one(index: int) -> None:
        work.results[index] = function.make(work.call(index))

    with work:
        Team(one, lambda: work.stopped).do(work.left(), size, f"leftoff {work.group.path}")
    return work.results


def map_in_tasks(
    function: Durable, scope: Scope | None, iterables: tuple[Iterable[Any], ...], size: int, key: Any
) -> Coroutine[Any, Any, list[Any]]:
    """Outside a workflow: the plain function, in tasks. The identity is taken now, not when it is awaited."""
    items, size = _arguments(iterables), check_size(size)
    if scope is None:
        return _plain_tasks(function, items, size)
    return _recorded_tasks(function, Map(function, scope, items, key), size)


async def _plain_tasks(function: Durable, items: list[tuple[Any, ...]], size: int) -> list[Any]:
    results: list[Any] = [None] * len(items)

    async def one(index: int) -> None:
        results[index] = await function.plain(*items[index])

    await _in_tasks(one, list(range(len(items))), size)
    return results


async def _recorded_tasks(function: Durable, work: Map, size: int) -> list[Any]:
    async def one(index: int) -> None:
        work.results[index] = await function.make(work.call(index))

    with work:
        await _in_tasks(one, work.left(), size)
    return work.results


async def _in_tasks(work: Callable[[int], Coroutine[Any, Any, None]], todo: list[int], size: int) -> None:
    """Like a ``Team``."""
    import asyncio

    wanted, errors = iter(todo), dict[int, Exception]()

    async def one_after_another() -> None:
        while not errors and (number := next(wanted, None)) is not None:
            try:
                await work(number)
            except Exception as error:
                errors[number] = error

    await asyncio.gather(*(one_after_another() for _ in range(min(size, len(todo)))))
    if errors:
        raise errors[min(errors)]
