"""The sync, both ways: what an agent does to the files by hand is taken in, and nothing of it is lost."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import call, succeed
from tests.protocols.examples import BMAD, DOTAGENT
from tests.protocols.files import BMAD_STATE, put

RUN = "shared"
STATE = f"_bmad-output/.runs/main/{RUN}/state.json"


@pytest.fixture
def bmad(project: Path) -> Path:
    """A project that follows bmad, with a run of three steps."""
    succeed("init", "--protocol", "bmad", cwd=project)
    succeed("start", "w", "--run-id", RUN, "--steps", "a,b,c", "--var", "x=1", cwd=project)
    return project


def state(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project / STATE).read_text())
    return found


def edit(project: Path, **changes: Any) -> None:
    put(project / STATE, {**state(project), **changes})


def shown(project: Path, run: str = RUN) -> Any:
    return succeed("show", run, "--json", cwd=project).json


def test_show_takes_an_edit_in(bmad: Path) -> None:
    """Steps, variables, notes and unknown keys; as one `external` checkpoint."""
    edit(
        bmad, steps_completed=[1, 2], session_variables={"x": 2, "y": [1]}, agent_notes="by hand", owner="Ada"
    )
    now = shown(bmad)
    assert ({"x": 2, "y": [1]}, 2) == (now["variables"], now["steps"]["completed"])
    assert ["by hand"] == [note["text"] for note in now["records"]["note"].values()]
    assert "Ada" == now["records"]["extra"]["owner"]
    assert "external" == now["version"]["trigger"]
    before = now["head"]["seq"]
    assert before == shown(bmad)["head"]["seq"]
    assert ("Ada", [1, 2]) == (state(bmad)["owner"], state(bmad)["steps_completed"])


def test_notes_are_added_behind_ours(bmad: Path) -> None:
    """What an agent appends to the joined text is a note of its own; ours stay."""
    succeed("note", "first", cwd=bmad)
    edit(bmad, agent_notes=state(bmad)["agent_notes"] + "\nsecond")
    assert ["first", "second"] == [note["text"] for note in shown(bmad)["records"]["note"].values()]


def test_an_edit_of_an_old_copy_reverts_nothing(bmad: Path) -> None:
    """The base is the version whose time the file carries."""
    old = state(bmad)
    succeed("set", "x=5", "mine=1", cwd=bmad)
    succeed("step", "done", "a", cwd=bmad)
    put(bmad / STATE, {**old, "session_variables": {"x": 1, "theirs": 1}})
    now = shown(bmad)
    assert ({"x": 5, "mine": 1, "theirs": 1}, 1) == (now["variables"], now["steps"]["completed"])
    assert {"x": 5, "mine": 1, "theirs": 1} == state(bmad)["session_variables"]


def test_both_changed_the_same(bmad: Path) -> None:
    """The store's value stays. The edited file is saved next to it, and both are reported."""
    old = state(bmad)
    succeed("set", "x=5", cwd=bmad)
    put(bmad / STATE, {**old, "session_variables": {"x": 7}})
    result = succeed("show", RUN, "--json", cwd=bmad)
    assert 5 == result.json["variables"]["x"]
    assert "both changed variable/x" in result.err
    conflict = result.json["records"]["conflict"]["bmad:variable/x"]
    assert (5, 7, "sync") == (conflict["kept"], conflict["refused"], conflict["kind"])
    (copy,) = (bmad / STATE).parent.glob("state.json.*.edited")
    assert 7 == json.loads(copy.read_text())["session_variables"]["x"] and copy.name in result.err
    assert 5 == state(bmad)["session_variables"]["x"]


def test_a_run_that_an_agent_began(bmad: Path) -> None:
    """A new file becomes a run; both sides can go on with it."""
    path = put(bmad / BMAD_STATE, {**BMAD["state"], "session_branch": "main"})
    assert 2 == len(succeed("ls", "--json", cwd=bmad).json["runs"])
    run = BMAD["state"]["run_id"]
    succeed("step", "done", "4", "--run", run, cwd=bmad)
    assert [1, 2, 3, 4] == json.loads(path.read_text())["steps_completed"]


