"""Two who write the same file, and one who reads it all the time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from leftoff.clock import SYSTEM
from leftoff.engine.commit import Terms, report
from leftoff.engine.opening import run_by_id
from leftoff.engine.project import open_store_at
from leftoff.engine.settings import load
from leftoff.protocols.sync import follow

RUN = "shared"


def followed(project: Path, told: list[str] | None = None) -> Any:
    said = told if told is not None else []
    store = open_store_at(str(project / ".leftoff"))
    return follow(store, str(project), load(str(project)), SYSTEM.now, said.append)


def drive(project: Path, stop: Path, rounds: Path) -> None:
    """Commit until told to stop, and a few times in any case, a variable of our own each time, and one that both sides
    want. The first one tells the others that it has begun."""
    told: list[str] = []
    store = followed(project, told)
    number = 0
    while number < 4 or not stop.exists():
        number += 1

        def make(tx: Any, row: Any, changes: Any, number: int = number) -> None:
            changes.put("variable", f"ours_{number:04d}", number)
            changes.put("variable", "both", f"ours {number}")

        report(store, lambda view: run_by_id(view, RUN), make, Terms(SYSTEM.now()))
        if number == 1:
            rounds.write_text("begun")
    store.close()
    rounds.write_text(json.dumps({"rounds": number, "told": told}))


def edit(path: Path, rounds: int, begun: Path) -> None:
    """Read the file, add a variable, write it back by a rename."""
    while not begun.exists():
        time.sleep(0.01)
    for number in range(rounds):
        replace(path, f"rename_{number:04d}")
        time.sleep(0.02)


def replace(path: Path, name: str) -> None:
    document = json.loads(path.read_text())
    document["session_variables"][name] = True
    document["session_variables"]["both"] = name
    temp = path.with_name(f".{name}.tmp")
    temp.write_text(json.dumps(document, indent=2))
    os.replace(temp, path)


def watch(path: Path, stop: Path, verdict: Path) -> None:
    """Parse the file all the time."""
    looks, bad = 0, ""
    while not stop.exists() and not bad:
        looks += 1
        text = path.read_text(encoding="utf-8")
        try:
            json.loads(text)
        except ValueError as error:
            bad = f"{error}: {text[:300]!r}"
    verdict.write_text(json.dumps({"looks": looks, "bad": bad}))
