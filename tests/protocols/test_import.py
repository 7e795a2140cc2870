"""`leftoff import` of a protocol's files: runs like any other, and never two for one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.protocols.import_documents import Importer
from tests.cli.command import call, succeed
from tests.protocols.examples import BMAD, CLAUDE, CRUNCH, SITEBUILDER
from tests.protocols.files import (
    BMAD_STATE,
    CLAUDE_FILE,
    CRUNCH_PLACE,
    SITEBUILDER_FILE,
    crunch,
    everything,
    later,
    put,
)

RUN = "dev-story-20260227-143022"


def shown(project: Path, ref: str) -> Any:
    return succeed("show", ref, "--json", cwd=project).json


def log(project: Path, ref: str) -> Any:
    return succeed("log", ref, "--json", cwd=project).json["checkpoints"]


def test_a_folder_with_everything(project: Path) -> None:
    """One run of each, told with its protocol; a second time, nothing has changed."""
    everything(project)
    first = succeed("import", ".", "--json", cwd=project).json
    expected = {
        RUN: "bmad",
        "crunch-42": "crunch",
        "checkout-flow": "dotagent",
        "migration-T060": "sitebuilder",
        "orchestrate_auth_system_20251003_184530": "claude-checkpoints",
    }
    assert expected == {entry["run_id"]: entry["protocol"] for entry in first["imported"]}
    assert [] == first["rejected"]
    again = succeed("import", ".", "--json", cwd=project).json["imported"]
    assert {(False, False)} == {(entry["new"], entry["changed"]) for entry in again}
    assert [1, 2, 1, 1, 1] == [len(log(project, run)) for run in expected]


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("a3f9b2", RUN),
        ("CP-enrich-20250114-a3f2", "crunch-42"),
        ("migration-T060-20251208-143025", "migration-T060"),
        ("orchestrate_auth_system_20251003_184530.json", "orchestrate_auth_system_20251003_184530"),
        ("#42", "crunch-42"),
    ],
)
def test_the_protocols_own_ids(project: Path, name: str, run: str) -> None:
    """A checkpoint id in its protocol's form is a REF."""
    everything(project)
    succeed("import", ".", cwd=project)
    assert run == shown(project, name)["run_id"]


def test_history_is_kept(project: Path) -> None:
    """crunch's checkpoints become those of the run, in the order of the index, with their triggers and times."""
    crunch(project)
    succeed("import", ".claude", cwd=project)
    found = log(project, "crunch-42")
    assert ["batch_complete", "phase_transition"] == [entry["trigger"] for entry in found]
    assert ["2025-01-14T10:30:00Z", "2025-01-14T10:00:00Z"] == [entry["created_at"] for entry in found]
    assert [["CP-enrich-20250114-b4c5"], ["CP-enrich-20250114-a3f2"]] == [entry["aliases"] for entry in found]
    before = {step["step"]: step["status"] for step in shown(project, "crunch-42@1")["step_records"]}
    assert "running" == before["enrich/batch-3"] and "enrich/batch-4" not in before


def taken_in(project: Path, into: str) -> leftoff.Store:
    """What is in the project, in a store of its own."""
    store = leftoff.open(project / into / ".leftoff")
    importer = Importer(store._store, str(project), None, 1_765_000_000_000, lambda path, error: None)
    importer.write(importer.read([str(project / ".claude")], None))
    return store


def test_a_new_checkpoint_of_a_known_run(project: Path) -> None:
    """A checkpoint that was not there before is added to the run, behind what it has."""
    place = project / CRUNCH_PLACE
    put(place / "CP-enrich-20250114-a3f2.yaml", CRUNCH["full"])
    succeed("import", ".", cwd=project)
    put(place / "CP-enrich-20250114-b4c5.yaml", later(CRUNCH["full"]))
    (entry,) = succeed("import", ".", "--json", cwd=project).json["imported"]
    assert (False, True) == (entry["new"], entry["changed"])
    assert [["CP-enrich-20250114-b4c5"], ["CP-enrich-20250114-a3f2"]] == [
        version["aliases"] for version in log(project, "crunch-42")
    ]


