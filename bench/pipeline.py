"""The pipeline of `bench.sides.pipeline` with each tool: how long it takes, and what is repeated after kills.

    python -m bench.pipeline [--kills N] [--count N] [--tool NAME …] [--prefect PYTHON]

A kill is a SIGKILL after a while that is chosen from a fixed seed; then the program is started again, until it ends by
itself. `again` counts requests for documents that the API had given before: the tool had lost or not yet recorded them.
Prefect does not fit into the benchmark's environment; `--prefect` names a Python that has it.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from bench import places
from bench.registry import Context
from bench.remote import ROOT

TOOLS = ("plain", "leftoff", "functions", "dbos", "prefect")
LONGEST = 600


def start(python: str, tool: str, folder: Path, count: int) -> subprocess.Popen[bytes]:
    command = [python, "-m", "bench.sides.pipeline", tool, str(folder), str(count)]
    errors = (folder / "errors").open("ab")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PREFECT_HOME": str(folder / "prefect")}
    env |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_LOGGING_LEVEL": "ERROR"}
    env |= {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180"}
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=errors, stderr=errors)


def play(python: str, tool: str, folder: Path, count: int, kills: int) -> str:
    """Run it to its end; a line about that."""
    folder.mkdir()
    pauses, began, killed = random.Random(kills), time.monotonic(), 0
    while True:
        child = start(python, tool, folder, count)
        try:
            code = child.wait(pauses.uniform(0.8, 2.0) if killed < kills else LONGEST)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            killed += 1
            if killed > kills:
                return f"{tool:10} not done within {LONGEST} s"
            continue
        break
    taken = time.monotonic() - began
    if code != 0:
        return f"{tool:10} ended with {code}: {(folder / 'errors').read_text()[-300:]}"
    lines = (folder / "log").read_text().splitlines()
    got = Counter(line for line in lines if line.startswith("got "))
    published = [line for line in lines if line.startswith("published ")]
    right = {f"published {sum(n * n for n in range(count))}"} == set(published) and len(got) == count
    again = sum(got.values()) - count
    return (
        f"{tool:10} {taken:6.1f} s, {killed:2} kills, {again:3} documents fetched again, "
        f"published {len(published)} times, {'right' if right else 'WRONG'}"
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--tool", action="append", choices=TOOLS)
    parser.add_argument("--prefect", help="a Python that has Prefect")
    options = parser.parse_args(argv)
    context = Context(False, None, places.DISK, places.RAM)
    for kills in dict.fromkeys((0, options.kills)):
        for tool in options.tool or TOOLS:
            python = options.prefect if tool == "prefect" else sys.executable
            if python is None or (tool == "plain" and kills):  # a plain script has nothing to continue
                continue
            with context.folder("disk") as folder:
                print(play(python, tool, folder / "work", options.count, kills), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
