"""The pipeline that every player runs: what it is asked for, what its steps do, and the log of what happened.

The log is outside of the player's folder and is written with one `write` per line, so that it survives a SIGKILL and is
not lost when the power of the player's disk is cut. Its lines are `WORD NUMBER SECONDS`:

    found N    N steps were recorded as finished when the process started
    begin N    the tool has called step N, so it treats every step before N as done
    end N      the side effect of step N is done
    finished N the pipeline is at its end
"""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

SIZES = (250, 1_000)  # bytes of a step's result, before they are written as hexadecimal digits
KEYS = 100  # of the state in the growth scene
KEY_SIZE = 1_000  # characters per key


@dataclass(frozen=True)
class Job:
    """One process of a player."""

    folder: str
    log: str
    count: int = 0
    pause: float = 0.0  # seconds that a step takes
    hang: int = -1  # this step never ends
    files: bool = False  # each step writes a file and declares it as its output, if the tool has such a thing
    results: bool = False  # the results will be read: they are longer, and a state has all of them
    port: int = 0  # of the player's server

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    def at(self, folder: Path) -> Job:
        """The same job for a copy of the store."""
        return replace(self, folder=str(folder))

    @property
    def place(self) -> Path:
        return Path(self.folder)

    def say(self, word: str, number: int) -> None:
        """Append a line to the log."""
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(log, f"{word} {number} {time.monotonic()}\n".encode())
        os.close(log)

    def step(self, number: int) -> str:
        """Do step `number`, whose side effect is the line `end`, and return its result."""
        self.say("begin", number)
        if self.hang == number:
            time.sleep(600)
        if self.pause:
            time.sleep(self.pause)
        if self.files:
            self.output(number).parent.mkdir(exist_ok=True)
            self.output(number).write_text(self.value(number))
        self.say("end", number)
        return self.value(number)

    def value(self, number: int) -> str:
        """The result of a step: digits that do not compress."""
        return random.Random(number).randbytes(SIZES[self.results]).hex()

    def output(self, number: int) -> Path:
        """The file that step `number` writes."""
        return self.place / "out" / f"{number}.txt"


def state() -> dict[str, str]:
    """The state of the growth scene, about 100 KB."""
    return {f"key-{n}": random.Random(n).randbytes(KEY_SIZE // 2).hex() for n in range(KEYS)}


def change(number: int) -> tuple[str, str]:
    """The key that step `number` of the growth scene changes, and its new text."""
    return f"key-{number % KEYS}", random.Random(f"change {number}").randbytes(KEY_SIZE // 2).hex()
