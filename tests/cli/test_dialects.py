"""`leftoff dialects`: what is understood, and what is here."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import succeed


def test_lists_what_is_here(project: Path) -> None:
    """Every dialect, with the files of this project that are its own."""
    place = project / "memory" / "state"
    place.mkdir(parents=True)
    (place / "phase.json").write_text("{}")
    found = succeed("dialects", "--json", cwd=project).json["dialects"]
    assert ["bmad", "crunch", "dotagent", "sitebuilder", "claude", "generic"] == [
        each["name"] for each in found
    ]
    assert {"dotagent": ["memory/state/phase.json"]} == {e["name"]: e["files"] for e in found if e["files"]}
    assert "dotagent     1 file" in succeed("dialects", cwd=project).out


def test_makes_no_store(project: Path) -> None:
    """It only looks."""
    succeed("dialects", cwd=project)
    assert [] == list(project.iterdir())
