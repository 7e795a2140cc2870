"""`leftoff compat`: the protocols' own commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.protocols.examples import CLAUDE
from tests.protocols.files import CLAUDE_FILE, put

STATE = {
    "project_name": "dark_mode",
    "workflow_description": "Dark mode",
    "current_phase": 2,
    "total_phases": 5,
    "completed_phases": [1],
    "workflow_state": {"plan_path": "plan.md"},
    "tests_passing": True,
}


def saved(project: Path, **more: Any) -> Path:
    """A checkpoint, and where it is."""
    result = succeed("compat", "save-checkpoint", "implement", json.dumps({**STATE, **more}), cwd=project)
    return project / result.out.strip()


def test_save_prints_the_path(project: Path) -> None:
    """The file is there under the protocol's name, and the run in the store."""
    path = saved(project)
    assert path.parent == project / ".claude/checkpoints"
    assert path.name.startswith("implement_dark_mode_")
    document = json.loads(path.read_text())
    assert (path.stem, "implement", [1]) == tuple(
        document[key] for key in ("checkpoint_id", "workflow_type", "completed_phases")
    )
    run = succeed("show", path.stem, "--json", cwd=project).json
    assert ({"plan_path": "plan.md"}, 1, 5) == (
        run["variables"],
        run["steps"]["completed"],
        run["steps"]["total"],
    )


def test_saving_again_is_the_same_checkpoint(project: Path) -> None:
    """A second save of the same project updates it."""
    first = saved(project)
    assert first == saved(project, completed_phases=[1, 2], current_phase=3)
    assert 2 == succeed("show", first.stem, "--json", cwd=project).json["steps"]["completed"]
    assert 1 == len(list(first.parent.glob("*.json")))


def test_load_prints_the_newest(project: Path) -> None:
    """By type, and by project; what a person should look at first is said."""
    path = saved(project)
    for words in (["implement"], ["implement", "dark_mode"], ["implement", "Dark mode"]):
        result = succeed("compat", "load-checkpoint", *words, cwd=project)
        assert path.stem == json.loads(result.out)["checkpoint_id"]
        assert "" == result.err
    saved(project, last_error="1 test failed")
    assert "last error is open" in succeed("compat", "load-checkpoint", "implement", cwd=project).err
    assert 3 == call("compat", "load-checkpoint", "orchestrate", cwd=project).code
    assert 3 == call("compat", "load-checkpoint", "implement", "other", cwd=project).code


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ({"type": "timeout", "message": "no answer\nafter 30 s."}, "timeout: no answer after 30 s"),
        ({"error": "gone"}, "gone"),
        ({"code": 5}, '{"code":5}'),
        ("1 test failed", "1 test failed"),
    ],
)
def test_an_open_error_is_told_in_words(error: Any, told: str, project: Path) -> None:
    """However a checkpoint has it."""
    saved(project, last_error=error)
    said = succeed("compat", "load-checkpoint", "implement", cwd=project).err
    assert f"the last error is open: {told}" in said, said


def test_list_is_one_row_each(project: Path) -> None:
    """All of them, or those of a type."""
    saved(project)
    saved(project, project_name="auth")
    assert 2 == len(succeed("compat", "list-checkpoints", cwd=project).out.splitlines())
    assert "" == succeed("compat", "list-checkpoints", "orchestrate", cwd=project).out
    assert 2 == len(succeed("compat", "list-checkpoints", "--json", cwd=project).json["checkpoints"])


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_path_that_is_printed_is_the_files(project: Path, mirrored: bool) -> None:
    """Whatever the type is called, and where the protocol puts it: `failed/`, or nowhere once it succeeded."""
    if mirrored:
        succeed("init", "--protocol", "claude-checkpoints", cwd=project)
    odd = succeed("compat", "save-checkpoint", "../../x", '{"project_name": "p"}', cwd=project).out.strip()
    assert odd.startswith(".claude/checkpoints/x_p_")
    assert Path(odd).stem == json.loads((project / odd).read_text())["checkpoint_id"]
    far = '{"checkpoint_id": "../../../far", "project_name": "q"}'
    assert (
        ".claude/checkpoints/far.json"
        == succeed("compat", "save-checkpoint", "y", far, cwd=project).out.strip()
    )
    failed = saved(project, status="failed")
    assert failed.exists() and "failed" == failed.parent.name
    again = saved(project)
    assert (again.parent, True) == (failed.parent.parent, again.exists()) and not failed.exists()
    done = succeed(
        "compat", "save-checkpoint", "implement", json.dumps({**STATE, "status": "completed"}), cwd=project
    )
    assert ("", True) == (done.out, again.stem in done.err) and not again.exists()
    assert "completed" == succeed("show", again.stem, "--json", cwd=project).json["status"]


