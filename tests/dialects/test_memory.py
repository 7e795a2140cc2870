"""The one writer of a mirror's files, whatever a dialect makes of a document."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.dialects.mirror.memory import Memory
from leftoff.errors import Invalid


@pytest.mark.parametrize(
    "path", ["../evil.json", "a/../../evil.json", "/evil.json", "../project-2/evil.json"]
)
@pytest.mark.parametrize("alone", [False, True])
def test_nothing_is_written_outside_of_the_project(path: str, alone: bool, tmp_path: Path) -> None:
    """A path that leaves the project is refused before anything is made, by every way to write."""
    project = tmp_path / "project"
    project.mkdir()
    path = f"{tmp_path}{path}" if path[0] == "/" else path
    memory = Memory(str(project), str(project / ".leftoff/mirror"))
    with memory.open(), pytest.raises(Invalid, match="not inside the project"):
        if alone:
            memory.put_alone(path, b"{}")
        else:
            memory.put(path, b"{}", "r", None, 0)
    assert [project] == list(tmp_path.iterdir())
