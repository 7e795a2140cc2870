"""Two who write the same file, and one who reads it all the time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from leftoff.clock import SYSTEM
from leftoff.engine.commit import Terms
from leftoff.engine.opening import find
from leftoff.engine.project import open_store
from leftoff.engine.report_commit import report
from leftoff.engine.settings import load
from leftoff.protocols.sync import follow

RUN = "shared"


def followed(project: Path, told: list[str] | None = None) -> Any:
    said = told if told is not None else []
    store = open_store(str(project / ".leftoff"))
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

        report(store, lambda view: find(view, RUN), make, Terms(SYSTEM.now()))
        if number == 1:
            rounds.write_text("begun")
    store.close()
    rounds.write_text(json.dumps({"rounds": number, "told": told}))


def edit(path: Path, rounds: int, kind: str, begun: Path) -> None:
    """Read the file, add a variable, write it back: by rename, or in place."""
    while not begun.exists():
        time.sleep(0.01)
    for number in range(rounds):
        name = f"{kind}_{number:04d}"
        while not (replace if kind == "rename" else in_place)(path, name):
            time.sleep(0.002)
        time.sleep(0.02)


def changed(text: str, name: str) -> str | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    document["session_variables"][name] = True
    document["session_variables"]["both"] = name
    return json.dumps(document, indent=2)


def replace(path: Path, name: str) -> bool:
    new = changed(path.read_text(), name)
    if new is None:
        return False
    temp = path.with_name(f".{name}.tmp")
    temp.write_text(new)
    os.replace(temp, path)
    return True


def in_place(path: Path, name: str) -> bool:
    """As an editor that saves into the same file does it, slowly."""
    with open(path, "r+", encoding="utf-8") as file:
        new = changed(file.read(), name)
        if new is None:
            return False
        time.sleep(0.001)
        file.seek(0)
        file.truncate()
        half = len(new) // 2
        file.write(new[:half])
        file.flush()
        time.sleep(0.001)
        file.write(new[half:])
    return True


def watch(path: Path, stop: Path, verdict: Path, patience: float) -> None:
    """Parse the file all the time. ``patience``: seconds that somebody else may take to write it in place."""
    looks, bad = 0, ""
    while not stop.exists() and not bad:
        looks += 1
        with open(path, encoding="utf-8") as file:
            until = time.monotonic() + patience
            while True:
                file.seek(0)
                text = file.read()
                try:
                    json.loads(text)
                    break
                except ValueError as error:
                    if time.monotonic() >= until:
                        bad = f"{error}: {text[:300]!r}"
                        break
                    time.sleep(0.001)
    verdict.write_text(json.dumps({"looks": looks, "bad": bad}))
