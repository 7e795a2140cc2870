"""crunch by the command: phases, batches, the index, the issue and its labels, what agents write by hand."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import call, succeed
from tests.protocols.examples import CRUNCH
from tests.protocols.files import put

PLACE = ".claude/crunch/42/checkpoints"
FULL: dict[str, Any] = CRUNCH["full"]


@pytest.fixture
def crunch(project: Path) -> Path:
    """A project that follows crunch, with a file in the place of its tracker."""
    (project / "leftoff.toml").write_text('[protocol]\nname = "crunch"\n[issues]\nfile = "issue.json"\n')
    return project


def issue(project: Path, phase: str, body: str = "Refresh") -> None:
    about = {"title": "JWT", "body": body, "labels": [f"state:{phase}", "x"], "assignees": ["ada"]}
    (project / "issue.json").write_text(json.dumps({**about, "state": "open"}))


def start(project: Path) -> None:
    succeed("start", "crunch", "--issue", "42", cwd=project)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def index(project: Path, *keys: str) -> list[Any]:
    found = read(project / PLACE / "index.yaml")
    assert len(found["checkpoints"]) == found["total_checkpoints"]
    return [tuple(entry[key] for key in keys) for entry in found["checkpoints"]]


def latest(project: Path) -> Any:
    return read(project / PLACE / os.readlink(project / PLACE / "latest"))


def edit(path: Path, document: dict[str, Any], **about: Any) -> None:
    path.write_text(yaml.safe_dump({**document, **about}, sort_keys=False))


# -- phases, batches, the issue


def test_a_transition_shows_the_phase_that_is_over(crunch: Path) -> None:
    """It is taken before the next phase begins: id, index and document agree; the issue is as it was looked up."""
    issue(crunch, "enrich")
    start(crunch)
    succeed("step", "done", "enrich", cwd=crunch)
    found = latest(crunch)
    assert [("phase_transition", "enrich")] == index(crunch, "trigger", "phase")
    state = found["workflow_state"]
    assert ("enrich", "state:enrich") == (state["current_phase"], state["current_state_label"])
    assert "ready" == found["recovery_info"]["resume_from"]
    about = {"title": "JWT", "body": "Refresh", "labels": ["state:enrich", "x"], "assignees": ["ada"]}
    assert {**about, "branch": None} == found["issue_snapshot"]


def test_a_transition_that_is_read_is_over(project: Path) -> None:
    """Where it says that the next phase is to be resumed, its own is done; the document stays as it is."""
    document = {**FULL, "recovery_info": {**FULL["recovery_info"], "resume_from": "ready"}}
    put(project / PLACE / "CP-enrich-20250114-a3f2.yaml", document)
    succeed("import", ".", cwd=project)
    steps = succeed("show", "crunch-42", "--json", cwd=project).json["step_records"]
    found = {step["step"]: step["status"] for step in steps}
    assert ("completed", "pending") == (found["enrich"], found["ready"])


def test_a_label_that_nobody_changed_moves_nothing(crunch: Path) -> None:
    """The work may be further than the issue says: what else changed there takes no step back."""
    issue(crunch, "enrich")
    start(crunch)
    succeed("step", "done", "enrich", cwd=crunch)
    issue(crunch, "enrich", body="Something else")
    succeed("resume", "crunch-42", "--accept", "issue.body", cwd=crunch)
    steps = succeed("show", "crunch-42", "--json", cwd=crunch).json["step_records"]
    assert ("enrich", "completed") == (steps[0]["step"], steps[0]["status"])


# -- what agents write by hand


def test_an_edit_of_the_latest_checkpoint(crunch: Path) -> None:
    """It stays in its file; the index has it once. One that cannot be resumed says so there, too."""
    start(crunch)
    succeed("save", cwd=crunch)
    ((name,),) = index(crunch, "checkpoint_id")
    was = latest(crunch)
    info = {**was["recovery_info"], "can_resume": False, "warnings": ["Branch no longer exists"]}
    edit(crunch / PLACE / f"{name}.yaml", was, recovery_info=info)
    assert 6 == call("resume", "crunch-42", "--yes", cwd=crunch).code
    assert [(name, False)] == index(crunch, "checkpoint_id", "can_resume")
    listed = succeed("log", "crunch-42", "--json", cwd=crunch).json["checkpoints"]
    assert [False, True] == [entry["can_resume"] for entry in listed]


def test_the_same_state_again_is_a_checkpoint_too(crunch: Path) -> None:
    """An agent that writes a new one without any news has made one all the same."""
    start(crunch)
    succeed("save", cwd=crunch)
    name = "CP-enrich-20261115-cccc"
    document = {**latest(crunch), "checkpoint_id": name, "created_at": "2026-11-15T14:55:00Z"}
    put(crunch / PLACE / f"{name}.yaml", document)
    assert "crunch-42" == succeed("show", name, "--json", cwd=crunch).json["run_id"]


# -- what cannot be read


def test_a_newer_version_is_refused(project: Path) -> None:
    """Its version is named, and nothing of it is taken."""
    put(project / PLACE / "CP-enrich-20250114-a3f2.yaml", {**FULL, "version": "9.0"})
    refused = call("import", ".", cwd=project)
    assert (4, True) == (refused.code, "version 9.0" in refused.out + refused.err)


def test_a_document_without_its_state_is_refused(project: Path) -> None:
    """Where nothing says which phase it is in, `workflow_state` is named."""
    document = {key: value for key, value in FULL.items() if key != "workflow_state"}
    put(project / PLACE / "CP-x.yaml", {**document, "checkpoint_id": "CP-x"})
    refused = call("import", ".", cwd=project)
    assert (4, True) == (refused.code, "workflow_state" in refused.out + refused.err)


@pytest.mark.parametrize(
    ("said", "listed"),
    [
        ({"status": "awaiting_response"}, "awaiting_response"),
        ({"status": "awaiting-response"}, "awaiting_response"),
        ({"state": "pending"}, "pending_messages"),
        ({"status": "sent"}, "pending_messages"),
        ({"status": "answered"}, None),
        ({"status": "awaiting_response", "pending": True}, "pending_messages"),
    ],
)
def test_a_message_is_listed_by_its_status(crunch: Path, said: dict[str, Any], listed: str | None) -> None:
    """A flag says where it belongs, else its status, else it is pending."""
    start(crunch)
    succeed("put", "message", "MSG-1", json.dumps(said), cwd=crunch)
    succeed("save", cwd=crunch)
    state = read(crunch / PLACE / "latest")["acp_state"]
    assert listed == next((key for key, ids in state.items() if "MSG-1" in ids), None)


# -- the issue says where the work stands

TRACKER = """import json, sys
what, file, *labels = sys.argv[1:]
issue = json.load(open(file))
if what == "set":
    add, remove = (word.split(",") if word else [] for word in labels)
    issue["labels"] = [label for label in issue["labels"] if label not in remove] + add
    json.dump(issue, open(file, "w"))
