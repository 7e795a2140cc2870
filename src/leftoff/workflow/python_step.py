"""``python -m leftoff.workflow.python_step MODULE:FUNCTION``: the process of a ``python:`` step.

The function is called with the arguments in LEFTOFF_ARGS (a JSON object, or ``@FILE`` with one in it). Its return value
is written to the file that LEFTOFF_RESULT names, as the nearest JSON, so that templates and other steps can read it. An
exception is shown as Python shows it, from the function's own frames on. A wrong call is one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from leftoff.errors import LeftoffError
from leftoff.files import sync
from leftoff.model.codec import decode, text

FAILED, NOT_FOUND = 1, 127
_MOST = 100_000  # characters of a result that cannot be kept


def main() -> None:
    target = sys.argv[1] if len(sys.argv) == 2 else ""
    sys.argv = [target]
    sys.excepthook = _show
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    for place in (os.getcwd(), os.environ.get("LEFTOFF_PROJECT")):  # for the user's own modules
        if place and place not in sys.path:
            sys.path.insert(0, place)
    function = find_function(target)
    _keep(_call(function, target, _arguments()), target)


def find_function(target: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` or ``module:Class.method`` names."""
    from importlib import import_module

    name, _, path = target.partition(":")
    if not name or not path:
        _refuse(NOT_FOUND, f"{target!r} names no function: it must look like tools.index:build.")
    try:
        found: Any = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # another module, which this one imports
        places = ", ".join(place or "." for place in sys.path[:3])
        _refuse(NOT_FOUND, f"there is no module {error.name!r} (for {target}); looked in {places}.")
    for part in path.split("."):
        if not hasattr(found, part):
            _refuse(NOT_FOUND, f"{target}: {getattr(found, '__name__', 'it')} has no {part!r}.")
        found = getattr(found, part)
    if not callable(found):
        _refuse(NOT_FOUND, f"{target} is {type(found).__name__}, which cannot be called.")
    return found  # type: ignore[no-any-return]


def _arguments() -> dict[str, Any]:
    given = os.environ.get("LEFTOFF_ARGS") or "{}"
    try:
        if given.startswith("@"):
            with open(given[1:], encoding="utf-8") as file:
                given = file.read()
        found = decode(given)
    except (OSError, ValueError) as error:
        _refuse(FAILED, f"LEFTOFF_ARGS cannot be read: {error}.")
    if not isinstance(found, dict):
        _refuse(FAILED, "LEFTOFF_ARGS is not a JSON object.")
    return found


def _call(function: Callable[..., Any], target: str, arguments: dict[str, Any]) -> Any:
    import inspect

    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        _refuse(FAILED, f"{target} cannot be called with what `with:` gives: {error}.")
    except ValueError:  # one without a signature, written in C
        pass
    result = function(**arguments)
    if inspect.iscoroutine(result):
        import asyncio

        result = asyncio.run(result)
    return result


def _keep(result: Any, target: str) -> None:
    """Write the result, if there is one, durably and as a whole."""
    path = os.environ.get("LEFTOFF_RESULT")
    if result is None or not path:
        return
    try:
        data = text(_as_json(result), "result").encode()
    except (LeftoffError, ValueError, TypeError, RecursionError) as error:
        why = error.message if isinstance(error, LeftoffError) else str(error)
        # An hour's work is not lost for its type.
        print(f"{target} returned: {repr(result)[:_MOST]}", file=sys.stderr)
        _refuse(FAILED, f"what {target} returned cannot be kept: {why}")
    try:
        with open(f"{path}.new", "wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        os.replace(f"{path}.new", path)
    except OSError as error:
        _refuse(FAILED, f"what {target} returned cannot be written: {error}.")


def _as_json(value: Any) -> Any:
    """Return a value as JSON. One that has none stays as it is, and is refused."""
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        members = [_as_json(item) for item in value]
        return sorted(members, key=lambda item: text(item, "result"))
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    fields = getattr(type(value), "__dataclass_fields__", None) or getattr(type(value), "model_fields", None)
    if fields is not None:  # a dataclass, or a model of pydantic
        return {name: _as_json(getattr(value, name)) for name in fields}
    for method in ("tolist", "isoformat"):  # numpy's scalars and arrays; dates and times
        if callable(getattr(type(value), method, None)):
            return _as_json(getattr(value, method)())
    return str(value) if isinstance(value, os.PathLike) else value


def _show(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Print a traceback without the frames of this module and of those that started it."""
    ours = (__file__, "<frozen runpy>", "<frozen importlib._bootstrap>")
    while at is not None and at.tb_frame.f_code.co_filename in ours:
        at = at.tb_next
    sys.__excepthook__(kind, error.with_traceback(at), at)


def _refuse(code: int, why: str) -> NoReturn:
    print(f"leftoff: {why}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
