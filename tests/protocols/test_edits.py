"""What a file says of a run, and what it says nothing of: parts, strangers, copies, moves, older checkpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import call, succeed
from tests.protocols.examples import CLAUDE, CRUNCH, SITEBUILDER
from tests.protocols.files import CRUNCH_PLACE, later, put


def follow(project: Path, name: str) -> None:
    succeed("init", "--protocol", name, cwd=project)


def shown(project: Path, run: str) -> Any:
    return succeed("show", run, "--json", cwd=project).json


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.suffix == ".yaml" else json.loads(path.read_text())


@pytest.fixture
def task(project: Path) -> Path:
    """A sitebuilder's task with two subtasks done; its file."""
    follow(project, "sitebuilder")
    words = ("--task", "T060", "--agent", "Riley", "--title", "Convert", "--total", "29")
    succeed("start", "migration", *words, cwd=project)
    for name in ("post-01", "post-02"):
        succeed("step", "done", name, cwd=project)
    succeed("put", "criterion", "c1", "false", cwd=project)
    succeed("note", "keep me", cwd=project)
    return project / "progress/checkpoints/migration-T060.json"


@pytest.mark.parametrize("title", ["progress", "blocked", "full middle", "heartbeat"])
def test_a_part_says_nothing_of_the_rest(task: Path, project: Path, title: str) -> None:
    """A document with some of its keys changes those: the protocol's own fragments are written so."""
    put(task, SITEBUILDER[title])
    now = shown(project, "migration-T060")
    assert ("Convert", False) == (now["title"], now["records"]["criterion"]["c1"])
    assert "keep me" in [note["text"] for note in now["records"]["note"].values()]
    assert "post-01" in [step["step"] for step in now["step_records"]]
    there = read(task)
    assert ("migration", "T060", "Riley") == tuple(there[key] for key in ("agent", "task_id", "agent_name"))
    assert SITEBUILDER[title].get("status", "in_progress") == there["status"]


def test_a_whole_document_says_what_is_gone(task: Path, project: Path) -> None:
    """With all of the protocol's keys there, what is missing below them is deleted."""
    put(task, {**read(task), "acceptance_criteria_met": {}})
    assert "criterion" not in shown(project, "migration-T060")["records"]


def test_a_stranger_is_left_alone(project: Path) -> None:
    """A document with none of the protocol's keys is told of, and nothing of the run is touched."""
    follow(project, "bmad")
    succeed("start", "w", "--run-id", "r", "--steps", "a,b", "--var", "x=1", cwd=project)
    path = project / "_bmad-output/.runs/main/r/state.json"
    path.write_text('{"victim": 1}')
    result = succeed("show", "r", "--json", cwd=project)
    assert ({"x": 1}, 2) == (result.json["variables"], result.json["steps"]["total"])
    assert "is nothing of bmad" in result.err
    assert '{"victim": 1}' == path.read_text()


@pytest.mark.parametrize("name", ["bmad", "sitebuilder", "claude-checkpoints"])
def test_a_copy_is_left_alone(project: Path, name: str) -> None:
    """leftoff removes only what it wrote; a second file of a run is told of once."""
    follow(project, name)
    succeed("start", "w", "--task", "T1", "--run-id", "w-T1", cwd=project)
    places = {
        "bmad": ("_bmad-output/.runs/main/w-T1/state.json", "_bmad-output/.runs/main/copy/state.json"),
        "sitebuilder": ("progress/checkpoints/w-T1.json", "progress/checkpoints/w-T1-copy.json"),
        "claude-checkpoints": (".claude/checkpoints/w-T1.json", ".claude/checkpoints/copy.json"),
    }
    path, copy = (project / place for place in places[name])
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(path, copy)
    before = copy.read_text()
    assert "is a second file of w-T1" in succeed("set", "x=2", cwd=project).err
    assert "" == succeed("set", "x=3", cwd=project).err
    assert before == copy.read_text()
    assert 1 == len(succeed("ls", "--json", cwd=project).json["runs"])


def test_what_is_not_resumable_is_not_started_again(task: Path, project: Path) -> None:
    """`start --resume` is how the protocol goes on: it holds to what the file says."""
    put(task, {**read(task), "resumable": False})
    assert 6 == call("start", "migration", "--task", "T060", "--resume", cwd=project).code


