"""Trivial shell steps, beside what people would pick instead: make, doit and Snakemake.

Each runs 300 commands that leave an empty file, one after the other and eight at a time, in a folder of its own, in
turns. Only leftoff syncs: after a power cut it knows what is done, and the others look at files that may not be there.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.registry import Context, Row, case

AT_ONCE = 8
MAKERS = Path(__file__).resolve().parents[2] / ".venv-makers" / "bin" / "python"  # has doit and Snakemake
CHAIN, FAN = "in a chain", f"{AT_ONCE} at a time"
BOUNDS = {CHAIN: 6.0, FAN: 4.0}  # leftoff, in times of make


def leftoff(folder: Path, count: int, shape: str) -> list[str]:
    """A list of steps, or one with items."""
    if shape == CHAIN:
        steps = "".join(f"  - {{id: s{n}, run: touch s{n}}}\n" for n in range(count))
    else:
        (folder / "items").write_text("".join(f"s{n}\n" for n in range(count)), encoding="utf-8")
        steps = f"  - {{id: all, foreach: {{lines: items}}, run: 'touch {{{{ item }}}}', max_parallel: {AT_ONCE}}}\n"
    text = f"name: trivial\nmax_parallel: {AT_ONCE}\nsteps:\n{steps}"
    (folder / "flow.yaml").write_text(text, encoding="utf-8")
    return [sys.executable, "-m", "leftoff", "run", "flow.yaml", "--fresh"]


def make(folder: Path, count: int, shape: str) -> list[str]:
    """A Makefile with a rule for each."""
    names = [f"s{n}" for n in range(count)]
    before = dict(zip(names[1:], names[:-1], strict=True)) if shape == CHAIN else {}
    rules = "".join(f"{name}: {before.get(name, '')}\n\t@touch {name}\n" for name in names)
    (folder / "Makefile").write_text(f"all: {' '.join(names)}\n{rules}", encoding="utf-8")
    return ["make", "-s", "-j", "1" if shape == CHAIN else str(AT_ONCE)]


def doit(folder: Path, count: int, shape: str) -> list[str]:
    """A dodo.py with a task for each."""
    before = "[f's{n - 1}'] if n else []" if shape == CHAIN else "[]"
    (folder / "dodo.py").write_text(
        f"def task_s():\n    for n in range({count}):\n"
        f"        name, before = f's{{n}}', {before}\n"
        "        yield {'name': name, 'actions': [f'touch {name}'], 'targets': [name], 'file_dep': before}\n",
        encoding="utf-8",
    )
    parallel = [] if shape == CHAIN else ["-n", str(AT_ONCE)]
    return [str(MAKERS), "-m", "doit", "run", *parallel]


def snakemake(folder: Path, count: int, shape: str) -> list[str]:
    """A Snakefile with one rule and a wildcard."""
    needed = "lambda w: [f's{int(w.n) - 1}'] if int(w.n) else []" if shape == CHAIN else "[]"
    (folder / "Snakefile").write_text(
        f"rule all:\n    input: expand('s{{n}}', n=range({count}))\n"
        f"rule one:\n    input: {needed}\n    output: 's{{n}}'\n"
        "    wildcard_constraints: n=r'\\d+'\n    shell: 'touch {output}'\n",
        encoding="utf-8",
    )
    return [
        str(MAKERS),
        "-m",
        "snakemake",
        "-q",
        "all",
        "--cores",
        "1" if shape == CHAIN else str(AT_ONCE),
    ]


TOOLS: dict[str, Callable[[Path, int, str], list[str]]] = {
    "make": make, "leftoff": leftoff, "doit": doit, "snakemake": snakemake,
}  # fmt: skip


def seconds(context: Context, tool: str, count: int, shape: str) -> float:
    """The time by the clock that a tool takes, in an empty folder."""
    with context.folder("disk") as folder:
        command = TOOLS[tool](folder, count, shape)
        began = time.perf_counter()
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        took = time.perf_counter() - began
        missing = [n for n in range(count) if not (folder / f"s{n}").exists()]
        if missing:
            raise RuntimeError(f"{tool} did not make s{missing[0]}")
    return took


@case("makers", "trivial shell steps beside make, doit and Snakemake")
def makers(context: Context) -> Iterator[Row]:
    """Every tool in every round, in turns; the median over the rounds of each one's time / make's."""
    count = context.pick(300, 30)
    for shape, bound in BOUNDS.items():
        took: dict[str, list[float]] = {tool: [] for tool in TOOLS}
        for _ in range(context.rounds(5, 1)):
            for tool, times in took.items():
                times.append(seconds(context, tool, count, shape))
        for tool in list(TOOLS)[1:]:
            ratios = [ours / theirs for ours, theirs in zip(took[tool], took["make"], strict=True)]
            raw: dict[str, object] = {name: [round(t, 2) for t in took[name]] for name in ("make", tool)}
            at_most = bound if tool == "leftoff" and not context.quick else None
            yield Row(
                f"{tool} / make, {count} steps {shape}", statistics.median(ratios), at_most=at_most, raw=raw
            )
