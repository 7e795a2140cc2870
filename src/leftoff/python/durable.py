"""``@leftoff.step`` and ``@leftoff.workflow``: their options, and the objects that they make of a function.

The place of a call decides what happens. Outside of a workflow a step is the plain function, and a workflow starts or
resumes its run. Inside a workflow the call is recorded, or replayed. Inside a step everything is part of that step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from leftoff.errors import Usage
from leftoff.python.arguments import Signature, encode_arguments
from leftoff.python.calls import Attempts, check_size, code_digest, is_coroutine_function
from leftoff.python.replay import IN_STEP, Scope, current, flows, needs_key, stray_scope

if TYPE_CHECKING:
    from leftoff.python.durable_running import Handle, TaskHandle

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
AT_A_TIME = 4
_GENERATORS = 0x20 | 0x200  # among the flags of a code object

OPTIONS = (
    "retries",
    "retry_on",
    "timeout",
    "key",
    "keyed",
    "version",
    "idempotent",
    "ignore",
    "on_code_change",
)


class Options(Attempts):
    """The options of a step or a workflow, checked."""

    __slots__ = ("idempotent", "ignore", "key", "keyed", "name", "version")

    def __init__(
        self,
        name: str,
        *,
        key: str | Callable[..., Any] | None = None,
        keyed: bool = False,
        version: str | int | None = None,
        idempotent: bool = True,
        ignore: str | Iterable[str] = (),
        **attempts: Any,
    ) -> None:
        self.name = _name(name)
        super().__init__(name, **attempts)
        if keyed and key is not None:
            raise Usage(
                f"{name}: key= and keyed= exclude each other.", hint="keyed=True: all arguments are the key."
            )
        self.key, self.keyed = key, keyed
        self.version = None if version is None else str(version)
        self.idempotent = idempotent
        self.ignore = frozenset((ignore,) if isinstance(ignore, str) else ignore)


def _name(name: object) -> str:
    """Check a name: not too long, and no form that has a meaning in a path (``3-fetch``, ``fetch[a]``)."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= 200
        or name[0].isdigit()
        or any(c in name for c in "[]\0")
    ):
        raise Usage(
            f"{name!r} cannot name a step or a workflow.",
            hint='name="fetch": text without [ and ], no digit first.',
        )
    return name


def _running() -> Any:
    """Return the module that makes calls. It is loaded late: defining steps should not load the engine."""
    from leftoff.python import durable_running as running

    return running