def test_a_second_run_of_a_task(task: Path, project: Path) -> None:
    """The file of the task is the newest run's, and an edit of it goes there; the first one stays completed."""
    succeed("finish", cwd=project)
    second = succeed("start", "migration", "--task", "T060", cwd=project).out.strip()
    assert "migration-T060-2" == second
    there = read(task)
    put(task, {**there, "context": {**there["context"], "notes": "by hand"}})
    assert ["by hand"] == [note["text"] for note in shown(project, second)["records"]["note"].values()]
    assert "completed" == shown(project, "migration-T060")["status"]
    assert "complete" == read(task.with_name("migration-T060-complete.json"))["status"]


def test_a_second_run_of_an_issue(project: Path) -> None:
    """Both are in the index; an edit goes to the run whose file it is."""
    follow(project, "crunch")
    succeed("start", "crunch", "--issue", "7", cwd=project)
    succeed("save", cwd=project)
    succeed("finish", cwd=project)
    second = succeed("start", "crunch", "--issue", "7", cwd=project).out.strip()
    succeed("save", cwd=project)
    place = project / ".claude/crunch/7/checkpoints"
    index = read(place / "index.yaml")
    ids = [entry["checkpoint_id"] for entry in index["checkpoints"]]
    assert sorted(path.name for path in place.glob("CP-*.yaml")) == sorted(f"{name}.yaml" for name in ids)
    path = place / f"{index['latest']}.yaml"
    put(path, {**read(path), "acp_state": {**read(path)["acp_state"], "pending_messages": ["MSG-1"]}})
    assert ["MSG-1"] == list(shown(project, second)["records"]["message"])
    assert "message" not in shown(project, "crunch-7")["records"]


def test_an_older_checkpoint_stays_what_it_was(project: Path) -> None:
    """What an agent adds to its file is taken in; the file stays as it was left, its name and the index those of the
    older one."""
    follow(project, "crunch")
    succeed("start", "crunch", "--issue", "42", cwd=project)
    succeed("save", cwd=project)
    place = project / CRUNCH_PLACE
    path = next(place.glob("CP-*.yaml"))
    succeed("step", "done", "enrich", cwd=project)
    before, seq = read(path), shown(project, path.stem)["version"]["seq"]
    after = {**before, "acp_state": {**before["acp_state"], "pending_messages": ["MSG-OLD"]}}
    put(path, after)
    assert ["MSG-OLD"] == list(shown(project, "crunch-42")["records"]["message"])
    assert after == read(path)
    assert seq == shown(project, path.stem)["version"]["seq"]
    ids = [entry["checkpoint_id"] for entry in read(place / "index.yaml")["checkpoints"]]
    assert 3 == len(set(ids)) == len(ids)


def test_a_checkpoint_that_an_agent_writes(project: Path) -> None:
    """It keeps its time, and the trigger that the index has for it."""
    follow(project, "crunch")
    place = project / CRUNCH_PLACE
    put(place / "CP-enrich-20250114-a3f2.yaml", CRUNCH["full"])
    succeed("ls", cwd=project)
    second = later(CRUNCH["full"])
    put(place / f"{second['checkpoint_id']}.yaml", second)
    index = read(place / "index.yaml")
    entry = {"checkpoint_id": second["checkpoint_id"], "trigger": "batch_complete", "phase": "enrich"}
    put(place / "index.yaml", {**index, "checkpoints": [*index["checkpoints"], entry]})
    found = succeed("log", "crunch-42", "--json", cwd=project).json["checkpoints"][0]
    assert ("batch_complete", second["created_at"]) == (found["trigger"], found["created_at"])
    assert second == read(place / f"{second['checkpoint_id']}.yaml")


def test_moved_to_failed_by_hand(project: Path) -> None:
    """The protocol's own way to give a workflow up: the run is abandoned."""
    follow(project, "claude-checkpoints")
    run = succeed("start", "implement", "--title", "Dark mode", "--total", "3", cwd=project).out.strip()
    path = project / f".claude/checkpoints/{run}.json"
    (path.parent / "failed").mkdir()
    path.rename(path.parent / "failed" / path.name)
    assert "abandoned" == shown(project, run)["status"]
    assert ["failed"] == [found.name for found in path.parent.iterdir()]


@pytest.mark.parametrize("given", ["CP-x/../../../../../../../evil-20250114-a3f2", "CP-/tmp/evil", "CP-.."])
def test_no_id_leads_out_of_the_project(project: Path, given: str) -> None:
    """An id that is no name of a file names none."""
    inside = project / "deep/a/b"
    inside.mkdir(parents=True)
    follow(inside, "crunch")
    document = {**CRUNCH["full"], "checkpoint_id": given}
    put(inside / CRUNCH_PLACE / "CP-enrich-20250114-a3f2.yaml", document)
    succeed("ls", cwd=inside)
    succeed("save", "--run", "crunch-42", cwd=inside)
    found = [path for path in project.rglob("*evil*") if "evil" in path.name]
    assert [] == found
    assert all(path.parent == inside / CRUNCH_PLACE for path in project.rglob("CP-*"))


