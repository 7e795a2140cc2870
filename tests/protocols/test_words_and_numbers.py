"""What the protocols fix: numbers of steps, the phase a run is in, labels, events, names of files, words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import call, succeed
from tests.protocols.examples import BMAD, CRUNCH
from tests.protocols.files import put


def follow(project: Path, name: str) -> None:
    succeed("init", "--protocol", name, cwd=project)


def state(project: Path, run: str, branch: str = "main") -> Any:
    return json.loads((project / f"_bmad-output/.runs/{branch}/{run}/state.json").read_text())


def newest(project: Path, issue: str = "42") -> Any:
    return yaml.safe_load((project / f".claude/crunch/{issue}/checkpoints/latest").read_text())


def test_the_phase_at_work_is_the_current_one(project: Path) -> None:
    """Even where an earlier one was never begun; its first batch begins with a checkpoint."""
    follow(project, "crunch")
    succeed("start", "crunch", "--issue", "42", cwd=project)
    succeed("step", "start", "implementing/batch-2/task_1", cwd=project)
    there = newest(project)
    assert "implementing" == there["workflow_state"]["current_phase"]
    assert (2, ["batch_2_task_1"]) == (
        there["execution_graph"]["current_batch"],
        list(there["execution_graph"]["node_states"]),
    )
    found = succeed("log", "crunch-42", "--json", cwd=project).json["checkpoints"]
    assert ["batch_start"] == [version["trigger"] for version in found]


def test_labels_move_the_phase(project: Path) -> None:
    """What the issue says is taken over by resuming, and is in the files with its text."""
    follow(project, "crunch")
    issue = {"title": "T1", "body": "B", "labels": [{"name": "state:enrich"}], "state": "open"}
    (project / "issue.json").write_text(json.dumps(issue))
    with open(project / "leftoff.toml", "a", encoding="utf-8") as file:
        file.write('\n[issues]\nfile = "issue.json"\n')
    succeed("start", "crunch", "--issue", "42", cwd=project)
    succeed("save", cwd=project)
    assert ("B", ["state:enrich"]) == tuple(
        newest(project)["issue_snapshot"][key] for key in ("body", "labels")
    )
    (project / "issue.json").write_text(json.dumps({**issue, "labels": [{"name": "state:implementing"}]}))
    succeed("resume", "crunch-42", "--yes", cwd=project)
    succeed("save", cwd=project)
    assert "implementing" == newest(project)["workflow_state"]["current_phase"]


def test_the_issue_of_an_imported_checkpoint_is_compared(project: Path) -> None:
    """Its text and its labels were those of the document."""
    put(project / ".claude/crunch/42/checkpoints/CP-enrich-20250114-a3f2.yaml", CRUNCH["full"])
    (project / "issue.json").write_text(json.dumps({"body": "other", "labels": [], "state": "open"}))
    (project / "leftoff.toml").write_text('[issues]\nfile = "issue.json"\n')
    succeed("import", ".", cwd=project)
    codes = {
        finding["code"] for finding in call("verify", "crunch-42", "--json", cwd=project).json["findings"]
    }
    assert {"issue.body", "issue.labels"} <= codes


def test_archiving_that_was_killed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is archived, and its folder was not moved yet: the next write to the store moves it."""
    (project / "leftoff.toml").write_text('[protocol]\nname = "bmad"\n')
    succeed("start", "w", "--run-id", "ds", cwd=project)
    succeed("finish", cwd=project)
    with monkeypatch.context() as patch:
        patch.setattr("leftoff.protocols.sync.Sync.sync", lambda self, look=True: None)
        succeed("archive", "ds", cwd=project)
    runs = project / "_bmad-output/.runs"
    assert (runs / "main/ds/state.json").exists()
    succeed("start", "w", "--run-id", "other", cwd=project)
    assert (False, True) == ((runs / "main/ds").exists(), (runs / "archive/ds/state.json").exists())


def test_archived_and_back(project: Path) -> None:
    """The folder of a run goes along each time; there is never a second one of it."""
    follow(project, "bmad")
    succeed("start", "w", "--run-id", "ds", "--steps", "a", cwd=project)
    runs = project / "_bmad-output/.runs"
    for _ in range(2):
        succeed("finish", "--run", "ds", cwd=project)
        succeed("archive", "ds", cwd=project)
        assert (False, True) == ((runs / "main/ds").exists(), (runs / "archive/ds/state.json").exists())
        succeed("resume", "ds@1", "--yes", cwd=project)
        assert (True, False) == ((runs / "main/ds/state.json").exists(), (runs / "archive/ds").exists())


def test_copies_of_what_the_steps_produced(project: Path) -> None:
    """Each of them, and as it is now."""
    follow(project, "bmad")
    succeed("start", "w", "--run-id", "r", "--steps", "a", cwd=project)
    for name in ("d1", "d2"):
        (project / name).mkdir()
        (project / name / "x.md").write_text(name)
    succeed("step", "done", "a", "--output", "d1/x.md", "--output", "d2/x.md", cwd=project)
    folder = project / "_bmad-output/.runs/main/r/artefacts"
    assert ["d1", "d2"] == sorted(path.read_text() for path in folder.iterdir())
    (project / "d1/x.md").write_text("new")
    succeed("artifact", "d1/x.md", "--step", "a", cwd=project)
    assert "new" in [path.read_text() for path in folder.iterdir()]


def test_an_archived_state_that_goes_on(project: Path) -> None:
    """Its file is where those are that run."""
    follow(project, "bmad")
    put(
        project / "_bmad-output/.runs/archive/z-1/state.json",
        {**BMAD["state"], "run_id": "z-1", "status": "failed"},
    )
    succeed("import", ".", cwd=project)
    succeed("resume", "z-1", "--yes", cwd=project)
    assert "running" == state(project, "z-1", "feature-auth")["status"]


def test_an_archived_run_by_its_protocols_ids(project: Path) -> None:
    """They are listed where one chooses among them, and found in the archive; a dry run leaves it there."""
    follow(project, "crunch")
    succeed("start", "crunch", "--issue", "7", cwd=project)
    succeed("save", cwd=project)
    name = newest(project, "7")["checkpoint_id"]
    assert name in succeed("resume", "--list", cwd=project).out
    succeed("finish", cwd=project)
    succeed("archive", "crunch-7", cwd=project)
    assert "crunch-7" == succeed("show", name, "--json", cwd=project).json["run_id"]
    call("resume", "crunch-7", "--dry-run", cwd=project)
    assert [] == succeed("ls", "--json", cwd=project).json["runs"]
    succeed("resume", name, "--yes", cwd=project)
    assert ["crunch-7"] == [run["run_id"] for run in succeed("ls", "--json", cwd=project).json["runs"]]
