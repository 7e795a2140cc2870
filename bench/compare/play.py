"""`python -m bench.compare.play PLAYER MODE JOB`: one process of a player.

`damage` reads every copy of the store in `JOB.folder`, each in its own process, and prints what became of the
values: `same`, `wrong`, `missing` or `error`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from bench.compare.job import Job


def outcome(player: Any, job: Job) -> str:
    """What the tool returns from a store that may be damaged."""
    try:
        seen = player.read(job)
    except Exception as error:
        return f"error {type(error).__name__}"
    expected = [job.value(number) for number in range(job.count)]
    if seen == expected:
        return "same"
    return "missing" if expected[: len(seen)] == seen else "wrong"


def apart(player: Any, job: Job) -> str:
    """Return the outcome from a child process: reading a damaged file may crash or hang it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.write(writing, outcome(player, job).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said or "error died"


def main(argv: list[str]) -> int:
    name, mode = argv[:2]
    job = Job(**json.loads(argv[2]))
    player = importlib.import_module(f"bench.compare.players.{name}")
    if mode == "versions":
        print(json.dumps(player.versions()))
    elif mode == "found":
        print(player.found(job))
    elif mode == "damage":
        copies = sorted(Path(job.folder).iterdir())
        print(json.dumps([apart(player, job.at(copy)) for copy in copies]))
    else:
        getattr(player, mode)(job)
    return 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)  # a peer's threads must not keep a process alive that has done its work
