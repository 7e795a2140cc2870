"""Workflow files, executed by the real command as anyone would, and what came of it."""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.command import LEFTOFF, Called, call, succeed

# A step that waits until so many steps are here at once; `counts` has how many there were, by each of them.
MEET = """
mkdir -p here; name=$(echo "$LEFTOFF_STEP" | tr / _); : > "here/$name"
until [ "$(ls here | wc -l)" -ge "$1" ] || [ -e met ]; do sleep 0.02; done
: > met
ls here | wc -l >> counts
sleep 0.05
rm "here/$name"
"""


@dataclass(frozen=True)
class Ran:
    """What `leftoff run --json` told, event by event."""

    called: Called
    folder: Path

    @property
    def code(self) -> int:
        return self.called.code

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.called.out.splitlines()]

    @property
    def run(self) -> dict[str, Any]:
        """The run as it is at the end, from the last event."""
        last = self.events[-1]
        assert "end" == last["event"], str(self.called)
        return dict(last["run"])

    @property
    def id(self) -> str:
        return str(self.run["run_id"])

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    def told(self, *kinds: str) -> list[tuple[str, str]]:
        """What was told of steps, in order: the event and the step."""
        return [(event["event"], event["step"]) for event in self.events if event["event"] in kinds]

    # -- what is on record

    def show(self) -> dict[str, Any]:
        return dict(succeed("show", self.id, "--json", cwd=self.folder).json)

    def steps(self) -> dict[str, dict[str, Any]]:
        return {record["step"]: record for record in self.show()["step_records"]}

    def statuses(self) -> dict[str, str]:
        return {path: record["status"] for path, record in self.steps().items()}

    def variables(self) -> dict[str, Any]:
        return dict(self.show()["variables"])

    def seals(self) -> list[tuple[str, str | None]]:
        """The trigger and the step of each checkpoint, the oldest first."""
        found = succeed("log", self.id, "--json", cwd=self.folder).json["checkpoints"]
        return [(checkpoint["trigger"], checkpoint["step"]) for checkpoint in reversed(found)]

    def __str__(self) -> str:
        return str(self.called)


def write(folder: Path, text: str, name: str = "flow.yaml") -> Path:
    """A definition (dedented), and a `meet.sh` beside it."""
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    (folder / "meet.sh").write_text(MEET, encoding="utf-8")
    return path


def run(folder: Path, text: str = "", *words: str, code: int | None = 0, **env: Any) -> Ran:
    """Execute a definition, or the one that is there; ``code``: the exit code that it must have."""
    if text:
        write(folder, text)
    ran = Ran(call("run", "flow.yaml", "--json", *words, cwd=folder, **env), folder)
    assert code is None or code == ran.code, str(ran)
    return ran


def refused(folder: Path, text: str = "", *words: str, code: int, **env: Any) -> Called:
    """What is said where nothing is executed: the plain call, whose stderr has the line and the hint."""
    if text:
        write(folder, text)
    called = call("run", "flow.yaml", *words, cwd=folder, **env)
    assert code == called.code, str(called)
    assert "Traceback" not in called.err
    return called


def lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def most_at_once(folder: Path) -> int:
    """How many steps met, at most."""
    return max(int(line) for line in lines(folder, "counts"))


def files_with(folder: Path, text: str) -> list[str]:
    """The files below a folder that have this text in them, or in their names."""
    found = []
    for at, folders, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            if text in path or text.encode() in Path(path).read_bytes():
                found.append(os.path.relpath(path, folder))
        found += [os.path.relpath(os.path.join(at, name), folder) for name in folders if text in name]
    return sorted(found)


def runs(folder: Path) -> dict[str, str]:
    """Every run and its status."""
    found = succeed("ls", "--all", "--json", cwd=folder).json["runs"]
    return {run["run_id"]: run["status"] for run in found}


def path_with_leftoff() -> str:
    """PATH with the command that is tested in front, for steps that call it."""
    return f"{LEFTOFF.parent}:{os.environ['PATH']}"
