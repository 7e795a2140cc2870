"""Where no run is there: what the errors say, and the files of a protocol that nobody took in; to every face alike."""

from __future__ import annotations

from pathlib import Path

import pytest

import leftoff
from leftoff.agents.mcp_tools import Tools
from leftoff.errors import NotFound
from tests.cli.command import call, succeed

IMPORT = "leftoff import . --protocol dotagent"


@pytest.mark.parametrize(
    "words", [("show", "nothing"), ("rm", "nothing"), ("cat", "nothing:x"), ("fork", "nothing")]
)
def test_no_store(words: tuple[str, ...], tmp_path: Path) -> None:
    """The name that was asked for is no subject of the sentence."""
    done = call(*words, cwd=tmp_path)
    assert 3 == done.code and "There is no run nothing here" in done.err, str(done)
    assert "`leftoff start WORKFLOW` starts one." in done.err


@pytest.mark.parametrize("store", ["none", "empty"])
def test_files_of_a_protocol(store: str, tmp_path: Path) -> None:
    """Without a store, or with nothing in it: the command names the import, and so do MCP and Python."""
    (tmp_path / "memory/state").mkdir(parents=True)
    (tmp_path / "memory/state/phase.json").write_text("{}")
    if store == "empty":
        succeed("init", cwd=tmp_path)
    for words in (("show",), ("show", "wf-1"), ("set", "x=1"), ("resume",), ("approve",), ("next",)):
        done = call(*words, "--json", cwd=tmp_path)
        assert 3 == done.code and IMPORT in done.json["error"]["hint"], str(done)
    assert IMPORT in succeed("ls", cwd=tmp_path).err
    assert IMPORT in succeed("status", cwd=tmp_path).err
    with pytest.raises(NotFound, match=IMPORT):
        Tools(str(tmp_path), None).set_variables({"x": 1})
    with leftoff.open(tmp_path / ".leftoff") as opened, pytest.raises(NotFound, match=IMPORT):
        opened.resume("wf-1")


def test_hints_that_can_be_typed(tmp_path: Path) -> None:
    """A branch with a space in it is one word; of a run that is over nobody says that it goes on."""
    succeed("start", "w", "--run-id", "w", "--branch", "my work", cwd=tmp_path)
    assert "Use --branch 'my work', or --run w." in call("set", "x=1", cwd=tmp_path).err
    (tmp_path / "w.yaml").write_text("name: w\nsteps:\n  - {id: a, run: 'true'}\n")
    assert "`leftoff resume w` continues" in call("run", "w.yaml", "--run-id", "w", cwd=tmp_path).err
    succeed("finish", "w", cwd=tmp_path)
    assert "`leftoff show w` shows it" in call("run", "w.yaml", "--run-id", "w", cwd=tmp_path).err
