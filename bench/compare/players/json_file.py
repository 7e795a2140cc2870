"""A JSON file written by hand, as most scripts do it: `write_text` after each step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.compare.job import Job, change, state


def versions() -> dict[str, str]:
    return {}


def write(path: Path, text: str) -> None:
    """Replace the content of the file."""
    path.write_text(text)


def save(job: Job, now: dict[str, Any]) -> None:
    write(job.place / "state.json", json.dumps(now))


def load(job: Job) -> dict[str, Any]:
    path = job.place / "state.json"
    if not path.exists():
        return {"done": 0, "results": []}
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def drive(job: Job) -> None:
    try:
        now = load(job)
    except ValueError:  # half a file: a script has nothing to continue from
        now = {"done": 0, "results": []}
    job.say("found", now["done"])
    for number in range(now["done"], job.count):
        result = job.step(number)
        now["results"] = [*now["results"], result] if job.results else [result]
        now["done"] = number + 1
        save(job, now)
    job.say("finished", job.count)


def found(job: Job) -> int:
    return int(load(job)["done"])


def grow(job: Job) -> None:
    now: dict[str, Any] = {"done": 0, "state": state()}
    for number in range(job.count):
        key, text = change(number)
        now["state"][key] = text
        save(job, now)


def read(job: Job) -> list[str]:
    return list(load(job)["results"])
