"""`leftoff protocols`: what is understood, and what is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.protocols.registry import protocol
from tests.cli.command import call, succeed


def test_lists_what_is_here(project: Path) -> None:
    """Every protocol, with the files of this project that are its own."""
    place = project / "memory" / "state"
    place.mkdir(parents=True)
    (place / "phase.json").write_text("{}")
    found = succeed("protocols", "--json", cwd=project).json["protocols"]
    assert ["bmad", "crunch", "dotagent", "sitebuilder", "claude-checkpoints"] == [
        each["name"] for each in found
    ]
    assert {"dotagent": ["memory/state/phase.json"]} == {e["name"]: e["files"] for e in found if e["files"]}
    assert "dotagent            1 file" in succeed("protocols", cwd=project).out


def test_makes_no_store(project: Path) -> None:
    """It only looks."""
    succeed("protocols", cwd=project)
    assert [] == list(project.iterdir())


def test_explains_with_an_example_of_each(project: Path) -> None:
    """A file and what it says, which is known for one of that protocol; and how such a run begins."""
    text, found = succeed("protocols", cwd=project).out, succeed("protocols", "--json", cwd=project).json
    for each in found["protocols"]:
        path, document = project / each["example"]["path"], each["example"]["document"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(protocol(each["name"]).dump(document))
        (imported,) = succeed("import", str(path), "--json", cwd=project).json["imported"]
        assert each["name"] == imported["protocol"]
        assert each["example"]["path"] in text
        assert f"Begun by: {each['starts']}" in text


def test_a_protocol_that_nobody_knows(project: Path) -> None:
    """`leftoff.toml` is wrong, whatever was typed: 2, with the names of those that are known."""
    (project / "leftoff.toml").write_text('[protocol]\nname = "nope"\n')
    for words in (["start", "x"], ["ls"]):
        result = call(*words, cwd=project)
        assert (2, True) == (result.code, "crunch" in result.err)


def test_a_protocol_that_stumbles_rejects(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    """An error in the reading of one document is no traceback."""
    bmad = protocol("bmad")
    monkeypatch.setattr(bmad, "decode", lambda draft, document: document["no such key"])
    (project / "x.json").write_text(bmad.dump(bmad.example[1]))
    refused = call("import", "x.json", cwd=project)
    assert 4 == refused.code and "the reader of bmad failed with KeyError" in refused.err
