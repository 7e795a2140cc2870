"""The work every side does: the same values for leftoff and for each peer."""

from __future__ import annotations

import json
import random

KEYS = 10
CHANGED = 2


def value(key: int, n: int) -> str:
    """A short value, different for every step."""
    return f"variable {key} as of step {n}: " + "x" * 24


def variables() -> dict[str, object]:
    """The ten variables a small run starts with."""
    return {f"name_{key}": value(key, 0) for key in range(KEYS)}


def change(n: int) -> dict[str, object]:
    """The two variables that step `n` changes; all ten take their turn."""
    keys = [(CHANGED * n + offset) % KEYS for offset in range(CHANGED)]
    return {f"name_{key}": value(key, n) for key in keys}


def item(n: int) -> dict[str, object]:
    """A message of 100 bytes as compact JSON, the kind of thing an agent's list holds."""
    head = {"content": "", "n": n, "role": "assistant"}
    pad = 100 - len(json.dumps(head, separators=(",", ":")))
    random_part = random.Random(n).randbytes(pad).hex()[:pad]
    return head | {"content": random_part}


def rebuilt(items: list[dict[str, object]]) -> list[dict[str, object]]:
    """An equal list that shares no object with the given one."""
    copy: list[dict[str, object]] = json.loads(json.dumps(items))
    return copy
