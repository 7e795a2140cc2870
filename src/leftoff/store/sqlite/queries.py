"""The named queries of ``sql/queries.sql`` as attributes, read once."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

_HERE = os.path.join(os.path.dirname(__file__), "sql")


def read(name: str) -> str:
    """A file of the ``sql`` folder."""
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        return file.read()


def run_script(db: apsw.Connection, name: str) -> None:
    """Every statement of a file; apsw runs them only as their rows are asked for."""
    for _ in db.execute(read(name)):
        pass


def _blocks(text: str) -> dict[str, str]:
    """By name: what stands below it, up to the next."""
    return {block[: (end := block.index("\n"))]: block[end + 1 :] for block in text.split("\n-- name: ")[1:]}


def _described(block: str) -> tuple[str, str]:
    """Description and SQL of a query."""
    lines = block.split("\n")
    described = 0
    while described < len(lines) and lines[described].startswith("--"):
        described += 1
    return " ".join(line[2:].strip() for line in lines[:described]), "\n".join(lines[described:]).strip()


def parse(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, description and SQL of each query."""
    for name, block in _blocks(text).items():
        yield name, *_described(block)


class Queries:
    """``Q.head`` is the SQL of the query named head, taken from the text when it is first asked for."""

    def __init__(self, text: str) -> None:
        self._blocks = _blocks(text)

    def __getattr__(self, name: str) -> str:
        if name not in self._blocks:
            raise AttributeError(f"there is no query {name!r}")
        sql = _described(self._blocks[name])[1]
        setattr(self, name, sql)
        return sql


Q = Queries(read("queries.sql"))
