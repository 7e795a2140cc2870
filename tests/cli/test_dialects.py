"""`leftoff dialects`: what is understood, and what is here."""

from __future__ import annotations

from pathlib import Path

from leftoff.protocols.registry import dialect
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


def test_explains_with_an_example_of_each(project: Path) -> None:
    """A file and what it says, which is known for one of that dialect; and how such a run begins, or is read."""
    text, found = succeed("dialects", cwd=project).out, succeed("dialects", "--json", cwd=project).json
    for each in found["dialects"]:
        path, document = project / each["example"]["path"], each["example"]["document"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dialect(each["name"]).dump(document))
        words = (
            "import",
            str(path),
            "--json",
            *(("--dialect", "generic") if each["name"] == "generic" else ()),
        )
        (imported,) = succeed(*words, cwd=project).json["imported"]
        assert each["name"] == imported["dialect"]
        assert each["example"]["path"] in text
        assert each["name"] == "generic" or f"Begun by: {each['starts']}" in text