def test_what_the_protocol_has_no_key_for(project: Path) -> None:
    """It is in `workflow_state`, once, also when it is saved again; keys of later schemas stay at the top."""
    for n in (1, 2):
        given = json.dumps({"foo": n, f"only_{n}": n, "state_machine": {"current_state": "plan"}})
        path = succeed("compat", "save-checkpoint", "test-all", given, cwd=project).out.strip()
    document = json.loads((project / path).read_text())
    assert {"foo": 2, "only_1": 1, "only_2": 2} == document["workflow_state"]
    assert not {"foo", "only_1", "only_2"} & set(document) and "state_machine" in document


def test_a_save_that_is_refused_leaves_the_checkpoint(project: Path) -> None:
    """The one that was there before is still there."""
    path = saved(project)
    before = path.read_bytes()
    given = json.dumps({**STATE, "schema_version": "9.0"})
    assert 4 == call("compat", "save-checkpoint", "implement", given, cwd=project).code
    assert before == path.read_bytes()


def test_tests_that_nobody_spoke_of(project: Path) -> None:
    """A document of the first schema says nothing of tests: nothing is said of them, and the first reason counts."""
    old = {**CLAUDE["format"], "workflow_state": {"project_name": "auth_system"}}
    put(project / CLAUDE_FILE, old)
    succeed("import", ".", cwd=project)
    told = succeed("compat", "load-checkpoint", "orchestrate", cwd=project).err
    assert "tests" not in told and "older than 7 days" in told


def test_cleanup_by_age(project: Path) -> None:
    """What is over and older goes, one in progress stays."""
    path = saved(project)
    failed = saved(project, project_name="auth", status="failed")
    assert (
        "" == succeed("compat", "cleanup-checkpoints", "0", cwd=project).out.replace(failed.stem, "").strip()
    )
    assert path.exists() and not failed.exists()
    assert 2 == call("compat", "cleanup-checkpoints", "soon", cwd=project).code


def test_json_is_one_document(project: Path) -> None:
    """Of every utility, also where there is nothing to tell."""

    def told(*words: str) -> Any:
        return succeed("compat", *words, "--json", cwd=project).json

    assert {"removed": []} == told("cleanup-checkpoints")
    begun = told("save-checkpoint", "implement", json.dumps(STATE))
    assert f".claude/checkpoints/{begun['run_id']}.json" == begun["path"]
    assert begun["run_id"] == told("load-checkpoint", "implement")["checkpoint_id"]
    over = json.dumps({**STATE, "status": "completed"})
    assert {**begun, "path": None} == told("save-checkpoint", "implement", over)
    assert {"removed": [begun["run_id"]]} == told("cleanup-checkpoints", "0")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["quux"], 2),
        (["save-checkpoint", "implement"], 2),
        (["save-checkpoint", "implement", "{"], 2),
        (["save-checkpoint", "implement", "[]"], 2),
        (["load-checkpoint"], 2),
        (["save-checkpoint", "implement", '{"checkpoint_id": "../../x", "schema_version": "9.0"}'], 4),
    ],
)
def test_wrong_calls(project: Path, words: list[str], code: int) -> None:
    """Wrong usage is 2, a document that cannot be kept is 4; nothing is left behind."""
    assert code == call("compat", *words, cwd=project).code
    assert not any(path.suffix == ".json" for path in project.rglob("*"))
