"""A night's work in one project: runs in every state that a person may find in the morning, made by operations.

The clock is moved by hand, so that what took hours takes none. The browser's tests look at it, and `make screenshots`.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

from leftoff.engine import lease
from leftoff.engine.find import Target
from leftoff.engine.project import Project
from leftoff.engine.settings import Caller
from leftoff.engine.step_lifecycle import StepReport
from leftoff.host import Process, this_process
from leftoff.model.changes import ChangeSet
from leftoff.operations.checkpoints import fork_run
from leftoff.operations.run_files import Rollback, rollback_run
from leftoff.operations.run_lifecycle import Start, start_or_continue
from leftoff.operations.run_reports import (
    add_note,
    keep_artifact,
    put_run_record,
    report_run,
    report_step,
    request_approval,
    save_checkpoint,
    set_variables,
)
from leftoff.store.base import SqlStore, Tx
from leftoff.store.rows import RunRow
from leftoff.testing import FakeClock

MINUTE = 60_000
HOUR = 60 * MINUTE
TRACE = """  File "load.py", line 88, in load
    rows = read_table(path, encoding="utf-8")
  File "load.py", line 41, in read_table
    return [decode(line) for line in file]
"""
LOG = (
    "\x1b[1mloading\x1b[0m orders-2026-02.csv\n"
    "\x1b[32mok\x1b[0m 120000 rows\n"
    "\x1b[33mwarning\x1b[0m 12 rows without a customer\n"
    "\x1b[31merror\x1b[0m line 120001: invalid start byte\n"
)
README = """# Import

| table | rows |
| ----- | ---- |
| orders | 120000 |

