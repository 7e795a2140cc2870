"""Steps by number, for protocols that count them: named ones in their declared order, numbers as what they say."""

from __future__ import annotations

from functools import lru_cache

from leftoff.dialects.core.draft import DONE, MOST_STEPS
from leftoff.engine.resume.finding import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from leftoff.dialects.core.draft import Draft, State

    Leaves = Sequence[tuple[str, dict[str, Any]]]

_DIGITS = 6
_SHOWN = 5


def _is_number(path: str) -> bool:
    return path.isascii() and path.isdigit() and len(path) < _DIGITS and int(path) > 0


def numbers(leaves: Leaves) -> dict[str, int]:
    """The number of each step: its own where it is called by one, else its place, or the next that is free."""
    return dict(_numbers(tuple([path for path, _ in leaves])))


@lru_cache(64)  # it is asked for several times for each document, and runs of one kind have the same steps
def _numbers(paths: tuple[str, ...]) -> dict[str, int]:
    out = {path: int(path) for path in paths if _is_number(path) and path[0] != "0"}
    taken, last = set(out.values()), 0
    for place, path in enumerate(paths, 1):
        if path not in out:
            last = max(place, last + 1)
            while last in taken:
                last += 1
            out[path] = last
    return out


def last_of(leaves: Leaves) -> int | None:
    """The number of the last step, where somebody gave steps names; where they are only counted, nobody knows yet."""
    found = numbers(leaves)
    return None if all(map(_is_number, found)) else max(found.values())


def gaps(done: list[int]) -> list[int]:
    """Steps that are not done, before one that is."""
    return sorted(set(range(1, max(done, default=0))) - set(done))


def passed_over(state: State) -> Iterator[Finding]:
    """Steps that are not done, before one that is: a protocol that counts them goes on behind the last one."""
    leaves = state.leaves()
    place, named = numbers(leaves), by_number(leaves)
    done = [place[path] for path, step in leaves if step.get("status") in DONE]
    passed = [named.get(number, str(number)) for number in gaps(done)]
    if passed:
        more = f" and {len(passed) - _SHOWN} more" if len(passed) > _SHOWN else ""
        yield Finding(
            "progress.illegal",
            f"Step {max(done)} is completed, but not {', '.join(passed[:_SHOWN])}{more}.",
            "They are still pending. --accept progress.illegal resumes anyway.",
            passed[0],
        )


def by_number(leaves: Leaves) -> dict[int, str]:
    return {number: path for path, number in numbers(leaves).items()}


def step_of(leaves: Leaves, number: int) -> str:
    """The step of that number; one that is not there yet is called so."""
    return by_number(leaves).get(number, str(number))


def encode_names(key: str, leaves: Leaves) -> dict[str, dict[str, str]]:
    """What the steps are called, by their numbers, for a protocol that only counts them: else whoever has nothing but
    the file knows them by their numbers. Nothing where they have no names."""
    names = {str(number): path for number, path in sorted(by_number(leaves).items()) if path != str(number)}
    return {key: names} if names else {}


def _names(draft: Draft, said: Any) -> dict[int, str]:
    """Known steps keep their names; others have those that the document gives them, if no two have the same."""
    given = said.items() if isinstance(said, dict) else ()
    found = {int(key): name for key, name in given if _is_number(str(key)) and isinstance(name, str) and name}
    known = by_number(draft.known.leaves() if draft.known is not None else [])
    out, taken = dict(known), {*known.values()}
    for number, name in found.items():
        if number not in out and name not in taken and not _is_number(name):
            out[number] = name
            taken.add(name)
    return out


def decode_counted(draft: Draft, done: list[int], *others: int | None, names: Any = None) -> None:
    """Steps that are only counted, up to the highest number that is named; ``names``: what the document calls them."""
    count = max([n for n in (*others, *done) if n is not None and 0 < n <= MOST_STEPS], default=0)
    called = _names(draft, names)
    for number in range(1, count + 1):
        record = {"status": "completed" if number in done else "pending", "order": number - 1}
        if not draft.put("step", called.get(number, str(number)), record):
            draft.put("step", str(number), record)


def total_of(leaves: Leaves, declared: Any) -> int:
    known = declared if isinstance(declared, int) and not isinstance(declared, bool) else 0
    return max([known, *numbers(leaves).values()])
