"""The runner: what a shell step costs us, and whether ten thousand items cost the last as much as the first."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.registry import Context, Row, case

LEFTOFF = (sys.executable, "-m", "leftoff")
BASH = ("bash", "-eo", "pipefail", "-c", "true")
SUBREAPER = 36  # prctl: orphans become our children, so that their CPU is counted too
TICK = os.sysconf("SC_CLK_TCK")


def cpu(*commands: tuple[str, ...], cwd: Path) -> float:
    """The seconds of CPU that these and everything they started took, also what outlived them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in commands:
        subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, check=True)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def chain(folder: Path, count: int) -> None:
    steps = "".join(f"  - {{id: s{number}, run: 'true'}}\n" for number in range(count))
    (folder / "flow.yaml").write_text(f"name: chain\nsteps:\n{steps}", encoding="utf-8")


def fan(folder: Path, count: int) -> None:
    items = "".join(f"{number}\n" for number in range(count))
    (folder / "items").write_text(items, encoding="utf-8")
    step = "  - {id: all, foreach: {lines: items}, run: 'true', max_parallel: 8}\n"
    (folder / "flow.yaml").write_text(f"name: fan\nmax_parallel: 8\nsteps:\n{step}", encoding="utf-8")


def ran(folder: Path, write: Callable[[Path, int], None], count: int) -> float:
    write(folder, count)
    return cpu((*LEFTOFF, "run", "flow.yaml", "--fresh"), cwd=folder)


@case("shell", "shell steps: our CPU and our syncs for each")
def shell(context: Context) -> Iterator[Row]:
    """A run of 200 times `true`, less a run of one, less as many bare `bash -c true` as there are more."""
    count = context.pick(200, 40)
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)
    try:
        for label, write in (("a chain", chain), ("a foreach, 8 at a time", fan)):
            with context.folder("disk") as folder:
                costs, shells = [], []
                for _ in range(context.rounds(5, 2)):
                    shells.append(cpu(*[BASH] * (count - 1), cwd=folder))
                    costs.append(ran(folder, write, count) - ran(folder, write, 1))
                each = [(ours - bare) / (count - 1) * 1e3 for ours, bare in zip(costs, shells, strict=True)]
            yield Row(
                f"ms of our CPU per step, {label} of {count}",
                statistics.median(each),
                unit="ms",
                at_most=3,
                raw={"bare_bash_ms": round(statistics.median(shells) / count * 1e3, 2)},
            )
    finally:
        ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 0, 0, 0, 0)
    yield synced(context, count)


def synced(context: Context, count: int) -> Row:
    """Commits that wait for the disk; beside them, what is synced to keep the exit codes."""
    if shutil.which("strace") is None:
        raise RuntimeError("strace is not installed; syncs cannot be counted without it")
    with context.folder("disk") as folder:
        chain(folder, count)
        log = folder / "strace.log"
        trace = (
            "strace",
            "-f",
            "-y",
            "-qq",
            "-e",
            "trace=fsync,fdatasync",
            "-e",
            "signal=none",
            "-o",
            str(log),
        )
        command = (*trace, *LEFTOFF, "run", "flow.yaml")
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
        files = re.findall(r"\bf(?:data)?sync\(\d+<([^>]*)>", log.read_text(encoding="utf-8"))
    commits = sum(name.endswith("-wal") for name in files)
    raw: dict[str, object] = {"other_syncs_per_step": round((len(files) - commits) / count, 2)}
    return Row(f"synced commits per step, a chain of {count}", commits / count, unit="", at_most=2, raw=raw)


@dataclass
class Fan:
    """What a driver told while it ran."""

    done: int = 0
    first: float = 0.0  # seconds from launch to the first item done
    walls: list[float] = field(default_factory=list)  # when each part was done
    cpus: list[float] = field(default_factory=list)
    peak_mb: float = 0.0


def driven(folder: Path, part: int, *, stop_at: int | None = None, words: tuple[str, ...] = ()) -> Fan:
    """Run or resume, and kill it after so many items."""
    seen, began = Fan(), time.monotonic()
    command = (*LEFTOFF, *(words or ("run", "flow.yaml")), "--json")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            event = json.loads(line)
            if event["event"] != "step_done" or "/" not in event["step"]:
                continue
            seen.done += 1
            if seen.done == 1:
                seen.first = time.monotonic() - began
            if seen.done % part == 0:
                measure(seen, driver.pid)
            if seen.done == stop_at:
                driver.send_signal(signal.SIGKILL)
                break
    if stop_at is None and driver.returncode != 0:
        raise RuntimeError(f"{command} ended with {driver.returncode}")
    return seen


def measure(seen: Fan, pid: int) -> None:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    seen.walls.append(time.monotonic())
    seen.cpus.append((int(stat[11]) + int(stat[12])) / TICK)
    peak = re.search(r"VmHWM:\s+(\d+)", status)
    seen.peak_mb = int(peak[1]) / 1024 if peak else 0.0


@case("foreach", "10,000 items in a foreach, 8 at a time")
def foreach(context: Context) -> Iterator[Row]:
    """The driver's memory, the cost of the last part against the first, and what a resume half way has to skip."""
    count, half = context.pick(10_000, 1_000), context.pick(5_000, 500)
    part = count // 10
    with context.folder("disk") as folder:
        fan(folder, count)
        seen = driven(folder, part)
        yield Row("MB that the driver takes at most", seen.peak_mb, unit="MB", at_most=300)
        walls = [b - a for a, b in zip(seen.walls[:-1], seen.walls[1:], strict=True)]
        cpus = [b - a for a, b in zip(seen.cpus[:-1], seen.cpus[1:], strict=True)]
        raw: dict[str, object] = {"part": part, "seconds": [round(wall, 2) for wall in walls]}
        yield Row("time of the last part / the second", walls[-1] / walls[0], at_most=1.5, raw=raw)
        raw = {"driver_ms_per_item": [round(cost / part * 1e3, 2) for cost in cpus]}
        yield Row("CPU of the last part / the second", cpus[-1] / cpus[0], at_most=1.25, raw=raw)
    with context.folder("disk") as folder:
        fan(folder, count)
        driven(folder, part, stop_at=half)
        resumed = driven(folder, part, words=("resume",), stop_at=part)
        label = f"seconds from the launch of resume to the first new item done, {half} skipped"
        yield Row(label, resumed.first, unit="s", at_most=2)
        settle(folder)


def settle(folder: Path) -> None:
    """What was left in flight ends before its folder goes."""
    subprocess.run((*LEFTOFF, "stop"), cwd=folder, capture_output=True, check=False)
    time.sleep(1)
