"""Steps by number, for protocols that count them: named ones in their declared order, numbers as what they say."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Leaves = Sequence[tuple[str, dict[str, Any]]]

_DIGITS = 6


def _is_number(path: str) -> bool:
    return path.isascii() and path.isdigit() and len(path) < _DIGITS and int(path) > 0


def numbers(leaves: Leaves) -> dict[str, int]:
    """The number of each step: its own where all of them are numbers, else its place."""
    if all(_is_number(path) for path, _ in leaves):
        return {path: int(path) for path, _ in leaves}
    return {path: place for place, (path, _) in enumerate(leaves, 1)}


def by_number(leaves: Leaves) -> dict[int, str]:
    return {number: path for path, number in numbers(leaves).items()}


def step_of(leaves: Leaves, number: int) -> str:
    """The step of that number; one that is not there yet is called so."""
    return by_number(leaves).get(number, str(number))


def total_of(leaves: Leaves, declared: Any) -> int:
    known = declared if isinstance(declared, int) and not isinstance(declared, bool) else 0
    return max([known, *numbers(leaves).values()])