- read **twice**, `utf-8`
- <b>not bold</b>
"""


class Night:
    """The project, with a clock of its own, and what is done in it."""

    def __init__(self, folder: Path, began: int | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.clock = FakeClock(began if began is not None else time.time_ns() // 1_000_000 - 10 * HOUR)
        self.project = Project(str(folder), clock=self.clock, say=lambda text: None)

    @property
    def store(self) -> SqlStore:
        return self.project.store

    def wait(self, ms: int) -> Night:
        """Time passes."""
        self.clock.advance(ms)
        return self

    def start(self, workflow: str, run_id: str, branch: str = "main", **more: Any) -> Caller:
        """A run, and who reports on it."""
        start_or_continue(self.project, Caller(branch=branch), Start(workflow, run_id=run_id, **more))
        return Caller(named=run_id, branch=branch)

    def step(self, who: Caller, name: str, took: int, end: str = "done", **more: Any) -> None:
        """A step that takes a while and ends."""
        report_step(self.project, who, StepReport("start", name))
        self.wait(took)
        outputs = more.pop("outputs", ())
        report_step(self.project, who, StepReport(end, name, **more), outputs)

    def write(self, path: str, text: str | bytes) -> str:
        """A file of the project."""
        data = text.encode() if isinstance(text, str) else text
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(data)
        return str(self.folder / path)

    def put_own(self, who: Caller, collection: str, key: str, value: Any) -> None:
        """A record that nobody reports: a hook would keep it."""

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
            changes.put(collection, key, value)

        report_run(self.project, who, make)

    def drive(self, run_id: str, process: Process) -> None:
        """A process drives a run from now on."""
        self.store.write(
            lambda tx: lease.take(
                tx, self.number(run_id), run_id, (process, "leftoff run"), self.clock.now(), take_over=True
            )
        )

    def number(self, run_id: str) -> int:
        row = self.store.read(lambda view: view.find_run(run_id))
        assert row is not None
        return int(row.run)

    def attempt(self, run_id: str, step: str, took: int, code: int | None, log: str = "") -> None:
        """A process tried a step."""
        run, token = self.number(run_id), f"{run_id}-{step}-{self.clock.now()}"
        place = f"attempts/{token}"
        folder = Path(self.store.folder, place)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log").write_text(log or f"{step}: working\n")
        self.store.write(lambda tx: tx.add_attempt(token, run, step, self.clock.now(), log=place))
        self.wait(took)
        if code is not None:
            self.store.write(lambda tx: tx.end_attempt(token, self.clock.now(), code))


def a_night(folder: Path, began: int | None = None) -> Night:
    """All of it."""
    night = Night(folder, began)
    for number, (name, title) in enumerate(
        [("nightly-import", "Orders of January"), ("site-build", "Docs 4.2"), ("story", "Login by passkey")]
    ):
        _completed(night, name, title, number)
    _import(night)
    _release(night)
    _migration(night)
    _blocked(night)
    _dead(night)
    _session(night)
    _working(night)
    return night


def _completed(night: Night, workflow: str, title: str, number: int) -> None:
    who = night.start(workflow, f"{workflow}-{number + 1}", title=title, steps=["plan", "build", "check"])
    for step in ("plan", "build", "check"):
        night.step(who, step, (number + 2) * MINUTE)
    from leftoff.operations.run_lifecycle import finish_run

    finish_run(night.project, who, "completed", "all checks passed")


def _import(night: Night) -> None:
    """It failed twice, hours apart."""
    steps = [
        {"id": "download", "estimate": 300},
        {"id": "check", "estimate": 60},
        {"id": "convert", "estimate": 240},
        {"id": "load", "estimate": 600},
        {"id": "index", "estimate": 240},
        {"id": "report", "estimate": 60},
    ]
    who = night.start("nightly-import", "import-orders", title="Orders of February", steps=steps)
    night.drive("import-orders", Process("gone-host/boot/ns", 3, "1"))
    report_step(night.project, who, StepReport("start", "download"))
    night.attempt("import-orders", "download", 4 * MINUTE, 0, "120 MB\n")
    report_step(night.project, who, StepReport("done", "download"))
    for step, code in (("check", 0), ("convert", 1), ("convert", 0)):
        report_step(night.project, who, StepReport("start", step))
        night.attempt("import-orders", step, 2 * MINUTE, code)
        report_step(night.project, who, StepReport("fail" if code else "done", step))
    set_variables(
        night.project, who, {"source": {"host": "db-2", "tables": ["orders", "customers"]}, "rows": 120000}
    )
    report_step(night.project, who, StepReport("start", "load"))
    night.attempt("import-orders", "load", 9 * MINUTE, 1, LOG)
    add_note(night.project, who, "The disk of db-2 is slow tonight.")
    night.wait(3 * HOUR)
    night.drive("import-orders", Process("gone-host/boot/ns", 4, "1"))
    add_note(night.project, who, "Tried again with db-3.")
    night.attempt("import-orders", "load", 11 * MINUTE, 1, LOG)
    path = night.write(
        "out/orders.csv", "id,customer,total\n1,Ada,12.50\n2,Grace,99.00\n3,<b>Mallory</b>,0\n"
    )
    keep_artifact(night.project, who, path, name="orders")
    keep_artifact(night.project, who, night.write("out/README.md", README), name="readme")
    set_variables(
        night.project, who, {"source": {"host": "db-3", "tables": ["orders"]}, "rows": 120000, "tries": 2}
    )
    report_step(
        night.project,
        who,
        StepReport("fail", "load", error="UnicodeDecodeError: invalid start byte at line 120001"),
    )
    put_run_record(
        night.project,
        who,
        "error",
        "load",
        {"type": "UnicodeDecodeError", "traceback": TRACE},
    )
    from leftoff.operations.run_lifecycle import finish_run

    night.store.write(lambda tx: tx.put_lease(night.number("import-orders"), 2))
    finish_run(night.project, who, "failed", "the file is not UTF-8")


def _release(night: Night) -> None:
    who = night.start(
        "release",
        "release-2.4",
        title="Release 2.4",
        branch="release",
        steps=["notes", "build", "sign-off", "publish"],
    )
    night.step(who, "notes", 5 * MINUTE, outputs=[night.write("notes.md", "# 2.4\n\n- faster\n")])
    night.step(who, "build", 22 * MINUTE)
    request_approval(
        night.project,
        who,
        "sign-off",
        "Publish version 2.4 to all customers? All 214 checks passed.",
        ["publish", "hold", "reject"],
    )
    night.wait(12 * MINUTE)


def _migration(night: Night) -> None:
    """A rollback, and a fork."""
    steps = ["inventory", "schema", "copy", "switch"]
    who = night.start("migration", "billing", title="Billing to the new API", branch="billing", steps=steps)
    night.step(who, "inventory", 6 * MINUTE)
    schema = night.write("schema.sql", "create table invoice (id int, total text);\n")
    night.step(who, "schema", 9 * MINUTE, outputs=[schema])
    set_variables(night.project, who, {"strategy": "double writes", "batches": [10, 20, 30]})
    save_checkpoint(night.project, who, note="before the copy")
    night.step(who, "copy", 30 * MINUTE, end="fail", error="totals differ in 3 invoices")
    rollback_run(night.project, who, Rollback("billing~1"), lambda run, steps: True, lambda *given: True)
    night.write("schema.sql", "create table invoice (id int, total numeric);\n")
    night.step(who, "schema", 4 * MINUTE, outputs=[schema])
    set_variables(night.project, who, {"strategy": "freeze, then copy", "batches": [10, 25], "window": "2 h"})
    save_checkpoint(night.project, who, note="totals as numbers")
    fork_run(night.project, Caller(), "billing~1", branch="try-triggers", run_id="billing-triggers")
    from leftoff.operations.run_lifecycle import pause_run

    pause_run(night.project, who)


def _blocked(night: Night) -> None:
    who = night.start(
        "story", "story-17", title="Search in the archive", branch="search", steps=["design", "index", "page"]
    )
    night.step(who, "design", 14 * MINUTE)
    night.step(who, "index", 3 * MINUTE, end="block", error="No access to the search cluster of staging")


def _dead(night: Night) -> None:
    who = night.start(
        "site-build",
        "docs-4.3",
        title="Docs 4.3",
        branch="docs",
        steps=["collect", "render", "links", "upload"],
    )
    process = this_process()
    night.step(who, "collect", 2 * MINUTE)
    report_step(night.project, who, StepReport("start", "render"))
    gone = subprocess.Popen(["true"])
    gone.wait()
    night.drive("docs-4.3", Process(process.scope, gone.pid, "1"))


def _session(night: Night) -> None:
    who = night.start(
        "session", "claude-1f3a", title="Tests for the parser", branch="parser", agent="claude", steps=()
    )
    turns = [
        ("Write tests for the parser, and make them pass.", "I wrote 14 tests; two fail.", "completed"),
        ("Fix the two that fail.", "Both pass. The bug was in the escape of quotes.", "completed"),
        ("Now the lexer.", "Reading the lexer first.", "running"),
    ]
    for number, (prompt, said, status) in enumerate(turns, 1):
        from leftoff.clock import iso

        began = iso(night.clock.now())
        night.wait(7 * MINUTE)
        turn = {
            "prompt": prompt,
            "said": said,
            "status": status,
            "agent": "claude",
            "session": "1f3a",
            "started_at": began,
            "files": ["src/parser.py", "tests/test_parser.py"][: number + 1],
        }
        if status != "running":
            turn["ended_at"] = iso(night.clock.now())
        night.put_own(who, "turn", f"{number:06d}", turn)
    save_checkpoint(night.project, who, note="after the second prompt")


def _working(night: Night) -> None:
    """What is at work when the morning comes."""
    ahead = time.time_ns() // 1_000_000 - 9 * MINUTE
    if night.clock.now() < ahead:
        night.clock.set(ahead)
    steps = [{"id": f"part-{number:02d}", "estimate": 120} for number in range(1, 13)]
    who = night.start(
        "translate", "manual-fr", title="The manual in French", branch="fr", agent="codex", steps=steps
    )
    for number in range(1, 5):
        night.step(who, f"part-{number:02d}", 2 * MINUTE)
    report_step(night.project, who, StepReport("start", "part-05"))
    add_note(night.project, who, "Chapter 5: the glossary decides between « tâche » and « étape ».")


def target_of(night: Night, run_id: str) -> Target:
    """A run of the night, as operations name it."""
    row = night.store.read(lambda view: view.find_run(run_id))
    assert row is not None
    return Target(row, None)
