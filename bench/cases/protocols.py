"""Files of a protocol taken in, and checkpoints pruned by a protocol's table."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.registry import Context, Row, case
from leftoff.clock import SYSTEM
from leftoff.engine.commit import Seal, Terms, commit
from leftoff.engine.opening import Opening, start_new_run
from leftoff.engine.project import open_store_at
from leftoff.engine.retention_policy import plan
from leftoff.engine.settings import load
from leftoff.model.changes import ChangeSet
from leftoff.protocols.crunch import Config
from leftoff.protocols.import_documents import Importer
from leftoff.protocols.registry import protocol

PHASES = ("enrich", "ready", "implementing", "validation", "docs")
TRIGGERS = ("batch_complete", "agent_complete", "user_interrupt", "session_end", "batch_start")

# Somebody else who commits all the time, and says how long the longest one took.
OTHER = """
import select, sys, time
from leftoff.engine.commit import Terms, commit
from leftoff.engine.project import open_store_at
from leftoff.engine.opening import open_run
from leftoff.model.changes import ChangeSet

store = open_store_at(sys.argv[1])
head, _ = open_run(store, "other", 1)
longest = 0.0
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.005)[0]:
    changes = ChangeSet()
    changes.put("variable", "x", time.time())
    began = time.monotonic()
    commit(store, head, changes, Terms(1))
    longest = max(longest, time.monotonic() - began)
print(longest)
"""


def document(number: int) -> dict[str, object]:
    """A bmad state as an agent would have left it."""
    return {
        "run_id": f"story-{number}-20260227-143022",
        "workflow_path": "flows/story.yaml",
        "session_branch": "main",
        "started_at": "2026-02-27T14:30:22Z",
        "last_checkpoint": "2026-02-27T15:02:10Z",
        "status": "running",
        "steps_completed": [1, 2, 3],
        "current_step": 4,
        "total_steps": 8,
        "resume_from_step": 4,
        "session_variables": {"user_name": "Ada", "number": number},
        "artefacts_produced": [{"step": 1, "name": "brief", "path": "artefacts/step-01-output.md"}],
        "checkpoint_id": "a3f9b2",
        "issues": [],
        "agent_notes": "half way",
    }


def raw(files: list[Path], folder: Path) -> float:
    """Seconds to read, parse and durably write the files one by one."""
    began = time.perf_counter()
    for number, path in enumerate(files):
        data = path.read_bytes()
        json.loads(data)
        with open(folder / f"{number}.json", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - began


def taken_in(project: Path, name: str) -> float:
    began = time.perf_counter()
    store = open_store_at(str(project / name))
    importer = Importer(
        store, str(project), load(str(project)).redactor(), SYSTEM.now(), lambda path, error: None
    )
    importer.write(importer.read([str(project / "_bmad-output")], None))
    store.close()
    return time.perf_counter() - began


@case("protocols", "the files of a protocol")
def protocols(context: Context) -> Iterator[Row]:
    """Import and the raw work on the same files take turns; the ratio of their speeds counts."""
    number = context.pick(1000, 50)
    ratios, ours = [], []
    with context.folder("disk") as project:
        files = []
        for index in range(number):
            path = project / f"_bmad-output/.runs/main/story-{index}-20260227-143022/state.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(document(index), indent=2))
            files.append(path)
        (project / "copies").mkdir()
        for turn in range(context.rounds(5)):
            base = raw(files, project / "copies")
            ours.append(taken_in(project, f".leftoff{turn}"))
            ratios.append(base / ours[-1])
    about: dict[str, object] = {"files": number, "leftoff_s": round(statistics.median(ours), 2)}
    label = "files imported, against reading, parsing and syncing them"
    yield Row(label, statistics.median(ratios), at_least=0.5, raw=about)
    yield from pruned(context)


def history(folder: Path, number: int) -> None:
    """A run with so many checkpoints of every trigger, and another run."""
    store = open_store_at(str(folder / ".leftoff"))
    head, _, _ = start_new_run(store, Opening("crunch", run_id="crunch-42"), 1)
    start_new_run(store, Opening("other", run_id="other"), 1)
    for index in range(number):
        step = f"{PHASES[index * len(PHASES) // number]}/batch-{index}"
        changes = ChangeSet()
        changes.put("variable", f"v{index % 50}", {"index": index, "text": "x" * 200})
        changes.put("step", step, {"status": "completed", "order": index})
        commit(store, head, changes, Terms(index, seal=Seal(TRIGGERS[index % 5], step)), durable=False)
    store.close()


def pruned(context: Context) -> Iterator[Row]:
    number = context.pick(10_000, 500)
    with context.folder("disk") as folder:
        history(folder, number)
        path = folder / ".leftoff" / "store.db"
        before = path.stat().st_size
        command = [sys.executable, "-c", OTHER, str(folder / ".leftoff")]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        other.stdout.readline()
        store = open_store_at(str(folder / ".leftoff"))
        began = time.perf_counter()
        removals, _ = plan(store, Config({}).policy, SYSTEM.now(), protocol("crunch").phase_of)
        row = store.read(lambda view: view.find_run("crunch-42"))
        assert row is not None
        store.prune(row.run, [removal.version.seq for removal in removals if removal.version])
        took = time.perf_counter() - began
        longest = float(other.communicate("\n")[0])
        store.close()
        kept = path.stat().st_size / before
    about: dict[str, object] = {"checkpoints": number, "removed": len(removals)}
    yield Row("checkpoints pruned by crunch's table", took, "s", at_most=5, raw=about)
    yield Row("the longest that another commit waited meanwhile", longest * 1e3, "ms", at_most=100)
    yield Row("of the database is left", kept * 100, "%")
