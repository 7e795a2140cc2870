"""Schema versions of records, and how old ones are read.

A run remembers the schema it was written with (record ``run/schema``; absent means 1). Reading applies, in order,
every upgrade since then to each record, in memory. Writing to such a run first commits the upgraded records, so a
run never mixes two schemas. A schema from the future is refused by its number.
"""

from __future__ import annotations

from leftoff.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # (collection, key, value) → the value in the next schema
    Upgrade = Callable[[str, str, Any], Any]

# UPGRADES[n] turns a record of schema n into one of schema n + 1.
UPGRADES: dict[int, Upgrade] = {}


def current() -> int:
    return 1 + len(UPGRADES)


def check(schema: object, run_id: str) -> int:
    """The schema of a run as a number this leftoff can read."""
    if not isinstance(schema, int) or schema < 1 or schema > current():
        raise Unsupported(
            f"Run {run_id} was written with record schema {schema!r}; this leftoff knows {current()}."
        )
    return schema


def upgrade(schema: int, collection: str, key: str, value: Any) -> Any:
    """A record's value as the current schema has it."""
    for number in range(schema, current()):
        value = UPGRADES[number](collection, key, value)
    return value
