"""What was passed to a function, by parameter, and the digest that tells one call from another.

The names come from the function's code object: importing ``inspect`` would cost as much as starting Python does. A
parameter that was left out is left out here too, so that one with a default may be added without changing any digest.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from leftoff.errors import Diverged, Invalid, LeftoffError, Usage
from leftoff.model.changes import NOTHING, TYPE, Scrubber
from leftoff.model.codec import encode as stored
from leftoff.model.codec import mark, sha256, text, thaw
from leftoff.model.ids import shown_step
from leftoff.model.typed import readable, typed
from leftoff.python.value_kinds import OWN_TYPES, class_name, kind_of
from leftoff.python.values import EXACT, encode_value, with_marks

MORE = "*"  # positional arguments that no parameter names
SHOWN = 200  # characters of canonical JSON: arguments up to this size are in the record as they are
MOST_SHOWN = 1000  # of all of them together
MOST_OF_KEY = 100  # characters of the key of a call
DEEP = 50  # levels of arguments that hold something that cannot be recorded
_VARARGS, _VARKEYS = 0x04, 0x08


class Signature:
    """The parameters of a function."""

    __slots__ = ("_all", "_fixed", "_loose", "_name", "_names", "_only", "_open", "required")

    def __init__(self, function: Any, name: str) -> None:
        code = getattr(function, "__code__", None)
        self._name = name
        self._open = code is None  # something written in C: nothing is known
        flags = code.co_flags if code is not None else _VARARGS | _VARKEYS
        count = code.co_argcount if code is not None else 0
        known = code.co_varnames if code is not None else ()
        bound = 1 if hasattr(function, "__func__") else 0  # a method of an object has its first argument
        self._names: tuple[str, ...] = known[bound:count]
        self._only = known[count : count + (code.co_kwonlyargcount if code is not None else 0)]
        self._fixed = max(0, code.co_posonlyargcount - bound) if code is not None else 0
        self._loose = (bool(flags & _VARARGS), bool(flags & _VARKEYS))
        self._all = frozenset((*self._names[self._fixed :], *self._only))
        needed = count - bound - len(getattr(function, "__defaults__", None) or ())
        named = getattr(function, "__kwdefaults__", None) or {}
        self.required = (*self._names[:needed], *(word for word in self._only if word not in named))

    def has(self, name: str) -> bool:
        """Whether a keyword of this name is the function's own."""
        return name in self._all

    def names(self, name: str) -> bool:
        """Return whether there is a parameter of this name. Functions written in C accept any."""
        return self._open or name in self._names or name in self._only or self._loose[1]

    def bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Parameter to argument, or the ``TypeError`` that the call itself would give."""
        names = self._names
        bound = dict(zip(names, args, strict=False))
        if named:
            for word in named:
                if word in bound and word in self._all:
                    raise TypeError(f"{self._name}() got multiple values for argument {word!r}")
                if word not in self._all and not self._loose[1]:
                    raise TypeError(f"{self._name}() got an unexpected keyword argument {word!r}")
            bound.update(named)
        if len(args) > len(names):
            if not self._loose[0]:
                raise TypeError(
                    f"{self._name}() takes {len(names)} positional arguments but {len(args)} were given"
                )
            bound[MORE] = list(args[len(names) :])
        if len(bound) < len(self.required) or named:
            missing = [word for word in self.required if word not in bound]
            if missing:
                raise TypeError(f"{self._name}() is missing {', '.join(missing)}")
        return bound

    def spread(self, bound: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments, from what ``bind`` gave."""
        rest = dict(bound)
        more = rest.pop(MORE, [])
        by_place = self._names if more else self._names[: self._fixed]
        args = [rest.pop(name) for name in by_place if name in rest]
        return [*args, *more], rest


def encode_arguments(bound: dict[str, Any], function: str) -> dict[str, Any]:
    """The arguments as JSON, or an error that says which of them cannot be."""
    try:
        return {name: encode_value(value, name) for name, value in bound.items()}
    except Invalid as error:
        raise Invalid(
            f"{function} was called with what cannot be recorded: {error.message}",
            path=error.path,
            hint=error.hint,
        ) from None


