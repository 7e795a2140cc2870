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


def parse(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, description and SQL of each query."""
    for block in text.split("\n-- name: ")[1:]:
        head, _, rest = block.partition("\n")
        lines = rest.split("\n")
        described = 0
        while described < len(lines) and lines[described].startswith("--"):
            described += 1
        about = " ".join(line[2:].strip() for line in lines[:described])
        yield head.strip(), about, "\n".join(lines[described:]).strip()


class Queries:
    """``Q.head`` is the SQL of the query named head."""

    def __init__(self, text: str) -> None:
        for name, _, sql in parse(text):
            setattr(self, name, sql)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> str: ...


Q = Queries(read("queries.sql"))