else:
    print(json.dumps(issue))
"""


@pytest.fixture
def tracked(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of issue 42, whose tracker is a file; that file."""
    monkeypatch.setenv("LEFTOFF_TRUST", "1")
    (project / "tracker.py").write_text(TRACKER)
    issue = project / "issue-42.json"
    issue.write_text(
        json.dumps({"title": "JWT refresh", "body": "", "labels": ["state:enrich", "type:feature"]})
    )
    command = f"{sys.executable} tracker.py"
    (project / "leftoff.toml").write_text(
        f"[issues]\ncommand = '{command} show issue-{{issue}}.json'\n"
        f"update = '{command} set issue-{{issue}}.json {{add}} {{remove}}'\n[protocol]\nname = 'crunch'\n"
    )
    succeed("start", "crunch", "--issue", "42", cwd=project)
    succeed("step", "done", "enrich", cwd=project)
    return issue


def labels(issue: Path) -> set[str]:
    return set(json.loads(issue.read_text())["labels"])


@pytest.mark.parametrize("words", [("resume", "crunch-42"), ("start", "crunch", "--issue", "42", "--resume")])
def test_going_on_updates_the_issue(tracked: Path, project: Path, words: tuple[str, ...]) -> None:
    """`sync_issue_state`: the label of the phase that the work has come to; other labels stay, and nobody is asked."""
    assert "state:ready" in succeed(*words, cwd=project).err
    assert {"state:ready", "type:feature"} == labels(tracked)
    assert [] == succeed("verify", "crunch-42", "--json", cwd=project).json["findings"]


def test_going_back_takes_the_issue_along(tracked: Path, project: Path) -> None:
    """A checkpoint that somebody goes back to is where the issue stands again."""
    succeed("step", "done", "ready", cwd=project)
    succeed("resume", "crunch-42", cwd=project)
    assert "state:implementing" in labels(tracked)
    first = succeed("log", "crunch-42", "--json", cwd=project).json["checkpoints"][-1]["aliases"][0]
    succeed("resume", "--checkpoint", first, "--yes", cwd=project)
    assert {"state:ready", "type:feature"} == labels(tracked)


def test_a_label_that_somebody_changed_is_not_overwritten(tracked: Path, project: Path) -> None:
    tracked.write_text(tracked.read_text().replace("state:enrich", "state:docs"))
    succeed("resume", "crunch-42", cwd=project)
    assert "state:docs" in labels(tracked)
    assert "docs" == succeed("next", "--json", cwd=project).json["step"]


def test_a_tracker_that_refuses_stops_nothing(tracked: Path, project: Path) -> None:
    settings = project / "leftoff.toml"
    settings.write_text(re.sub("update = .*", "update = 'echo no >&2; exit 3'", settings.read_text()))
    done = succeed("resume", "crunch-42", cwd=project)
    assert "issue #42 was not updated: the command ended with 3: no" in done.err
    assert "state:enrich" in labels(tracked)


def test_reports_tell_the_checkpoint(tracked: Path, project: Path) -> None:
    """Progress reports have its name, what it was made for, and whether it can be resumed."""
    about = succeed("status", "--json", cwd=project).json["checkpoint"]
    (own,) = about["aliases"]
    assert own.startswith("CP-enrich-") and ("phase_transition", True) == (
        about["trigger"],
        about["can_resume"],
    )
    assert f"saved    {own} phase_transition" in succeed("status", cwd=project).out
    assert f"checkpoint {own}, " in succeed("brief", cwd=project).out
    assert "JWT refresh" == succeed("show", "--json", cwd=project).json["title"]


def test_a_report_is_kept_beside_broken_settings(project: Path) -> None:
    """A file of the protocol never costs somebody's report."""
    succeed("init", "--protocol", "crunch", cwd=project)
    succeed("start", "dev-story", "--title", "Story", "--issue", "7", cwd=project)
    (project / ".claude").mkdir(exist_ok=True)
    (project / ".claude/checkpoint-config.yaml").write_text("{broken\n")
    done = call("set", "d=4", cwd=project)
    assert 0 == done.code and "checkpoint-config.yaml" in done.err, str(done)
    assert "4\n" == call("get", "d", cwd=project).out
    assert 0 == call("beat", cwd=project).code