class Given(NamedTuple):
    """The arguments of a call. ``record``: what the step's record says of them. ``exact``: their digest with the
    secrets in it, which is never stored: it tells apart two calls of one process."""

    record: dict[str, Any]
    exact: str

    def of(self, code: str | None) -> Given:
        """Return the same, with the digest of the code of the function that is called."""
        return self if code is None else Given({**self.record, "code": code}, self.exact)


NO_CONTENT = Given({}, "")  # of an item that is known by its name alone


def call_facts(arguments: dict[str, Any], scrubber: Scrubber | None) -> Given:
    """Return what is recorded of a call's arguments: ``digest``, and ``args`` if there are any.

    Secrets are in neither. An argument that is long, or not JSON, is in ``args`` by its own digest: only in JSON does a
    secret have its name next to it.
    """
    written = text(arguments, "arguments")
    digest = exact = _digest(written)
    if scrubber is not None and scrubber.suspicious("args", written):
        arguments = mark(*scrubber.scrub("args", arguments))
        written = text(arguments, "arguments")
        digest = _digest(written)
    out: dict[str, Any] = {"digest": digest}
    if len(written) > SHOWN or TYPE in written:
        arguments = {name: _short(value) for name, value in arguments.items()}
    if arguments and (len(written) <= SHOWN or len(text(arguments)) <= MOST_SHOWN):
        out["args"] = thaw(arguments)  # the function may change its own
    return Given(out, exact)


def argument_key(arguments: dict[str, Any], scrubber: Scrubber | None) -> str:
    """Return a name for the arguments of a call: the only one if it is short and no secret, else a digest."""
    given = call_facts(arguments, scrubber)
    values = [*arguments.get(MORE, ()), *(value for name, value in arguments.items() if name != MORE)]
    only = values[0] if len(values) == 1 else arguments
    # Text that looks like another value is quoted: 1 and "1" are two arguments.
    word = only if isinstance(only, str) and only and typed(only) == only else text(only)
    shown = len(word) <= MOST_OF_KEY and TYPE not in word and given.record["digest"] == given.exact
    return word if shown else given.record["digest"].removeprefix("sha256:")[:16]


def _digest(written: str) -> str:
    return f"sha256:{sha256(written.encode()).hexdigest()}"


def _short(value: Any) -> Any:
    written = text(value)
    return value if len(written) <= SHOWN and TYPE not in written else f"{_digest(written)[:19]}…"


def given_arguments(
    function: Any, args: tuple[Any, ...], named: dict[str, Any], scrubber: Scrubber | None
) -> Given:
    """Return the ``call_facts`` of a call with arguments of any kind."""
    return counted(_bound(function, args, named), scrubber)


def call_key(function: Any, args: tuple[Any, ...], named: dict[str, Any], scrubber: Scrubber | None) -> str:
    """Return the ``argument_key`` of a call with arguments of any kind."""
    bound = _bound(function, args, named)
    return argument_key({name: _countable(value) for name, value in bound.items()}, scrubber)