def test_a_file_that_changed(project: Path) -> None:
    """It adds an `external` checkpoint with what changed, and no second run."""
    put(project / BMAD_STATE, BMAD["state"])
    succeed("import", ".", cwd=project)
    changed = {**BMAD["state"], "steps_completed": [1, 2, 3, 4], "session_variables": {"user_name": "Bob"}}
    put(project / BMAD_STATE, changed)
    (entry,) = succeed("import", ".", "--json", cwd=project).json["imported"]
    assert (False, True) == (entry["new"], entry["changed"])
    assert ["external", "external"] == [version["trigger"] for version in log(project, RUN)]
    now = shown(project, RUN)
    assert {"user_name": "Bob"} == now["variables"]
    assert 4 == now["steps"]["completed"]


def test_both_sides_changed(project: Path) -> None:
    """What only one side changed is merged; where both did, the store's value stays and a conflict tells."""
    put(project / BMAD_STATE, BMAD["state"])
    succeed("import", ".", cwd=project)
    succeed("step", "done", "4", "--run", RUN, cwd=project)
    succeed("set", "user_name=Eve", "--run", RUN, cwd=project)
    variables = {**BMAD["state"]["session_variables"], "user_name": "Bob", "project_name": "other"}
    put(project / BMAD_STATE, {**BMAD["state"], "session_variables": variables})
    succeed("import", ".", cwd=project)
    now = shown(project, RUN)
    assert ("Eve", "other") == (now["variables"]["user_name"], now["variables"]["project_name"])
    assert 4 == now["steps"]["completed"]
    conflict = now["records"]["conflict"]["bmad:variable/user_name"]
    assert ("Eve", "Bob") == (conflict["kept"], conflict["refused"])


def test_declared_numbers_count(project: Path) -> None:
    """29 and 19, with four items shown, is 65 %."""
    put(project / SITEBUILDER_FILE, SITEBUILDER["schema"])
    succeed("import", ".", cwd=project)
    now = shown(project, "migration-T060")
    assert (29, 19, 65) == (now["steps"]["total"], now["steps"]["completed"], now["percent"])
    succeed("step", "done", "post-20", "--run", "migration-T060", cwd=project)
    assert 20 == shown(project, "migration-T060")["steps"]["completed"]


def test_artifacts_have_hashes_where_the_files_are(project: Path) -> None:
    """Files are looked at inside the project, from its top or from where the document lies; nowhere else."""
    path = put(project / BMAD_STATE, BMAD["state"])
    (path.parent / "artefacts").mkdir()
    (path.parent / "artefacts" / "step-01-output.md").write_text("one")
    entry = {"step": 3, "name": "out", "path": "/etc/hostname"}
    put(path, {**BMAD["state"], "artefacts_produced": [*BMAD["state"]["artefacts_produced"], entry]})
    succeed("import", ".", cwd=project)
    found = {about["name"]: about.get("hash") for about in shown(project, RUN)["artifacts"]}
    assert found["brief"].startswith("sha256:7692c3ad")
    assert (None, None) == (found["plan"], found["out"])


def test_secrets_are_left_out_and_told(project: Path) -> None:
    """A value that looks like a secret is not stored; a line says which."""
    state = {**BMAD["state"], "session_variables": {"api_key": "sk-ant-REDACTED", "x": 1}}
    put(project / BMAD_STATE, state)
    (entry,) = succeed("import", ".", "--json", cwd=project).json["imported"]
    assert ["variable/api_key holds what looks like a secret, which is not stored."] == entry["repairs"]
    assert "abcdefghijklmnop" not in json.dumps(shown(project, RUN))


def test_dry_run_writes_nothing(project: Path) -> None:
    """It says what would happen."""
    put(project / BMAD_STATE, BMAD["state"])
    result = succeed("import", ".", "--dry-run", "--json", cwd=project).json
    assert result["dry_run"] and result["imported"][0]["new"]
    assert not (project / ".leftoff").exists()


def test_strict_refuses_repairs(project: Path) -> None:
    """What needs repairs is rejected, and the exit code says so; what needs none comes in."""
    put(project / BMAD_STATE, BMAD["state"])
    put(project / CLAUDE_FILE, CLAUDE["format"])
    result = call("import", ".", "--strict", "--json", cwd=project)
    assert 4 == result.code
    assert [RUN] == [entry["run_id"] for entry in result.json["imported"]]
    assert ["invalid"] == [entry["code"] for entry in result.json["rejected"]]
    assert "project_name is missing" in result.json["rejected"][0]["message"]