def test_a_note_with_a_secret_stays_in_the_file(project: Path) -> None:
    """Only the secret is left out of the store; the file keeps it, and what is noted later is added."""
    follow(project, "bmad")
    succeed("start", "w", "--run-id", "r", cwd=project)
    path = project / "_bmad-output/.runs/main/r/state.json"
    told = "use token ghp_abcdefghijklmnopqrstuvwxyz0123456789AB now"
    put(path, {**read(path), "agent_notes": told})
    result = succeed("show", "r", "--json", cwd=project)
    assert "ghp_" not in result.out
    assert "secret" in result.err
    assert "use token" in result.out
    succeed("note", "more", cwd=project)
    assert f"{told}\nmore" == read(path)["agent_notes"]


def test_import_comes_before_the_sync(project: Path) -> None:
    """`--dry-run` and `--strict` hold where the project follows a protocol, and repairs are told either way."""
    follow(project, "bmad")
    path = project / "_bmad-output/.runs/main/x-20260227-143022/state.json"
    put(path, {"run_id": "x-20260227-143022", "status": "running", "stepsCompleted": 2})
    before = path.read_text()
    dry = succeed("import", ".", "--dry-run", "--json", cwd=project).json
    assert [True] == [each["new"] for each in dry["imported"]]
    assert 4 == call("import", ".", "--strict", cwd=project).code
    assert before == path.read_text()
    assert "stepsCompleted" in succeed("ls", cwd=project).err


def test_an_archived_run_is_here_already(project: Path) -> None:
    """Importing its old file changes nothing; a change in it brings the run back, with its history."""
    succeed("init", "--protocol", "bmad", cwd=project)
    succeed("start", "w", "--steps", "a,b", "--run-id", "w-20260101-100000", cwd=project)
    succeed("step", "done", "a", cwd=project)
    succeed("finish", cwd=project)
    succeed("archive", "w-20260101-100000", cwd=project)
    result = succeed("import", ".", "--json", cwd=project).json["imported"]
    assert [(False, False)] == [(each["new"], each["changed"]) for each in result]
    assert [] == succeed("ls", "--json", cwd=project).json["runs"]
    path = project / "_bmad-output/.runs/archive/w-20260101-100000/state.json"
    put(path, {**read(path), "session_variables": {"late": 1}})
    assert [True] == [
        each["changed"] for each in succeed("import", ".", "--json", cwd=project).json["imported"]
    ]
    assert 2 < len(succeed("log", "w-20260101-100000", "--json", cwd=project).json["checkpoints"])


def test_a_fork_has_a_file_of_its_own(project: Path) -> None:
    """What the fork does is not in the file of the run that it came from."""
    follow(project, "claude-checkpoints")
    path = put(project / ".claude/checkpoints/orchestrate_auth_system_20251003_184530.json", CLAUDE["format"])
    fork = succeed("fork", path.stem, "--branch", "feat", "--json", cwd=project).json["run_id"]
    succeed("finish", "--run", fork, cwd=project)
    assert CLAUDE["format"] == read(path)


@pytest.mark.parametrize("name", ["bmad", "crunch", "dotagent", "sitebuilder", "claude-checkpoints"])
def test_imported_runs_are_verified_like_any_other(project: Path, name: str) -> None:
    """Whatever a document leaves out, the run is whole."""
    path, document = {
        "bmad": (
            "_bmad-output/.runs/main/x-1/state.json",
            {"run_id": "x-1", "status": "running", "total_steps": 2},
        ),
        "crunch": (f"{CRUNCH_PLACE}/CP-enrich-20250114-a3f2.yaml", CRUNCH["full"]),
        "dotagent": ("memory/state/phase.json", {"workflow_id": "x", "current_phase": "REQUIREMENTS"}),
        "sitebuilder": ("progress/checkpoints/migration-T060.json", SITEBUILDER["full middle"]),
        "claude-checkpoints": (
            ".claude/checkpoints/implement_x_20251003_184530.json",
            {"workflow_type": "implement", "status": "in_progress"},
        ),
    }[name]
    put(project / path, document)
    run = succeed("import", ".", "--json", cwd=project).json["imported"][0]["run_id"]
    assert "integrity" not in call("verify", run, "--json", cwd=project).out
