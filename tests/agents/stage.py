"""A project with a workflow of agent steps, and fakes on the PATH."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.cli.command import Called, call

FAKE = Path(__file__).parent / "fakes" / "agent.py"
AGENTS = ("claude", "codex", "gemini", "opencode")


class Stage:
    """Where agents work, what they do, what they saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "fake").mkdir()
        for name in AGENTS:
            path = folder / "bin" / name
            path.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
            path.chmod(0o755)
        self.env = {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "FAKE_LOG": str(folder / "fake"),
            "FAKE_SCRIPT": str(folder / "fake" / "script"),
        }

    def write(self, *steps: str) -> None:
        """A workflow of these steps, each the text below `- id: …`."""
        lines = ["name: flow", "steps:"]
        for number, step in enumerate(steps):
            lines.append(f"  - id: s{number}")
            lines += [f"    {line}" for line in step.splitlines()]
            lines += [f"    needs: [s{number - 1}]"] if number else []
        (self.folder / "flow.yaml").write_text("\n".join(lines) + "\n")

    def does(self, *words: str) -> None:
        """What the next lives of fakes do."""
        (self.folder / "fake" / "script").write_text(" ".join(words))

    def run(self, *words: str) -> Called:
        return call(*(words or ("run", "flow.yaml", "--yes")), cwd=self.folder, **self.env)  # type: ignore[arg-type]

    @property
    def log(self) -> list[dict[str, Any]]:
        path = self.folder / "fake" / "log.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be on its way

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log if entry["kind"] == kind]

    def shown(self) -> dict[str, Any]:
        document: dict[str, Any] = call("show", "latest", "--json", cwd=self.folder).json
        return document

    def result(self, step: str = "s0") -> Any:
        return next(r["result"] for r in self.shown()["step_records"] if r["step"] == step)

    def triggers(self) -> list[str]:
        run = self.shown()["run_id"]
        found = call("log", run, "--json", cwd=self.folder).json["checkpoints"]
        return [entry["trigger"] for entry in reversed(found)]

    @property
    def record(self) -> dict[str, Any]:
        """Of the first step."""
        record: dict[str, Any] = self.shown()["step_records"][0]
        return record

    def session(self, step: str = "s0") -> dict[str, Any]:
        """What is kept of a step's session."""
        found: dict[str, Any] = call("get", f"step/{step}", "latest", cwd=self.folder).json["session"]
        return found
