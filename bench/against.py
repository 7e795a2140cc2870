"""`python -m bench.against TREE [--rounds N] [--only NAME …]`: this checkout beside another one, interleaved.

Each piece of work is a program that uses the public faces alone, so that it runs in both trees, each with the
environment in its `.venv`. In every round each tree does each piece once, in turns; what is compared is the processor
time of the whole process group (and the time by the clock, for information). The figure is the median over the rounds
of ours divided by theirs: above 1.05 a change has made something slower.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
STEPS = """
import leftoff
with leftoff.start("bench") as run:
    for number in range(3000):
        run.do(f"s{number}", int)
"""
COMMITS = """
import leftoff
with leftoff.start("bench") as run:
    for number in range(4000):
        run.variables["n"] = number
        run.variables["text"] = "x" * 200
        run.commit()
"""
APPEND = """
import leftoff
with leftoff.start("bench") as run:
    for number in range(10000):
        run.append("list", {"n": number})
    run.commit()
"""
FUNCTIONS = """
import leftoff

@leftoff.step
def one(n: int) -> int:
    return n + 1

@leftoff.workflow
def many(count: int) -> int:
    return sum(one(n) for n in range(count))

many.run(3000)
"""
REPLAY = """
import leftoff
run = leftoff.start("bench")
for number in range(2000):
    run.do(f"s{number}", int)
run.pause()
with leftoff.resume(run.id) as again:
    for number in range(2000):
        again.do(f"s{number}", int)
"""
FLOW = "name: flow\nsteps:\n" + "".join(
    f"  - id: s{n}\n    run: 'true'\n" + (f"    needs: [s{n - 1}]\n" if n else "") for n in range(60)
)
PROGRAMS = {
    "steps": STEPS,
    "commits": COMMITS,
    "append": APPEND,
    "functions": FUNCTIONS,
    "replay": REPLAY,
}
VERBS = {
    "set": ["set", "x=1"],
    "step done": ["step", "done", "a"],
    "save": ["save"],
    "beat": ["beat"],
    "next": ["next"],
    "ls": ["ls"],
    "show": ["show", "@"],
    "verify": ["verify", "@"],
    "hook": ["hook", "claude"],
}
EVENT = b'{"session_id": "s", "cwd": ".", "hook_event_name": "PostToolUse", "tool_name": "Read", "tool_input": {}}'
STARTS = 20  # of a verb, in one piece of work


class Tree:
    """A checkout with its environment, and a folder that it works in."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.bin = root / ".venv" / "bin"
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("LEFTOFF_")}
        self.env.pop(
            "PYTHONDONTWRITEBYTECODE", None
        )  # modules are compiled once, as those of an installed package

    def spend(self, words: list[str], given: bytes = b"") -> tuple[float, float]:
        """Processor seconds and seconds of one process and its children."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, cwd=self.folder, env=self.env, input=given, capture_output=True, check=True)
        after, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, took

    def fresh(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "flow.yaml").write_text(FLOW)

    def do(self, name: str) -> tuple[float, float]:
        """One piece of work."""
        leftoff = str(self.bin / "leftoff")
        self.fresh()
        if name in PROGRAMS:
            return self.spend([str(self.bin / "python"), "-c", PROGRAMS[name]])
        if name == "shell":
            return self.spend([leftoff, "run", "flow.yaml"])
        self.spend([leftoff, "start", "bench", "--steps", "a,b,c"])
        spent = [self.spend([leftoff, *VERBS[name]], EVENT) for _ in range(STARTS)]
        return statistics.median(one[0] for one in spent), statistics.median(one[1] for one in spent)


def main(argv: list[str]) -> int:
    names = [*PROGRAMS, "shell", *VERBS]
    parser = argparse.ArgumentParser(
        prog="python -m bench.against", description="this checkout beside another one"
    )
    parser.add_argument("tree", type=Path, help="the other checkout, with its .venv")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    options = parser.parse_args(argv)
    worse = 0
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        ours, theirs = Tree(HERE, Path(folder, "ours")), Tree(options.tree.resolve(), Path(folder, "theirs"))
        print(
            f"{'work':<12}{'ours/theirs':>12}{'by the clock':>14}{'ours':>10}{'theirs':>10}  (processor ms)"
        )
        for name in options.only:
            rounds = [(ours.do(name), theirs.do(name)) for _ in range(options.rounds)]
            spent = statistics.median(mine[0] / other[0] for mine, other in rounds)
            took = statistics.median(mine[1] / other[1] for mine, other in rounds)
            ms = [statistics.median(one[side][0] for one in rounds) * 1000 for side in (0, 1)]
            print(f"{name:<12}{spent:>12.3f}{took:>14.3f}{ms[0]:>10.1f}{ms[1]:>10.1f}", flush=True)
            worse += spent > 1.05
    print(f"{worse} of {len(options.only)} are more than 5 % slower")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