def _bound(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return parameter to argument, whether or not the function can be called so."""
    while isinstance(function, partial):
        function, args, named = function.func, (*function.args, *args), {**function.keywords, **named}
    if type(function) is FunctionType and not named and len(args) == function.__code__.co_argcount:
        return dict(zip(function.__code__.co_varnames, args, strict=False))
    try:
        return Signature(function, "").bind(args, named)
    except TypeError:  # the call itself raises it, in its step
        return {**named, MORE: list(args)}


def content(item: Any, scrubber: Scrubber | None) -> Given:
    """Return the ``call_facts`` of an item that has a key: of its entries if it is a dict."""
    fields = type(item) is dict and all(type(name) is str for name in item)
    return counted(item if fields else {"item": item}, scrubber)


def counted(bound: dict[str, Any], scrubber: Scrubber | None) -> Given:
    """Return the ``call_facts`` of arguments. An argument that cannot be recorded counts by its type."""
    arguments = {name: value if type(value) in EXACT else _countable(value) for name, value in bound.items()}
    try:
        return call_facts(arguments, scrubber)
    except (Invalid, UnicodeEncodeError):
        return call_facts({name: _writable(value) for name, value in arguments.items()}, scrubber)


def _writable(value: Any) -> Any:
    """Return JSON that UTF-8 has no bytes for (a lone surrogate) as ASCII, and an int that is too long by its type."""
    try:
        stored(value)
        return value
    except Invalid:
        return _by_type(value) if isinstance(value, int) else {TYPE: "repr", "value": ascii(value)}


def _by_type(value: Any) -> Any:
    return {TYPE: class_name(type(value))}


def _countable(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """Return an argument as JSON: by its type what cannot be recorded, and by its value what is next to that."""
    try:
        return with_marks(value, "argument")
    except Exception:  # Invalid, Redacted, or an error of an encoder that the program registered
        if id(value) in inside or len(inside) > DEEP:
            return _by_type(value)
    try:
        parts = _parts(value, (*inside, id(value)))
    except Exception:
        parts = None
    return _by_type(value) if parts is None else {**_by_type(value), "value": parts}


def _parts(value: Any, inside: tuple[int, ...]) -> Any:
    kind = kind_of(type(value))
    if kind is not None and type(value) not in OWN_TYPES:
        return _countable(kind.take(value), inside)
    if isinstance(value, dict):
        return sorted(([_countable(k, inside), _countable(v, inside)] for k, v in value.items()), key=text)
    if isinstance(value, (set, frozenset)):
        return sorted((_countable(item, inside) for item in value), key=text)
    return [_countable(item, inside) for item in value] if isinstance(value, (list, tuple)) else None


def differing(record: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the arguments that are not those of a record: name, then and now (``NOTHING``: left out).

    Empty if either of the two does not show its arguments.
    """
    before, after = (of.get("args", {} if of["digest"] == _digest("{}") else None) for of in (record, now))
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    found = ((name, before.get(name, NOTHING), after.get(name, NOTHING)) for name in {**before, **after})
    return [each for each in found if NOTHING in each[1:] or text(each[1]) != text(each[2])]


def other_arguments(
    path: str, record: dict[str, Any], now: Given, batch: str | None, run: str | None
) -> LeftoffError:
    """Return the error for a step that was done with other arguments, or an item that was another one.

    ``batch``: the step of which it is an item. ``run``: the run's id, if an earlier process did it.
    """
    if batch is None:
        parts, name = differing(record, now.record), shown_step(path)
        by = parts[0][0] if parts and parts[0][0] != MORE else "…"
        hint = f'Give each call its own name: run.do(f"{name}/{{{by}}}", …), or use keyed=True or run.map(fn, items). '
        hint += "again=True runs it again."
        return other_call(path, record, now, run, hint)
    before, after = _sides(record, now.record)
    where = f" of run {run}" if run is not None else ""
    what = f"Item {path.removeprefix(f'{batch}/')} of {shown_step(batch)}{where} was done"
    told = f"{before}, and now comes {after}" if before != after else "with other content than it has now"
    hint = "again=True runs all items again. Or let key= give another name to an item whose content changes."
    return (Usage if run is None else Diverged)(f"{what} {told}.", hint=hint)


def other_call(path: str, record: dict[str, Any], now: Given, run: str | None, hint: str) -> LeftoffError:
    """Return the error for a step that was done with other arguments. ``run``: as of `other_arguments`."""
    before, after = _sides(record, now.record)
    where = f" of run {run}" if run is not None else ""
    told = f"{before}, and is called {after} now" if before != after else "with other arguments than now"
    return (Usage if run is None else Diverged)(f"Step {shown_step(path)}{where} was done {told}.", hint=hint)


def _sides(record: dict[str, Any], now: dict[str, Any]) -> tuple[str, str]:
    """Return what differs in the arguments of a record and of now. The two are equal if it is not shown."""
    parts = differing(record, now)
    return _with([(name, before) for name, before, _ in parts]), _with(
        [(name, after) for name, _, after in parts]
    )


def _with(arguments: list[tuple[str, Any]]) -> str:
    """Return arguments as a reader wants them: ``with n=1 without m``."""
    there = [f"{'*args' if n == MORE else n}={readable(v)!r}" for n, v in arguments if v is not NOTHING]
    left = ["*args" if n == MORE else n for n, v in arguments if v is NOTHING]
    parts = ("with " + ", ".join(there) if there else "", "without " + ", ".join(left) if left else "")
    return " ".join(filter(None, parts))
