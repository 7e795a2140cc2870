"""Verifying a run: what it costs to see that nothing changed, and to plan a long run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.registry import Context, Row, case
from leftoff.clock import SYSTEM, iso
from leftoff.engine.commit import Terms, report
from leftoff.engine.find import Target
from leftoff.engine.judge import judge_run
from leftoff.engine.opening import Opening, start_new_run
from leftoff.engine.project import Project, open_store_at
from leftoff.engine.resume_answers import ResumeRequest
from leftoff.engine.settings import FileSettings, load
from leftoff.engine.tracking import FileTracker, Workspace
from leftoff.model.changes import ChangeSet
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import RunRow

RUN = "r"
SETTLE_S = 0.1  # a file that was changed in the tick in which it was hashed must be hashed again


def written(folder: Path, count: int) -> list[str]:
    """So many files."""
    (folder / "out").mkdir()
    paths = [f"out/{number:05d}.txt" for number in range(count)]
    for path in paths:
        (folder / path).write_text(f"{path}\n")
    time.sleep(SETTLE_S)
    return paths


def recorded(folder: Path, outputs: dict[str, list[str]]) -> SqlStore:
    """A run whose steps are done, each with these outputs."""
    store = open_store_at(str(folder / ".leftoff"))
    start_new_run(store, Opening("many", run_id=RUN, steps=list(outputs)), SYSTEM.now())
    settings = load(str(folder))
    nothing = FileSettings(git=False, max_file=-1, max_total=0)  # files are hashed, and not copied
    tracker = FileTracker(Workspace(store, str(folder), settings.redactor(), nothing, SYSTEM.now()))
    tracker.limit()

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        now = iso(SYSTEM.now())
        for order, (step, paths) in enumerate(outputs.items()):
            for path in paths:
                got = tracker.capture(path)
                got._replace(about={**got.about, "step": step}).put(changes)
            done = {"status": "completed", "started_at": now, "completed_at": now, "attempt": 1}
            changes.put("step", step, {**done, "order": order, "outputs": paths})

    report(store, _row, make, Terms(SYSTEM.now()))
    return store


def _row(view: View) -> RunRow:
    row = view.find_run(RUN)
    assert row is not None
    return row


def taken(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@case("verify", "verifying a run of 10,000 unchanged outputs")
def verifying(context: Context) -> Iterator[Row]:
    """Against an `os.stat` of each; first as outputs of one step, then of as many steps."""
    count = context.pick(10_000, 1_000)
    for label, each in (("of one step", False), ("of a step each", True)):
        with context.folder("disk") as folder:
            paths = written(folder, count)
            outputs = {f"s{path[4:9]}": [path] for path in paths} if each else {"all": paths}
            store = recorded(folder, outputs)
            here = str(folder)
            project, request = (
                Project(here, f"{here}/.leftoff"),
                ResumeRequest(Target(store.read(_row), None)),
            )
            full = [f"{here}/{path}" for path in paths]
            ours, stats = [], []
            for _ in range(context.rounds(15, 3)):
                stats.append(taken(lambda full=full: [os.stat(path) for path in full]))  # type: ignore[misc]
                ours.append(taken(lambda p=project, r=request: judge_run(p, r)))  # type: ignore[misc]
            project.close()
            store.close()
        yield Row(
            f"verify / os.stat of each, outputs {label}",
            statistics.median(a / b for a, b in zip(ours, stats, strict=True)),
            at_most=3.0,
            raw={
                "verify_ms": round(statistics.median(ours) * 1e3, 1),
                "stat_ms": round(statistics.median(stats) * 1e3, 1),
            },
        )


@case("dry-run", "resume --dry-run of a run of 10,000 steps")
def planning(context: Context) -> Iterator[Row]:
    """The command, from its start to its end."""
    count = context.pick(10_000, 1_000)
    with context.folder("disk") as folder:
        store = recorded(folder, {f"s{number:05d}": [] for number in range(count)})
        words = ["resume", RUN, "--from-step", "s00500", "--dry-run", "--json"]
        store.close()
        times = [taken(lambda: planned(folder, words)) for _ in range(context.rounds(7, 2))]
    yield Row("seconds", statistics.median(times), unit="s", at_most=1.0)


def planned(folder: Path, words: list[str]) -> None:
    """Finished steps would run again, so that it is a person's to decide: exit 7."""
    done = subprocess.run([sys.executable, "-m", "leftoff", *words], cwd=folder, capture_output=True)
    if done.returncode != 7 or b'"plan"' not in done.stdout:
        raise RuntimeError(done.stderr.decode(errors="replace"))
