"""``@leftoff.step`` and ``@leftoff.workflow``, with and without arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from leftoff.api.values import check_return
from leftoff.errors import Usage
from leftoff.workflow.functions.callables import (
    AT_A_TIME,
    AsyncStepFunction,
    AsyncWorkflowFunction,
    Durable,
    StepFunction,
    WorkflowFunction,
)
from leftoff.workflow.functions.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any

P = ParamSpec("P")
R = TypeVar("R")
_COROUTINE, _GENERATORS = 0x80, 0x20 | 0x200  # among the flags of a code object


class StepMaker(Protocol):
    """``step(…)`` with options: what makes a function a step."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> AsyncStepFunction[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R]) -> StepFunction[P, R]: ...


class WorkflowMaker(Protocol):
    """``workflow(…)`` with options: what makes a function a workflow."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> AsyncWorkflowFunction[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R]) -> WorkflowFunction[P, R]: ...


@overload
def step(function: Callable[P, Coroutine[Any, Any, R]], **options: Any) -> AsyncStepFunction[P, R]: ...
@overload
def step(function: Callable[P, R], **options: Any) -> StepFunction[P, R]: ...
@overload
def step(
    function: None = None,
    *,
    name: str | None = None,
    retries: int | dict[str, Any] = 0,
    timeout: float | str | None = None,
    key: str | Callable[..., Any] | None = None,
    version: str | int | None = None,
    idempotent: bool = True,
    ignore: str | Iterable[str] = (),
) -> StepMaker: ...


def step(function: Any = None, *, name: str | None = None, **options: Any) -> Any:
    """Make a function a step: called in a workflow, it is recorded, and once finished not run again.

    ``retries``: how often a failed attempt is repeated (``{"max", "backoff", "factor", "jitter"}`` says how).
    ``timeout``: of one attempt, in seconds or like ``"10m"``. ``key``: the parameter, or a function of the arguments,
    that a call is known by instead of its number. ``version``: another one than was recorded runs the step again.
    ``idempotent=False``: one that was cut off is not repeated before a person says so. ``ignore``: parameters that do
    not tell one call from another, such as a connection.
    """
    if function is None:
        return lambda given: step(given, name=name, **options)
    settings = _settings(function, name, options)
    made: Durable = (AsyncStepFunction if _is_async(function) else StepFunction)(function, settings)
    if isinstance(settings.key, str) and not made.signature.names(settings.key):
        raise Usage(f"{settings.name} has no parameter {settings.key!r} to be its key.", hint='key="url"')
    check_return(function, settings.name)
    return made


@overload
def workflow(
    function: Callable[P, Coroutine[Any, Any, R]], **options: Any
) -> AsyncWorkflowFunction[P, R]: ...
@overload
def workflow(function: Callable[P, R], **options: Any) -> WorkflowFunction[P, R]: ...
@overload
def workflow(
    function: None = None,
    *,
    name: str | None = None,
    version: str | int | None = None,
    max_parallel: int = AT_A_TIME,
) -> WorkflowMaker: ...


def workflow(
    function: Any = None, *, name: str | None = None, max_parallel: int = AT_A_TIME, **options: Any
) -> Any:
    """Make a function a workflow: ``run`` it, and after any death run it again, or ``resume`` it.

    ``version``: another one than was recorded says that the function was changed on purpose; recorded steps that still
    fit are used, others run again. ``max_parallel``: how many deferred calls are under way at a time.
    """
    if function is None:
        return lambda given: workflow(given, name=name, max_parallel=max_parallel, **options)
    wrong = [word for word in options if word != "version"]
    if wrong:
        raise Usage(
            f"A workflow has no option {wrong[0]!r}.",
            hint="name, version, max_parallel; the others are a step's.",
        )
    from leftoff.workflow.functions.crews import check_size

    kind: Any = AsyncWorkflowFunction if _is_async(function) else WorkflowFunction
    return kind(function, _settings(function, name, options), check_size(max_parallel))


def _settings(function: Any, name: str | None, options: dict[str, Any]) -> Options:
    """The options, given that this is a function that can be durable at all."""
    if isinstance(function, Durable):
        raise Usage(f"{function!r} cannot be decorated twice.", hint="Give the inner one all options.")
    if isinstance(function, (staticmethod, classmethod)) or not callable(function):
        raise Usage(f"{function!r} is not a function.", hint="@staticmethod goes above @leftoff.step.")
    own = getattr(function, "__name__", None)
    code: Any = getattr(function, "__code__", None)
    unknown = [word for word in options if word not in Options.__slots__]
    if unknown:
        raise Usage(f"A step has no option {unknown[0]!r}.", hint=f"Options: {', '.join(Options.__slots__)}.")
    own_first = code is not None and code.co_argcount and not hasattr(function, "__func__")
    if own_first and code.co_varnames[0] in ("self", "cls"):
        raise Usage(
            f"{own} is a method: the object it belongs to cannot be recorded.",
            hint="Make it a function, or put @staticmethod above @leftoff.step.",
        )
    if code is not None and code.co_flags & _GENERATORS:
        raise Usage(f"{own} is a generator: what it yields cannot be recorded.", hint="Return a list.")
    if name is None and (own is None or own == "<lambda>"):
        raise Usage("A function without a name needs one to be known by.", hint='name="fetch"')
    return Options(name or str(own), **options)


def _is_async(function: Any) -> bool:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return bool(code is not None and code.co_flags & _COROUTINE)