def test_the_same_id_in_two_files(project: Path) -> None:
    """They are one run; the second is a later version of it."""
    put(project / CLAUDE_FILE, CLAUDE["format"])
    put(project / ".claude/checkpoints/other.json", {**CLAUDE["format"], "completed_phases": [1, 2]})
    found = succeed("import", ".", "--json", cwd=project).json["imported"]
    assert [True, False] == [entry["new"] for entry in found]
    assert 2 == shown(project, CLAUDE["format"]["checkpoint_id"])["steps"]["completed"]


def test_latest_as_a_text_file(project: Path) -> None:
    """A `latest.json` that holds a name leads to the file of that name, never out of its folder."""
    put(project / CLAUDE_FILE, CLAUDE["format"])
    latest = project / ".claude/checkpoints/latest.json"
    latest.write_text(Path(CLAUDE_FILE).name + "\n")
    (entry,) = succeed("import", str(latest), "--json", cwd=project).json["imported"]
    assert CLAUDE["format"]["checkpoint_id"] == entry["run_id"]
    latest.write_text("../../secrets.json")
    assert 4 == call("import", str(latest), cwd=project).code


@pytest.mark.parametrize("held", ["{name}", "{name}\n", '"{name}"', "{stem}", '"{stem}"\n'])
def test_latest_in_a_folder(project: Path, held: str) -> None:
    """It is the file that it names, with its suffix or without, as text or as JSON: that one is read once."""
    put(project / CLAUDE_FILE, CLAUDE["format"])
    name, latest = Path(CLAUDE_FILE), project / ".claude/checkpoints/latest.json"
    latest.write_text(held.format(name=name.name, stem=name.stem))
    for where in (".", str(latest)):
        found = succeed("import", where, "--json", cwd=project).json
        assert (1, []) == (len(found["imported"]), found["rejected"])
        assert found["imported"][0]["path"].endswith(name.name)


def test_what_is_broken_does_not_take_the_rest_with_it(project: Path) -> None:
    """Each rejected file is named with its reason; pipes and folders without documents too."""
    everything(project)
    (project / CRUNCH_PLACE / "CP-enrich-20250114-b4c5.yaml").write_text("a: [1\nb: }")
    (project / "memory/state/execution.json").write_text('{"workflow_id": "x", "tas')
    os.mkfifo(project / "progress/checkpoints/pipe.json")
    result = call("import", ".", "--json", cwd=project)
    assert 0 == result.code
    assert 5 == len(result.json["imported"])
    assert {"CP-enrich-20250114-b4c5.yaml", "execution.json", "pipe.json"} == {
        Path(entry["path"]).name for entry in result.json["rejected"]
    }


def listed(project: Path) -> Any:
    return succeed("ls", "--json", cwd=project).json["runs"]


def test_nothing_is_run_or_written(project: Path) -> None:
    """Paths and tags in a document lead nowhere: only the store is written, and ids are no paths."""
    document = {**SITEBUILDER["schema"], "agent": "../../../tmp/evil", "task_id": "../x"}
    put(project / SITEBUILDER_FILE, document)
    evil = {
        "checkpoint_id": "!!python/object/apply:os.system",
        "issue_number": "../../etc",
        "workflow_state": {},
    }
    put(project / ".claude/crunch/7/checkpoints/CP-x.yaml", evil)
    succeed("import", ".", cwd=project)
    written = {path for path in project.rglob("*") if path.is_file() and ".leftoff" not in path.parts}
    assert {project / SITEBUILDER_FILE, project / ".claude/crunch/7/checkpoints/CP-x.yaml"} == written
    assert ["tmp-evil-..-x"] == [run["run_id"][-13:] for run in listed(project) if "evil" in run["run_id"]]


@pytest.mark.parametrize("protocol", ["bmad", "crunch", "dotagent", "sitebuilder", "claude-checkpoints"])
@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "phases": [{"name": "plan", "status": "done"}], "completed_steps": [1, 2, 3, 4, 5, 6]},
        {"checkpoints": [{"at": "2026-01-01", "message": "x"}], "status": "idle", "version": "3"},
        {"status": "in_progress", "current_step": 2, "started_at": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_protocol_that_somebody_names_is_as_honest(project: Path, protocol: str, document: Any) -> None:
    """Another tool's file is rejected with its keys, and never passed over in silence."""
    path = put(project / "session-state.json", document)
    found = call("import", str(path), "--protocol", protocol, "--json", cwd=project)
    assert (4, [], 1) == (found.code, found.json["imported"], len(found.json["rejected"])), str(found)
    assert "session-state.json" in found.json["rejected"][0]["message"]
    assert not (project / ".leftoff/store.db").exists()
