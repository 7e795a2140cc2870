"""What a type checker knows of ``do`` and ``map``. mypy checks this file with all others (`make types`).

An ``assert_type`` that is wrong is an error there, and so is a ``type: ignore`` that hides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, assert_type

import leftoff
from leftoff.python.item_steps import Results


def get(url: str, timeout: float = 5, *, size: int = 1) -> bytes:
    return url.encode() * size


async def fetch(url: str) -> bytes:
    return url.encode()


def test_what_the_calls_return(run: leftoff.Run) -> None:
    """The type is that of the function, with and without options."""
    assert 3 == assert_type(run.do("len", len, "abc"), int)
    assert b"x" == assert_type(run.do("get", get, "x", timeout=3), bytes)
    assert b"xx" == assert_type(run.do("named", get, "x", size=2), bytes)
    assert b"x" == assert_type(run.do("again", get, "x", again=True, retries=2, retry_on=OSError), bytes)
    assert [b"x"] == assert_type(run.map(get, ["x"]), Results[bytes])

    async def main() -> None:
        assert b"x" == await assert_type(run.do("fetch", fetch, "x"), Coroutine[Any, Any, bytes])
        assert b"y" == await assert_type(run.do("late", fetch, "y", timeout="1m"), Coroutine[Any, Any, bytes])
        found = run.map(fetch, ["x"], max_parallel=2, retries=1)
        assert [b"x"] == await assert_type(found, Coroutine[Any, Any, Results[bytes]])

    asyncio.run(main())


if TYPE_CHECKING:

    def wrong(run: leftoff.Run) -> None:
        run.do("a", len, 3)  # type: ignore[arg-type]
        run.do("a", get, 3, size=2)  # type: ignore[arg-type]
        run.do("a", get, 3, retries=1)  # type: ignore[call-arg, arg-type]
        run.do("a", get, "x", retries="1")  # type: ignore[call-arg]
        run.do("a", get, "x", on_code_change="panic")  # type: ignore[call-arg]
        run.map(get, ["x"], retry=3)  # type: ignore[call-overload]
        _: int = run.map(get, ["x"])[0]  # type: ignore[assignment]
