"""What the crashing programs do, and what must be there afterwards.

The whole state of a run follows from how many operations it has made: operation `n` sets `a` and `b` to `n`
in the same commit, and every few operations do something more. So whoever looks at a store after a crash
needs only the last acknowledged `n` to know every value, and a commit that was torn shows at once.
"""

from __future__ import annotations

from functools import cache

CYCLE = 24
MIXED = {
    1: "do",
    2: "checkpoint",
    3: "append",
    5: "big",
    7: "append",
    9: "checkpoint",
    11: "artifact",
    12: "prune",
    13: "do",
    15: "append",
    19: "append",
    21: "checkpoint",
}


def kind(n: int, plan: str) -> str:
    """What operation `n` (from 1) does besides setting `a` and `b`; in the plan `plain`, nothing."""
    return MIXED.get(n % CYCLE, "set") if plan == "mixed" else "set"


def item(n: int) -> dict[str, object]:
    """What operation `n` appends."""
    return {"n": n, "text": f"item appended by operation {n}"}


@cache
def big(n: int) -> str:
    """A value over 1 MiB, which is stored as a blob."""
    return f"{n:08d}" * 160_000


def artifact(n: int) -> bytes:
    """The content of the file that operation `n` keeps."""
    return f"artifact {n:08d}\n".encode() * 70_000


def step(n: int) -> str:
    """The step that operation `n` finishes."""
    return f"step-{n:06d}"


def those(name: str, upto: int, plan: str) -> list[int]:
    """The operations of one kind among the first `upto`."""
    return [n for n in range(1, upto + 1) if kind(n, plan) == name]


def variables(n: int, plan: str) -> dict[str, object]:
    """All variables of a run that has made `n` operations."""
    if n == 0:
        return {}
    expected: dict[str, object] = {"a": n, "b": n}
    if appended := those("append", n, plan):
        expected["x"] = [item(one) for one in appended]
    if made := those("big", n, plan):
        expected["big"] = big(made[-1])
    return expected
