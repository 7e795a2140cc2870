"""``@leftoff.step`` and ``@leftoff.workflow``, with and without arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from leftoff.api import kinds, values
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
        raise Usage(f"{function!r} is no function.", hint="@staticmethod goes above @leftoff.step.")
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


# -- whether an annotated return type can be kept: told where the step is defined, not after an hour's work
#
# Only what is certain counts. Text annotations that do not evaluate yet, type variables, protocols, abstract classes
# and classes that others derive from may all stand for something that can be kept: the value will show.

_NEVER = frozenset(
    "Iterator AsyncIterator Generator AsyncGenerator Coroutine Awaitable Callable AsyncIterable".split()
)
_DEPTH = 10


def check_return(function: Any, name: str) -> None:
    """Refuse a step whose annotation says that it returns what cannot be recorded."""
    annotation = _annotation(function)
    refused = _refused(annotation, _DEPTH) if annotation is not None else None
    if refused is not None:
        raise Usage(
            f"Step {name} returns {refused}, which cannot be recorded.",
            hint="Return JSON, a dataclass, a struct, an attrs class or a pydantic model; or say before the step is "
            "defined how it is recorded: leftoff.register(cls, encode, decode).",
        )


def _annotation(function: Any) -> Any:
    try:
        found = function.__annotations__.get("return")
        if isinstance(found, str):
            found = eval(found, function.__globals__)  # the program's own text, as typing.get_type_hints does
    except Exception:  # a name that is defined later
        return None
    return found


def _refused(annotation: Any, depth: int) -> str | None:
    """The name of the part that cannot be kept, if one certainly cannot."""
    origin: Any = getattr(annotation, "__origin__", None)
    if depth == 0:
        return None
    if getattr(origin, "__name__", None) in _NEVER:
        return f"a {origin.__name__}"
    if _is_union(annotation, origin) or origin in (list, dict, tuple, set, frozenset):
        for part in annotation.__args__:
            found = _refused(part, depth - 1)
            if found is not None:
                return found
        return None
    return f"a {annotation.__qualname__}" if origin is None and _certainly_not(annotation) else None


def _is_union(annotation: Any, origin: Any) -> bool:
    return type(annotation).__name__ in ("UnionType", "Union") or getattr(origin, "_name", None) == "Union"


def _certainly_not(cls: Any) -> bool:
    if not isinstance(cls, type) or values.supports(cls) or kinds.of(cls) is not None:
        return False
    abstract = cls.__module__ in ("collections.abc", "typing", "typing_extensions")
    if abstract or cls is object or issubclass(cls, (str, int, float)):
        return cls.__name__ in _NEVER
    open_ended = getattr(cls, "__abstractmethods__", None) or getattr(cls, "_is_protocol", False)
    typed_dict = hasattr(cls, "__required_keys__")
    return not open_ended and not typed_dict and not type.__subclasses__(cls)
