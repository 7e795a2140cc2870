"""A package can add a dialect."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from leftoff.dialects.core import registry
from leftoff.dialects.core.base import Dialect
from leftoff.errors import Usage
from tests.cli.command import call


class Knots(Dialect):
    name = "knots"
    about = "Knots in a string"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        return 90 if "knots" in document else 0


KNOTS = Knots()


def installed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint("knots", value, registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints([point]))


def test_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed, named and recognised like the five."""
    installed(monkeypatch, "tests.dialects.test_plugins:KNOTS")
    assert [*registry.BUILT_IN, *registry.FURTHER, *registry.READERS, "knots"] == [
        each.name for each in registry.dialects()
    ]
    assert "knots" == registry.dialect("knots").name
    assert "knots" == registry.recognise({"knots": 3}, "x.json").name


def test_a_package_that_is_broken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is in the error; the five can still be asked for by name."""
    installed(monkeypatch, "no.such.module:X")
    with pytest.raises(Usage, match="knots"):
        registry.dialects()
    assert "bmad" == registry.dialect("bmad").name


def test_a_dialect_that_nobody_knows(project: Path) -> None:
    """`leftoff.toml` is wrong, whatever was typed: 4, with the names of those that are known."""
    (project / "leftoff.toml").write_text('[mirror]\ndialect = "nope"\n')
    for words in (["start", "x"], ["ls"]):
        result = call(*words, cwd=project)
        assert (2, True) == (result.code, "crunch" in result.err)