class Durable(Generic[P, C]):
    """What steps and workflows have in common. A call of a coroutine function gives a coroutine (``C``)."""

    __name__: str
    __qualname__: str
    is_group = False  # whether a call of it has steps below it
    is_async = False

    def __init__(self, function: Callable[..., Any], settings: Options) -> None:
        self.plain = function  # the function itself: calling this records nothing
        self.settings = settings
        self.name = settings.name
        self.signature = Signature(function, settings.name)
        self.code = None if self.is_group else code_digest(function)
        self._fixed_key: str | None = None
        for word in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, word):
                setattr(self, word, getattr(function, word))
        self.__wrapped__ = function

    # -- identity

    def counted(self, bound: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that tell one call from another, as JSON."""
        ignore = self.settings.ignore
        if ignore:
            bound = {name: value for name, value in bound.items() if name not in ignore}
        return encode_arguments(bound, self.name)

    def key_of(self, bound: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any]) -> str | None:
        """Return the key of a call, or ``None`` if it is known by its number."""
        if self._fixed_key is not None:
            return self._fixed_key
        key = self.settings.key
        return self.named_by(key, bound, args, named) if key is not None else None

    def named_by(self, key: Any, bound: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any]) -> str:
        """Return the key that a parameter, or a function of the arguments, gives a call."""
        return _key(key(*args, **named) if callable(key) else bound.get(key), self.name)

    def keyed(self, key: str) -> Any:
        """The same, for one call that is known by this key instead of its number."""
        made = self._copy(self.settings)
        made._fixed_key = _key(key, self.name)
        return made

    def options(self, **changed: Any) -> Any:
        """The same with other options, for one call or many: ``fetch.options(timeout="1h")(url)``."""
        mine = {word: getattr(self.settings, word) for word in OPTIONS}
        unknown = [word for word in changed if word not in mine]
        if unknown:
            raise Usage(f"A step has no option {unknown[0]!r}.", hint=f"Options: {', '.join(mine)}.")
        made = self._copy(Options(self.name, **{**mine, **changed}))
        made._fixed_key = self._fixed_key
        return made

    def _copy(self, settings: Options) -> Any:
        return type(self)(self.plain, settings)

    # -- calls

    def _scope(self) -> Scope | None:
        """Return where this call is made, or ``None`` outside of every workflow and inside a step."""
        scope = current.get()
        if scope is IN_STEP:
            return None
        if scope is None and flows:
            scope = stray_scope()
            has_key = self._fixed_key is not None or self.settings.key is not None or self.settings.keyed
            if scope is not None and not has_key:
                raise needs_key(self.name, "another thread than the workflow's own")
        return cast("Scope | None", scope)

    def _place(self, scope: Scope, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Make a recorded call."""
        running = _running()
        return running.make_call(running.place_call(self, scope, args, named))

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


class StepCall(Durable[P, C]):
    """A function that is a step."""

    def __call__(self, *args: P.args, **named: P.kwargs) -> C:
        scope = self._scope()
        return cast(C, self.plain(*args, **named) if scope is None else self._place(scope, args, named))


class Runs(Durable[P, C]):
    """A function that is a workflow: called outside every other it has a run of its own."""

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
        preset = {word: changed.pop(word) for word in _running().RUN_OPTIONS if word in changed}
        parallel = changed.pop("max_parallel", self.max_parallel)
        made = super().options(**changed)
        made.max_parallel = parallel
        made.preset = {**self.preset, **preset}
        return made

    def __call__(self, *args: P.args, **named: P.kwargs) -> C:
        scope = current.get()
        if scope is IN_STEP:
            return cast(C, self.plain(*args, **named))
        if scope is None:
            return self._execute(args, named, {})
        return cast(C, self._place(scope, args, named))

    def run(self, *args: Any, **named: Any) -> C:
        """Start a run, or continue the interrupted one: of this ``run_id``, else of the same arguments.

        Options next to the function's own parameters: ``run_id``, ``title``, ``branch``, ``issue``, ``store``,
        ``take_over``, ``again``. A finished run of that ``run_id`` gives its recorded result.
        """
        own = self.signature.has  # a parameter of the function comes first
        options = {
            word: named.pop(word) for word in _running().RUN_OPTIONS if word in named and not own(word)
        }
        return self._execute(args, named, options)

    def resume(self, ref: str | None = None, **options: Any) -> C:
        """Continue the latest unfinished run of this workflow, or what ``ref`` names, with its own arguments."""
        return self._execute((), {}, options, resumes=True, ref=ref)

    def _execute(
        self, args: tuple[Any, ...], named: dict[str, Any], options: dict[str, Any], **resuming: Any
    ) -> C:
        """Execute the function in a run of its own."""
        if current.get() not in (None, IN_STEP):
            raise Usage(
                f"{self.name}.run was called inside a workflow.",
                hint=f"{self.name}(…) makes it a part of this run; a step may start another run.",
            )
        running = _running()
        request = running.Request(self, args, named, {**self.preset, **options}, **resuming)
        return cast(C, running.execute_run(request))


class InThreads(Durable[P, R]):
    """A plain function: several calls at a time are made by threads."""

    def map(
        self, items: Iterable[Any], *more: Iterable[Any], max_parallel: int = AT_A_TIME, key: Any = None
    ) -> list[R]:
        """Call it for each item, ``max_parallel`` at a time, in threads; the results in the order of the items.

        ``key`` names the items, by a parameter or by what it returns for one; left out, they are known by their place.
        """
        return _running().make_map(self, self._scope(), (items, *more), check_size(max_parallel), key)  # type: ignore[no-any-return]

    def defer(self, *args: P.args, **named: P.kwargs) -> Handle[R]:
        """Begin the call in a thread and return at once; ``result()`` of the handle waits for it."""
        return _running().defer_to_thread(self, self._scope(), args, named)  # type: ignore[no-any-return]


class InTasks(Durable[P, Coroutine[Any, Any, R]]):
    """A coroutine function: several calls at a time are made by tasks."""

    is_async = True

    def map(
        self, items: Iterable[Any], *more: Iterable[Any], max_parallel: int = AT_A_TIME, key: Any = None
    ) -> Coroutine[Any, Any, list[R]]:
        """Call it for each item, ``max_parallel`` at a time, in tasks; the results in the order of the items.

        ``key`` names the items, by a parameter or by what it returns for one; left out, they are known by their place.
        """
        return _running().make_map(self, self._scope(), (items, *more), check_size(max_parallel), key)  # type: ignore[no-any-return]

    def defer(self, *args: P.args, **named: P.kwargs) -> TaskHandle[R]:
        """Begin the call in a task and return at once; await the handle."""
        return _running().defer_to_task(self, self._scope(), args, named)  # type: ignore[no-any-return]


class StepFunction(InThreads[P, R], StepCall[P, R]):
    """A plain function that is a step."""


class AsyncStepFunction(InTasks[P, R], StepCall[P, Coroutine[Any, Any, R]]):
    """A coroutine function that is a step."""


class WorkflowFunction(InThreads[P, R], Runs[P, R]):
    """A plain function that is a workflow."""


class AsyncWorkflowFunction(InTasks[P, R], Runs[P, Coroutine[Any, Any, R]]):
    """A coroutine function that is a workflow."""


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
    retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
    timeout: float | str | None = None,
    key: str | Callable[..., Any] | None = None,
    keyed: bool = False,
    version: str | int | None = None,
    idempotent: bool = True,
    ignore: str | Iterable[str] = (),
    on_code_change: Literal["warn", "rerun", "ignore"] = "warn",
) -> StepMaker: ...