def test_secrets_stay_in_the_file(bmad: Path) -> None:
    """They are not stored; what the agent has in its file stays there."""
    secret = "sk-ant-REDACTED"
    edit(bmad, session_variables={"x": 1, "api_key": secret})
    assert {"redacted": True} == shown(bmad)["variables"]["api_key"]
    succeed("set", "y=2", cwd=bmad)
    assert {"x": 1, "y": 2, "api_key": secret} == state(bmad)["session_variables"]


def test_the_memory_of_the_sync_can_be_lost(bmad: Path) -> None:
    """Then the version is found by the time that the file carries."""
    old = state(bmad)
    succeed("set", "mine=1", cwd=bmad)
    (bmad / ".leftoff/sync/state").unlink()
    put(bmad / STATE, {**old, "session_variables": {"x": 1, "theirs": 1}})
    assert {"x": 1, "mine": 1, "theirs": 1} == shown(bmad)["variables"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"n": 9}', "0000\n{}"],
)
def test_the_memory_of_the_sync_can_be_damaged(bmad: Path, text: str) -> None:
    """It counts as lost."""
    (bmad / ".leftoff/sync/state").write_text(text)
    edit(bmad, session_variables={"x": 2})
    result = succeed("show", RUN, "--json", cwd=bmad)
    assert ({"x": 2}, "") == (result.json["variables"], result.err)
    succeed("status", cwd=bmad)


def test_files_are_for_their_owner_only(bmad: Path) -> None:
    """0600, whatever the umask."""
    for name in ("state.json", "workflow-status.md"):
        assert 0o600 == os.stat((bmad / STATE).with_name(name)).st_mode & 0o777


def test_dotagent_parts_are_one_run(project: Path) -> None:
    """A task that is edited in execution.json, a phase in phase.json."""
    succeed("init", "--protocol", "dotagent", cwd=project)
    for part, document in DOTAGENT["with tasks"].items():
        put(project / f"memory/state/{part}.json", document)
    assert "checkout-flow" == succeed("ls", "--json", cwd=project).json["runs"][0]["run_id"]
    path = project / "memory/state/execution.json"
    tasks = json.loads(path.read_text())["tasks"]
    put(path, {"workflow_id": "checkout-flow", "tasks": [tasks[0], {**tasks[1], "status": "complete"}]})
    steps = {step["step"]: step["status"] for step in shown(project, "checkout-flow")["step_records"]}
    assert "completed" == steps["IMPLEMENTATION/task-002"]


def config(project: Path, **changes: Any) -> None:
    path = project / ".claude/checkpoint-config.yaml"
    document = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        section = document["checkpoint"]
        section[key] = {**section[key], **value} if isinstance(value, dict) else value
    path.write_text(yaml.safe_dump(document))


@pytest.fixture
def crunch(project: Path) -> Path:
    """A project that follows crunch, with an issue."""
    succeed("init", "--protocol", "crunch", cwd=project)
    succeed("start", "crunch", "--issue", "42", cwd=project)
    return project


def triggers(project: Path) -> list[str]:
    return [
        entry["trigger"] for entry in succeed("log", "crunch-42", "--json", cwd=project).json["checkpoints"]
    ]


def test_crunch_triggers_that_are_off(crunch: Path) -> None:
    """They are committed, not sealed; what is asked for is sealed all the same."""
    succeed(
        "step", "done", "enrich/architect/spec", cwd=crunch
    )  # agent_complete: off in the protocol's example
    assert [] == triggers(crunch)
    config(crunch, checkpoint_triggers={"agent_complete": True})
    succeed("step", "done", "enrich/architect/plan", cwd=crunch)
    assert ["agent_complete"] == triggers(crunch)
    config(crunch, auto_checkpoint=False)
    succeed("step", "done", "enrich", cwd=crunch)
    succeed("save", cwd=crunch)
    assert ["manual", "agent_complete"] == triggers(crunch)
    assert 3 == shown(crunch, "crunch-42")["steps"]["completed"] + 1


