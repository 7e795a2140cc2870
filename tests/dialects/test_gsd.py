"""GSD's `.planning/STATE.md`: the lines of a person's page about position and session are read, and kept in step."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leftoff.dialects.core import page
from tests.cli.command import call, succeed

PAGE = """# Project State

**Core value:** one command

## Current Position

Phase: 2 of 4 (Prompts)
Plan: 1 of 2 in current phase
Status: In progress
Last activity: 2026-02-18 -- plan 02-01 is written

Progress: [██░░░░░░░░] 25%

## Decisions

- Phase: is no line of ours here

## Session Continuity

Last session: 2026-02-18
Stopped at: plan 02-01
Resume file: None
"""


@pytest.fixture
def state(project: Path) -> Path:
    path = project / ".planning/STATE.md"
    path.parent.mkdir()
    path.write_text(PAGE)
    return path


def steps(project: Path) -> dict[str, str]:
    found = succeed("show", "gsd", "--json", cwd=project).json["step_records"]
    return {step["step"]: step["status"] for step in found}


def test_read(state: Path, project: Path) -> None:
    """Known by itself: phases are steps, the current one with its name; where the session stopped is in the brief."""
    (imported,) = succeed("import", str(state), "--json", cwd=project).json["imported"]
    assert ("gsd", "gsd") == (imported["run_id"], imported["dialect"])
    assert {"1": "completed", "2": "running", "3": "pending", "4": "pending"} == steps(project)
    told = succeed("brief", "gsd", cwd=project).out
    assert "2: “Prompts” (running)" in told and "- stopped_at: “plan 02-01”" in told


def test_looking_changes_nothing(state: Path, project: Path) -> None:
    succeed("init", "--dialect", "gsd", cwd=project)
    succeed("show", "gsd", cwd=project)
    assert PAGE == state.read_text()


def test_kept_in_step_line_by_line(state: Path, project: Path) -> None:
    """A phase that is done moves the position on; every other line of the page is what it was."""
    succeed("init", "--dialect", "gsd", cwd=project)
    succeed("step", "done", "2", "--run", "gsd", cwd=project)
    changed = [
        new for old, new in zip(PAGE.split("\n"), state.read_text().split("\n"), strict=True) if old != new
    ]
    assert ["Phase: 3 of 4", "Plan: Not started", "Status: Ready to plan"] == changed[:3]
    assert changed[3].startswith("Last activity: 20") and "Progress: [█████░░░░░] 50%" == changed[4]


def test_an_edit_of_the_page_is_taken_in(state: Path, project: Path) -> None:
    """Also one of what leftoff wrote itself; nothing contradicts."""
    succeed("init", "--dialect", "gsd", cwd=project)
    succeed("step", "done", "2", "--run", "gsd", cwd=project)
    text = state.read_text().replace("Phase: 3 of 4", "Phase: 4 of 5 (Merge)")
    state.write_text(text.replace("Status: Ready to plan", "Status: Blocked by review"))
    shown = call("show", "gsd", "--json", cwd=project)
    assert "both changed" not in shown.err and "blocked" == shown.json["status"]
    assert {"3": "completed", "4": "blocked", "5": "pending"}.items() <= steps(project).items()
    succeed("set", "a=1", "--run", "gsd", cwd=project)
    assert "Status: Blocked by review" in state.read_text()


def test_a_clone_and_a_page_of_our_own(project: Path) -> None:
    """Without a page one is made; without a store the page is what is known. Other runs are in none."""
    succeed("init", "--dialect", "gsd", cwd=project)
    assert "none of the files of gsd" in succeed("start", "release", cwd=project).err
    succeed("start", "gsd", "--total", "3", cwd=project)
    succeed("step", "done", "1", "--run", "gsd", cwd=project)
    text = (project / ".planning/STATE.md").read_text()
    assert "## Current Position\n\nPhase: 2 of 3\n" in text and "release" not in text
    shutil.rmtree(project / ".leftoff")
    assert "2" == succeed("next", "--run", "gsd", cwd=project).out.splitlines()[0]


@pytest.mark.parametrize(
    ("line", "status", "number"),
    [
        ("Phase: 8.1 of 8.5 (Fixes)", "running", 9),
        ("**Phase:** 2 of 3 -- COMPLETE", "running", 3),
        ("- **Phase**: 1", "running", 1),
        ("Phase: 99999 of 99999", None, 0),
        ("Phase: none yet", None, 0),
    ],
)
def test_forms_of_the_line(state: Path, project: Path, line: str, status: str | None, number: int) -> None:
    """Phases in between, bold names, entries of a list; a page without a phase is rejected."""
    state.write_text(PAGE.replace("Phase: 2 of 4 (Prompts)", line))
    done = call("import", str(state), "--json", cwd=project)
    if status is None:
        assert 4 == done.code and [] == done.json["imported"]
    else:
        shown = succeed("show", "gsd", "--json", cwd=project).json
        assert (status, number) == (shown["status"], len(shown["step_records"]))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_what_is_behind_the_colon_is_written(end: str) -> None:
    """How a line is written stays, lines that are gone go, and new ones come behind their section's last."""
    text = end.join(["## Current Position", "", "- **Phase**:  2", "- Old: x", "", "## More", "Phase: 7", ""])
    new = page.edited(text, {"Current Position": {"Phase": "3\nof 4", "Status": "Ready"}}, "STATE.md")
    expected = [
        "## Current Position",
        "",
        "- **Phase**:  3 of 4",
        "Status: Ready",
        "",
        "## More",
        "Phase: 7",
        "",
    ]
    assert end.join(expected) == new
    made = page.edited("", {"Session Continuity": {"Stopped at": "x"}}, "STATE.md")
    assert "## Session Continuity\n\nStopped at: x\n" == made
