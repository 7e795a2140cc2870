"""Resuming a run of many finished steps after a `kill -9`."""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.registry import Context, Row, case
from bench.remote import ROOT, SideFailed


def script(name: str, mode: str, folder: Path, count: int) -> subprocess.CompletedProcess[str]:
    """Run one of the two programs in a process of its own."""
    command = [sys.executable, "-m", f"bench.sides.{name}", mode, str(folder), str(count)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def seed(name: str, folder: Path, count: int) -> Path:
    """A store left behind by a process that was killed after `count` steps."""
    folder.mkdir()
    done = script(name, "seed", folder, count)
    if done.returncode != -signal.SIGKILL:
        raise SideFailed(f"{name} seed ended with {done.returncode}: {done.stderr[-2000:]}")
    return folder


def resume(name: str, seeded: Path, scratch: Path, count: int) -> dict[str, float]:
    """Times until the first new step, from a copy of what the dead process left."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(seeded, scratch)
    done = script(name, "resume", scratch, count)
    if done.returncode != 0 or not done.stdout:
        raise SideFailed(f"{name} resume ended with {done.returncode}: {done.stderr[-2000:]}")
    times: dict[str, float] = json.loads(done.stdout)
    return times


@case("resume", "resuming a run of 1,000 finished steps after kill -9")
def resuming(context: Context) -> Iterator[Row]:
    """From a fresh process to the first new step, with and without the import."""
    count = context.pick(1_000, 200)
    taken: dict[str, list[dict[str, float]]] = {"recover_ours": [], "recover_durable": []}
    with context.folder("disk") as folder:
        seeded = {name: seed(name, folder / name, count) for name in taken}
        for _ in range(context.rounds(7, 2)):
            for name, times in taken.items():
                times.append(resume(name, seeded[name], folder / "scratch", count))
    for key, label, bound in (
        ("without_import", "without imports", 10.0),
        ("total", "with imports", None),
        ("replay", "the replay alone, without DBOS's start-up and queue", None),
    ):
        ours, dbos = ([one[key] for one in times] for times in taken.values())
        yield Row(
            f"DBOS's time / leftoff's, {label}",
            statistics.median(b / a for a, b in zip(ours, dbos, strict=True)),
            at_least=bound,
            raw={
                "leftoff_ms": round(statistics.median(ours) * 1e3, 1),
                "dbos_ms": round(statistics.median(dbos) * 1e3, 1),
            },
        )