def test_crunch_location_and_compression(crunch: Path) -> None:
    """`.yaml.gz`, wherever the configuration says; read back too."""
    config(crunch, storage={"location": "state/{issue}/cp", "compress": True})
    succeed("save", cwd=crunch)
    (path,) = (crunch / "state/42/cp").glob("CP-*.yaml.gz")
    document = yaml.safe_load(gzip.decompress(path.read_bytes()))
    assert 42 == document["issue_number"]
    document["knowledge_context"]["captured_entries"] = ["KE-9"]
    path.write_bytes(gzip.compress(yaml.safe_dump(document).encode()))
    assert {"captured": True} == shown(crunch, "crunch-42")["records"]["knowledge"]["KE-9"]


def test_crunch_switched_off(crunch: Path) -> None:
    """`enabled: false`: no files."""
    config(crunch, enabled=False)
    succeed("save", cwd=crunch)
    assert not (crunch / ".claude/crunch").exists()


def test_crunch_pruned_by_its_table(crunch: Path) -> None:
    """The last 3 of a batch per phase, 1 interrupt; files and index follow."""
    for trigger in ["batch_complete"] * 5 + ["user_interrupt"] * 2 + ["manual"]:
        succeed("save", "--trigger", trigger, cwd=crunch)
    place = crunch / ".claude/crunch/42/checkpoints"
    assert 5 == len(list(place.glob("CP-*.yaml")))
    assert 0 == len(succeed("prune", "--json", cwd=crunch).json["removed"])
    assert ["manual", "user_interrupt", *["batch_complete"] * 3] == triggers(crunch)
    succeed("save", cwd=crunch)
    assert (
        6
        == len(list(place.glob("CP-*.yaml")))
        == yaml.safe_load((place / "index.yaml").read_text())["total_checkpoints"]
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("checkpoint: [", "not YAML"),
        ("checkpoint: {enabled: maybe}", "enabled"),
        ("checkpoint: {storage: {location: '../../etc/{issue}'}}", "location"),
        ("checkpoint: {storage: {location: '/etc/{issue}'}}", "location"),
        ("checkpoint: {retention: {manual: lots}}", "manual"),
        ("checkpoint: 3", "checkpoint"),
    ],
)
def test_crunch_configuration_that_is_wrong(crunch: Path, text: str, told: str) -> None:
    """It is an error that says what, never ignored."""
    (crunch / ".claude/checkpoint-config.yaml").write_text(text)
    result = call("prune", cwd=crunch)
    assert 4 == result.code and told in result.err and "Traceback" not in result.err


def test_a_run_that_is_removed(bmad: Path) -> None:
    """Its file goes, and does not come back as a run of its own."""
    succeed("rm", RUN, "--yes", cwd=bmad)
    assert not (bmad / STATE).parent.exists()
    assert [] == succeed("ls", "--json", cwd=bmad).json["runs"]


def test_a_task_that_is_archived_keeps_its_file(project: Path) -> None:
    """sitebuilder's `-complete.json` is its archive."""
    succeed("init", "--protocol", "sitebuilder", cwd=project)
    succeed("start", "migration", "--task", "T1", cwd=project)
    succeed("finish", cwd=project)
    succeed("archive", "migration-T1", cwd=project)
    assert (project / "progress/checkpoints/migration-T1-complete.json").exists()
    assert [] == succeed("ls", "--json", cwd=project).json["runs"]


def test_bmad_by_status_and_age(bmad: Path) -> None:
    """Completed ones are archived after 7 days, failed ones go after 30; `prune` says why."""
    (bmad / "leftoff.toml").write_text(
        '[protocol]\nname = "bmad"\n[retention]\ncompleted = "0d"\nfailed = "0d"\n'
    )
    succeed("start", "w", "--run-id", "bad", cwd=bmad)
    succeed("finish", "--run", "bad", "--status", "failed", cwd=bmad)
    succeed("finish", "--run", RUN, cwd=bmad)
    found = succeed("prune", "--json", cwd=bmad).json["removed"]
    assert {(RUN, "archive"), ("bad", "remove")} == {(entry["run_id"], entry["action"]) for entry in found}
    runs = bmad / "_bmad-output/.runs"
    assert ["archive"] == sorted(path.name for path in runs.iterdir() if any(path.iterdir()))
    assert "completed" == json.loads((runs / "archive" / RUN / "state.json").read_text())["status"]
    assert [] == succeed("ls", "--json", cwd=bmad).json["runs"]
