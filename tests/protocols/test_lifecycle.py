"""The lifecycle of each protocol, played through the command: the files, names, fields and order that it describes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import call, succeed
from tests.protocols import golden
from tests.protocols.examples import CLAUDE
from tests.protocols.files import put

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def follow(project: Path, protocol: str) -> None:
    succeed("init", "--protocol", protocol, cwd=project)


def plain(value: Any) -> Any:
    """Times and what is made of them, replaced by a word."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str):
        value = re.sub(r"20\d{6}[-_]\d{6}", "STAMP", TIME.sub("TIME", value))
        return re.sub(r"-20\d{6}-[0-9a-f]{4,}\b", "-DATE-HEX", value)
    return value


def read(path: Path) -> Any:
    text = path.read_text()
    return plain(yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text))


def same_order(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Equal, its keys in the same order."""
    assert expected == found
    assert list(expected) == list(found)


def files(project: Path, *under: str) -> list[str]:
    """Every file of the project that is not the store's, times in names replaced."""
    found = [path for path in project.rglob("*") if path.is_file() and ".leftoff" not in path.parts]
    names = [plain(path.relative_to(project).as_posix()) for path in found]
    return sorted(name for name in names if not under or name.startswith(under))


def test_bmad(project: Path) -> None:
    """A folder per run with `state.json`, `workflow-status.md` and copies of what the steps produced."""
    follow(project, "bmad")
    words = ("--steps", "plan,build,test", "--branch", "feature-auth")
    run = succeed("start", "dev-story", *words, cwd=project).out.strip()
    (project / "out.md").write_text("hello")
    at = {"LEFTOFF_BRANCH": "feature-auth"}
    succeed("step", "start", "plan", cwd=project, **at)
    succeed("step", "done", "plan", "--output", "out.md", cwd=project, **at)
    succeed("set", "user_name=Ada", cwd=project, **at)
    succeed("note", "free text", cwd=project, **at)
    succeed("step", "fail", "build", "--error", "no compiler", cwd=project, **at)
    folder = project / "_bmad-output/.runs/feature-auth" / run
    found = read(folder / "state.json")
    assert re.fullmatch("[0-9a-f]{6}", found["checkpoint_id"])
    assert ([1], 2, 3) == tuple(found[key] for key in ("steps_completed", "current_step", "total_steps"))
    assert "hello" == (folder / "artefacts/step-01-out.md").read_text()
    page = (folder / "workflow-status.md").read_text()
    for line in ("- Status: running", "- Step: 2/3", "- no compiler", "- free text", "Next: build"):
        assert line in page
    assert 0o600 == os.stat(folder / "state.json").st_mode & 0o777
    shown = succeed(
        "show", json.loads((folder / "state.json").read_text())["checkpoint_id"], "--json", cwd=project
    )
    assert run == shown.json["run_id"]
    succeed("finish", cwd=project, **at)
    assert "completed" == read(folder / "state.json")["status"]
    succeed("archive", run, cwd=project)
    assert ["leftoff.toml", "out.md"] + [
        f"_bmad-output/.runs/archive/dev-story-STAMP/{name}"
        for name in ("artefacts/step-01-out.md", "state.json", "workflow-status.md")
    ] == sorted(files(project), key=lambda name: name.startswith("_"))


def test_crunch(project: Path) -> None:
    """One run per issue; a file per checkpoint, the index, and the symlink to the latest."""
    follow(project, "crunch")
    assert (
        "crunch-42" == succeed("start", "crunch", "--issue", "42", "--title", "JWT", cwd=project).out.strip()
    )
    assert 5 == call("start", "crunch", "--issue", "42", cwd=project).code
    succeed("step", "start", "enrich", cwd=project)
    succeed("step", "done", "enrich/batch-1/task_1", cwd=project)
    succeed("put", "member", "orchestrator", '{"role": "coordinator", "status": "active"}', cwd=project)
    succeed("put", "message", "MSG-1", "{}", cwd=project)
    succeed("put", "knowledge", "KE-1", '{"fact": 1}', "--new", cwd=project)
    succeed("step", "done", "enrich/architect/create_spec", "--result", '"Spec"', cwd=project)
    succeed("put", "conflict", "CONF-1", '{"about": "naming"}', cwd=project)
    succeed("save", cwd=project)
    place = project / ".claude/crunch/42/checkpoints"
    index = read(place / "index.yaml")
    same_order(golden.CRUNCH_INDEX, {**index, "checkpoints": [e["trigger"] for e in index["checkpoints"]]})
    latest = place / os.readlink(place / "latest")
    same_order(golden.CRUNCH, read(latest))
    name = latest.name.removesuffix(".yaml")
    assert "crunch-42" == succeed("show", name, "--json", cwd=project).json["run_id"]
    assert 4 == len(list(place.glob("CP-enrich-*.yaml"))) + 1


def test_crunch_resume_captures_nothing_twice(project: Path) -> None:
    """`put --new` refuses a knowledge entry that was captured before a resume."""
    follow(project, "crunch")
    succeed("start", "crunch", "--issue", "7", cwd=project)
    succeed("put", "knowledge", "KE-1", '{"fact": 1}', "--new", cwd=project)
    succeed("resume", "crunch-7", "--yes", cwd=project)
    assert 5 == call("put", "knowledge", "KE-1", '{"fact": 2}', "--new", cwd=project).code


def test_dotagent(project: Path) -> None:
    """`phase.json` and `execution.json` of the workflow at work; the archive when it is over."""
    follow(project, "dotagent")
    run = succeed("start", "dotagent", cwd=project).out.strip()
    phase, execution = project / "memory/state/phase.json", project / "memory/state/execution.json"
    assert not execution.exists()
    (project / "memory/reports").mkdir()
    (project / "memory/reports/demand.json").write_text("{}")
    succeed("step", "start", "REQUIREMENTS", cwd=project)
    assert "in_progress" == read(phase)["phase_status"]
    succeed("step", "done", "REQUIREMENTS", "--output", "memory/reports/demand.json", cwd=project)
    succeed("step", "done", "ARCHITECTURE", cwd=project)
    succeed("step", "start", "IMPLEMENTATION/task-001", cwd=project)
    succeed("step", "fail", "IMPLEMENTATION/task-001", "--error", "no disk", cwd=project)
    (task,) = read(execution)["tasks"]
    assert ("task-001", "failed", 1, "no disk") == tuple(
        task[key] for key in ("id", "status", "attempts", "error")
    )
    succeed("finish", "--status", "failed", cwd=project)
    assert "failed" == read(phase)["phase_status"]
    for _ in range(7):
        again = succeed("start", "dotagent", cwd=project).out.strip()
        succeed("finish", "--run", again, cwd=project)
    kept = {name.split("/")[3] for name in files(project, "memory/state/.archive")}
    folders = list((project / "memory/state/.archive").iterdir())
    assert 5 == len(folders) and kept
    assert not any(folder.name.startswith(f"{run}_") for folder in folders)


def test_sitebuilder(project: Path) -> None:
    """A file per task, `-complete` when it is done; messages and the table in STATUS.md."""
    follow(project, "sitebuilder")
    status = project / "progress/STATUS.md"
    status.parent.mkdir()
    status.write_text("# Status\n\nBy hand.\n\n" + golden.SITEBUILDER_TABLE + "\n## Notes\n\nMine.\n")
    words = ("--task", "T060", "--agent", "Riley", "--title", "Convert", "--steps", "post-01,post-02,post-03")
    assert "migration-T060" == succeed("start", "migration", *words, cwd=project).out.strip()
    succeed("step", "done", "post-01", cwd=project)
    succeed("put", "criterion", "frontmatter_valid", "true", cwd=project)
    succeed("put", "score", "agent_4", "85", cwd=project)
    why = ("--error", "no pdf", "--type", "dependency_missing", "--resume-with", "find it")
    succeed("step", "block", "post-02", *why, cwd=project)
    path = project / "progress/checkpoints/migration-T060.json"
    found = read(path)
    assert ("blocked", 33, "find it") == tuple(
        found[key] for key in ("status", "progress_percent", "resume_instructions")
    )
    succeed("beat", cwd=project)
    succeed("step", "done", "post-02", cwd=project)
    succeed("step", "done", "post-03", cwd=project)
    succeed("beat", cwd=project)
    assert ["last_beat", "interval_seconds", "status"] == list(read(path)["heartbeat"])
    succeed("finish", cwd=project)
    assert ["progress/checkpoints/migration-T060-complete.json"] == files(project, "progress/checkpoints")
    done = read(project / "progress/checkpoints/migration-T060-complete.json")
    assert ("complete", 100, False, "TIME") == tuple(
        done[key] for key in ("status", "progress_percent", "resumable", "completed_at")
    )
    lines = (project / "messages/outbox-migration.md").read_text().splitlines()
    assert [f"@orchestrator: Task T060 progress: {n}%" for n in (0, 33, 66, 100)] == lines
    page = status.read_text()
    assert page.startswith("# Status\n\nBy hand.\n") and page.endswith("## Notes\n\nMine.\n")
    assert "| migration | T060 | 100% | just now | complete |" in page
    assert "| content | T001 | 0% | — | not started |" in page


def test_claude(project: Path) -> None:
    """A file per workflow, gone when it succeeds, in `failed/` when it is given up."""
    follow(project, "claude-checkpoints")
    words = ("--title", "Dark mode", "--total", "4")
    run = succeed("start", "implement", *words, cwd=project).out.strip()
    assert re.fullmatch(r"implement_dark_mode_\d{8}_\d{6}", run)
    succeed("set", "plan_path=specs/plan.md", cwd=project)
    succeed("step", "done", "1", cwd=project)
    path = project / f".claude/checkpoints/{run}.json"
    found = read(path)
    assert ({"plan_path": "specs/plan.md"}, [1], 2) == tuple(
        found[key] for key in ("workflow_state", "completed_phases", "current_phase")
    )
    succeed("finish", "--status", "failed", cwd=project)
    assert [f".claude/checkpoints/failed/{plain(run)}.json"] == files(project, ".claude")
    succeed("resume", run, "--yes", cwd=project)
    assert path.exists()
    succeed("finish", cwd=project)
    assert [] == files(project, ".claude")
    assert "completed" == succeed("show", run, "--json", cwd=project).json["status"]


def test_claude_operations(project: Path) -> None:
    """They are taken in, followed, and gone when they are done."""
    follow(project, "claude-checkpoints")
    path = project / ".claude/checkpoints/parallel_ops/parallel_expand_023_dark_mode_20251003_193000.json"
    put(path, CLAUDE["parallel operation"])
    run = path.name.removesuffix(".json")
    succeed("resume", run, "--yes", cwd=project)
    succeed("step", "done", "phase_1", "--run", run, cwd=project)
    there = read(path)
    assert ("in_progress", ["completed", "pending"]) == (
        there["status"],
        [operation["status"] for operation in there["operations"]],
    )
    assert list(CLAUDE["parallel operation"]) == list(there)
    succeed("step", "done", "phase_3", "--run", run, cwd=project)
    succeed("finish", "--run", run, cwd=project)
    assert [] == files(project, ".claude")


@pytest.mark.parametrize("name", ["bmad", "crunch", "dotagent", "sitebuilder", "claude-checkpoints"])
def test_init_says_what_to_ignore(project: Path, name: str) -> None:
    """The sync's files belong in .gitignore; a second init changes nothing, another protocol is refused."""
    first = succeed("init", "--protocol", name, "--json", cwd=project).json
    assert 2 <= len(first["suggestions"][".gitignore"].splitlines())
    assert "leftoff.toml" in first["written"]
    assert [] == succeed("init", "--protocol", name, "--json", cwd=project).json["written"]
    other = "bmad" if name != "bmad" else "claude"
    assert 5 == call("init", "--protocol", other, cwd=project).code
    assert 2 == call("init", "--protocol", "klingon", cwd=project).code
