"""What was given on the command line, as values. What is wrong with it is wrong usage."""

from __future__ import annotations

import os

from leftoff.errors import Invalid, NotFound, StoreUnavailable, Usage
from leftoff.model import typed
from leftoff.operations.reports import usage_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

_AT = "@FILE reads the value from a file. Text that begins with @ is given as JSON: K:='\"@…\"'"


def assignments(words: list[str]) -> dict[str, Any]:
    """The variables of ``K=V…``; a later one wins."""
    return dict(map(assignment, words))


def assignment(word: str) -> tuple[str, Any]:
    key, kind, value = typed.split(word)
    what = f"The value of {key}"
    if kind == typed.JSON:
        return key, _unambiguous(typed.json_value(value, what), value, what)
    if kind == typed.FILE:
        content = read_text(value)
        return key, _unambiguous(typed.from_file(content), content, what)
    return key, _unambiguous(typed.typed(value), value, what)


def _unambiguous(value: Any, source: str, what: str) -> Any:
    """A value, if its JSON says no more than it: of a key that stands there twice, only one would be kept."""
    if isinstance(value, dict | list) and "{" in source:
        from leftoff.model.codec import key_twice

        twice = key_twice(source)
        if twice is not None:
            raise Usage(
                f"{what} has the key {twice!r} twice.", hint="Nothing was changed. Leave one of them out."
            )
    return value


def read_text(path: str) -> str:
    """The text of a file, or of stdin (``-``); at most ``typed.MOST_BYTES``."""
    if not path:
        raise Usage("No file is named behind the @.", hint=_AT)
    try:
        if path == "-":
            import sys

            data = _read(sys.stdin.buffer, "stdin", 0)
        else:
            with open(path, "rb") as file:
                data = _read(file, path, os.fstat(file.fileno()).st_size)
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{path} is not UTF-8 text: it has the byte {data[error.start]:#04x} at {error.start}.",
            hint="`leftoff artifact PATH` keeps a file of any kind.",
        ) from None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        what = "is a folder" if isinstance(error, IsADirectoryError) else "does not exist"
        raise NotFound(f"The file {path} {what}.", hint=_AT) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror}.", hint="Nothing was changed. Check its permissions."
        ) from None


def _read(file: BinaryIO, name: str, size: int) -> bytes:
    """``size``: what it says that it has; a device or a pipe says nothing."""
    data = b"" if size > typed.MOST_BYTES else file.read(typed.MOST_BYTES + 1)
    if max(size, len(data)) > typed.MOST_BYTES:
        raise Usage(
            f"{name} is too large for a value: it has more than {typed.MOST_BYTES >> 20} MiB.",
            hint="Nothing was changed. `leftoff artifact PATH` keeps a file of any size.",
        )
    return data


def json_or_file(word: str, what: str) -> Any:
    """JSON, or ``@FILE`` with JSON in it."""
    source = read_text(word[1:]) if word.startswith("@") else word
    return _unambiguous(typed.json_value(source, what), source, what)


def number(word: str | None, name: str) -> int | None:
    """A whole number from 0 on, or nothing."""
    if word is None:
        return None
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise Usage(f"{name} must be a whole number, not {word[:40]!r}.", hint=f"For example: {name} 12")
    return int(word)


def positive(word: str | None, name: str) -> int | None:
    """A whole number from 1 on, or nothing."""
    found = number(word, name)
    if found == 0:
        raise Usage(f"{name} must be at least 1.", hint=f"For example: {name} 4")
    return found


def count(name: str, given: str) -> int:
    """Return a number of things, 1 or more."""
    number = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
    if number < 1:
        raise Usage(
            f"{name} is a whole number from 1 to 999999999, not {given!r}.", hint=f"For example: {name} 20"
        )
    return number


def step_path(word: str) -> str:
    """A step as it is given: relative to LEFTOFF_STEP where that is set, unless it starts with a slash."""
    from leftoff.engine.config.caller import CALLER
    from leftoff.model.ids import given_step

    above = CALLER.step
    path = word[1:] if word.startswith("/") else f"{above}/{word}" if above else word
    return usage_errors(lambda: given_step(path))
