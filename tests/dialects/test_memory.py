"""The one writer of a mirror's files, whatever a dialect makes of a document."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from leftoff.dialects.mirror import memory as memories
from leftoff.dialects.mirror import swap
from leftoff.dialects.mirror.kept import Keeper
from leftoff.dialects.mirror.memory import Memory
from leftoff.dialects.registry import dialect
from leftoff.engine.redaction.redactor import Redactor
from leftoff.errors import Invalid
from tests.cli.command import succeed

KEEPER = Keeper(Redactor(), dialect("bmad"))


@pytest.mark.parametrize(
    "path", ["../evil.json", "a/../../evil.json", "/evil.json", "../project-2/evil.json"]
)
@pytest.mark.parametrize("alone", [False, True])
def test_nothing_is_written_outside_of_the_project(path: str, alone: bool, tmp_path: Path) -> None:
    """A path that leaves the project is refused before anything is made, by every way to write."""
    project = tmp_path / "project"
    project.mkdir()
    path = f"{tmp_path}{path}" if path[0] == "/" else path
    memory = Memory(str(project), str(project / ".leftoff/mirror"), KEEPER)
    with memory.open(), pytest.raises(Invalid, match="not inside the project"):
        if alone:
            memory.put_alone(path, b"{}")
        else:
            memory.put(path, b"{}", "r", None, 0)
    assert [project] == list(tmp_path.iterdir())


class PowerCut(BaseException):
    """Nothing is tidied up."""


def cut_after_the_swap(memory: Memory, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file, and end before what is known of it was saved."""

    def cut(self: Memory, *args: Any) -> None:
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(Memory, "_carried_out", cut)
        patch.setattr(Memory, "_save", lambda self: None)
        with pytest.raises(PowerCut), memory.open():
            memory.put("a.json", data, "r", None, 0)


def test_the_intent_is_on_disk_before_the_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its own name, whole, and with a single sync."""
    synced: list[int] = []

    def place(*places: Any) -> bool:
        (intent,) = tmp_path.glob(f".leftoff/mirror/pool/*{memories.INTENT}")
        assert [intent.stat().st_ino] == synced
        return usual(*places)

    usual = swap.place
    monkeypatch.setattr(memories, "sync", lambda fd: synced.append(os.fstat(fd).st_ino))
    monkeypatch.setattr(swap, "place", place)
    memory = Memory(str(tmp_path), str(tmp_path / ".leftoff/mirror"), KEEPER)
    with memory.open():
        memory.put("a.json", b"{}", "r", None, 0)
    assert 1 == len(synced)


@pytest.mark.parametrize("edited", [False, True])
def test_a_copy_that_a_power_cut_left_half(
    edited: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never taken for what was in the file: that is the file itself, or nobody knows."""
    folder = tmp_path / ".leftoff/mirror"
    cut_after_the_swap(Memory(str(tmp_path), str(folder), KEEPER), b"[1, 2]", monkeypatch)
    (copy,) = folder.glob(f"pool/*{memories.NEXT}")
    copy.write_bytes(b"[1")
    if edited:
        (tmp_path / "a.json").write_bytes(b"[1, 2, 3]")
    memory = Memory(str(tmp_path), str(folder), KEEPER)
    with memory.open():
        assert (None if edited else b"[1, 2]") == memory.base("a.json")


def test_copies_of_a_large_document_are_small(tmp_path: Path) -> None:
    """And say what the document said; one that was cut short is nobody's document."""
    memory, data = (
        Memory(str(tmp_path), str(tmp_path / ".leftoff/mirror"), KEEPER),
        b'{"a": "%s"}' % (b"words " * 50_000),
    )
    with memory.open():
        memory.put("state.json", data, "r", None, 0)
        assert data == memory.base("state.json")
        copies = [path for path in (tmp_path / ".leftoff").rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in copies) < len(data) // 10
        memory.remember("other.json", data, "r", None)
        assert data == memory.base("other.json")
        kept = max(copies, key=lambda path: path.stat().st_size)
        kept.write_bytes(kept.read_bytes()[:100])
        assert data != memory.base("state.json")


def test_memories_of_two_files_in_each_others_place(tmp_path: Path) -> None:
    """A copy that is not what was kept of its file counts as lost: what somebody writes into the file is taken in, as
    without any memory, and was once taken for another run's, and written over."""
    (tmp_path / "leftoff.toml").write_text('[mirror]\ndialect = "bmad"\n')
    for run, branch in (("m1", "main"), ("m2", "other")):
        succeed("start", "plan", "--run-id", run, "--branch", branch, "--steps", "a,b", cwd=tmp_path)
        succeed("step", "done", "a", "--run", run, cwd=tmp_path)
    one, two = (path for path in (tmp_path / ".leftoff/mirror").iterdir() if len(path.name) == 32)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    file = tmp_path / "_bmad-output/.runs/main/m1/state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "session_variables": {"edited": "yes"}}))
    succeed("set", "n=1", "--run", "m1", cwd=tmp_path)
    assert {"edited": "yes", "n": 1} == succeed("show", "m1", "--json", cwd=tmp_path).json["variables"]
    assert {"edited": "yes", "n": 1} == json.loads(file.read_text())["session_variables"]
    assert ["a"] == [
        step["step"]
        for step in succeed("show", "m1", "--json", cwd=tmp_path).json["step_records"]
        if step["status"] == "completed"
    ]


def test_a_wrong_number_is_not_remembered(tmp_path: Path) -> None:
    """With a bit flipped that says how far the files are: what is reported next is in them all the same."""
    (tmp_path / "leftoff.toml").write_text('[mirror]\ndialect = "bmad"\n')
    succeed("start", "plan", "--run-id", "m", "--branch", "main", cwd=tmp_path)
    desk = tmp_path / ".leftoff/mirror/desk.json"
    right = desk.read_text()
    assert right.startswith('{"n": 1,')
    desk.write_text(right.replace('{"n": 1,', '{"n": 9,', 1))
    succeed("set", "n=1", "--run", "m", cwd=tmp_path)
    file = tmp_path / "_bmad-output/.runs/main/m/state.json"
    assert {"n": 1} == json.loads(file.read_text())["session_variables"]


def test_an_intent_for_another_file_is_not_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bit flipped in the path: what was about to happen to a file is not remembered of another one."""
    folder = tmp_path / ".leftoff/mirror"
    cut_after_the_swap(Memory(str(tmp_path), str(folder), KEEPER), b"[1, 2]", monkeypatch)
    (intent,) = folder.glob(f"pool/*{memories.INTENT}")
    intent.write_bytes(intent.read_bytes().replace(b"a.json", b"c.json"))
    memory = Memory(str(tmp_path), str(folder), KEEPER)
    with memory.open():
        assert {} == memory.files
