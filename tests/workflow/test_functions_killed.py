"""A durable program that is killed with SIGKILL at random moments, and started again until it is done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import leftoff
from tests.crash import faults
from tests.workflow.functions import lines, program, start_program

SEQUENCES = """
import leftoff, os, time
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@leftoff.step
def work(label: str, pause: float = 0.002) -> str:
    os.write(log, f"{label}\\n".encode())
    time.sleep(pause)
    return label.upper()

@leftoff.workflow
def part(name: str) -> list[str]:
    return [work(f"{name}-{n}") for n in range(10)]

@leftoff.workflow
def flow() -> int:
    found = [work(f"one-{n}", 0) for n in range(40)]
    found += work.map([f"map-{n}" for n in range(60)], max_parallel=4)
    handles = [work.defer(f"deferred-{n}") for n in range(10)]
    found += part("a")
    found += [label for labels in part.map(["b", "c", "d"], max_parallel=3) for label in labels]
    found += [handle.result() for handle in handles]
    assert all(label == label.upper() for label in found)
    return len(found)

print(flow.run(run_id="r"))
"""

COROUTINES = """
import asyncio, leftoff, os
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@leftoff.step
async def work(label: str) -> str:
    os.write(log, f"{label}\\n".encode())
    await asyncio.sleep(0.002)
    return label.upper()

@leftoff.workflow
async def part(name: str) -> list[str]:
    return [await work(f"{name}-{n}") for n in range(10)]

@leftoff.workflow
async def flow() -> int:
    found = [await work(f"one-{n}") for n in range(40)]
    found += await asyncio.gather(*(work(f"gathered-{n}") for n in range(50)))
    found += await work.map([f"map-{n}" for n in range(50)], max_parallel=4)
    for labels in await asyncio.gather(*(part(name) for name in "abc")):
        found += labels
    assert all(label == label.upper() for label in found)
    return len(found)

print(asyncio.run(flow.run(run_id="r")))
"""


def finished(folder: Path) -> set[str]:
    """The labels of the steps that are recorded as completed."""
    with leftoff.open(folder / ".leftoff") as store:
        try:
            steps = store.get("r").steps
        except leftoff.NotFound:
            return set()
        done = [step for step in steps.values() if step["status"] == "completed"]
        return {step["args"]["label"] for step in done if "label" in step.get("args", {})}


@pytest.mark.parametrize(
    ("text", "count", "parallel"), [(SEQUENCES, 150, 8), (COROUTINES, 170, 55)], ids=["threads", "coroutines"]
)
def test_no_finished_step_runs_twice(tmp_path: Path, text: str, count: int, parallel: int) -> None:
    """Killed five times, wherever that strikes: nothing that is recorded runs again, nothing is missing."""
    chance = random.Random(f"{count}")
    kills, seen = 0, dict[str, int]()  # how often each finished step had run when it was first seen finished
    while kills < 5:
        child = start_program(text, tmp_path)
        wanted = len(lines(tmp_path / "log")) + chance.randint(5, 50)
        while child.poll() is None and len(lines(tmp_path / "log")) < wanted:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.005))
        child.kill()
        child.communicate()
        if child.returncode == 0:
            break
        assert -signal.SIGKILL == child.returncode
        faults.made("kills")
        kills += 1
        starts = Counter(lines(tmp_path / "log"))
        for label in finished(tmp_path):
            assert starts[label] == seen.setdefault(label, starts[label]), (
                f"{label} was finished, and ran again"
            )
    last = program(text, tmp_path)
    told = last.stderr.splitlines()  # nothing, if the last child was faster than its killer
    assert f"{count}\n" == last.stdout and len(told) <= 1, last.stderr
    assert all(line.startswith("leftoff: continuing r, last active ") for line in told)
    starts = Counter(lines(tmp_path / "log"))
    assert (count, seen) == (len(starts), {label: starts[label] for label in seen})
    assert 0 < kills and sum(starts.values()) - count <= kills * parallel


MOMENTS = """
import leftoff, os, signal, sys
scene, turn = sys.argv[1], int(sys.argv[2])

def called(what):
    with open("log", "a") as log:
        print(f"{turn} {what}", file=log)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

@leftoff.step(version=2 if scene == "changed" and turn > 1 else None)
def first(what):
    called(what)
    if turn == 2 and scene in ("cleaned", "changed", "beside"):
        die()
    if turn == 1 and scene != "changed":
        raise ValueError("no")
    return f"{what}{turn}"

@leftoff.step
def second(what):
    called(what)
    if turn == 1 and scene in ("changed", "reached"):
        die()
    return what

@leftoff.workflow
def cleaned():
    try:
        first("a")
    except ValueError:
        second("clean up")
        raise
    return first("b")

@leftoff.workflow
def changed():
    return second(first("a"))

@leftoff.workflow
def reached():
    handle = first.defer("a")
    try:
        return handle.result()
    except ValueError:
        return second("instead")

@leftoff.workflow
async def beside():
    import asyncio
    task = asyncio.ensure_future(afirst())
    await asyncio.sleep(0.05)
    second("meanwhile")
    try:
        await task
    except ValueError:
        second("clean up")
        raise
    return first("b")

@leftoff.step
async def afirst():
    return first.plain("a")

flow = globals()[scene]
if scene == "beside":
    import asyncio
    print(asyncio.run(flow.run(run_id="r")))
else:
    print(flow.run(run_id="r"))
"""


@pytest.mark.parametrize(
    ("scene", "ends", "expected"),
    [
        ("cleaned", [1, -9, 0], ["1 a", "1 clean up", "2 a", "3 a", "3 b"]),
        ("changed", [-9, -9, 0], ["1 a", "1 a1", "2 a", "3 a", "3 a3"]),
        ("reached", [-9, 0], ["1 a", "1 instead", "2 instead"]),
        ("beside", [1, -9, 0], ["1 a", "1 meanwhile", "1 clean up", "2 a", "3 a", "3 b"]),
    ],
)
def test_killed_right_after_a_change_of_course(
    tmp_path: Path, scene: str, ends: list[int], expected: list[str]
) -> None:
    """What a failure or a new version had allowed for is allowed for after a death in the very next step too."""
    for turn, code in enumerate(ends, 1):
        done = program(MOMENTS, tmp_path, scene, str(turn))
        assert code == done.returncode, done.stderr
    assert expected == lines(tmp_path / "log")


def test_random_workflows_that_die_anywhere(tmp_path: Path) -> None:
    """Whatever a workflow does with failures, and wherever its process dies, it completes, and repeats nothing."""
    command = [sys.executable, "-m", "tests.workflow.functions_fuzz", "0", "2"]
    where = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=tmp_path, env=where, capture_output=True, text=True, timeout=280)
    assert ("", 0) == (done.stdout, done.returncode), done.stderr
