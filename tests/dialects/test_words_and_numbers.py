"""What the protocols fix: numbers of steps, the phase a run is in, labels, events, names of files, words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from leftoff.dialects.loose_values import meaning
from tests.cli.command import call, succeed
from tests.dialects.examples import BMAD, CLAUDE, CRUNCH
from tests.dialects.files import put


def follow(project: Path, name: str) -> None:
    succeed("init", "--dialect", name, cwd=project)


def state(project: Path, run: str, branch: str = "main") -> Any:
    return json.loads((project / f"_bmad-output/.runs/{branch}/{run}/state.json").read_text())


def newest(project: Path, issue: str = "42") -> Any:
    return yaml.safe_load((project / f".claude/crunch/{issue}/checkpoints/latest").read_text())


def test_a_step_that_is_a_number_has_that_number(project: Path) -> None:
    """However many of them were reported, and in whatever order."""
    follow(project, "bmad")
    succeed("start", "dev-story", "--run-id", "ds", cwd=project)
    succeed("step", "done", "3", cwd=project)
    assert ([3], 3, 4) == tuple(
        state(project, "ds")[k] for k in ("steps_completed", "total_steps", "resume_from_step")
    )
    succeed("step", "done", "1", cwd=project)
    assert [1, 3] == state(project, "ds")["steps_completed"]
    event = "<checkpoint-save><run-id>other</run-id><step-number>3</step-number></checkpoint-save>"
    succeed("compat", "bmad-event", cwd=project, input=event)
    assert (3, 3) == tuple(state(project, "other")[key] for key in ("current_step", "total_steps"))


def test_a_step_that_was_only_announced_is_none(project: Path) -> None:
    """The protocol's events always name the next step; a run that is closed has none."""
    follow(project, "bmad")
    words = "<run-id>k-20260227-143022</run-id>"
    events = (
        f"<checkpoint-save>{words}<step-number>1</step-number></checkpoint-save>"
        f"<checkpoint-update>{words}<step-completed>1</step-completed><next-step>2</next-step></checkpoint-update>"
        f"<checkpoint-close>{words}<status>completed</status></checkpoint-close>"
    )
    succeed("compat", "bmad-event", cwd=project, input=events)
    there = state(project, "k-20260227-143022")
    assert ("completed", [1], 1) == tuple(there[key] for key in ("status", "steps_completed", "total_steps"))
    page = project / "_bmad-output/.runs/main/k-20260227-143022/workflow-status.md"
    assert "Next: nothing is left" in page.read_text()


def test_an_event_with_an_unknown_status(project: Path) -> None:
    """It is refused, before any of the others is done."""
    follow(project, "bmad")
    close = "<checkpoint-close><status>nope</status></checkpoint-close>"
    events = f"<checkpoint-save><run-id>k</run-id></checkpoint-save>{close}"
    result = call("compat", "bmad-event", cwd=project, input=events)
    assert (4, True) == (result.code, "running, completed, failed, paused" in result.err)
    assert [] == succeed("ls", "--json", cwd=project).json["runs"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("✅ running", "running"), ("🚧 blocked", "blocked"), ("⏳ in progress", "running"), ("✅ not started", "pending"),
     ("✅", "completed"), ("**done** ✅", "completed")],
)  # fmt: skip
def test_a_word_counts_for_more_than_a_sign(word: str, expected: str) -> None:
    assert expected == meaning(word)


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


def test_a_transition_is_written_before_the_next_phase(project: Path) -> None:
    """Its id, its index entry and its document name the same phase."""
    follow(project, "crunch")
    succeed("start", "crunch", "--issue", "42", cwd=project)
    succeed("step", "done", "enrich", cwd=project)
    there = newest(project)
    assert there["checkpoint_id"].startswith("CP-enrich-")
    assert ("enrich", "state:enrich") == (
        there["workflow_state"]["current_phase"],
        there["workflow_state"]["current_state_label"],
    )


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


def test_a_phase_that_is_resumed_is_in_progress(project: Path) -> None:
    """Whoever finds another word there would start afresh; what an output settled has its time."""
    follow(project, "dotagent")
    run = succeed("start", "dotagent", cwd=project).out.strip()
    reports = project / "memory/reports"
    reports.mkdir(parents=True)
    succeed("step", "start", "REQUIREMENTS", cwd=project)
    (reports / "demand.json").write_text("{}")
    succeed("resume", run, "--yes", cwd=project)
    there = json.loads((project / "memory/state/phase.json").read_text())
    assert {"phase", "completed_at", "output"} == set(there["completed_phases"][0])
    assert there["completed_phases"][0]["completed_at"] is not None
    succeed("step", "start", "ARCHITECTURE", cwd=project)
    succeed("resume", run, "--yes", cwd=project)
    there = json.loads((project / "memory/state/phase.json").read_text())
    assert ("ARCHITECTURE", "in_progress") == (there["current_phase"], there["phase_status"])


def test_archiving_that_was_killed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is archived, and its folder was not moved yet: the next write to the store moves it."""
    (project / "leftoff.toml").write_text('[mirror]\ndialect = "bmad"\n')
    succeed("start", "w", "--run-id", "ds", cwd=project)
    succeed("finish", cwd=project)
    with monkeypatch.context() as patch:
        patch.setattr("leftoff.dialects.sync.Sync.sync", lambda self, look=True: None)
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


def test_latest_in_a_folder_is_no_document(project: Path) -> None:
    """A file that holds the name of another is that one."""
    path = put(project / ".claude/checkpoints/orchestrate_auth_system_20251003_184530.json", CLAUDE["format"])
    (path.parent / "latest.json").write_text(path.name)
    result = succeed("import", ".", "--json", cwd=project).json
    assert (1, []) == (len(result["imported"]), result["rejected"])


def test_what_save_checkpoint_is_given(project: Path) -> None:
    """The project's name is found where the protocol has it, and nothing is stored twice."""
    text = json.dumps(CLAUDE["format"])
    succeed("compat", "save-checkpoint", "orchestrate", text, cwd=project)
    found = succeed("compat", "load-checkpoint", "orchestrate", "auth_system", cwd=project).json
    assert "auth_system" == found["project_name"]
    path = project / succeed("compat", "save-checkpoint", "test-all", '{"foo": 1}', cwd=project).out.strip()
    document = json.loads(path.read_text())
    assert ({"foo": 1}, False) == (document["workflow_state"], "foo" in document)
    assert 2 == len(succeed("compat", "list-checkpoints", cwd=project).out.splitlines())


def test_two_in_a_second(project: Path) -> None:
    """An id with the time in it is no reason to refuse a new run."""
    follow(project, "claude")
    first, second = (succeed("start", "implement", "--title", "T", cwd=project).out for _ in range(2))
    assert first != second


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