def step(function: Any = None, *, name: str | None = None, **options: Any) -> Any:
    """Make a function a step: called in a workflow, it is recorded, and once finished not run again.

    ``retries``: how often a failed attempt is repeated (``{"max", "backoff", "factor", "jitter"}`` says how).
    ``retry_on``: an exception class, or a tuple of them, after which it is (left out: any ``Exception``).
    ``timeout``: of one attempt, in seconds or like ``"10m"``. ``key``: the parameter, or a function of the arguments,
    that a call is known by instead of its number. ``keyed=True``: it is known by all its arguments. ``version``:
    another one than was recorded runs the step again. ``idempotent=False``: an interrupted one is not repeated before
    a person says so. ``ignore``: parameters that do not tell one call from another, such as a connection.
    ``on_code_change``: if the code of the function has changed since the step was finished, ``"warn"`` prints a line
    and uses the recorded result, ``"ignore"`` only uses it, ``"rerun"`` runs the step again.
    """
    if function is None:
        return lambda given: step(given, name=name, **options)
    settings = _settings(function, name, options)
    made: Any = (AsyncStepFunction if is_coroutine_function(function) else StepFunction)(function, settings)
    if isinstance(settings.key, str) and not made.signature.names(settings.key):
        raise Usage(f"{settings.name} has no parameter {settings.key!r} to be its key.", hint='key="url"')
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
    kind: Any = AsyncWorkflowFunction if is_coroutine_function(function) else WorkflowFunction
    return kind(function, _settings(function, name, options), check_size(max_parallel))


def _settings(function: Any, name: str | None, options: dict[str, Any]) -> Options:
    """Return the checked options. Raise ``Usage`` if this cannot be a durable function."""
    if isinstance(function, Durable):
        raise Usage(f"{function!r} cannot be decorated twice.", hint="Give the inner one all options.")
    if isinstance(function, (staticmethod, classmethod)) or not callable(function):
        raise Usage(f"{function!r} is not a function.", hint="@staticmethod goes above @leftoff.step.")
    own = getattr(function, "__name__", None)
    code: Any = getattr(function, "__code__", None)
    unknown = [word for word in options if word not in OPTIONS]
    if unknown:
        raise Usage(f"A step has no option {unknown[0]!r}.", hint=f"Options: name, {', '.join(OPTIONS)}.")
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
