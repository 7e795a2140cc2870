"""The named queries of ``sql/queries.sql`` as attributes, read once."""

from __future__ import annotations

import os

from leftoff.store.sqlite.queries import Queries

_HERE = os.path.join(os.path.dirname(__file__), "sql")


def read(name: str) -> str:
    """A file of the ``sql`` folder."""
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        return file.read()


Q = Queries(read("queries.sql"))
