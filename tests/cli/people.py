"""Runs that wait for people, and steps that printed something: as the runner would leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leftoff.clock import iso
from leftoff.host import Process
from leftoff.store.sqlite import SqliteStore
from tests.cli.command import succeed

AT = 1_770_000_000_000
OPTIONS = ["approve", "roundtable", "reject"]


def put(cwd: Path, collection: str, key: str, value: Any, run: str) -> None:
    succeed("put", collection, key, json.dumps(value), "--run", run, cwd=cwd)


def story(cwd: Path, run: str = "story-1", *, deadline: int | None = None, paused: bool = True) -> str:
    """A run of a workflow: one step is done, one waits for a decision, one to be done by hand, one is the runner's."""
    succeed("start", "story", "--run-id", run, "--steps", "draft,sign-off,read-aloud,publish", cwd=cwd)
    put(cwd, "step", "draft", {"status": "completed", "kind": "run"}, run)
    put(cwd, "step", "sign-off", {"status": "waiting", "kind": "approval", "started_at": iso(AT)}, run)
    ask(cwd, "sign-off", run, deadline=deadline)
    told = {
        "status": "waiting",
        "kind": "manual",
        "title": "By ear",
        "instructions": "Read the pages aloud.\nAll.",
    }
    put(cwd, "step", "read-aloud", told, run)
    put(cwd, "step", "publish", {"status": "pending", "kind": "run"}, run)
    if paused:
        succeed("pause", "--run", run, cwd=cwd)
    return run


def ask(cwd: Path, step: str, run: str, *, deadline: int | None = None, **more: Any) -> None:
    record = {
        "step": step,
        "ask": "Is docs/a.md good?",
        "options": OPTIONS,
        "status": "waiting",
        "asked_at": iso(AT),
        **({"deadline": iso(deadline)} if deadline is not None else {}),
        **more,
    }
    put(cwd, "approval", step, record, run)


def shown(cwd: Path, run: str) -> dict[str, Any]:
    found: dict[str, Any] = succeed("show", run, "--json", cwd=cwd).json
    return found


def step_of(cwd: Path, run: str, step: str) -> dict[str, Any]:
    return next(record for record in shown(cwd, run)["step_records"] if record["step"] == step)


class Attempts:
    """Attempts at the steps of a run, each with a folder and a log."""

    def __init__(self, cwd: Path, run: str) -> None:
        self.store = SqliteStore(str(cwd / ".leftoff"))
        row = self.store.read(lambda view: view.find_run(run))
        assert row is not None
        self.run = row.run
        self._count = 0

    def __enter__(self) -> Attempts:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def add(
        self,
        step: str,
        printed: bytes | None,
        *,
        code: int | None = 0,
        process: Process | None = None,
        ms: int = 12_300,
    ) -> str:
        """An attempt that ended with a code (``None``: it has not ended); its token. ``printed`` None: no log."""
        self._count += 1
        token = f"token-{self.run}-{self._count}"
        folder = f"attempts/{token}"
        at = AT + self._count * 1000
        self.store.write(lambda tx: tx.add_attempt(token, self.run, step, at, process=process, log=folder))
        if printed is not None:
            self.print(token, printed)
        if code is not None:
            self.end(token, code, at + ms)
        return token

    def print(self, token: str, printed: bytes) -> None:
        path = Path(self.store.folder, "attempts", token, "log")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(printed)

    def end(self, token: str, code: int | None, at: int = AT + 60_000) -> None:
        self.store.write(lambda tx: tx.end_attempt(token, at, code))
