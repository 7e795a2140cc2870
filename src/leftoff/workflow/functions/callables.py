"""A step or a workflow as an object that can be called, mapped and deferred.

Where it is called decides what happens. Outside a workflow a step is the plain function, and a workflow starts or
resumes its run. Inside a workflow the call is recorded, or replayed. Inside a step everything is part of that step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from leftoff.api.arguments import Signature
from leftoff.errors import Usage
from leftoff.workflow.functions.options import Options
from leftoff.workflow.functions.scope import IN_STEP, current, flows, needs_key, stray

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from leftoff.workflow.functions.call import Call
    from leftoff.workflow.functions.handles import Handle, TaskHandle
    from leftoff.workflow.functions.scope import Scope

P = ParamSpec("P")
R = TypeVar("R")
AT_A_TIME = 4


class Durable:
    """What steps and workflows have in common."""

    __name__: str
    __qualname__: str
    is_group = False  # whether a call of it has steps below it

    def __init__(self, function: Callable[..., Any], settings: Options) -> None:
        self.plain = function  # the function itself: calling this records nothing
        self.settings = settings
        self.name = settings.name
        self.signature = Signature(function, settings.name)
        self._fixed_key: str | None = None
        for word in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, word):
                setattr(self, word, getattr(function, word))
        self.__wrapped__ = function

    # -- identity

    def counted(self, bound: dict[str, Any]) -> dict[str, Any]:
        """The arguments that tell one call from another."""
        ignore = self.settings.ignore
        return {name: value for name, value in bound.items() if name not in ignore} if ignore else bound

    def key_of(self, bound: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any]) -> str | None:
        """What a call is known by, where that is not its number."""
        if self._fixed_key is not None:
            return self._fixed_key
        key = self.settings.key
        if key is None:
            return None
        found = key(*args, **named) if callable(key) else bound.get(key)
        return _key(found, self.name)

    def keying(self, key: Any) -> Any:
        """By what the items of a map are known: what was said there, else what the step says."""
        return self.settings.key if key is None else key

    def key_by(self, key: Any, args: tuple[Any, ...]) -> str:
        if callable(key):
            return _key(key(*args), self.name)
        return _key(self.signature.bind(args, {}).get(key), self.name)

    def keyed(self, key: str) -> Any:
        """The same, for one call that is known by this key instead of its number."""
        made = self._copy(self.settings)
        made._fixed_key = _key(key, self.name)
        return made

    def options(self, **changed: Any) -> Any:
        """The same with other options, for one call or many: ``fetch.options(timeout="1h")(url)``."""
        mine = {word: getattr(self.settings, word) for word in Options.__slots__ if word != "name"}
        unknown = [word for word in changed if word not in mine]
        if unknown:
            raise Usage(f"A step has no option {unknown[0]!r}.", hint=f"Options: {', '.join(mine)}.")
        made = self._copy(Options(self.name, **{**mine, **changed}))
        made._fixed_key = self._fixed_key
        return made

    def _copy(self, settings: Options) -> Any:
        return type(self)(self.plain, settings)

    # -- calls

    def make(self, call: Call) -> Any:
        """Make a call whose identity is known: its value, or a coroutine that gives it."""
        raise NotImplementedError

    def _scope(self) -> Scope | None:
        """Where this call is made; ``None``: outside every workflow, or inside a step."""
        scope = current.get()
        if scope is IN_STEP:
            return None
        if scope is None and flows:
            scope = stray()
            if scope is not None and self._fixed_key is None and self.settings.key is None:
                raise needs_key(self.name, "another thread than the workflow's own")
        return cast("Scope | None", scope)

    def _place(self, scope: Scope, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        from leftoff.workflow.functions.call import place

        return self.make(place(self, scope, args, named))

    def __reduce__(self) -> str:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<leftoff {'workflow' if self.is_group else 'step'} {self.name}>"


def _key(found: Any, name: str) -> str:
    if isinstance(found, bool) or not isinstance(found, (str, int)) or found == "":
        raise Usage(
            f"{found!r} cannot be the key of a call of {name}.", hint="A key is text, or a whole number."
        )
    return str(found)


class InThreads(Durable, Generic[P, R]):
    """A plain function: several calls at a time are made by threads."""

    def map(
        self, items: Iterable[Any], *more: Iterable[Any], max_parallel: int = AT_A_TIME, key: Any = None
    ) -> list[R]:
        """Call it for each item, ``max_parallel`` at a time, in threads; the results in the order of the items.

        ``key`` names the items, by a parameter or by what it returns for one; left out, they are known by their place.
        """
        from leftoff.workflow.functions.maps import map_in_threads

        return map_in_threads(self, self._scope(), (items, *more), max_parallel, key)

    def defer(self, *args: P.args, **named: P.kwargs) -> Handle[R]:
        """Begin the call in a thread and go on; ``result()`` of what this gives waits for it."""
        from leftoff.workflow.functions.handles import defer_to_thread

        return defer_to_thread(self, self._scope(), args, named)


class InTasks(Durable, Generic[P, R]):
    """A coroutine function: several calls at a time are made by tasks."""

    def map(
        self, items: Iterable[Any], *more: Iterable[Any], max_parallel: int = AT_A_TIME, key: Any = None
    ) -> Coroutine[Any, Any, list[R]]:
        """Call it for each item, ``max_parallel`` at a time, in tasks; the results in the order of the items.

        ``key`` names the items, by a parameter or by what it returns for one; left out, they are known by their place.
        """
        from leftoff.workflow.functions.maps import map_in_tasks

        return map_in_tasks(self, self._scope(), (items, *more), max_parallel, key)

    def defer(self, *args: P.args, **named: P.kwargs) -> TaskHandle[R]:
        """Begin the call in a task and go on; await what this gives."""
        from leftoff.workflow.functions.handles import defer_to_task

        return defer_to_task(self, self._scope(), args, named)


class StepFunction(InThreads[P, R]):
    """A plain function that is a step."""

    def make(self, call: Call) -> Any:
        from leftoff.workflow.functions.bodies import run_step

        return run_step(call)

    def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        scope = self._scope()
        made = self.plain(*args, **named) if scope is None else self._place(scope, args, named)
        return cast(R, made)


class AsyncStepFunction(InTasks[P, R]):
    """A coroutine function that is a step."""

    def make(self, call: Call) -> Any:
        from leftoff.workflow.functions.bodies import run_step_async

        return run_step_async(call)

    def __call__(self, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, R]:
        scope = self._scope()
        made = self.plain(*args, **named) if scope is None else self._place(scope, args, named)
        return cast("Coroutine[Any, Any, R]", made)


class Runs(Durable):
    """A workflow: called outside every other it has a run of its own."""

    is_group = True

    def __init__(
        self, function: Callable[..., Any], settings: Options, max_parallel: int = AT_A_TIME
    ) -> None:
        super().__init__(function, settings)
        self.max_parallel = max_parallel  # deferred calls of one branch
        self.preset: dict[str, Any] = {}

    def _copy(self, settings: Options) -> Any:
        made = type(self)(self.plain, settings, self.max_parallel)
        made.preset = self.preset
        return made

    def options(self, **changed: Any) -> Any:
        """The same with other options, those of ``run`` among them: ``crawl.options(title="Nightly").run(urls)``."""
        from leftoff.workflow.functions.opening import WORDS

        preset = {word: changed.pop(word) for word in WORDS if word in changed}
        parallel = changed.pop("max_parallel", self.max_parallel)
        made = super().options(**changed)
        made.max_parallel = parallel
        made.preset = {**self.preset, **preset}
        return made

    def _asked(self, args: tuple[Any, ...], named: dict[str, Any], options: dict[str, Any]) -> Any:
        """A request for a run; options that the function has as parameters of its own are the function's."""
        from leftoff.workflow.functions.opening import Request

        if current.get() not in (None, IN_STEP):
            raise Usage(
                f"{self.name}.run was called inside a workflow.",
                hint=f"{self.name}(…) makes it a part of this run; a step may start a run of its own.",
            )
        return Request(self, args, named, {**self.preset, **options})

    def _split(self, named: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        from leftoff.workflow.functions.opening import WORDS

        options = {word: named[word] for word in WORDS if word in named and not self.signature.has(word)}
        return {word: value for word, value in named.items() if word not in options}, options

    def _call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        scope = current.get()
        if scope is IN_STEP:
            return self.plain(*args, **named)
        return self._start(self._asked(args, named, {})) if scope is None else self._place(scope, args, named)

    def _start(self, request: Any) -> Any:
        raise NotImplementedError


class WorkflowFunction(Runs, InThreads[P, R]):
    """A plain function that is a workflow."""

    def make(self, call: Call) -> Any:
        from leftoff.workflow.functions.bodies import run_group

        return run_group(call)

    def _start(self, request: Any) -> Any:
        from leftoff.workflow.functions.bodies import execute

        return execute(request)

    def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        return cast(R, self._call(args, named))

    def run(self, *args: Any, **named: Any) -> R:
        """Start a run, or go on with the one that was cut off: of this ``run_id``, else of the same arguments.

        Options beside the function's own parameters: ``run_id``, ``title``, ``branch``, ``issue``, ``store``,
        ``take_over``, ``again``. A finished run of that ``run_id`` gives its recorded result.
        """
        return cast(R, self._start(self._asked(args, *self._split(named))))

    def resume(self, ref: str | None = None, **options: Any) -> R:
        """Go on with the latest unfinished run of this workflow, or with what ``ref`` names, with its own arguments."""
        return cast(R, self._start(self._asked((), {}, options).resuming(ref)))


class AsyncWorkflowFunction(Runs, InTasks[P, R]):
    """A coroutine function that is a workflow."""

    def make(self, call: Call) -> Any:
        from leftoff.workflow.functions.bodies import run_group_async

        return run_group_async(call)

    def _start(self, request: Any) -> Any:
        from leftoff.workflow.functions.bodies import execute_async

        return execute_async(request)

    def __call__(self, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, R]:
        return cast("Coroutine[Any, Any, R]", self._call(args, named))

    def run(self, *args: Any, **named: Any) -> Coroutine[Any, Any, R]:
        """Start a run, or go on with the one that was cut off: of this ``run_id``, else of the same arguments.

        Options beside the function's own parameters: ``run_id``, ``title``, ``branch``, ``issue``, ``store``,
        ``take_over``, ``again``. A finished run of that ``run_id`` gives its recorded result.
        """
        return cast("Coroutine[Any, Any, R]", self._start(self._asked(args, *self._split(named))))

    def resume(self, ref: str | None = None, **options: Any) -> Coroutine[Any, Any, R]:
        """Go on with the latest unfinished run of this workflow, or with what ``ref`` names, with its own arguments."""
        return cast("Coroutine[Any, Any, R]", self._start(self._asked((), {}, options).resuming(ref)))
